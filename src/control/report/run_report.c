/* run_report.c - one pass over a run, from its log, from its spools, or from both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/run_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "control/report/report_builder.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

/* Ticks in the facts' own time, as often as a controller's: one that came later would miss a hang that was ended
 * as soon as its limit was reached. */
#define TICK_NS (100 * NS_PER_MS)
#define TICK_FACTS 100000u      /* or after so many facts without a time */
#define SILENT_TICK_NS NS_PER_S /* while no facts come */
#define SILENT_TICKS 600 /* of one silence; a verdict not reached by then is not reached later */

struct run_report {
    struct rundir dir;
    struct report_builder builder;
    struct log_replay replay;
    struct spools *spools;
    uint64_t log_frames;
    int64_t now_ns, ticked_ns; /* real time, as the facts tell it */
    uint64_t facts_waiting;
    bool last;           /* the newest tick of the log was the last */
    bool ledger_follows; /* it is followed by a ledger, as the books are when closed */
    bool judge;          /* the core is run */
};

static void run_report_clean(struct run_report *report)
{
    spools_destroy(report->spools);
    log_replay_fini(&report->replay);
    report_builder_fini(&report->builder);
}

static int run_report_take_output(struct run_report *report, struct err *err)
{
    const struct output_queue_frame *output;

    while ((output = output_queue_first(&report->replay.queue))) {
        int result = report_builder_output(&report->builder, output->type,
                                           reader_of(output->payload.data, output->payload.size));

        if (result < 0)
            return err_nomem(err);
        output_queue_drop(&report->replay.queue);
    }
    return 0;
}

static void run_report_watch_end(struct run_report *report, const struct frame *frame)
{
    struct fact_tick tick;

    if (frame->sender != report->replay.self) {
        report->last = false;
    } else if (frame->type == FRAME_TICK &&
               fact_tick_get(reader_of(frame->payload, frame->payload_bytes), &tick) == 0) {
        report->last = tick.flags & TICK_LAST;
        report->ledger_follows = false;
        report->now_ns = report->ticked_ns = tick.real_ns;
    } else if (frame->type == FRAME_LEDGER) {
        report->ledger_follows = true;
    }
}

/* A frame of the log.  When the core is run, its new output counts, not the output in the log. */
static int run_report_log_frame(struct run_report *report, const struct frame *frame,
                                struct err *err)
{
    bool is_output = frame->sender == report->replay.self &&
                     (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER ||
                      frame->type == FRAME_DECISION);
    int result = 0;

    report->log_frames++;
    run_report_watch_end(report, frame);
    if (!is_output || !report->judge)
        result = report_builder_frame(&report->builder, frame);
    if (result < 0)
        return err_nomem(err);
    if (!report->judge || is_output)
        return 0;
    if (frame->sender != report->replay.self) {
        if (spools_mark(report->spools, frame) < 0)
            return err_nomem(err);
        report->facts_waiting++;
    } else if (frame->type == FRAME_TICK) {
        report->facts_waiting = 0;
    }
    result = log_replay_frame(&report->replay, frame, err);
    return result < 0 && result != -EPROTO ? result : run_report_take_output(report, err);
}

static int run_report_read_log(struct run_report *report, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    int result = spool_reader_open(report->dir.log.text, &reader, err);
    struct frame frame;

    if (result < 0)
        return result == -ENOENT ? 0 : result;
    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1)
        result = run_report_log_frame(report, &frame, err);
    if (result < 0)
        return err_wrap(err, result, "%s", report->dir.log.text);
    report->builder.summary.damaged_bytes += spool_reader_damaged(reader);
    return 0;
}

static int run_report_tick(struct run_report *report, int64_t now_ns, uint8_t flags,
                           struct err *err)
{
    struct fact_tick tick = { .real_ns = now_ns, .flags = flags };
    const struct fact_tick *before = &report->replay.tick;
    int64_t offset_ns = spools_clock_offset(report->spools);

    if (report->replay.ticks) /* the controller's clock, if there was one */
        offset_ns = before->real_ns - before->mono_ns;
    tick.mono_ns = now_ns - offset_ns;
    report->ticked_ns = now_ns;
    report->facts_waiting = 0;
    if (log_replay_tick(&report->replay, &tick) < 0)
        return err_nomem(err);
    return run_report_take_output(report, err);
}

/* The facts so far are judged soon after the last of them, not when the next one comes. */
static int run_report_catch_up(struct run_report *report, int64_t next_ns, struct err *err)
{
    int result = 0;

    if (report->facts_waiting && next_ns - report->ticked_ns >= TICK_NS)
        result = run_report_tick(report, MAX(report->ticked_ns + TICK_NS, report->now_ns), 0, err);
    for (int i = 0;
         i < SILENT_TICKS && result == 0 && next_ns - report->ticked_ns >= SILENT_TICK_NS; i++)
        result = run_report_tick(report, report->ticked_ns + SILENT_TICK_NS, 0, err);
    if (result == 0 && next_ns > report->now_ns)
        report->now_ns = next_ns;
    if (result == 0 &&
        (next_ns - report->ticked_ns >= SILENT_TICK_NS || report->facts_waiting >= TICK_FACTS))
        result = run_report_tick(report, report->now_ns, 0, err);
    return result;
}

static int run_report_spool_frame(struct run_report *report, const struct frame *frame,
                                  int64_t real_ns, struct err *err)
{
    int result;

    if (report->ticked_ns == 0)
        report->ticked_ns = report->now_ns = MAX(report->now_ns, real_ns);
    result = run_report_catch_up(report, real_ns, err);
    if (result == 0 && report_builder_frame(&report->builder, frame) < 0)
        return err_nomem(err);
    if (result == 0)
        result = log_replay_fact(&report->replay, frame, err);
    report->facts_waiting++;
    return result == 0 && spools_take(report->spools) < 0 ? err_nomem(err) : result;
}

/* What the log does not have.  Returns how many frames that was. */
static int64_t run_report_read_spools(struct run_report *report, struct err *err)
{
    struct spools_counts counts;
    struct frame frame;
    int64_t count = 0, real_ns;
    int result = spools_scan(report->spools, err);

    while (result == 0 && spools_peek(report->spools, &frame, &real_ns) == 1) {
        result = run_report_spool_frame(report, &frame, real_ns, err);
        count++;
    }
    spools_counts(report->spools, &counts);
    report->builder.summary.damaged_bytes += counts.damaged_bytes;
    return result < 0 ? result : count;
}

/* The second way: the core reads all, and closes the run unless a writer is still running. */
static int run_report_judge(struct run_report *report, bool alive, struct err *err)
{
    int64_t count;
    int result;

    report->judge = true;
    if (spools_create(report->dir.spool.text, NULL, &report->spools) < 0)
        return err_nomem(err);
    result = run_report_read_log(report, err);
    if (result < 0)
        return result;
    count = run_report_read_spools(report, err);
    if (count < 0)
        return (int)count;
    report->builder.summary.source =
        report->log_frames ? RUN_SUMMARY_LOG_SPOOLS : RUN_SUMMARY_SPOOLS;
    if (report->replay.last && count == 0)
        return 0;
    return run_report_tick(report, report->now_ns, alive ? 0 : TICK_LAST, err);
}

static int run_report_open(struct run_report *report, const char *run_dir, bool every_state,
                           struct err *err)
{
    int result = rundir_open(&report->dir, run_dir, err);

    if (result < 0)
        return result;
    log_replay_init(&report->replay, report->dir.run);
    report_builder_init(&report->builder, report->dir.run, every_state);
    return 0;
}

static int run_report_fill(const char *run_dir, bool every_state, bool again,
                           struct run_summary *ret, struct err *err)
{
    CLEAN(run_report_clean) struct run_report report = { 0 };
    int result = run_report_open(&report, run_dir, every_state, err);
    bool controlled, alive;

    if (result < 0)
        return result;
    controlled = rundir_is_controlled(&report.dir);
    alive = controlled || rundir_is_alive(&report.dir);
    result = run_report_read_log(&report, err);
    if (result == 0 && !controlled && (again || !(report.last && report.ledger_follows))) {
        run_report_clean(&report);
        report = (struct run_report){ 0 };
        result = run_report_open(&report, run_dir, every_state, err);
        if (result == 0)
            result = run_report_judge(&report, alive, err);
    }
    if (result == -ENOMEM)
        return err_wrap(err, result, "run %s", report.dir.run);
    if (result < 0)
        return result;
    report.builder.summary.alive = alive;
    if (again && report.last)
        report.builder.summary.source = RUN_SUMMARY_LOG;
    return report_builder_take(&report.builder, ret) < 0 ? err_nomem(err) : 0;
}

int run_report_read(const char *run_dir, bool every_state, struct run_summary *ret, struct err *err)
{
    return run_report_fill(run_dir, every_state, false, ret, err);
}

int run_report_judge_again(const char *run_dir, bool every_state, struct run_summary *ret,
                           struct err *err)
{
    return run_report_fill(run_dir, every_state, true, ret, err);
}

int run_report_watch(const char *run_dir, core_watch *watch, void *arg,
                     struct environments *environments, struct err *err)
{
    CLEAN(run_report_clean) struct run_report report = { 0 };
    int result = run_report_open(&report, run_dir, false, err);

    if (result < 0)
        return result;
    report.replay.watch = watch;
    report.replay.watch_arg = arg;
    result = run_report_judge(&report, false, err);
    if (result == 0 && environments) {
        *environments = report.builder.environments;
        report.builder.environments = (struct environments){ 0 };
    }
    return result == -ENOMEM ? err_wrap(err, result, "run %s", report.dir.run) : result;
}

void run_report_fini(struct run_summary *summary)
{
    free(summary->verdict);
    summary->verdict = NULL;
    summary->verdicts = 0;
}

int run_report_replay(const char *run_dir, struct run_report_replay *ret, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    CLEAN(log_replay_fini) struct log_replay replay = { 0 };
    struct rundir dir;
    struct frame frame;
    int result = rundir_open(&dir, run_dir, err);

    if (result == 0)
        result = spool_reader_open(dir.log.text, &reader, err);
    if (result < 0)
        return result;
    log_replay_init(&replay, dir.run);
    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1) {
        if (frame.type == FRAME_MERGED && frame.sender == replay.self &&
            replay.part == LOG_REPLAY_SPEAKS)
            return err_set(err, -ENODATA, "%s was compacted, so it cannot be replayed",
                           dir.log.text);
        result = log_replay_frame(&replay, &frame, err);
    }
    if (result < 0)
        return err_wrap(err, result, "%s", dir.log.text);
    if (!replay.ticks)
        return err_set(err, -ENODATA, "%s has no tick, so there is nothing to replay",
                       dir.log.text);
    /* The output of the last tick may be missing in the log. */
    *ret = (struct run_report_replay){ .facts = replay.facts,
                                       .ticks = replay.ticks,
                                       .equal = replay.equal,
                                       .different = replay.different,
                                       .missing = replay.missing };
    return 0;
}
