/* replay.h - run a step again, with durations of our choosing.
 *
 * A program is a list of ops.  Ops of one line (a rank's host, its compute stream, one
 * of its communication streams) run one after the other in the order given.  An op
 * starts at the latest of: the end of the op before it on its line, the ends of its
 * dependencies, and the arrival of the peers it truly waits for.  It ends its
 * duration later.
 *
 * The peers: ops with the same `meet` number are one collective or one pair of
 * point-to-point.  A member arrives when its line and its dependencies let it; one
 * that waits starts its transfer only when every member that gives has arrived.
 *
 * A program is made once per shape and run many times.  Runs touch no memory but what
 * they are given.  Ops may be given in any order, but making a program is twice and
 * a run three to four times as fast when the same op of all ranks that do the same stands side
 * by side (op 7 of every rank, then op 8 of every rank): then times are read as they lie in
 * memory.  Rank by rank, each duration is in another page than the one before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_REPLAY_REPLAY_H
#define LOCKSTEP_JUDGE_REPLAY_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define REPLAY_NONE UINT32_MAX

/* Of a member in its meet. */
enum replay_role {
    REPLAY_WAITS = 1, /* starts only when all that give have arrived */
    REPLAY_GIVES = 2, /* those that wait need its arrival */
    REPLAY_BOTH = 3,
};

struct replay_op {
    uint32_t line;   /* any number; small ones cost least, here and for meets */
    uint32_t meet;   /* REPLAY_NONE: alone */
    uint32_t dep[2]; /* indices of ops in any order; REPLAY_NONE: none */
    uint8_t role;    /* enum replay_role; ignored when alone */
};

struct replay;

/* -ELOOP when the ops wait for each other in a circle (err names one of them),
 * -EINVAL for an index out of range, -ENOMEM.
 */
int replay_create(const struct replay_op *op, size_t count, struct replay **ret, struct err *err);
void replay_destroy(struct replay *replay);

/* Durations by op, in nanoseconds, none below 0.  Returns when the last op ends.  `end_ns`, if not
 * NULL, gets each op's end, `arrive_ns` each op's arrival (end - duration - waiting for peers).
 * `scratch` is replay_scratch_bytes() of memory as malloc() gives it, which nobody else uses
 * meanwhile.
 */
size_t replay_scratch_bytes(const struct replay *replay);
int64_t replay_run(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                   int64_t *end_ns, int64_t *arrive_ns);

/* After a run, with its durations and scratch: by how much each op could grow before the step does
 * (0: on a critical path).  One backward pass.
 */
void replay_slack(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                  int64_t *slack_ns);

#endif
