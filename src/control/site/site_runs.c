/* site_runs.c - the runs of a site: find, open, tick, sync, close.
 *
 * While facts arrive, a run's log is open and its core is in memory.  When the run is closed, or no fact has arrived
 * for some time, both are released; the next fact opens them again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/site_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "control/http/reply.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "show/ledger_view.h"
#include "show/record_view.h"
#include "show/verdict_view.h"
#include "wire/facts.h"
#include "wire/verdict.h"

#define LOCK_WAIT_NS (200 * NS_PER_MS)
#define LOCAL_LOCK_WAIT_NS (2 * NS_PER_S) /* a reader may hold the lock for a moment */
#define QUIET_NS (20 * NS_PER_S)          /* after its end: what has not come by then is late */
#define IDLE_NS (10 * 60 * NS_PER_S)      /* without a word: its core leaves memory */
#define CLOSED_NS (5 * NS_PER_S)          /* the same once the books are closed */
#define GROUP_NS (20 * NS_PER_MS)         /* bodies that come meanwhile share one fsync */
#define SYNC_NS NS_PER_S                  /* if no request waits for it */
#define INDEX_FRAMES 1000                 /* a tick */
#define INDEX_TURN_NS NS_PER_S            /* of a local run; a request asks for the rest */
#define INDEX_AGAIN_NS (10 * NS_PER_S)
#define INDEX_SPARES_BYTES (32u << 20) /* of free space, for the log of a local run */
#define COMPACT_NS (30 * NS_PER_MS)    /* of a turn */
#define LOAD_NS (40 * NS_PER_MS)       /* reading logs of all runs, before others have a turn ... */
#define LOAD_RUN_NS (10 * NS_PER_MS)   /* ... and of one */
#define FRESH_S 3600                   /* logs younger than this are taken up at the start */

static uint64_t site_runs_name_key(const struct site *site, const char *name)
{
    return hash64((uint64_t)(uintptr_t)site, name, strlen(name));
}

/* Two names may have the same key: the map has the first of them. */
struct site_run *site_find(struct site *site, const char *name)
{
    const uint64_t *at = map_get(&site->run_by_name, site_runs_name_key(site, name));

    if (!at || strcmp(site->run[*at]->dir.run, name) == 0)
        return at ? site->run[*at] : NULL;
    for (size_t i = 0; i < site->runs; i++) {
        if (strcmp(site->run[i]->dir.run, name) == 0)
            return site->run[i];
    }
    return NULL;
}

/* ---- what the log says, to those who listen ---- */

static struct json_object *run_event_json(const struct site_run *run, const struct fact_run *fact)
{
    static const char *const names[] = { [RUN_BEGIN] = "begin",
                                         [RUN_ATTEMPT_BEGIN] = "attempt-begin",
                                         [RUN_ATTEMPT_END] = "attempt-end",
                                         [RUN_END] = "end" };
    struct json_object *root = json_object_new_object();
    unsigned event = fact->event < COUNT(names) && fact->event ? fact->event : RUN_END;

    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "event", json_object_new_string(names[event]));
    json_object_object_add(root, "attempt", json_object_new_int64(fact->attempt));
    json_object_object_add(root, "ranks", json_object_new_int64(fact->ranks));
    json_object_object_add(root, "status", json_object_new_int64(fact->status));
    json_object_object_add(root, "text", show_string(fact->text));
    return root;
}

static void site_event_fact(struct site_run *run, const struct frame *frame, bool live)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_run fact;
    struct fact_exit ended;
    struct outcome outcome;

    if (frame->type == FRAME_RUN && fact_run_get(in, &fact) == 0) {
        run->ended = fact.event == RUN_END;
        if (live)
            events_put(&run->site->events, run->dir.run, "run", run_event_json(run, &fact));
    } else if (frame->type == FRAME_OUTCOME && live && outcome_get(in, &outcome) == 0) {
        struct json_object *root = outcome_json(&outcome);

        json_object_object_add(root, "run", json_object_new_string(run->dir.run));
        events_put(&run->site->events, run->dir.run, "outcome", root);
    } else if (frame->type == FRAME_EXIT && live && fact_exit_get(in, &ended) == 0) {
        struct json_object *root = json_object_new_object();

        json_object_object_add(root, "run", json_object_new_string(run->dir.run));
        json_object_object_add(root, "rank", json_object_new_int64(ended.rank));
        json_object_object_add(root, "attempt", json_object_new_int64(ended.attempt));
        json_object_object_add(root, "status", json_object_new_int64(ended.status));
        json_object_object_add(root, "text", show_string(ended.text));
        events_put(&run->site->events, run->dir.run, "exit", root);
    }
}

static void site_event_output(struct site_run *run, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct json_object *root;
    struct decision decision;
    struct ledger ledger;
    struct verdict verdict;

    if (frame->type == FRAME_DECISION && decision_get(in, &decision) == 0) {
        root = decision_json(&decision);
        json_object_object_add(root, "run", json_object_new_string(run->dir.run));
        events_put(&run->site->events, run->dir.run, "decision", root);
    } else if (frame->type == FRAME_VERDICT && verdict_get(in, &verdict) == 0) {
        events_put(&run->site->events, run->dir.run, "verdict", verdict_json(&verdict));
        site_nodes_verdict(run, &verdict);
    } else if (frame->type == FRAME_LEDGER && ledger_get(in, &ledger) == 0) {
        root = json_object_new_object();
        json_object_object_add(root, "run", json_object_new_string(run->dir.run));
        json_object_object_add(root, "ledger", ledger_json(&ledger));
        events_put(&run->site->events, run->dir.run, "ledger", root);
    }
}

/* The run's clock is its launcher's; until that has spoken, the first agent's. */
static void site_learn_clock(struct site_run *run, const struct frame *frame)
{
    struct fact_hello hello;

    if (run->feed.spools || run->clock_known || /* its launcher has our clock */
        fact_hello_get(reader_of(frame->payload, frame->payload_bytes), &hello) < 0 ||
        (run->hello_real_ns && hello.kind != SENDER_LAUNCHER))
        return;
    run->hello_mono_ns = hello.mono_ns;
    run->hello_real_ns = hello.real_ns;
    run->clock_known = hello.kind == SENDER_LAUNCHER;
    if (run->log) /* else it is being read back */
        runlog_clock(run->log, hello.mono_ns, hello.real_ns);
}

static void site_observe(void *arg, const struct frame *frame, bool live)
{
    struct site_run *run = arg;

    report_builder_frame(&run->builder, frame);
    rank_presence_frame(&run->presence, frame); /* out of memory: it is not over too soon */
    traffic_frame(&run->traffic, frame);        /* out of memory: an agent less on /metrics */
    run_decisions_frame(&run->decisions, frame, frame->sender == control_sender());
    run->index_stale = true;
    if (frame->sender == control_sender()) {
        if (live)
            site_event_output(run, frame);
        return;
    }
    if (frame->type == FRAME_HELLO)
        site_learn_clock(run, frame);
    site_event_fact(run, frame, live);
}

/* ---- their life ---- */

static void site_owner_read(struct site_run *run)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;

    if (path_join(&path, run->dir.path.text, "owner", NULL) == 0)
        file = fopen(path.text, "re");
    if (!file || !fgets(run->owner, sizeof(run->owner), file))
        run->owner[0] = '\0';
    run->owner[strcspn(run->owner, "\n")] = '\0';
}

static int64_t site_file_real_ns(const char *path) /* when it was written; 0: not known */
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : 0;
}

static int run_add(struct site *site, struct site_run *run)
{
    uint64_t *at;

    if (!ARRAY_FIT(site->run, site->room, site->runs + 1))
        return -ENOMEM;
    at = map_put(&site->run_by_name, site_runs_name_key(site, run->dir.run), site->runs);
    if (!at)
        return -ENOMEM;
    site->run[site->runs++] = run;
    return 0;
}

static void run_clean(struct site_run **run)
{
    if (*run)
        run_destroy(*run);
}

int site_add(struct site *site, const struct rundir *dir, struct site_run **ret, struct err *err)
{
    CLEAN(run_clean) struct site_run *run = calloc(1, sizeof(*run));

    if (!run)
        return err_nomem(err);
    run->site = site;
    run->dir = *dir;
    if (run_add(site, run) < 0)
        return err_nomem(err);
    *ret = TAKE(run);
    return 0;
}

int site_get(struct site *site, const char *name, bool make, struct site_run **ret, struct err *err)
{
    CLEAN(run_clean) struct site_run *run = NULL;
    struct path path, token;
    int result;

    *ret = site_find(site, name);
    if (*ret)
        return 0;
    if (site->local)
        return err_set(err, -ENOENT, "run '%s' not found; this controller serves run '%s' alone",
                       name, site->local->dir.run);
    if (site->settings.only && strcmp(name, site->settings.only) != 0)
        return err_set(err, -ENOENT, "run '%s' not found; this controller serves run '%s' alone",
                       name, site->settings.only);
    path = site->state;
    result = site->settings.only ? 0 : paths_run_of(site->state.text, name, &path, err);
    if (result == 0)
        result = path_join(&token, path.text, "agent.token", err);
    if (result == 0 && make)
        result = path_make(path.text, err);
    if (result < 0)
        return result;
    if (!make && access(token.text, F_OK) < 0)
        return err_set(err, -ENOENT, "run '%s' not found", name);
    run = calloc(1, sizeof(*run));
    if (!run)
        return err_nomem(err);
    run->site = site;
    result = rundir_open(&run->dir, path.text, err);
    snprintf(run->dir.run, sizeof(run->dir.run), "%s", name);
    if (result == 0)
        result = token_read_or_make(token.text, &run->agent, err);
    if (result < 0)
        return result;
    site_owner_read(run);
    run_refused_read(run);
    run->made_real_ns = site_file_real_ns(token.text);
    if (run_add(site, run) < 0)
        return err_nomem(err);
    *ret = TAKE(run);
    return 0;
}

/* ---- its log is read again ---- */

static int site_load_begin(struct site_run *run, struct err *err)
{
    struct site *site = run->site;

    seen_fini(&run->seen);
    report_builder_fini(&run->builder);
    traffic_fini(&run->traffic);
    rank_presence_fini(&run->presence);
    run_decisions_fini(&run->decisions);
    report_builder_init(&run->builder, run->dir.run, false);
    run->ended = run->finish = run->clock_known = false;
    run->hello_real_ns = 0;
    run->copied = UINT64_MAX;
    return runlog_begin(&(struct runlog_settings){ .dir = &run->dir,
                                                   .seen = &run->seen,
                                                   .lock_wait_ns = run->feed.spools
                                                                       ? LOCAL_LOCK_WAIT_NS
                                                                       : LOCK_WAIT_NS,
                                                   .thresholds = site->settings.thresholds,
                                                   .memory_max = site->settings.run_memory,
                                                   .disk_max = run_log_limit(site),
                                                   .observe = site_observe,
                                                   .arg = run },
                        &run->loading, err);
}

/* 1: its log is open; 0: there is more to read; -errno. */
static int site_load_turn(struct site_run *run, int64_t budget_ns, struct err *err)
{
    int result = run->loading ? 0 : site_load_begin(run, err);

    if (result == 0)
        result = runlog_load(run->loading, budget_ns, err);
    if (result == 1) {
        run->log = TAKE(run->loading);
        run_decisions_synced(&run->decisions); /* what was read again is on disk */
        run->newest_ns = time_mono_ns();
        if (run->hello_real_ns)
            runlog_clock(run->log, run->hello_mono_ns, run->hello_real_ns);
    }
    if (result < 0) {
        runlog_close(TAKE(run->loading));
        if (result == -EDQUOT)
            run_refuse(run, err->text);
    }
    if (result != 0 && result != -EBUSY && result != -EDQUOT)
        site_trouble(run->site, result, err);
    return result;
}

bool site_load(struct site *site)
{
    int64_t until_ns = time_mono_ns() + LOAD_NS;
    bool more = false;

    for (size_t i = 0; i < site->runs; i++) {
        struct site_run *run = site->run[site->load_next++ % site->runs];
        struct err err = { "" };
        int result;

        if (!run->loading)
            continue;
        if (time_mono_ns() > until_ns) {
            site->load_next--; /* it is the first next time */
            return true;
        }
        result = site_load_turn(run, LOAD_RUN_NS, &err);
        if (result < 0 && site->local)
            site_fail(site, result, &err);
        else if (result < 0)
            log_error("run %s: %s", run->dir.run, err.text);
        more |= result == 0;
    }
    return more;
}

int run_open(struct site_run *run, struct err *err)
{
    uint64_t bytes, of;
    int result;

    if (run->log)
        return 0;
    if (run->refused.text[0])
        run_refused_read(run); /* an administrator may have removed the file */
    if (run->refused.text[0])
        return err_set(err, -EDQUOT, "run '%s' is refused: %s", run->dir.run, run->refused.text);
    result = run->loading ? 0 : site_load_turn(run, LOAD_RUN_NS, err);
    if (result != 0)
        return MIN(result, 0);
    runlog_loaded(run->loading, &bytes, &of);
    loop_timer_set(run->site->loop, &run->site->load, time_mono_ns());
    return err_set(err, -EAGAIN, "its log is being read, %llu of %llu bytes so far; try again",
                   (unsigned long long)bytes, (unsigned long long)of);
}

static void site_runs_took(struct sketch *sketch, uint64_t *sum_us, int64_t ns)
{
    uint64_t us = (uint64_t)ns / (uint64_t)NS_PER_US;

    sketch_add(sketch, us);
    *sum_us += us;
}

static void site_waiters_answer(struct site_run *run, const struct err *failed)
{
    int64_t now_ns = time_mono_ns();

    while (run->waiting) {
        struct waiter *waiter = run->waiting;

        run->waiting = waiter->next;
        if (waiter->exchange) {
            http_on_gone(waiter->exchange, NULL, NULL);
            if (failed) {
                struct err err = *failed;

                err_wrap(&err, -EIO, "the facts could not be written to disk");
                ingest_reply_unwritten(run, waiter->exchange, -EIO, err.text);
            } else {
                http_answer(waiter->exchange, 200, "application/json", &waiter->answer);
            }
        }
        site_runs_took(&run->site->counts.ingest_us, &run->site->counts.ingest_sum_us,
                       now_ns - waiter->since_ns);
        buf_fini(&waiter->answer);
        free(waiter);
    }
}

void run_shut(struct site_run *run, const char *why)
{
    struct err err = { "" };

    err_set(&err, 0, "%s", why);
    site_waiters_answer(run, &err);
    runlog_close(TAKE(run->log));
    runlog_close(TAKE(run->loading));
    if (run->site->index && !run->index_stale)
        index_leave(run->site->index, run->dir.run);
}

/* The log differs from what was read of it: index and core start over; those of a local run in a new process. */
void run_read_again(struct site_run *run, const char *why)
{
    struct err err = { "" };

    if (run->site->local) {
        err_set(&err, 0, "%s", why);
        site_fail(run->site, -ESTALE, &err);
    } else {
        run_shut(run, why);
    }
    if (run->site->index && index_forget(run->site->index, run->dir.run, &err) < 0)
        log_error("index of run %s: %s", run->dir.run, err.text);
    run->index_stale = true;
}

void run_destroy(struct site_run *run)
{
    run_shut(run, "the controller is shutting down");
    feed_close(&run->feed);
    seen_fini(&run->seen);
    report_builder_fini(&run->builder);
    traffic_fini(&run->traffic);
    rank_presence_fini(&run->presence);
    run_decisions_fini(&run->decisions);
    free(run);
}

void site_remove(struct site *site, size_t at)
{
    struct site_run *run = site->run[at];
    struct err err = { "" };

    log_info("run %s: removed; it was registered and never sent a fact", run->dir.run);
    if (site->index && index_forget(site->index, run->dir.run, &err) < 0)
        log_error("index of run %s: %s", run->dir.run, err.text);
    tree_remove(run->dir.path.text);
    run_destroy(run);
    site->run[at] = site->run[--site->runs];
    map_fini(&site->run_by_name); /* it has no removal, and this is rare */
    for (size_t i = 0; i < site->runs; i++)
        map_put(&site->run_by_name, site_runs_name_key(site, site->run[i]->dir.run), i);
}

static void site_waiter_gone(void *arg)
{
    struct waiter *waiter = arg;

    waiter->exchange = NULL;
}

void run_wait(struct site_run *run, struct http_exchange *exchange, struct buf *answer)
{
    struct waiter *waiter = calloc(1, sizeof(*waiter));

    if (!waiter) {
        buf_fini(answer);
        reply_error(exchange, 503, "out of memory");
        return;
    }
    *waiter = (struct waiter){ .next = run->waiting,
                               .run = run,
                               .exchange = exchange,
                               .answer = *answer,
                               .since_ns = time_mono_ns() };
    *answer = (struct buf){ 0 };
    run->waiting = waiter;
    http_on_gone(exchange, site_waiter_gone, waiter);
    if (run->site->sync.at_ns == INT64_MAX || !run->site->sync.linked)
        loop_timer_set(run->site->loop, &run->site->sync, waiter->since_ns + GROUP_NS);
}

void site_trouble(struct site *site, int result, const struct err *err)
{
    if (result >= 0) {
        if (site->trouble.text[0])
            log_info("logs are writable again after %.1f s; the error was: %s",
                     (double)(time_mono_ns() - site->trouble_ns) / 1e9, site->trouble.text);
        site->trouble.text[0] = '\0';
        return;
    }
    if (!site->trouble.text[0]) {
        log_error("%s; %s until the log is writable", err->text,
                  site->local ? "facts stay in the spools" : "senders keep their facts");
        site->trouble_ns = time_mono_ns();
    }
    site->trouble = *err;
}

int run_sync(struct site_run *run, int64_t now_ns, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    int result;

    if (!run->log || (!run->waiting && !run_decisions_need_sync(&run->decisions) &&
                      (!runlog_is_dirty(run->log) || now_ns - run->synced_ns < SYNC_NS)))
        return 0;
    run->synced_ns = now_ns;
    result = runlog_sync(run->log, err);
    run->site->counts.syncs++;
    site_runs_took(&run->site->counts.sync_us, &run->site->counts.sync_sum_us,
                   time_mono_ns() - begin_ns);
    if (result < 0) {
        run->site->counts.sync_failures++;
        site_trouble(run->site, result, err);
        site_waiters_answer(run, err);
        if (runlog_was_truncated(run->log))
            run_read_again(run, err->text);
        return result;
    }
    run_decisions_synced(&run->decisions);
    site_waiters_answer(run, NULL);
    return 0;
}

bool run_index_is_behind(const struct site_run *run, int64_t now_ns)
{
    return run->index_stale && run->site->index && now_ns >= run->index_at_ns;
}

/* Behind the log, not in its way: a page asks for the rest when it needs it. */
size_t run_index(struct site_run *run, size_t frames)
{
    struct err err = { "" };
    int64_t count, now_ns = time_mono_ns();

    if (!run_index_is_behind(run, now_ns))
        return 0;
    count = index_follow(run->site->index, run->dir.path.text, frames, &err);
    if (count < 0 && count != -ENOENT) {
        log_error("cannot update the index of run %s: %s", run->dir.run, err.text);
        run->index_at_ns = now_ns + INDEX_AGAIN_NS;
    }
    run->index_stale = count != 0 && count != -ENOENT;
    if (count == -ENOENT || count == 0) /* the log's end */
        run->index_rebuild = false;
    else if (index_is_rebuilding(run->site->index, run->dir.run))
        run->index_rebuild = true;
    return count > 0 ? (size_t)count : 0;
}

/* The rows of all runs are gone with the file.  They come back a little at a time (site_index_rebuild); until then a query
 * for them is answered 503, and facts and verdicts go on without an index.
 */
void site_index_mend(struct site *site)
{
    struct err err = { "" };

    if (!site->index)
        return;
    if (index_is_broken(site->index)) {
        log_error("the index is damaged; rebuilding it from the logs of %zu runs", site->runs);
        if (index_repair(site->index, &err) < 0) {
            log_error("the index cannot be rebuilt now: %s", err.text);
            index_close(TAKE(site->index));
            return;
        }
    }
    if (index_makings(site->index) == site->index_makings)
        return;
    site->index_makings = index_makings(site->index);
    site->index_rebuilds = site->runs > 0;
    for (size_t i = 0; i < site->runs; i++) {
        site->run[i]->index_stale = site->run[i]->index_rebuild = true;
        site->run[i]->index_at_ns = 0;
    }
}

void site_index_rebuild(struct site *site, int64_t until_ns)
{
    for (size_t i = 0; i < site->runs; i++) {
        struct site_run *run = site->run[i];

        while (run->index_rebuild) {
            if (time_mono_ns() >= until_ns)
                return;
            if (time_mono_ns() < run->index_at_ns)
                break;
            run_index(run, INDEX_FRAMES);
        }
    }
    if (site->index_rebuilds && !site->local)
        log_info("the index is complete again");
    site->index_rebuilds = false;
}

size_t site_index_lacks(const struct site *site)
{
    size_t count = 0;

    for (size_t i = 0; i < site->runs; i++)
        count += site->run[i]->index_rebuild;
    return count;
}

/* How far the judges have come, for those who draw it. */
static void site_event_progress(struct site_run *run)
{
    struct json_object *root;
    struct core_counts counts;

    runlog_counts(run->log, &counts);
    if (counts.steps_complete == run->judged)
        return;
    run->judged = counts.steps_complete;
    root = json_object_new_object();
    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "judged", json_object_new_uint64(counts.steps_complete));
    json_object_object_add(root, "partial", json_object_new_uint64(counts.steps_partial));
    json_object_object_add(root, "unfit", json_object_new_uint64(counts.unfit_steps));
    events_put(&run->site->events, run->dir.run, "progress", root);
}

/* Its log does not grow for ever: what is old is merged, a little at a time. */
static void run_compact(struct site_run *run)
{
    struct site *site = run->site;
    struct runlog_shift shift;
    struct err err = { "" };
    int result = runlog_compact(run->log, run_log_max(site), COMPACT_NS, &shift, &err);

    if (result < 0)
        log_error("cannot compact the log of run %s now: %s", run->dir.run, err.text);
    if (result == -ENOMEM || result == -ESTALE)
        run_read_again(run, err.text);
    if (result != 1)
        return;
    site->counts.compactions++;
    log_info("run %s: compacted its log from %llu to %llu bytes", run->dir.run,
             (unsigned long long)shift.bytes_before, (unsigned long long)shift.bytes);
    if (site->index &&
        index_shift(site->index, run->dir.path.text, shift.old_from, shift.new_from, &err) < 0)
        log_error("rebuilding the index of run %s: %s", run->dir.run, err.text);
    run->index_stale = true;
}

/* No launcher reports its end, but all its ranks are gone and no fact has arrived for some time: living ranks send beats. */
static bool run_is_left(const struct site_run *run, int64_t now_ns)
{
    return rank_presence_is_over(&run->presence) &&
           now_ns - run->newest_ns > run->site->settings.close_ns;
}

/* Whether to close it: its end was reported, and all facts were sent or enough time has passed. */
static bool run_is_over(const struct site_run *run, int64_t now_ns)
{
    if (runlog_is_closed(run->log) || run->feed.spools) /* a local run ends with its controller */
        return false;
    return run_is_left(run, now_ns) ||
           (run->ended && (run->finish || now_ns - run->newest_ns > QUIET_NS));
}

static void event_run_left(struct site_run *run)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "event", json_object_new_string("end"));
    json_object_object_add(root, "ranks", json_object_new_uint64(run->presence.begun));
    json_object_object_add(root, "status", NULL);
    json_object_object_add(root, "text", json_object_new_string(RUN_SUMMARY_LEFT));
    events_put(&run->site->events, run->dir.run, "run", root);
    log_info("run %s: all %zu ranks are gone: %s", run->dir.run, run->presence.begun,
             RUN_SUMMARY_LEFT);
}

/* What is left of a nearly full disk belongs to the log; the index can be made from it later. */
bool run_has_room(const struct site_run *run)
{
    struct statvfs disk;

    return !run->feed.spools || statvfs(run->dir.path.text, &disk) < 0 ||
           disk.f_bavail * disk.f_frsize >= INDEX_SPARES_BYTES;
}

/* Its rows, a little at a time.  Those of a local run can wait: what a request needs is read when it comes. */
static void run_index_turn(struct site_run *run, int64_t now_ns)
{
    if (run->index_rebuild || now_ns < run->index_turn_ns)
        return;
    if ((!run_has_room(run) || run_index(run, INDEX_FRAMES) < INDEX_FRAMES) && run->feed.spools)
        run->index_turn_ns = now_ns + INDEX_TURN_NS;
}

static bool run_is_idle(const struct site_run *run, int64_t now_ns)
{
    return run->log && !run->feed.spools && !run->waiting && !runlog_is_dirty(run->log) &&
           now_ns - run->newest_ns > (runlog_is_closed(run->log) ? CLOSED_NS : IDLE_NS);
}

int run_turn(struct site_run *run, int64_t now_ns, struct err *err)
{
    int result = 0;
    bool over;

    run_index_turn(run, now_ns);
    orders_turn(run, now_ns);
    if (!run->log)
        return 0;
    over = run_is_over(run, now_ns);
    if (over)
        result = runlog_tick(run->log, TICK_LAST, err);
    else if (runlog_tick_is_due(run->log))
        result = runlog_tick(run->log, run->deaf ? TICK_DEAF : 0, err);
    if (result == 0 && !over)
        run->deaf = false;
    site_trouble(run->site, result, err);
    run->site->counts.ticks++;
    if (result == -ENOMEM || result == -ESTALE) {
        run_read_again(run, err->text);
        return result;
    }
    if (over && result == 0 && !run->ended)
        event_run_left(run);
    site_event_progress(run);
    if (run_sync(run, now_ns, err) < 0)
        result = -EIO;
    if (run->log && run->site->settings.log_max)
        run_compact(run);
    if (run_is_idle(run, now_ns))
        run_shut(run, "idle");
    return result;
}

static void site_scan_run(struct site *site, const char *name)
{
    struct site_run *run;
    struct err err = { "" };
    struct stat st;
    int result = 0;

    if (site_get(site, name, site->settings.only != NULL, &run, NULL) < 0)
        return;
    run->index_stale = true;
    if (run->refused.text[0])
        log_error("run %s is refused: %s", run->dir.run, run->refused.text);
    else if (stat(run->dir.log.text, &st) == 0 && time(NULL) - st.st_mtime <= FRESH_S)
        result = site_load_begin(run, &err);
    if (result < 0)
        log_error("run %s: %s", run->dir.run, err.text);
}

void site_scan(struct site *site)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    struct err why = { "" };

    if (site->settings.only)
        site_scan_run(site, site->settings.only);
    else if (paths_runs_open(site->state.text, &dir, &why) < 0)
        log_error("%s", why.text);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.')
            site_scan_run(site, entry->d_name);
    }
}
