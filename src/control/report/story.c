/* story.c - one pass over a run, from its log, from its spools, or from both. */
#include "control/report/story.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "control/report/gather.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

/* Ticks in the facts' own time, as often as a controller's: one that came later would miss a hang that was ended
 * as soon as its limit was reached. */
#define TICK_NS (100 * NS_PER_MS)
#define TICK_FACTS 100000u      /* or after so many facts without a time */
#define SILENT_TICK_NS NS_PER_S /* while no facts come */
#define SILENT_TICKS 600 /* of one silence; a verdict not reached by then is not reached later */

struct story {
    struct rundir dir;
    struct gather gather;
    struct log_replay replay;
    struct spools *spools;
    uint64_t log_frames;
    int64_t now_ns, ticked_ns; /* real time, as the facts tell it */
    uint64_t facts_waiting;
    bool last;           /* the newest tick of the log was the last */
    bool ledger_follows; /* it is followed by a ledger, as the books are when closed */
    bool judge;          /* the core is run */
};

static void story_clean(struct story *story)
{
    spools_destroy(story->spools);
    log_replay_fini(&story->replay);
    gather_fini(&story->gather);
}

static void reader_clean(struct spool_reader **reader)
{
    spool_reader_close(*reader);
}

static int story_take_output(struct story *story)
{
    const struct output_queue_frame *said;

    while ((said = output_queue_first(&story->replay.said))) {
        int result = gather_output(&story->gather, said->type,
                                   reader_of(said->payload.data, said->payload.size));

        if (result < 0)
            return result;
        output_queue_drop(&story->replay.said);
    }
    return 0;
}

static void story_watch_end(struct story *story, const struct frame *frame)
{
    struct fact_tick tick;

    if (frame->sender != story->replay.self) {
        story->last = false;
    } else if (frame->type == FRAME_TICK &&
               fact_tick_get(reader_of(frame->payload, frame->payload_bytes), &tick) == 0) {
        story->last = tick.flags & TICK_LAST;
        story->ledger_follows = false;
        story->now_ns = story->ticked_ns = tick.real_ns;
    } else if (frame->type == FRAME_LEDGER) {
        story->ledger_follows = true;
    }
}

/* A frame of the log.  When the core is run, what it says now counts, not what it said then. */
static int story_log_frame(struct story *story, const struct frame *frame, struct err *err)
{
    bool said = frame->sender == story->replay.self &&
                (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER);
    int result = 0;

    story->log_frames++;
    story_watch_end(story, frame);
    if (!said || !story->judge)
        result = gather_frame(&story->gather, frame);
    if (result < 0 || !story->judge || said)
        return result;
    if (frame->sender != story->replay.self) {
        result = spools_mark(story->spools, frame);
        story->facts_waiting++;
    } else if (frame->type == FRAME_TICK) {
        story->facts_waiting = 0;
    }
    if (result == 0)
        result = log_replay_frame(&story->replay, frame, err);
    return result < 0 && result != -EPROTO ? result : story_take_output(story);
}

static int story_read_log(struct story *story, struct err *err)
{
    CLEAN(reader_clean) struct spool_reader *reader = NULL;
    int result = spool_reader_open(story->dir.log.text, &reader, err);
    struct frame frame;

    if (result < 0)
        return result == -ENOENT ? 0 : result;
    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1)
        result = story_log_frame(story, &frame, err);
    if (result < 0)
        return err_wrap(err, result, "%s", story->dir.log.text);
    story->gather.account.damaged_bytes += spool_reader_damaged(reader);
    return 0;
}

static int story_tick(struct story *story, int64_t now_ns, uint8_t flags)
{
    struct fact_tick tick = { .real_ns = now_ns, .flags = flags };
    const struct fact_tick *before = &story->replay.tick;
    int64_t offset_ns = spools_clock_offset(story->spools);
    int result;

    if (story->replay.ticks) /* the controller's clock, if there was one */
        offset_ns = before->real_ns - before->mono_ns;
    tick.mono_ns = now_ns - offset_ns;
    story->ticked_ns = now_ns;
    story->facts_waiting = 0;
    result = log_replay_tick(&story->replay, &tick);
    return result < 0 ? result : story_take_output(story);
}

/* The facts so far are judged soon after the last of them, not when the next one comes. */
static int story_catch_up(struct story *story, int64_t next_ns)
{
    int result = 0;

    if (story->facts_waiting && next_ns - story->ticked_ns >= TICK_NS)
        result = story_tick(story, MAX(story->ticked_ns + TICK_NS, story->now_ns), 0);
    for (int i = 0; i < SILENT_TICKS && result == 0 && next_ns - story->ticked_ns >= SILENT_TICK_NS;
         i++)
        result = story_tick(story, story->ticked_ns + SILENT_TICK_NS, 0);
    if (result == 0 && next_ns > story->now_ns)
        story->now_ns = next_ns;
    if (result == 0 &&
        (next_ns - story->ticked_ns >= SILENT_TICK_NS || story->facts_waiting >= TICK_FACTS))
        result = story_tick(story, story->now_ns, 0);
    return result;
}

static int story_spool_frame(struct story *story, const struct frame *frame, int64_t real_ns,
                             struct err *err)
{
    int result;

    if (story->ticked_ns == 0)
        story->ticked_ns = story->now_ns = MAX(story->now_ns, real_ns);
    result = story_catch_up(story, real_ns);
    if (result == 0)
        result = gather_frame(&story->gather, frame);
    if (result == 0)
        result = log_replay_fact(&story->replay, frame, err);
    story->facts_waiting++;
    return result < 0 ? result : spools_take(story->spools);
}

/* What the log does not have.  Returns how many frames that was. */
static int64_t story_read_spools(struct story *story, struct err *err)
{
    struct spools_counts counts;
    struct frame frame;
    int64_t count = 0, real_ns;
    int result = spools_scan(story->spools, err);

    while (result == 0 && spools_peek(story->spools, &frame, &real_ns) == 1) {
        result = story_spool_frame(story, &frame, real_ns, err);
        count++;
    }
    spools_counts(story->spools, &counts);
    story->gather.account.damaged_bytes += counts.damaged_bytes;
    return result < 0 ? result : count;
}

/* The second way: the core reads all, and closes the books unless somebody is still at work. */
static int story_judge(struct story *story, bool alive, struct err *err)
{
    int64_t count;
    int result;

    story->judge = true;
    result = spools_create(story->dir.spool.text, &story->spools);
    if (result == 0)
        result = story_read_log(story, err);
    if (result < 0)
        return result;
    count = story_read_spools(story, err);
    if (count < 0)
        return (int)count;
    story->gather.account.source = story->log_frames ? ACCOUNT_LOG_SPOOLS : ACCOUNT_SPOOLS;
    if (story->replay.last && count == 0)
        return 0;
    return story_tick(story, story->now_ns, alive ? 0 : TICK_LAST);
}

static int story_open(struct story *story, const char *run_dir, bool every_state, struct err *err)
{
    int result = rundir_open(&story->dir, run_dir, err);

    if (result < 0)
        return result;
    log_replay_init(&story->replay, story->dir.run);
    gather_init(&story->gather, story->dir.run, every_state);
    return 0;
}

int story_read(const char *run_dir, bool every_state, struct account *ret, struct err *err)
{
    CLEAN(story_clean) struct story story = { 0 };
    int result = story_open(&story, run_dir, every_state, err);
    bool controlled, alive;

    if (result < 0)
        return result;
    controlled = rundir_is_controlled(&story.dir);
    alive = controlled || rundir_is_alive(&story.dir);
    result = story_read_log(&story, err);
    if (result == 0 && !controlled && !(story.last && story.ledger_follows)) {
        story_clean(&story);
        story = (struct story){ 0 };
        result = story_open(&story, run_dir, every_state, err);
        if (result == 0)
            result = story_judge(&story, alive, err);
    }
    if (result == -ENOMEM)
        return err_set(err, result, "run %s: no memory to tell it", story.dir.run);
    if (result < 0)
        return result;
    story.gather.account.alive = alive;
    return gather_take(&story.gather, ret);
}

int story_watch(const char *run_dir, core_watch *watch, void *arg, struct err *err)
{
    CLEAN(story_clean) struct story story = { 0 };
    int result = story_open(&story, run_dir, false, err);

    if (result < 0)
        return result;
    story.replay.watch = watch;
    story.replay.watch_arg = arg;
    result = story_judge(&story, false, err);
    return result == -ENOMEM ? err_set(err, result, "run %s: no memory to read it", story.dir.run)
                             : result;
}

void story_fini(struct account *account)
{
    free(account->verdict);
    account->verdict = NULL;
    account->verdicts = 0;
}

int story_replay(const char *run_dir, struct story_replay *ret, struct err *err)
{
    CLEAN(reader_clean) struct spool_reader *reader = NULL;
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
            return err_set(err, -ENODATA, "%s was compacted: its steps cannot be judged again",
                           dir.log.text);
        result = log_replay_frame(&replay, &frame, err);
    }
    if (result < 0)
        return err_wrap(err, result, "%s", dir.log.text);
    if (!replay.ticks)
        return err_set(err, -ENODATA, "%s: no tick in it, nothing to replay", dir.log.text);
    /* What was said at the very last tick may not have been written, or not yet. */
    *ret = (struct story_replay){ .facts = replay.facts,
                                  .ticks = replay.ticks,
                                  .equal = replay.equal,
                                  .different = replay.different,
                                  .missing = replay.missing };
    return 0;
}
