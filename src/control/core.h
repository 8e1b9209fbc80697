/* core.h - the controller without the outside world: frames and a `now` in, verdicts out.
 *
 * The live server, a log replay (`why --replay`) and tests feed it in the same way.  It reads no clock, file or
 * socket; the same frames and ticks in the same order give the same output bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_CORE_H
#define LOCKSTEP_CONTROL_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "judge/thresholds.h"
#include "policy/policy.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/frame.h"

struct core;

/* What the core has to say: a FRAME_VERDICT (opened, changed or closed) or FRAME_DECISION, of which the last one of an id
 * counts, or a FRAME_LEDGER (the last one counts).
 */
typedef void core_emit(void *arg, uint16_t type, const struct buf *payload);

int core_create(const char *run, struct core **ret);
void core_destroy(struct core *core);
/* Memory that it holds, about: what its facts made it keep. */
size_t core_bytes(const struct core *core);

/* Takes one fact.  -EPROTO: the payload is malformed (counted, err says what); the core is as
 * before.  Frames of types it does not know, and its own kinds (tick, verdict, decision, ledger), are ignored.
 */
int core_feed(struct core *core, const struct frame *frame, struct err *err);

/* Judges what has come in so far.  Call it after each batch of frames and at least once a second.
 * `last`: the run is over and no frame will come any more; verdicts are closed, the ledger is final.
 */
void core_tick(struct core *core, const struct fact_tick *now, int last, core_emit *emit,
               void *arg);

/* While the log that is read is an old part, which lacks ticks: the core decides nothing, and learns what was decided. */
void core_follow(struct core *core, bool follow);
void core_follow_log(struct core *core, const struct decision *decision);
const struct policy *core_policy(const struct core *core); /* to ask it */

/* Called with each whole step after the judges have looked at it: for who wants more than verdicts. */
struct judge_state;
struct job_step;
typedef void core_watch(void *arg, const struct judge_state *judge,
                        const struct job_step *job_step);
void core_watch_steps(struct core *core, core_watch *watch, void *arg);

void core_report_open(
    struct core *core); /* the next tick writes all open verdicts, changed or not */
/* GPU-seconds that an open verdict has cost up to now: the log has what it had cost when it was last written.  -1: no open one has this id. */
double core_verdict_cost(const struct core *core, const char *id);
void core_ledger(const struct core *core, struct ledger *ret); /* as it stands */
const struct thresholds *core_thresholds(const struct core *core);

/* What is added to the times of a node to have the run's clock, and how far off that can be, from the collectives.
 * False: nothing bounds it (yet), or there is no such node.
 */
bool core_node_clock(const struct core *core, const char *node, int64_t *offset_ns,
                     int64_t *error_ns);

enum core_touch {
    CORE_TOUCH_NONE,
    CORE_TOUCH_NODE, /* ranks run, or ran, on its node */
    CORE_TOUCH_PID,  /* it names the process of a rank */
};
struct finding;
/* Which ranks a finding touches: their numbers are set in it. */
enum core_touch core_touch(const struct core *core, struct finding *finding);

struct run_facts;

struct core_counts { /* for the log and `why --json` */
    uint64_t frames, malformed, steps_complete, steps_partial, gap_records, gap_steps, unfit_steps;
};
void core_counts(const struct core *core, struct core_counts *ret);

#endif
