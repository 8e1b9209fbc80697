/* watch.c - one ring and its process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/environment_look.h"
#include "agent/proc/oomkills.h"
#include "agent/proc/proc.h"
#include "agent/proc/stack.h"
#include "agent/ring/assemble.h"
#include "agent/ring/hold.h"
#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"

#define BATCH 256
#define STACK_LEAST_NS (9 * NS_PER_S)   /* without anything new: then what is it doing? */
#define STACK_STEPS 3                   /* ... or so many of its longest steps */
#define STACK_START_NS (600 * NS_PER_S) /* ... or before the first step */
#define STACK_AGAIN_NS (60 * NS_PER_S)
#define ENVIRONMENT_NS (3 * NS_PER_S) /* libraries are loaded by then, or by the first step */
#define LOOKS_AT_ONCE 16 /* children of one agent, however many rings claim to be stuck */
/* 0 is a good name for a communicator, but in a step it means that there is none. */
#define COMM_ZERO UINT64_C(0x6c6f636b73746570)

struct watch {
    const struct watch_place *place;
    struct ring_reader *reader;
    struct ring_info info;
    uint32_t ring;
    struct assemble *assemble;
    struct assembled pending; /* could not be sent yet */
    struct hold hold;         /* and what comes before all that is still to be assembled */
    int64_t now_ns;           /* of this tick */
    struct ring_event batch[BATCH];
    int batch_at, batch_count;
    uint64_t lost, lost_marked, stamps_lost;
    bool broken;   /* the file cannot be read any more */
    bool finished; /* the assembler knows that no more events follow */
    bool comm_sent[RING_COMMS];
    bool methods_dropped; /* some were, and this was logged */
    bool foreign_logged;

    struct proc *proc;
    struct oomkills *kills;
    struct proc_look *environment; /* being asked for; NULL: none */
    bool environment_done;         /* it was sent or cannot be had */
    int64_t environment_at_ns;     /* asked for at the latest; 0: its process was not seen yet */
    int64_t environment_again_ns;
    struct proc_look *stack; /* being asked for; NULL: none */
    int64_t advanced_ns;     /* when a beat last saw something new */
    int64_t stack_at_ns;     /* not asked again before */
    int64_t longest_ns;      /* step of late, fading: what waiting is ordinary */
    char state, sent_state;
    struct sample sample;
    struct beat_storage storage[BEAT_STORAGE_COUNT]; /* since the last beat */
    int64_t sample_at_ns, second_at_ns, beat_at_ns;
    int64_t find_at_ns, find_pause_ns; /* looking through all of /proc is not cheap */
    bool waiting;                      /* in an operation, at the last beat */
    int64_t alive_ns;                  /* when the process was last seen alive */
    bool final_sent, exit_sent;
};

static bool watch_state_is_gone(char state)
{
    return state == 'X' || state == 'Z';
}

/* ---- announcements ---- */

static struct resume_ring *watch_resume_ring(const struct watch *watch)
{
    return resume_ring(watch->place->resume, watch->info.rank, watch->info.attempt, watch->ring);
}

/* Again when the layout or the process becomes known. */
static void watch_send_ring(struct watch *watch)
{
    struct resume_ring *ring = watch_resume_ring(watch);
    struct fact_ring fact = { .rank = watch->info.rank,
                              .world = watch->info.world,
                              .attempt = watch->info.attempt,
                              .ring = watch->ring,
                              .pid = watch_pid(watch),
                              .open_ns = (int64_t)watch->info.open_mono_ns,
                              .has_layout = watch->info.has_layout };

    if (!ring ||
        (ring->announced && ring->has_layout >= fact.has_layout && (ring->pid || !fact.pid)))
        return;
    snprintf(fact.node, sizeof(fact.node), "%s", watch->place->node);
    memcpy(fact.layout, watch->info.layout, sizeof(fact.layout));
    if (outbox_ring(watch->place->outbox, &fact) < 0)
        return;
    ring->announced = true;
    ring->has_layout = fact.has_layout;
    ring->pid = fact.pid;
}

static bool watch_learn_comm(const struct watch *watch, uint32_t index, struct fact_comm *ret)
{
    struct ring_comm_info info;

    if (index >= RING_COMMS || ring_reader_comm(watch->reader, index, &info) <= 0)
        return false;
    *ret = (struct fact_comm){ .rank = watch->info.rank,
                               .attempt = watch->info.attempt,
                               .id = info.id ? info.id : COMM_ZERO,
                               .size = info.size,
                               .index = info.index,
                               .kind = info.kind };
    snprintf(ret->name, sizeof(ret->name), "%s", info.name);
    nodesplit_comm(watch->place->split, ret);
    return true;
}

static void watch_send_comm(struct watch *watch, uint32_t index)
{
    struct fact_comm fact;

    if (index >= RING_COMMS || watch->comm_sent[index] || !watch_learn_comm(watch, index, &fact))
        return;
    assemble_comm(watch->assemble, index, fact.id);
    if (!resume_has_comm(watch->place->resume, &fact)) {
        if (outbox_comm(watch->place->outbox, &fact) < 0)
            return;
        resume_add_comm(watch->place->resume, &fact);
    }
    watch->comm_sent[index] = true;
}

/* ---- the ring ---- */

static int watch_send_pending(struct watch *watch)
{
    struct outbox *outbox = watch->place->outbox;
    const struct assembled *out = &watch->pending;
    int result = 0;

    if (out->kind == ASSEMBLED_STEP)
        result = outbox_step(outbox, &out->step, &out->shape);
    if (out->kind == ASSEMBLED_STEP && result == 0)
        watch->longest_ns = MAX(out->step.duration_ns, watch->longest_ns - watch->longest_ns / 64);
    else if (out->kind == ASSEMBLED_GAP)
        result = outbox_gap(outbox, &out->gap);
    else if (out->kind == ASSEMBLED_NOTE && !resume_has_note(watch->place->resume, &out->note))
        result = outbox_note(outbox, &out->note);
    else if (out->kind == ASSEMBLED_METHOD &&
             !resume_has_method(watch->place->resume, &out->method))
        result = outbox_method(outbox, &out->method);
    if (result == 0)
        assembled_fini(&watch->pending);
    return result;
}

/* Sends all that is ready.  Returns false when the spool does not take it. */
static bool watch_drain(struct watch *watch)
{
    for (;;) {
        if (watch_send_pending(watch) < 0)
            return false;
        if (hold_is_full(&watch->hold)) {
            hold_take(&watch->hold, watch->place->split, INT64_MAX, &watch->pending);
            continue;
        }
        if (assemble_take(watch->assemble, &watch->pending) <= 0)
            return true; /* without memory: again on the next tick */
        hold_put(&watch->hold, watch->place->split, &watch->pending, watch->now_ns);
    }
}

void watch_settle(struct watch *watch, int64_t now_ns)
{
    while (watch_send_pending(watch) == 0 &&
           hold_take(&watch->hold, watch->place->split, now_ns, &watch->pending))
        ;
}

static void watch_give_event(struct watch *watch, const struct ring_event *event)
{
    if (event->kind == RING_LOST)
        watch->lost_marked += event->a;
    if (!assemble_knows_comm(watch->assemble, event->comm))
        watch_send_comm(watch, (uint32_t)event->comm);
    assemble_event(watch->assemble, event);
}

static void watch_log_dropped(struct watch *watch)
{
    if (watch->methods_dropped || assemble_methods_dropped(watch->assemble) == 0)
        return;
    watch->methods_dropped = true;
    log_error("rank %u: its communication library uses too many methods or changes them too often; "
              "not all changes are recorded",
              watch->info.rank);
}

/* The layout must be known before a step is judged, because it decides which ranks are compared.  It is read after the
 * records, so it is available if it was set before them.
 */
static void watch_look_for_layout(struct watch *watch)
{
    struct ring_info now;

    if (watch->info.has_layout || ring_reader_info(watch->reader, &now, NULL) < 0 ||
        !now.has_layout)
        return;
    watch->info.has_layout = true;
    memcpy(watch->info.layout, now.layout, sizeof(watch->info.layout));
    watch_send_ring(watch);
}

/* What the device has written by itself.  Until its clock is known nothing can be done with it. */
static void watch_read_stamps(struct watch *watch)
{
    struct ring_stamp stamp[BATCH];
    struct ring_clock clock;
    int count = BATCH;

    if (watch->broken || !ring_reader_clock(watch->reader, &clock))
        return;
    while (count == BATCH) {
        count = ring_reader_stamps(watch->reader, stamp, BATCH, &watch->stamps_lost);
        for (int i = 0; i < count; i++)
            assemble_stamp(watch->assemble, stamp[i].tag,
                           ring_clock_host(&clock, stamp[i].device_ns));
    }
}

static bool watch_next_batch(struct watch *watch)
{
    struct err err = { 0 };
    int count;

    watch->batch_at = watch->batch_count = 0;
    if (watch->broken)
        return false;
    count = ring_reader_next(watch->reader, watch->batch, BATCH, &watch->lost, &err);
    if (count < 0) {
        log_error("%s; the rest of this ring is ignored", err.text);
        watch->broken = true;
    }
    watch->batch_count = MAX(count, 0);
    if (count > 0)
        watch_look_for_layout(watch);
    watch_read_stamps(watch);
    return count > 0;
}

/* Reads as far as the lanes go, sending on the way.  Returns false when the spool is stuck; what was read
 * stays in the batch.
 */
static bool read_ring(struct watch *watch)
{
    if (!watch_drain(watch))
        return false;
    do {
        while (watch->batch_at < watch->batch_count) {
            watch_give_event(watch, &watch->batch[watch->batch_at++]);
            if (!watch_drain(watch))
                return false;
        }
    } while (watch_next_batch(watch));
    assemble_round(watch->assemble);
    watch_log_dropped(watch);
    return watch_drain(watch);
}

/* Lost records at the end of a lane: no event has reported them. */
static void watch_give_lost(struct watch *watch)
{
    struct ring_event event = { .kind = RING_LOST, .step = RING_NO_STEP, .b = RING_NO_STEP };

    if (watch->lost > watch->lost_marked) {
        event.a = watch->lost - watch->lost_marked;
        watch_give_event(watch, &event);
    }
}

static bool finish_ring(struct watch *watch)
{
    if (!read_ring(watch))
        return false;
    if (!watch->finished) {
        watch_give_lost(watch);
        assemble_finish(watch->assemble, watch->alive_ns);
        watch->finished = true;
    }
    return watch_drain(watch) && watch->hold.count == 0;
}

/* ---- the process ---- */

static void watch_find_process(struct watch *watch, int64_t now_ns)
{
    int result;

    if (now_ns < watch->find_at_ns)
        return;
    watch->find_pause_ns = MIN(MAX(2 * watch->find_pause_ns, NS_PER_S), 30 * NS_PER_S);
    watch->find_at_ns = now_ns + watch->find_pause_ns;
    result = proc_open(watch->info.pid, watch->info.pid_ns_inode, watch->info.pid_start,
                       ring_reader_owner(watch->reader), &watch->proc);
    if (result < 0)
        watch->state = result == -ESRCH ? 'X' : '?';
    if (result == -EPERM && !watch->foreign_logged) {
        watch->foreign_logged = true;
        log_error("rank %u: its ring names process %u, which belongs to another user; the process "
                  "is not observed",
                  watch->info.rank, watch->info.pid);
    }
}

/* Once a second: what may change slowly. */
static void watch_look_slowly(struct watch *watch, int64_t now_ns)
{
    if (now_ns < watch->second_at_ns)
        return;
    watch->second_at_ns = now_ns + NS_PER_S;
    if (!watch->broken)
        ring_reader_info(watch->reader, &watch->info, NULL);
    if (!watch->proc && watch->state != 'X')
        watch_find_process(watch, now_ns);
    else if (watch->proc)
        proc_refresh(watch->proc);
    if (watch->proc)
        oomkills_follow(watch->kills, proc_ref(watch->proc)->dir_fd);
    watch_send_ring(watch);
    for (uint32_t i = 0; i < watch->info.comms_used && !watch->broken; i++)
        watch_send_comm(watch, i);
}

/* In the phases in which a rank is with its files: where does it wait there? */
static void watch_look_at_storage(struct watch *watch)
{
    unsigned phase = assemble_phase(watch->assemble);
    struct beat_storage *at = phase == LOCKSTEP_PHASE_DATA ? &watch->storage[BEAT_STORAGE_DATA]
                              : phase == LOCKSTEP_PHASE_CHECKPOINT
                                  ? &watch->storage[BEAT_STORAGE_CHECKPOINT]
                                  : NULL;

    if (!at || at->looks == UINT16_MAX)
        return;
    at->looks++;
    at->waits += proc_waits_for_storage(watch->proc, watch->state);
}

static void watch_look_at_process(struct watch *watch, int64_t now_ns)
{
    struct sample sample;

    if (!watch->proc || now_ns < watch->sample_at_ns)
        return;
    watch->sample_at_ns = now_ns + WATCH_SAMPLE_NS;
    watch->state = proc_sample(watch->proc, now_ns, &sample);
    if (watch->state == 'X') {
        proc_close(watch->proc);
        watch->proc = NULL;
        return;
    }
    if (watch->state == '?')
        return;
    watch->sample = sample;
    if (!watch_state_is_gone(watch->state))
        watch->alive_ns = now_ns;
    assemble_sample(watch->assemble, &sample);
    watch_look_at_storage(watch);
}

/* ---- beats ---- */

static bool watch_state_changed(const struct watch *watch)
{
    const char *calm = "RSDIWPK"; /* these come and go all the time */

    if (!watch->sent_state)
        return true;
    return watch->state != watch->sent_state &&
           (!strchr(calm, watch->state) || !strchr(calm, watch->sent_state));
}

/* In an operation that others may be missing from: it is held up, and is not itself to be held. */
static bool watch_beat_waits(const struct fact_beat *beat)
{
    for (uint32_t i = 0; i < beat->ops; i++) {
        if (beat->op[i].started)
            return true;
    }
    return false;
}

static int watch_send_beat(struct watch *watch, int64_t now_ns, bool final)
{
    struct fact_beat beat = { .rank = watch->info.rank,
                              .attempt = watch->info.attempt,
                              .ring = watch->ring,
                              .mono_ns = now_ns,
                              .state = watch->state,
                              .final = final,
                              .cpu_ns = watch->sample.cpu_ns,
                              .run_delay_ns = watch->sample.run_delay_ns,
                              .throttled_ns = watch->sample.throttled_ns,
                              .dropped = (uint32_t)MIN(watch->info.dropped, UINT32_MAX),
                              .oom_kills = oomkills_count(watch->kills) };
    int result;

    assemble_view(watch->assemble, now_ns, &beat);
    memcpy(beat.storage, watch->storage, sizeof(beat.storage));
    if (beat.advanced || !watch->advanced_ns)
        watch->advanced_ns = now_ns;
    watch->waiting = watch_beat_waits(&beat);
    result = outbox_beat(watch->place->outbox, &beat);
    if (result == 0) {
        watch->sent_state = watch->state;
        memset(watch->storage, 0, sizeof(watch->storage));
    }
    return result;
}

static void watch_beat_when_due(struct watch *watch, int64_t now_ns)
{
    if (now_ns < watch->beat_at_ns && !watch_state_changed(watch))
        return;
    if (watch_send_beat(watch, now_ns, false) == 0)
        watch->beat_at_ns = now_ns + WATCH_BEAT_NS;
}

/* ---- what it is doing now ---- */

/* A child that the kernel does not end stays counted: there are never more than LOOKS_AT_ONCE. */
static void watch_look_drop(const struct watch *watch, struct proc_look *look)
{
    if (look && proc_look_end(look))
        --*watch->place->looks;
}

static void watch_stack_finish(struct watch *watch, int64_t now_ns)
{
    struct fact_stack fact;
    int result = stack_poll(watch->stack, now_ns, &fact);

    if (result == 0)
        return;
    watch_look_drop(watch, TAKE(watch->stack));
    if (result > 0)
        outbox_stack(watch->place->outbox, &fact); /* lost on a full disk: it is asked again */
}

/* A rank that has not advanced for longer than its steps take is looked at, and again once a minute. */
static void watch_look_at_stack(struct watch *watch, int64_t now_ns)
{
    int64_t limit = MAX(STACK_LEAST_NS, STACK_STEPS * watch->longest_ns);
    struct stack_ask ask = { .rank = watch->info.rank,
                             .attempt = watch->info.attempt,
                             .state = watch->state,
                             /* Never one that waits for others, nor one that another tracer has. */
                             .native = !watch->waiting && !strchr("tTDZX", watch->state) };

    if (watch->stack) {
        watch_stack_finish(watch, now_ns);
        return;
    }
    if (!watch->longest_ns) /* no step yet: start-up is nobody's stack */
        limit = STACK_START_NS;
    if (!watch->proc || watch->info.closed || now_ns - watch->advanced_ns < limit ||
        now_ns < watch->stack_at_ns)
        return;
    if (*watch->place->looks >= LOOKS_AT_ONCE)
        return;
    watch->stack_at_ns = now_ns + STACK_AGAIN_NS;
    ask.proc = *proc_ref(watch->proc);
    if (stack_begin(&ask, now_ns, &watch->stack) == 0)
        ++*watch->place->looks;
}

static void watch_environment_finish(struct watch *watch, int64_t now_ns)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    int result = environment_look_poll(watch->environment, now_ns, &environment);

    if (result == 0)
        return;
    watch_look_drop(watch, TAKE(watch->environment));
    environment.rank = watch->info.rank;
    environment.attempt = watch->info.attempt;
    snprintf(environment.node, sizeof(environment.node), "%s", watch->place->node);
    if (result > 0 && outbox_environment(watch->place->outbox, &environment) < 0)
        return; /* a full disk: it is asked again */
    if (result > 0)
        resume_add_environment(watch->place->resume, watch->info.rank, watch->info.attempt);
    else
        log_info("rank %u: its environment cannot be read: %s", watch->info.rank,
                 strerror(-result));
    watch->environment_done = true;
}

/* Once for each rank and attempt. */
static void watch_look_at_environment(struct watch *watch, int64_t now_ns)
{
    if (watch->environment || watch->environment_done || !watch->proc)
        return;
    if (!watch->environment_at_ns)
        watch->environment_at_ns = now_ns + ENVIRONMENT_NS;
    if ((!watch->longest_ns && now_ns < watch->environment_at_ns) ||
        now_ns < watch->environment_again_ns || *watch->place->looks >= LOOKS_AT_ONCE)
        return;
    watch->environment_done =
        resume_has_environment(watch->place->resume, watch->info.rank, watch->info.attempt);
    watch->environment_again_ns = now_ns + ENVIRONMENT_NS;
    if (!watch->environment_done &&
        environment_look_begin(proc_ref(watch->proc), now_ns, &watch->environment) == 0)
        ++*watch->place->looks;
}

static int watch_send_exit(struct watch *watch, int64_t now_ns)
{
    struct fact_exit fact = { .rank = watch->info.rank,
                              .attempt = watch->info.attempt,
                              .mono_ns = now_ns,
                              .status = watch->info.closed ? 0 : -1 };

    snprintf(fact.text, sizeof(fact.text), "%s",
             watch->info.closed ? EXIT_CLOSED : "gone, exit status unknown");
    return outbox_exit(watch->place->outbox, &fact);
}

/* The process is gone.  Returns false when all its facts were written. */
static bool watch_last_words(struct watch *watch, int64_t now_ns)
{
    struct resume_ring *ring;

    if (!watch->broken && !watch->finished)
        ring_reader_info(watch->reader, &watch->info, NULL);
    watch_send_ring(watch);
    if (!finish_ring(watch))
        return true;
    ring = watch_resume_ring(watch);
    watch->final_sent |= ring && ring->final;
    watch->exit_sent |= (ring && ring->exited) || !watch->place->report_exits;
    if (!watch->final_sent && watch_send_beat(watch, now_ns, true) < 0)
        return true;
    watch->final_sent = true;
    if (!watch->exit_sent && watch_send_exit(watch, now_ns) < 0)
        return true;
    watch->exit_sent = true;
    if (ring)
        ring->final = ring->exited = true;
    return false;
}

bool watch_tick(struct watch *watch, int64_t now_ns)
{
    watch->now_ns = now_ns;
    assemble_keep_ops(watch->assemble, nodesplit_busy(watch->place->split));
    watch_look_slowly(watch, now_ns);
    read_ring(watch);
    watch_look_at_process(watch, time_mono_ns());
    if (watch->environment)
        watch_environment_finish(watch, now_ns);
    if (watch_state_is_gone(watch->state))
        return watch_last_words(watch, now_ns);
    if (watch->info.closed || watch->broken)
        finish_ring(watch);
    watch_beat_when_due(watch, now_ns);
    watch_look_at_stack(watch, now_ns);
    watch_look_at_environment(watch, now_ns);
    return true;
}

void watch_read_all(struct watch *watch, int64_t now_ns)
{
    watch->second_at_ns = watch->sample_at_ns = 0;
    if (!watch_tick(watch, now_ns))
        return;
    /* A second pass: the first has seen all that the lanes had before it began. */
    read_ring(watch);
}

void watch_end(struct watch *watch, int64_t now_ns)
{
    watch_settle(watch, INT64_MAX);
    if (watch_state_is_gone(watch->state))
        watch_last_words(watch, now_ns);
    else
        watch_send_beat(watch, now_ns, false);
}

uint32_t watch_attempt(const struct watch *watch)
{
    return watch->info.attempt;
}

uint32_t watch_pid(const struct watch *watch)
{
    return watch->proc ? (uint32_t)proc_ref(watch->proc)->pid : 0;
}

/* ---- birth and death ---- */

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    assembled_fini(&watch->pending);
    hold_fini(&watch->hold);
    assemble_destroy(watch->assemble);
    ring_reader_close(watch->reader);
    proc_close(watch->proc);
    oomkills_destroy(watch->kills);
    watch_look_drop(watch, watch->stack);
    watch_look_drop(watch, watch->environment);
    free(watch);
}

static void watch_clean(struct watch **watch)
{
    watch_close(*watch);
}

static int check_ring(const struct watch *watch, const char *path, uint32_t rank, struct err *err)
{
    const char *run = watch->place->run;

    if (watch->info.rank != rank)
        return err_set(err, -EPROTO, "%s: holds rank %u", path, watch->info.rank);
    if (run[0] && watch->info.run[0] && strcmp(run, watch->info.run) != 0)
        return err_set(err, -EXDEV, "%s: of run %s", path, watch->info.run);
    return 0;
}

int watch_open(const struct watch_place *place, int rings_fd, const char *path, struct watch **ret,
               struct err *err)
{
    CLEAN(watch_clean) struct watch *watch = calloc(1, sizeof(*watch));
    const struct resume_ring *done;
    struct fact_comm comm;
    uint32_t rank, ring;
    int result;

    if (!ring_name_parse(path, &rank, &ring))
        return err_set(err, -EINVAL, "%s: not the name of a ring", path);
    if (!watch)
        return err_wrap(err, err_nomem(err), "%s", path);
    watch->place = place;
    watch->ring = ring;
    result = ring_reader_open_at(rings_fd, path, &watch->reader, err);
    if (result == 0)
        result = ring_reader_info(watch->reader, &watch->info, err);
    if (result == 0)
        result = check_ring(watch, path, rank, err);
    if (result < 0)
        return result;
    ring_reader_mark_lost(watch->reader);
    watch->kills = oomkills_create(NULL);
    watch->assemble = assemble_create(&(struct assemble_id){ rank, watch->info.attempt, ring });
    done = watch_resume_ring(watch);
    if (!watch->assemble || !watch->kills || !done)
        return err_wrap(err, err_nomem(err), "%s", path);
    assemble_resume(watch->assemble, &done->done);
    for (uint32_t i = 0; i < watch->info.comms_used; i++)
        watch_learn_comm(watch, i, &comm); /* before any ring is read: who is on this node? */
    watch->state = '?';
    *ret = TAKE(watch);
    return 0;
}
