/* log replay.h - the log through the core once more.
 *
 * The log is: any number of facts, then a TICK in the controller's name, then what the core said at
 * that tick (verdicts, ledgers, in order), then again facts.  The controller's HELLOs may stand
 * anywhere but between a TICK and what was said at it; the first gives the run's name.  Its SETTINGs
 * stand where facts do.  To read it
 * again: feed each frame that is not the controller's, and its SETTINGs; at a TICK call core_tick() with what it
 * says; what comes out must be the frames that follow.
 *
 * A log that was compacted while its run went on begins with an old part and a silent one (carry.h); whoever reads it
 * gets the core that has spoken since then.
 *
 * What the core said and the log does not have yet stays in `said`: a controller that was killed
 * between the TICK and those frames appends them, and goes on as if it had never died.
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

/* What the core has said, first in first out. */
struct output_queue_frame {
    uint16_t type;
    struct buf payload;
};
struct output_queue {
    struct output_queue_frame *frame;
    size_t first, count, room;
    bool failed; /* no memory: something that was said is missing */
};
const struct output_queue_frame *output_queue_first(
    const struct output_queue *said); /* NULL: none */
void output_queue_drop(struct output_queue *said);

enum log_replay_part { /* of a log that was compacted while its run went on (FRAME_COMPACTION) */
    LOG_REPLAY_SPEAKS, /* all of any other log */
    LOG_REPLAY_OLD,    /* steps are gone: the core learns facts, and no ticks */
    LOG_REPLAY_WARM,   /* the core gets everything, and nobody hears it */
};

struct log_replay {
    enum log_replay_part part;
    struct carry carry;
    char run[FACT_NAME];
    struct core *core; /* NULL before the first frame */
    core_watch *watch; /* of the core's steps; NULL: nobody */
    void *watch_arg;
    struct output_queue said;
    uint64_t self; /* the controller's sender id */
    struct fact_tick tick;
    uint64_t ticks, facts, equal;
    uint64_t different;      /* in the log, but the core said something else or nothing */
    uint64_t missing;        /* said by the core, and the log went on without it */
    bool last;               /* the newest tick was the last one */
    struct thresholds filed; /* as settings files said, by the newest SETTINGs in their name */
};
#define LOG_REPLAY_FILE "settings file" /* who, of a SETTING */

void log_replay_init(struct log_replay *replay,
                     const char *run); /* the run's name without a HELLO */
void log_replay_fini(struct log_replay *replay);
int log_replay_frame(struct log_replay *replay, const struct frame *frame, struct err *err);

/* A fact or a tick that is not in a log: the same steps for whoever comes without one. */
int log_replay_fact(struct log_replay *replay, const struct frame *frame, struct err *err);
int log_replay_tick(struct log_replay *replay, const struct fact_tick *tick);

#endif
