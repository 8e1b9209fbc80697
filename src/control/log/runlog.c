/* runlog.c - writes a run's log and feeds its core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/runlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "control/log/compaction.h"
#include "control/log/log_replay.h"
#include "control/log/merge.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define COMPACT_AGAIN_NS (60 * NS_PER_S) /* after it went wrong */
#define COMPACT_SLACK (1u << 20)         /* of very short logs */
#define COPIED_SHARE 8                   /* of the largest log: so much of it is left as it is */
#define LOOK_FRAMES 64                   /* between two looks at the clock */
#define DISK_RESERVE 8 /* part of a run's disk limit that only launchers may use, beyond it */
#define TICK_AT_LEAST_NS NS_PER_S /* also when nothing comes: silence is judged too */

struct runlog {
    struct runlog_settings settings;
    char path[PATH_MAX], run[64];
    struct spool_writer *writer;
    struct spool_reader *reader; /* of what is read again; NULL: all has been */
    uint64_t stays;              /* bytes of the log that no compaction drops */
    struct log_replay replay;    /* the core, and its output that is not in the log yet */
    int64_t ticked_ns;           /* by our clock */
    int64_t shift_ns;            /* the run's clock minus ours */
    int64_t tick_mono_ns;        /* the newest, by the run's clock: it never goes back */
    bool dirty;                  /* written since the last sync */
    bool facts_waiting;          /* fed since the last tick */
    bool malformed_logged;
    struct compaction *compaction; /* the next log in the making; NULL: none */
    uint64_t spoke_at;             /* bytes of the log that this core has not written */
    uint64_t merged;               /* frames of merged steps in it */
    uint64_t compact_from;         /* bytes: a shorter one is not worth it */
    int64_t compact_at_ns;         /* not sooner */
};

void runlog_close(struct runlog *log)
{
    if (!log)
        return;
    compaction_destroy(log->compaction);
    log_replay_fini(&log->replay);
    spool_reader_close(log->reader);
    spool_writer_close(log->writer);
    free(log);
}

static void runlog_clean(struct runlog **log)
{
    runlog_close(*log);
}

static void runlog_observe(const struct runlog *log, const struct frame *frame, bool live)
{
    if (log->settings.observe)
        log->settings.observe(log->settings.arg, frame, live);
}

/* A frame of our own. */
static int runlog_put_own(struct runlog *log, uint16_t type, const struct buf *payload,
                          struct err *err)
{
    struct frame frame = { .type = type,
                           .version = FRAME_VERSION,
                           .sender = log->replay.self,
                           .number = spool_writer_number(log->writer),
                           .payload = payload->data,
                           .payload_bytes = payload->size };
    int result = spool_put(log->writer, type, payload, err);

    if (result < 0)
        return result;
    log->dirty = true;
    runlog_observe(log, &frame, true);
    return 0;
}

static int runlog_lock_writer(struct runlog *log, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + log->settings.lock_wait_ns;
    int result;

    while ((result = spool_writer_lock(log->path, CONTROL_SENDER, &log->writer, err)) == -EBUSY) {
        struct timespec pause = time_spec(20 * NS_PER_MS);

        if (time_mono_ns() > deadline_ns)
            return err_wrap(err, result, "another controller is running for run %s", log->run);
        nanosleep(&pause, NULL);
    }
    return result;
}

int runlog_write_output(struct runlog *log, struct err *err)
{
    const struct output_queue_frame *output;

    while ((output = output_queue_first(&log->replay.queue))) {
        int result = runlog_put_own(log, output->type, &output->payload, err);

        if (result < 0)
            return result;
        output_queue_drop(&log->replay.queue);
    }
    return 0;
}

static int runlog_write_hello(struct runlog *log, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = {
        .kind = SENDER_CONTROL,
        .version = LOCKSTEP_VERSION,
        .mono_ns = time_mono_ns(),
        .real_ns = time_real_ns(),
    };

    memcpy(hello.run, log->replay.run, sizeof(hello.run));
    if (gethostname(hello.node, sizeof(hello.node) - 1) < 0)
        hello.node[0] = '\0';
    fact_hello_put(&payload, &hello);
    return runlog_put_own(log, FRAME_HELLO, &payload, err);
}

static void recover_log_loss(const struct runlog *log, const struct spool_reader *reader)
{
    const struct log_replay *replay = &log->replay;

    uint64_t offset, bytes;

    for (size_t i = 0; spool_reader_place(reader, i, &offset, &bytes); i++)
        log_error("%s: damaged at offset %llu, skipped %llu bytes", log->path,
                  (unsigned long long)offset, (unsigned long long)bytes);
    if (spool_reader_places(reader) > SPOOL_PLACES)
        log_error("%s: damaged in %llu places, %llu bytes in all", log->path,
                  (unsigned long long)spool_reader_places(reader),
                  (unsigned long long)spool_reader_damaged(reader));
    if (replay->different + replay->missing)
        log_error("%s: this version computes %llu of its verdicts or ledgers differently",
                  log->path, (unsigned long long)(replay->different + replay->missing));
    if (replay->ticks)
        log_info("run %s: resumed after %llu facts and %llu ticks", replay->run,
                 (unsigned long long)replay->facts, (unsigned long long)replay->ticks);
}

/* Of a log that was compacted: what came and is not in it any more. */
static int runlog_recover_compaction(struct runlog *log, const struct frame *frame,
                                     const struct spool_reader *reader)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };
    int result = 0;

    log->merged += frame->type == FRAME_MERGED;
    if (frame->type != FRAME_COMPACTION ||
        fact_compaction_get(reader_of(frame->payload, frame->payload_bytes), &fact) < 0)
        return 0;
    if (fact.kind == COMPACTION_OUTPUT)
        log->spoke_at = spool_reader_offset(reader);
    for (uint32_t i = 0; i < fact.count && result == 0; i++)
        result = seen_set(log->settings.seen, fact.origin[i].sender, fact.origin[i].boot,
                          fact.origin[i].next);
    return result;
}

uint64_t runlog_memory(const struct runlog *log)
{
    uint64_t bytes = log->settings.seen ? seen_bytes(log->settings.seen) : 0;

    return bytes + (log->replay.core ? core_bytes(log->replay.core) : 0);
}

static int runlog_memory_check(const struct runlog *log, struct err *err)
{
    uint64_t bytes = runlog_memory(log);

    if (!log->settings.memory_max || bytes <= log->settings.memory_max)
        return 0;
    return err_set(err, -EDQUOT, "its facts use %llu bytes of memory; the limit for a run is %llu",
                   (unsigned long long)bytes, (unsigned long long)log->settings.memory_max);
}

/* One frame of the log: the core gets what it had, and `seen` learns what need not come. */
static int runlog_recover_frame(struct runlog *log, const struct frame *frame, struct err *err)
{
    struct log_replay *replay = &log->replay;
    int result;

    spool_writer_learn(log->writer, frame, spool_reader_offset(log->reader));
    log->stays += merge_stays(frame);
    if (frame->sender != replay->self)
        result = seen_mark(log->settings.seen, frame);
    else
        result = runlog_recover_compaction(log, frame, log->reader);
    result = result < 0 ? err_nomem(err) : log_replay_frame(replay, frame, err);
    if (result == -EPROTO) {
        log_error("%s: %s; going on", log->path, err->text);
        result = 0;
    }
    runlog_observe(log, frame, false);
    return result;
}

/* 1: all has been read; 0: not yet. */
static int runlog_recover(struct runlog *log, int64_t budget_ns, struct err *err)
{
    int64_t until_ns = time_mono_ns() + budget_ns;
    struct frame frame;

    do {
        int result = runlog_memory_check(log, err);

        for (int i = 0; result == 0 && i < LOOK_FRAMES; i++) {
            result = spool_next(log->reader, &frame, err);
            if (result == 0)
                return 1;
            if (result > 0)
                result = runlog_recover_frame(log, &frame, err);
        }
        if (result < 0)
            return result;
    } while (time_mono_ns() < until_ns);
    return 0;
}

/* What a killed controller left in the page cache counts only when it is on disk. */
static int runlog_recover_end(struct runlog *log, struct err *err)
{
    const struct log_replay *replay = &log->replay;
    int result = spool_writer_begin(log->writer, log->path, err);

    if (result == 0)
        result = spool_sync(log->writer, err);
    if (result < 0)
        return err_wrap(err, result, "%s", log->path);
    if (replay->ticks)
        runlog_clock(log, replay->tick.mono_ns, replay->tick.real_ns);
    log->tick_mono_ns = replay->tick.mono_ns;
    recover_log_loss(log, log->reader);
    spool_reader_close(TAKE(log->reader));
    return 0;
}

void runlog_thresholds(const struct runlog *log, struct thresholds *ret)
{
    thresholds_default(ret);
    if (log->replay.core)
        *ret = *core_thresholds(log->replay.core);
}

/* A launcher says little, and its ranks end if it is not heard: it has some room beyond the limit. */
static uint64_t runlog_disk_max(const struct runlog *log, const struct frame *frame, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (frame[i].type) {
        case FRAME_HELLO:
        case FRAME_RUN:
        case FRAME_EXIT:
        case FRAME_MEMBER:
        case FRAME_OUTCOME:
        case FRAME_REQUEST:
        case FRAME_PLACES:
        case FRAME_POLICY:
        case FRAME_MEANS:
            continue;
        default:
            return log->settings.disk_max;
        }
    }
    return log->settings.disk_max + log->settings.disk_max / DISK_RESERVE;
}

/* What the judges say is always written: it is little, and tells what became of the run. */
static int runlog_disk_check(const struct runlog *log, const struct frame *frame, size_t count,
                             struct err *err)
{
    uint64_t bytes = spool_writer_bytes(log->writer), most = runlog_disk_max(log, frame, count);

    if (!most)
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes += FRAME_HEADER_BYTES + frame[i].payload_bytes;
    if (bytes <= most)
        return 0;
    return err_set(err, -EFBIG, "its log would grow to %llu bytes; the limit for a run is %llu",
                   (unsigned long long)bytes, (unsigned long long)most);
}

int runlog_set(struct runlog *log, const char *name, double value, const char *who, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_setting fact = { .real_ns = time_real_ns(), .value = value };
    struct frame frame = { .type = FRAME_SETTING,
                           .version = FRAME_VERSION,
                           .sender = log->replay.self };
    struct thresholds trial;
    int result = thresholds_set(&trial, name, value, err);

    if (result < 0)
        return result;
    if (log->replay.last)
        return err_set(err, -EALREADY, "run %s is closed", log->run);
    snprintf(fact.name, sizeof(fact.name), "%s", name);
    snprintf(fact.who, sizeof(fact.who), "%s", who);
    fact_setting_put(&payload, &fact);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    result = runlog_disk_check(log, &frame, 1, err);
    if (result == 0)
        result = runlog_write_output(log, err);
    if (result == 0)
        result = runlog_put_own(log, FRAME_SETTING, &payload, err);
    if (result < 0)
        return result;
    log_info("run %s: threshold %s set to %g by %s", log->run, name, value, who);
    return log_replay_frame(&log->replay, &frame, err);
}

int runlog_request(struct runlog *log, struct request *request, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_REQUEST,
                           .version = FRAME_VERSION,
                           .sender = log->replay.self };
    int result;

    if (log->replay.last)
        return err_set(err, -EALREADY, "run %s is closed", log->run);
    request->mono_ns = time_mono_ns();
    request->real_ns = time_real_ns();
    request_identify(request);
    request_put(&payload, request);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    result = payload.failed ? err_nomem(err) : runlog_disk_check(log, &frame, 1, err);
    if (result == 0)
        result = runlog_write_output(log, err);
    if (result == 0)
        result = runlog_put_own(log, FRAME_REQUEST, &payload, err);
    if (result < 0)
        return result;
    log->facts_waiting = true; /* the next tick decides */
    return log_replay_frame(&log->replay, &frame, err);
}

const struct policy *runlog_policy(const struct runlog *log)
{
    return log->replay.core ? core_policy(log->replay.core) : NULL;
}

/* What a file says is logged where it differs from what a file said before; what somebody changed
 * since then, through the API, stays.
 */
static int runlog_apply_files(struct runlog *log, const struct thresholds *thresholds,
                              struct err *err)
{
    int result = 0;

    if (!thresholds || log->replay.last)
        return 0;
    for (const struct threshold *row = thresholds_table; row->name && result == 0; row++) {
        double value = thresholds_get(thresholds, row);

        if (value < thresholds_get(&log->replay.filed, row) ||
            value > thresholds_get(&log->replay.filed, row))
            result = runlog_set(log, row->name, value, LOG_REPLAY_FILE, err);
    }
    return result;
}

int runlog_begin(const struct runlog_settings *settings, struct runlog **ret, struct err *err)
{
    CLEAN(runlog_clean) struct runlog *log = calloc(1, sizeof(*log));
    int result;

    if (!log)
        return err_nomem(err);
    log->settings = *settings;
    strcpy(log->path, settings->dir->log.text);
    strcpy(log->run, settings->dir->run);
    log_replay_init(&log->replay, log->run);
    result = runlog_lock_writer(log, err);
    if (result == 0)
        result = spool_reader_open(log->path, &log->reader, err);
    if (result == 0)
        *ret = TAKE(log);
    return result;
}

int runlog_load(struct runlog *log, int64_t budget_ns, struct err *err)
{
    int result = runlog_recover(log, budget_ns, err);

    if (result <= 0)
        return result;
    result = runlog_recover_end(log, err);
    if (result == 0)
        result = runlog_write_output(log, err);
    if (result == 0)
        result = runlog_write_hello(log, err);
    if (result == 0)
        result = runlog_apply_files(log, log->settings.thresholds, err);
    return result < 0 ? result : 1;
}

void runlog_loaded(const struct runlog *log, uint64_t *bytes, uint64_t *of)
{
    struct stat st;

    *bytes = log->reader ? spool_reader_offset(log->reader) : 0;
    *of = stat(log->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* One line for the first fact that the core does not take; others are only counted. */
static int runlog_feed(struct runlog *log, const struct frame *frame, struct err *err)
{
    struct core_counts before, after;
    struct err why = { .text = "" };
    int result;

    if (log->malformed_logged || !log->replay.core)
        return log_replay_fact(&log->replay, frame, err);
    core_counts(log->replay.core, &before);
    result = log_replay_fact(&log->replay, frame, &why);
    core_counts(log->replay.core, &after);
    if (after.malformed > before.malformed) {
        log_error("run %s: frame %llu of type %u is malformed and was not judged; further ones are "
                  "not logged: %s",
                  log->run, (unsigned long long)frame->number, frame->type, why.text);
        log->malformed_logged = true;
    }
    return result < 0 ? err_set(err, result, "%s", why.text) : result;
}

uint64_t runlog_disk(const struct runlog *log)
{
    return spool_writer_bytes(log->writer) +
           (log->compaction ? compaction_bytes(log->compaction) : 0);
}

uint64_t runlog_facts(const struct runlog *log)
{
    return log->replay.facts;
}

int runlog_take(struct runlog *log, const struct frame *frame, size_t count, struct err *err)
{
    int result = runlog_disk_check(log, frame, count, err);

    if (result == 0)
        result = runlog_write_output(log, err);
    if (result == 0)
        result = spool_put_frames(log->writer, frame, count, err);
    if (result < 0)
        return result;
    log->dirty = true;
    log->facts_waiting = true;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (seen_mark(log->settings.seen, &frame[i]) < 0)
            return err_set(err, -ENOMEM, "out of memory for another sender");
        runlog_observe(log, &frame[i], true);
        log->stays += merge_stays(&frame[i]);
        result = runlog_feed(log, &frame[i], err);
        if (result == 0 && i % LOOK_FRAMES == LOOK_FRAMES - 1)
            result = runlog_memory_check(log, err);
    }
    return result < 0 ? result : runlog_memory_check(log, err);
}

void runlog_clock(struct runlog *log, int64_t hello_mono_ns, int64_t hello_real_ns)
{
    int64_t theirs, ours = time_real_ns() - time_mono_ns();

    /* Both say what they take real minus monotonic time for; real time is common to both. */
    if (!__builtin_sub_overflow(hello_real_ns, hello_mono_ns, &theirs))
        __builtin_sub_overflow(ours, theirs, &log->shift_ns);
}

/* Now, by the run's clock. */
static int64_t runlog_mono_ns(const struct runlog *log)
{
    int64_t now_ns;

    if (__builtin_add_overflow(time_mono_ns(), log->shift_ns, &now_ns))
        now_ns = log->tick_mono_ns;
    return MAX(now_ns, log->tick_mono_ns);
}

int runlog_tick(struct runlog *log, uint8_t flags, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_tick tick = { .mono_ns = runlog_mono_ns(log),
                              .real_ns = time_real_ns(),
                              .flags = flags };
    int result = runlog_write_output(log, err);

    if (result < 0)
        return result;
    fact_tick_put(&payload, &tick);
    result = runlog_put_own(log, FRAME_TICK, &payload, err);
    if (result < 0)
        return result;
    log->facts_waiting = false;
    log->ticked_ns = time_mono_ns();
    log->tick_mono_ns = tick.mono_ns;
    result = log_replay_tick(&log->replay, &tick);
    if (result < 0)
        return err_set(err, result, "out of memory for the verdicts");
    return runlog_write_output(log, err);
}

bool runlog_tick_is_due(const struct runlog *log)
{
    if (log->facts_waiting)
        return true;
    /* After the last tick silence is no news. */
    return !log->replay.last && time_mono_ns() - log->ticked_ns >= TICK_AT_LEAST_NS;
}

bool runlog_is_closed(const struct runlog *log)
{
    return log->replay.last;
}

bool runlog_is_dirty(const struct runlog *log)
{
    return log->dirty;
}

int runlog_sync(struct runlog *log, struct err *err)
{
    int result;

    if (!log->dirty)
        return 0;
    result = spool_sync(log->writer, err);
    log->dirty =
        result <
        0; /* what waits for it was not written again: it must not be told that all is well */
    return result;
}

static void runlog_compact_done(struct runlog *log, struct compaction_result *done,
                                struct runlog_shift *ret)
{
    *ret = (struct runlog_shift){ .old_from = done->old_from,
                                  .new_from = done->new_from,
                                  .bytes_before = spool_writer_bytes(log->writer),
                                  .bytes = done->bytes };
    log_replay_fini(&log->replay);
    spool_writer_close(log->writer);
    log->replay = done->replay;
    log->writer = done->writer;
    log->spoke_at = done->bytes;
    log->merged = done->merged;
    log->stays = done->stays;
    log->dirty = false;
}

/* The cost of verdicts is written when they change.  The new judges must know where the old ones stand. */
static int runlog_compact_write_verdicts(struct runlog *log, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_COMPACTION,
                           .version = FRAME_VERSION,
                           .sender = log->replay.self };
    int result = runlog_write_output(log, err);

    fact_compaction_put(&payload, &(struct fact_compaction){ .kind = COMPACTION_VERDICTS });
    if (result == 0)
        result = runlog_put_own(log, FRAME_COMPACTION, &payload, err);
    if (result < 0)
        return result;
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return log_replay_frame(&log->replay, &frame, err);
}

/* Both lie on the disk for a while, so the new one must be a good deal shorter, and fit beside the old one. */
static int runlog_compact_fits(struct runlog *log, uint64_t copied_from, uint64_t bytes_max,
                               struct err *err)
{
    uint64_t bytes = spool_writer_bytes(log->writer);
    uint64_t need = MIN(bytes, log->stays + bytes - copied_from); /* at most */
    int result;

    if (need <= bytes / 4 * 3) {
        result = compaction_space(log->settings.dir->path.text, need, err);
        if (result < 0)
            log->compact_at_ns = time_mono_ns() + COMPACT_AGAIN_NS;
        return result;
    }
    log->compact_from = bytes + bytes_max / 2;
    return err_set(err, -EFBIG, "%llu of its %llu bytes cannot be merged", (unsigned long long)need,
                   (unsigned long long)bytes);
}

static int runlog_compact_begin(struct runlog *log, uint64_t bytes_max, struct err *err)
{
    uint64_t bytes = spool_writer_bytes(log->writer);
    uint64_t copied_from = MAX(log->spoke_at, bytes - MIN(bytes, bytes_max / COPIED_SHARE));
    int result;

    /* What must stay may be more than that: then it is done when half as much has come again. */
    if (bytes < MAX(bytes_max, log->compact_from) || bytes - log->spoke_at < bytes_max / 2 ||
        time_mono_ns() < log->compact_at_ns || log->replay.last)
        return 0;
    result = runlog_compact_fits(log, copied_from, bytes_max, err);
    if (result == 0)
        result = runlog_compact_write_verdicts(log, err);
    if (result < 0)
        return result;
    return compaction_begin(&(struct compaction_settings){ .dir = log->settings.dir,
                                                           .run = log->run,
                                                           .copied_from = copied_from,
                                                           .merged = log->merged },
                            &log->compaction, err);
}

/* What it was begun for is not so: what comes meanwhile cannot be merged either. */
static int runlog_compact_turn(struct runlog *log, uint64_t bytes_max, int64_t budget_ns,
                               struct err *err)
{
    uint64_t bytes = spool_writer_bytes(log->writer);
    int result = compaction_turn(log->compaction, budget_ns, err);

    if (result < 0 || compaction_bytes(log->compaction) <= bytes / 4 * 3 + COMPACT_SLACK)
        return result;
    log->compact_from = bytes + bytes_max / 2;
    return err_set(err, -EFBIG, "too little of its %llu bytes can be merged",
                   (unsigned long long)bytes);
}

int runlog_compact(struct runlog *log, uint64_t bytes_max, int64_t budget_ns,
                   struct runlog_shift *ret, struct err *err)
{
    struct compaction_result done;
    int result = log->compaction ? 0 : runlog_compact_begin(log, bytes_max, err);

    if (result == 0 && log->compaction)
        result = runlog_compact_turn(log, bytes_max, budget_ns, err);
    if (result == 1 && log->replay.queue.count) /* the log does not take it now */
        return 0;
    if (result == 1)
        result = compaction_finish(log->compaction, &done, err) ?: 1;
    if (result == 0)
        return 0;
    if (result == 1)
        runlog_compact_done(log, &done, ret);
    else
        log->compact_at_ns = time_mono_ns() + COMPACT_AGAIN_NS;
    compaction_destroy(log->compaction);
    log->compaction = NULL;
    return result;
}

bool runlog_was_truncated(const struct runlog *log)
{
    return spool_was_truncated(log->writer);
}

bool runlog_node_clock(const struct runlog *log, const char *node, int64_t *offset_ns,
                       int64_t *error_ns)
{
    return log->replay.core && core_node_clock(log->replay.core, node, offset_ns, error_ns);
}

enum core_touch runlog_touch(const struct runlog *log, struct finding *finding)
{
    return log->replay.core ? core_touch(log->replay.core, finding) : CORE_TOUCH_NONE;
}

double runlog_verdict_cost(const struct runlog *log, const char *id)
{
    return log->replay.core ? core_verdict_cost(log->replay.core, id) : -1;
}

void runlog_counts(const struct runlog *log, struct core_counts *ret)
{
    *ret = (struct core_counts){ 0 };
    if (log->replay.core)
        core_counts(log->replay.core, ret);
}
