/* log_replay.h - feeds a log to the core again.
 *
 * A log is a sequence of facts, then a TICK of the controller, then the output of the core at that tick (verdicts,
 * decisions, ledgers, in order), then facts again.  HELLOs of the controller may be anywhere except between a TICK and its
 * output; the first one names the run.  Its SETTINGs and REQUESTs are among the facts.  To replay a log, feed each frame
 * of other senders and these; at a TICK call core_tick() with its values; the output must be the frames
 * that follow.
 *
 * A log that was compacted while its run was active begins with an old part and a part without output (carry.h); the
 * replay gives the core that wrote the rest of the log.
 *
 * Output of the core that is not yet in the log stays in `queue`: a controller that was killed between a TICK and its
 * output appends it and continues.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_LOG_REPLAY_H
#define LOCKSTEP_CONTROL_LOG_LOG_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/core.h"
#include "control/log/carry.h"
#include "core/buf.h"
#include "core/err.h"
#include "wire/facts.h"
#include "wire/frame.h"

/* The output of the core, first in first out. */
struct output_queue_frame {
    uint16_t type;
    struct buf payload;
};
struct output_queue {
    struct output_queue_frame *frame;
    size_t first, count, room;
    bool failed; /* out of memory: some output is missing */
};
const struct output_queue_frame *output_queue_first(
    const struct output_queue *queue); /* NULL: none */
void output_queue_drop(struct output_queue *queue);

enum log_replay_part { /* of a log that was compacted while its run went on (FRAME_COMPACTION) */
    LOG_REPLAY_SPEAKS, /* all of any other log */
    LOG_REPLAY_OLD,    /* steps are gone: the core learns facts, and no ticks */
    LOG_REPLAY_WARM,   /* the core gets everything, and its output is dropped */
};

struct log_replay {
    enum log_replay_part part;
    struct carry carry;
    char run[FACT_NAME];
    struct core *core; /* NULL before the first frame */
    core_watch *watch; /* of the core's steps; NULL: none */
    void *watch_arg;
    struct output_queue queue;
    uint64_t self; /* the controller's sender id */
    struct fact_tick tick;
    uint64_t ticks, facts, equal;
    uint64_t different; /* in the log, but the output of the core differs or is missing */
    uint64_t missing;   /* output of the core that the log lacks */
    bool last;          /* the newest tick was the last one */
    struct thresholds
        filed; /* values from settings files, by the newest SETTINGs with their name */
};
#define LOG_REPLAY_FILE "settings file" /* who, of a SETTING */

void log_replay_init(struct log_replay *replay,
                     const char *run); /* the run's name without a HELLO */
void log_replay_fini(struct log_replay *replay);
int log_replay_frame(struct log_replay *replay, const struct frame *frame, struct err *err);

/* A fact or a tick that is not in a log, handled in the same way. */
int log_replay_fact(struct log_replay *replay, const struct frame *frame, struct err *err);
int log_replay_tick(struct log_replay *replay, const struct fact_tick *tick);

#endif
