/* core_private.h - shared by the files of the core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_CORE_PRIVATE_H
#define LOCKSTEP_CONTROL_CORE_PRIVATE_H

#include "control/core.h"
#include "control/run_facts.h"
#include "control/step_wait.h"
#include "core/map.h"
#include "judge/state.h"

#define CORE_PENDING_MAX 256 /* steps that wait for ranks */

struct core {
    core_watch *watch; /* NULL: none */
    void *watch_arg;
    struct judge_state judge;
    struct policy *policy;
    struct core_counts counts;
    struct step_wait pending[CORE_PENDING_MAX]; /* ordered by step, oldest first */
    uint32_t pendings;
    size_t pending_bytes;
    uint64_t done_step; /* steps up to here have been judged in this attempt; plus one */
    uint32_t claimed;   /* the largest reported world */
    struct map seen;    /* ranks that opened a ring or ended: so many of it are believed in */
    struct run_facts facts;
    struct buf early;      /* frames of ranks beyond the world that is believed in so far */
    uint32_t ledger_ranks; /* that the run began with */
    bool run_known;
    int64_t begin_ns; /* of the run, by its clock */
    int64_t over_ns;  /* its end, once it is closed; 0: it goes on */
    uint32_t away;    /* ranks left out since the workers were restarted with a smaller world */
    uint32_t unseen;  /* ranks that have left no ring in this attempt, and are not waited for */
    int64_t attempt_end_ns; /* of this attempt; 0: it goes on */
    uint32_t announced; /* the launcher's next attempt, of which there is no fact yet; 0: none */
    int64_t announced_ns;
    int64_t end_ns;  /* of the run; 0: it goes on */
    int64_t exit_ns; /* newest end of a rank, by the run's clock; 0: none */
    int64_t ledger_ns;
};

/* core.c */
int core_feed_frame(struct core *core, const struct frame *frame);

/* core_world.c: attempts, and the ranks that take part */
void core_attempt_begin(struct core *core, uint32_t attempt, int64_t mono_ns);
void core_attempt_announce(struct core *core, uint32_t attempt,
                           int64_t mono_ns);                  /* by the launcher */
void core_attempt_reach(struct core *core, uint32_t attempt); /* a fact of that attempt has come */
void core_attempt_tick(struct core *core, int64_t now_ns, bool last);
bool core_workers_restarted(const struct core *core, const struct fact_ring *fact);
void core_workers_restart(struct core *core, const struct fact_ring *fact);
void core_world_begin(struct core *core, uint32_t ranks, int64_t mono_ns); /* the run begins */
/* Counts the rank of a FRAME_RING or FRAME_EXIT: it may be the one that makes others accepted. */
int core_world_feed(struct core *core, const struct frame *frame);
int core_world_grow(struct core *core); /* to the ranks that are accepted now */
bool core_frame_is_early(const struct core *core, const struct frame *frame);
int core_early_keep(struct core *core, const struct frame *frame);

/* core_steps.c: steps that wait until all ranks have sent theirs */
int core_feed_step(struct core *core, struct reader in);
void core_steps_judge(struct core *core, int64_t now_ns); /* those that are complete */
void core_steps_clear(struct core *core);
void core_steps_give_up(struct core *core); /* as core_steps_clear(), and counts them as partial */

/* core_findings.c: what nodes observed */
int core_feed_known(struct core *core, const struct frame *frame);
/* To the verdicts they explain. */
void core_join_findings(struct core *core, int64_t real_ns, bool last);

/* core_decisions.c: the core and its policy */
int core_feed_request(struct core *core, struct reader in);
int core_feed_policy(struct core *core, struct reader in);
int core_feed_member(struct core *core, struct reader in);
int core_feed_means(struct core *core, struct reader in);
void core_take_finding(struct core *core, const struct frame *frame);
void core_take_outcome(struct core *core, const struct frame *frame);
void core_emit_decisions(struct core *core, const struct fact_tick *now, bool last, core_emit *emit,
                         void *arg);

#endif
