/* thresholds.c - the table: what each number limits, and why it has this default.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/thresholds.h"

#include <errno.h>
#include <string.h>

#define AT(field) offsetof(struct thresholds, field)

/* clang-format off */
const struct threshold thresholds_table[] = {
    { "verdict.least-cost", AT(verdict_least_cost), 0.03, 0.001, 1, "share",
      "smallest share of the step that slowness of any kind must cost; a rank's work must exceed that of its peers by as much, and a lower cost is not worth a verdict" },
    { "verdict.clear-cost", AT(verdict_clear_cost), 0.10, 0, 1, "share",
      "the same where something else may explain the cost: waits and transfers without device times, which device work may hide, and checkpoints, which are planned" },
    { "verdict.least-slowdown", AT(verdict_least_slowdown), 0.05, 0.001, 10, "share",
      "the same where only the job's own past, the order in which ranks arrive, or a rank's host time without device times shows the slowness: jobs vary by less without a cause, some rank is always last, and one of them may log" },
    { "verdict.least-time", AT(verdict_least_time), 0.3, 0, 60000, "ms",
      "shortest excess and shortest pause that count; clocks and 16-bit durations are not much more precise" },
    { "verdict.explains", AT(verdict_explains), 0.5, 0, 1, "share",
      "share of an effect that something must account for to be its explanation: waiting for a CPU, device compute, sequence lengths, one phase, one jump, one group of ranks" },
    { "verdict.times", AT(verdict_times), 3, 1, 1000, "times",
      "ratio from which something takes many times as long: a pause, twice in a row, as the earlier ones; a rank's wait for a batch as that of its peers; a start as the previous one; a wait in one operation as the p99 step of its shape" },
    { "verdict.warm-up", AT(verdict_warm_up), 2, 0, 1000, "steps",
      "first steps of an attempt that are not judged, and first pauses of a kind that do not show what is usual; they are never typical" },
    { "verdict.steps", AT(verdict_steps), 8, 2, 16, "steps",
      "steps that show what is usual, so many without the fault after which its verdict closes, and so many with an optimizer after which parameters must have changed" },
    { "verdict.noise-steps", AT(verdict_noise_steps), 20, 4, 32, "steps",
      "steps over which the noise of single steps is measured; over more of them what moves from rank to rank counts as noise" },
    { "verdict.look", AT(verdict_look), 100, 1, 60000, "ms",
      "time within which steps are one observation; a node holds up a process for tens of milliseconds at a time, which several short steps show" },
    { "verdict.flaps-most", AT(verdict_flaps_most), 5, 0, 16, "times",
      "times that this number of steps is doubled for a fault that returns repeatedly; such a fault is reported once" },
    { "detect.false-alarms", AT(detect_false_alarms), 0.1, 1e-6, 1000, "times",
      "false alarms that are accepted in one job and week, of all its series together; decides how much evidence a rise needs" },
    { "replay.fit-share", AT(replay_fit_share), 0.02, 0.0001, 0.5, "share",
      "largest difference between a step and its replay, as a share of the step; beyond it no rank is blamed and no cost is computed" },
    { "straggler.late-steps", AT(straggler_late_steps), 10, 3, 64, "steps",
      "consecutive steps in which the same rank is last in all collectives, where there are no device times; with two ranks, chance causes this once in 500 windows" },
    { "straggler.one-phase", AT(straggler_one_phase), 0.85, 0, 1, "share",
      "share of the excess in one host phase, where there are no device times, from which that phase's code is blamed" },
    { "imbalance.steps", AT(imbalance_steps), 12, 4, 30, "steps",
      "steps over which uneven work that costs no more than verdict.least-cost must be seen; what costs more needs fewer, down to a third of them" },
    { "imbalance.fit", AT(imbalance_fit), 16, 3, 32, "steps",
      "steps from which the cost of sequence lengths is learned, and steps of single ranks with known lengths that it takes; enough for batches to differ" },
    { "cpu.few-nodes", AT(cpu_few_nodes), 8, 1, 1e6, "nodes",
      "nodes beyond which each doubling requires half a lost step more; among many nodes some are always briefly busy" },
    { "sync.settles", AT(sync_settles), 4, 1, 1000, "steps",
      "consecutive steps that show the same node, before a verdict without a node names it" },
    { "stall.major-faults", AT(stall_major_faults), 50, 1, 1000000000, "faults",
      "pages read from storage per step by a waiting rank, from which the layer is storage" },
    { "storage.looks", AT(storage_looks), 2, 1, 1000, "times",
      "samples in which one rank waits for storage, and half of all samples of all ranks, that set the layer to storage; one may be chance, and an agent samples its ranks at the same moment" },
    { "wait.long", AT(wait_long), 60, 0.1, 1000000, "s",
      "wait that is long whatever is usual: for one batch, or of a rank for its first step after that of the median rank; image pulls differ by less" },
    { "checkpoint.clear-times", AT(checkpoint_clear_times), 5, 1, 1000, "times",
      "ratio to that median from which one checkpoint is enough if it is also more than a step longer; applies to evaluations too" },
    { "checkpoint.least-steps", AT(checkpoint_least_steps), 0.3, 0, 1000, "steps",
      "smallest excess over the usual duration, in steps; short pauses vary by large factors and cost little" },
    { "eval.cost-share", AT(eval_cost_share), 0.25, 0.001, 1, "share",
      "smallest share of the time that devices are idle in evaluations; evaluations are intended, so the limit is high" },
    { "startup.most", AT(startup_most), 900, 1, 1000000, "s",
      "longest time to the first step; large jobs without a fault take ten minutes" },
    { "hang.least-limit", AT(hang_least_limit), 10, 1, 86400, "s",
      "shortest wait in one operation that counts as a hang; slow batches and bursts of page faults cause shorter waits" },
    { "hang.late-limit", AT(hang_late_limit), 600, 1, 604800, "s",
      "limit before training is warm, in init, comm-init, compile, checkpoint and evaluation, and for a rank that works; their durations vary widely" },
    { "hang.burns", AT(hang_burns), 0.5, 0, 1024, "times",
      "CPU use, in CPUs, above which a rank counts as slow and not as hung" },
    { "hang.look", AT(hang_look), 1, 0.1, 60, "s",
      "time between two snapshots, of which two in a row must be equal; beats arrive once a second" },
    { "beat.fresh", AT(beat_fresh), 5, 0.1, 600, "s",
      "age of a rank's last beat up to which it shows what the rank does; a rank without a recent beat is not named" },
    { "corrupt.steps", AT(corrupt_steps), 3, 1, 1000, "steps",
      "consecutive steps that a jump, or a gradient norm that is not finite, must last; loss scaling skips single steps, and a single high value is a hard batch" },
    { "corrupt.jump-share", AT(corrupt_jump_share), 1, 0, 1000, "share",
      "smallest rise of a rank's loss or norm, as a share of its typical value; differences between batches are smaller" },
    { "corrupt.jump-noises", AT(corrupt_jump_noises), 12, 1, 1000, "times",
      "smallest rise as a multiple of the deviation of the rank's own values, for jobs with noisy losses" },
    { "crash.settle", AT(crash_settle), 1, 0, 600, "s",
      "time to wait for further exits after the first; related exits arrive within it, and a longer wait only delays the verdict" },
    { "crash.near", AT(crash_near), 5, 0, 600, "s",
      "time between two exits within which signals and messages decide which caused the other, and not their order; a rank that dumps core exits late" },
    { "crash.same", AT(crash_same), 50, 0, 60000, "ms",
      "time between two exits below which their order is unknown" },
    { "clock.wall", AT(clock_wall), 2, 0, 60000, "ms",
      "largest difference between a node's wall clock and the time that collectives show; beyond it the clock is not synchronized" },
    { "learn.prompt", AT(learn_prompt), 1, 0, 60000, "ms",
      "time after its launch within which a starting operation may have been delayed by the host" },
    { "learn.pace-clear", AT(learn_pace_clear), 2, 1, 1000, "times",
      "ratio of the two variances that is conclusive; the host waits for the event after which its own time varies less" },
    { "dumps.unseen-share", AT(dumps_unseen_share), 0.25, 0, 1, "share",
      "largest share of ranks without a dump for which these ranks are named; if more are missing, the dumps were not all collected" },
    { "dumps.near-end", AT(dumps_near_end), 16, 1, 1e6, "ops",
      "operations before the newest one that all ranks entered that may be incomplete, where no states are known; older ones count as completed" },
    { "traces.straggles", AT(traces_straggles), 1.1, 1, 100, "times",
      "ratio to the ideal step from which a job or a rank of a profiler trace is a straggler" },
    { "traces.fit", AT(traces_fit), 1.1, 1, 100, "times",
      "largest ratio of a traced step to its replay; beyond it the trace contains something that the replay does not model" },
    { "kernel.round", AT(kernel_round), 2, 0, 3600, "s",
      "largest error of the time of a kernel log line; most logs have whole seconds" },
    { "kernel.before", AT(kernel_before), 60, 0, 86400, "s",
      "longest time between an observation of a node and the harm that it does: before a fault such a line may be its cause, and after so long without harm it is a fault of the node alone" },
    { "kernel.late", AT(kernel_late), 900, 0, 86400, "s",
      "the same where a line names the process, and after an open verdict that is no crash; the kernel, and a process that waits for a failed device, give up after minutes" },
    { "kernel.after-crash", AT(kernel_after_crash), 10, 0, 86400, "s",
      "time after a crash within which the kernel may still log the cause" },
    { "kernel.unwatched", AT(kernel_unwatched), 172800, 0, 1e7, "s",
      "largest distance of a kernel log line from a job that was not observed; its date may lack the zone and the year" },
    { "kernel.fault-lasts", AT(kernel_fault_lasts), 3600, 0, 1e7, "s",
      "time for which a fault of a node lasts after its newest observation" },
    { .name = NULL },
};
/* clang-format on */

static double *threshold_at(struct thresholds *thresholds, const struct threshold *row)
{
    return (double *)((char *)thresholds + row->offset);
}

void thresholds_default(struct thresholds *ret)
{
    for (const struct threshold *row = thresholds_table; row->name; row++)
        *threshold_at(ret, row) = row->value;
}

const struct threshold *thresholds_find(const char *name)
{
    for (const struct threshold *row = thresholds_table; row->name; row++) {
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

double thresholds_get(const struct thresholds *thresholds, const struct threshold *row)
{
    return *(const double *)((const char *)thresholds + row->offset);
}

int thresholds_set(struct thresholds *thresholds, const char *name, double value, struct err *err)
{
    const struct threshold *row = thresholds_find(name);

    if (!row)
        return err_set(err, -ENOENT, "no threshold '%s'", name);
    if (!(value >= row->low && value <= row->high)) /* no number at all is refused, too */
        return err_set(err, -ERANGE, "threshold %s %g: expected %g to %g %s", name, value, row->low,
                       row->high, row->unit);
    *threshold_at(thresholds, row) = value;
    return 0;
}
