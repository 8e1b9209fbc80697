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
    double straggler_share, straggler_least_excess, straggler_cost_share;
    double straggler_cpu_share;

    double imbalance_data_explained, imbalance_data_share, imbalance_stage_heavier;
    double imbalance_stage_slightly, imbalance_stage_share, imbalance_stay_share;
    double input_cost_share, input_times, input_host_share, input_stay_share;
    double input_cpu_share, input_long_wait, stall_major_faults;
    double checkpoint_times, checkpoint_clear_times, checkpoint_least_steps, checkpoint_cost_share;
    double sync_cost_share, sync_host_share, sync_cpu_share;
    double eval_cost_share, startup_late, startup_most, startup_times;
    double hang_least_limit, hang_step_times, hang_late_limit, hang_warm_steps, hang_burns;
    double corrupt_frozen_updates, corrupt_nan_steps;
    double corrupt_jump_share, corrupt_jump_noises, corrupt_jump_steps;
    double straggler_gpu_share, straggler_one_phase;
    double regress_share, regress_stepped;
    double crash_settle, crash_near, verdict_close_after, verdict_warm_up, replay_fit_share;
    double verdict_look, detect_false_alarms;
    double corrupt_least_values, corrupt_risen_share, hang_fresh, sync_bytes_alike;
    double checkpoint_least_usual, checkpoint_least_share;
    double cpu_share, cpu_few_nodes, cpu_wait_share;

    double imbalance_data_steps, imbalance_stage_steps, imbalance_slight_steps;
    double sync_settles, sync_clear_share, storage_looks, storage_fade, startup_reason_share;
    double verdict_base_steps, verdict_noise_steps, verdict_flaps_most, verdict_after_restart;
    double checkpoint_least, startup_beat_most;
    double straggler_late_steps, straggler_late_share;
    double crash_same, hang_look, hang_stuck_share;
    double imbalance_looks, imbalance_fit_steps, imbalance_fit_least, imbalance_vary_share;
    double ledger_data_explained, ledger_typical_least;
    double dumps_unseen_share, dumps_near_end, traces_straggles, traces_fit, diff_alike;
    double kernel_round, kernel_before, kernel_before_pid, kernel_after_crash, kernel_after,
        kernel_unwatched, kernel_fault_after, kernel_fault_lasts;
    double learn_prompt, learn_pace_least, learn_pace_clear, clock_wall;
};

struct threshold {
    const char *name; /* "straggler.cost-share"; NULL ends the table */
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
