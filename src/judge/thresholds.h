/* thresholds.h - from which numbers on the judges speak: one table for files, the API and the page.
 *
 * A judge state has its own copy, set to the defaults; a FRAME_SETTING in the log changes one of them, so that
 * a replay judges every step by what held when it was first judged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_THRESHOLDS_H
#define LOCKSTEP_JUDGE_THRESHOLDS_H

#include <stddef.h>

#include "core/err.h"

struct thresholds { /* thresholds.c says what each means, and why it is what it is */
    double verdict_least_cost, verdict_clear_cost, verdict_least_slowdown, verdict_least_time;
    double verdict_explains, verdict_times, verdict_warm_up, verdict_steps, verdict_look;
    double verdict_noise_steps;
    double verdict_flaps_most, detect_false_alarms, replay_fit_share;
    double straggler_late_steps, straggler_one_phase, imbalance_steps, imbalance_fit;
    double cpu_few_nodes, sync_settles, stall_major_faults, storage_looks, wait_long;
    double checkpoint_clear_times, checkpoint_least_steps, eval_cost_share, startup_most;
    double hang_least_limit, hang_late_limit, hang_burns, hang_look, beat_fresh;
    double corrupt_steps, corrupt_jump_share, corrupt_jump_noises;
    double crash_settle, crash_near, crash_same;
    double clock_wall, learn_prompt, learn_pace_clear;
    double dumps_unseen_share, dumps_near_end, traces_straggles, traces_fit;
    double kernel_round, kernel_before, kernel_late, kernel_after_crash, kernel_unwatched;
    double kernel_fault_lasts;
};

struct threshold {
    const char *name; /* "verdict.least-cost"; NULL ends the table */
    size_t offset;    /* in struct thresholds */
    double value;     /* unless somebody changes it */
    double low, high; /* inclusive; beyond them the judge would say nothing, or anything */
    const char *unit; /* "share", "times", "steps", "ms", "s" */
    const char *why;
};
extern const struct threshold thresholds_table[];

void thresholds_default(struct thresholds *ret);
const struct threshold *thresholds_find(const char *name); /* NULL: there is none */
double thresholds_get(const struct thresholds *thresholds, const struct threshold *row);
/* -ENOENT: no such name; -ERANGE: out of bounds; the sentence says what there is. */
int thresholds_set(struct thresholds *thresholds, const char *name, double value, struct err *err);

#endif
