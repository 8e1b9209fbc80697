/* log_follow.c - follows a log and decodes the controller's verdicts and ledgers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/log_follow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "wire/spool.h"

struct log_follow {
    struct rundir dir;
    struct spool_reader *reader; /* NULL while there is no log */
    uint64_t self;
    bool last;      /* the newest tick was the last */
    bool was_alive; /* a writer was running */
    bool read_any;  /* some frame was read */
    bool was_empty; /* the log was empty and had no writer */
    uint64_t inode; /* of the log that is read */
    bool passing;   /* a log that replaced it: its old part was delivered */
};

int log_follow_open(const char *run_dir, struct log_follow **ret, struct err *err)
{
    struct log_follow *follow = calloc(1, sizeof(*follow));
    int result;

    if (!follow)
        return err_nomem(err);
    follow->self = control_sender();
    result = rundir_open(&follow->dir, run_dir, err);
    if (result < 0)
        free(follow);
    else
        *ret = follow;
    return result;
}

void log_follow_close(struct log_follow *follow)
{
    if (!follow)
        return;
    spool_reader_close(follow->reader);
    free(follow);
}

static void follow_output(const struct frame *frame, const struct log_follow_calls *calls)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct ledger ledger;
    struct verdict verdict;

    if (frame->type == FRAME_VERDICT && calls->verdict && verdict_get(in, &verdict) == 0)
        calls->verdict(calls->arg, &verdict);
    if (frame->type == FRAME_LEDGER && calls->ledger && ledger_get(in, &ledger) == 0)
        calls->ledger(calls->arg, &ledger);
}

static uint64_t log_inode(const struct log_follow *follow)
{
    struct stat st;

    return stat(follow->dir.log.text, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* A log that was compacted while it grew has taken the place of the one that was read, to its end. */
static bool follow_changes(struct log_follow *follow)
{
    struct spool_reader *reader;
    uint64_t inode = log_inode(follow);

    if (!inode || inode == follow->inode ||
        spool_reader_open(follow->dir.log.text, &reader, NULL) < 0)
        return false;
    spool_reader_close(follow->reader);
    follow->reader = reader;
    follow->passing = follow->inode != 0;
    follow->inode = inode;
    return true;
}

static bool log_is_passed(const struct frame *frame)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };

    return frame->type == FRAME_COMPACTION &&
           fact_compaction_get(reader_of(frame->payload, frame->payload_bytes), &fact) == 0 &&
           fact.kind == COMPACTION_OUTPUT;
}

static void follow_frame(struct log_follow *follow, const struct frame *frame,
                         const struct log_follow_calls *calls)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_tick tick;
    struct fact_run run;

    follow->read_any = true;
    if (follow->passing) {
        follow->passing = !(frame->sender == follow->self && log_is_passed(frame));
        return;
    }
    if (frame->sender == follow->self) {
        if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
            follow->last = tick.flags & TICK_LAST;
        follow_output(frame, calls);
        return;
    }
    follow->last = false;
    if (frame->type == FRAME_RUN && calls->run && fact_run_get(in, &run) == 0)
        calls->run(calls->arg, &run);
}

/* Asked before the last bytes are read, so that the last output of a dying writer is delivered. */
static bool follow_is_over(struct log_follow *follow, bool controlled)
{
    bool alive = controlled || rundir_is_alive(&follow->dir);

    follow->was_alive = follow->was_alive || alive;
    if (alive || follow->was_alive || !follow->reader)
        return !alive &&
               follow->was_alive; /* before the first writer there is nothing to be over */
    /* A log was left behind.  An empty one may be a writer's who is about to lock it: look twice. */
    if (follow->read_any || follow->was_empty)
        return true;
    follow->was_empty = true;
    return false;
}

int log_follow_read(struct log_follow *follow, const struct log_follow_calls *calls,
                    struct err *err)
{
    bool controlled = rundir_is_controlled(&follow->dir);
    struct frame frame;
    bool over;
    int result;

    if (!follow->reader) {
        follow->inode = log_inode(follow); /* before: what takes its place now is read again */
        result = spool_reader_open(follow->dir.log.text, &follow->reader, err);
        if (result < 0 && result != -ENOENT)
            return result;
    }
    over = follow_is_over(follow, controlled);
    if (!follow->reader)
        return !over;
    do {
        while ((result = spool_next(follow->reader, &frame, err)) == 1)
            follow_frame(follow, &frame, calls);
    } while (result == 0 && follow_changes(follow));
    if (result < 0)
        return err_wrap(err, result, "%s", follow->dir.log.text);
    return !over && !(follow->last && !controlled);
}
