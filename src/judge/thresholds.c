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
    { "straggler.share", AT(straggler_share), 0.03, 0.001, 100, "share",
      "smallest excess over the work of its peers that a rank must show on average; how many steps that takes follows from the noise and detect.false-alarms" },
    { "straggler.least-excess", AT(straggler_least_excess), 0.3, 0, 60000, "ms",
      "smallest excess of a rank's work that counts; clocks and 16-bit durations are not much more precise" },
    { "straggler.cost-share", AT(straggler_cost_share), 0.01, 0, 1, "share",
      "smallest share of the step that a straggler must cost the job; a lower cost is not worth a verdict" },
    { "straggler.cpu-share", AT(straggler_cpu_share), 0.4, 0, 1, "share",
      "share of the excess that the rank spent runnable but without a CPU, from which the layer is cpu" },
    { "straggler.late-steps", AT(straggler_late_steps), 10, 3, 64, "steps",
      "consecutive steps in which the same rank is last in all collectives, where there are no device times; with two ranks, chance causes this once in 500 windows" },
    { "straggler.late-share", AT(straggler_late_share), 0.05, 0, 1, "share",
      "smallest share of the step that the others wait for the last rank; ranks always differ a little, and some rank is always last" },
    { "imbalance.data-explained", AT(imbalance_data_explained), 0.6, 0, 1, "share",
      "smallest share of the differences between ranks that token counts and squared sequence lengths must explain" },
    { "imbalance.data-share", AT(imbalance_data_share), 0.03, 0, 1, "share",
      "smallest share of the step that uneven sequences must cost; a lower cost does not justify packing them differently" },
    { "imbalance.stage-heavier", AT(imbalance_stage_heavier), 1.10, 1, 100, "times",
      "ratio of a stage's work to the mean stage that is clear after four steps" },
    { "imbalance.stage-slightly", AT(imbalance_stage_slightly), 1.03, 1, 100, "times",
      "ratio of a stage's work to the mean stage that is clear after twelve steps; the device compute of a whole stage varies little" },
    { "imbalance.stage-share", AT(imbalance_stage_share), 0.01, 0, 1, "share",
      "smallest share of the step that would be saved if the stage had as much work as the others; a lower cost is not worth a verdict" },
    { "imbalance.stay-share", AT(imbalance_stay_share), 0.6, 0, 1, "share",
      "share of the imbalance limits above which an open verdict stays open" },
    { "input.cost-share", AT(input_cost_share), 0.03, 0.001, 1, "share",
      "smallest share of the step that devices wait for batches, over twelve steps; three times this share is clear after three steps" },
    { "input.times", AT(input_times), 3, 1, 1000, "times",
      "smallest ratio of a rank's wait to that of its peers, from which its loader is late although theirs are late as well; of two slow loaders the later one hides part of the other's wait" },
    { "input.host-share", AT(input_host_share), 0.10, 0.001, 1, "share",
      "the same limit where there are no device times; device work may hide part of the wait" },
    { "input.stay-share", AT(input_stay_share), 0.6, 0, 1, "share",
      "share of the lowest limit above which an open verdict stays open" },
    { "input.cpu-share", AT(input_cpu_share), 0.5, 0, 1, "share",
      "share of the wait that was spent runnable but without a CPU, from which the input is not blamed" },
    { "input.long-wait", AT(input_long_wait), 60, 0.1, 1000000, "s",
      "wait for one batch that is long enough for a verdict without a second late batch" },
    { "stall.major-faults", AT(stall_major_faults), 50, 1, 1000000000, "faults",
      "pages read from storage per step by a waiting rank, from which the layer is storage" },
    { "hang.least-limit", AT(hang_least_limit), 10, 1, 86400, "s",
      "shortest wait in one operation that counts as a hang; slow batches and bursts of page faults cause shorter waits" },
    { "hang.step-times", AT(hang_step_times), 3, 1, 1000, "times",
      "multiple of the p99 step of this shape that a wait must exceed; where steps are long, normal waits are long too" },
    { "hang.late-limit", AT(hang_late_limit), 600, 1, 604800, "s",
      "limit before training is warm, in init, comm-init, compile, checkpoint and evaluation, and for a rank that works; their durations vary widely" },
    { "hang.warm-steps", AT(hang_warm_steps), 3, 1, 1000, "steps",
      "complete steps of an attempt before a typical step is known" },
    { "hang.burns", AT(hang_burns), 0.5, 0, 1024, "times",
      "CPU use, in CPUs, above which a rank counts as slow and not as hung" },
    { "hang.stuck-share", AT(hang_stuck_share), 0.5, 0, 1, "share",
      "share of the limit for which a culprit must have made no progress; the others do not wait for a rank that moved since" },
    { "hang.look", AT(hang_look), 1, 0.1, 60, "s",
      "time between two snapshots, of which two in a row must be equal; beats arrive once a second" },
    { "corrupt.frozen-updates", AT(corrupt_frozen_updates), 8, 1, 1000000, "steps",
      "steps with an optimizer after which parameters must have changed; loss scaling skips a few updates" },
    { "corrupt.nan-steps", AT(corrupt_nan_steps), 3, 1, 1000, "steps",
      "consecutive steps with a gradient norm that is not finite; loss scaling skips single such steps and continues" },
    { "corrupt.jump-share", AT(corrupt_jump_share), 1, 0, 1000, "share",
      "smallest rise of a rank's loss or norm, as a share of its typical value; differences between batches are smaller" },
    { "corrupt.jump-noises", AT(corrupt_jump_noises), 12, 1, 1000, "times",
      "smallest rise as a multiple of the deviation of the rank's own values, for jobs with noisy losses" },
    { "corrupt.jump-steps", AT(corrupt_jump_steps), 3, 1, 1000, "steps",
      "steps that a jump must last; a single high value is a hard batch" },
    { "checkpoint.times", AT(checkpoint_times), 2.5, 1, 1000, "times",
      "ratio to the median of the run's earlier checkpoints, twice in a row; storage varies, and one slow checkpoint may be chance" },
    { "checkpoint.clear-times", AT(checkpoint_clear_times), 5, 1, 1000, "times",
      "ratio to that median from which one checkpoint is enough if it is also more than a step longer; applies to evaluations too" },
    { "checkpoint.least-steps", AT(checkpoint_least_steps), 0.3, 0, 1000, "steps",
      "smallest excess over the usual duration, in steps; short pauses vary by large factors and cost little" },
    { "checkpoint.least", AT(checkpoint_least), 0.05, 0, 60000, "ms",
      "shortest pause that counts as a checkpoint or evaluation; a shorter phase had nothing to do" },
    { "checkpoint.cost-share", AT(checkpoint_cost_share), 0.10, 0.001, 1, "share",
      "smallest share of the time that all checkpoints take together; planned checkpoints that cost less are not a fault" },
    { "eval.cost-share", AT(eval_cost_share), 0.25, 0.001, 1, "share",
      "smallest share of the time that devices are idle in evaluations; evaluations are intended, so the limit is high" },
    { "startup.late", AT(startup_late), 60, 0.1, 100000, "s",
      "delay of a rank's first step after that of the median rank; image pulls differ by less" },
    { "startup.most", AT(startup_most), 900, 1, 1000000, "s",
      "longest time to the first step; large jobs without a fault take ten minutes" },
    { "startup.times", AT(startup_times), 3, 1, 1000, "times",
      "ratio to the time that the previous attempt took to its first step; a restart finds warm caches" },
    { "sync.cost-share", AT(sync_cost_share), 0.02, 0, 1, "share",
      "smallest share of the step that a replay with the earlier transfers must save; transfers hidden behind compute cost nothing" },
    { "sync.host-share", AT(sync_host_share), 0.10, 0, 1, "share",
      "the same limit where there are no device times; hosts move data while they compute, and the end of a transfer is known late" },
    { "sync.cpu-share", AT(sync_cpu_share), 0.5, 0, 1, "share",
      "share of the cost that hosts spent runnable but without a CPU, from which the network is not blamed; there the hosts move the data" },
    { "straggler.gpu-share", AT(straggler_gpu_share), 0.5, 0, 1, "share",
      "share of the excess that is device compute, from which the layer is gpu" },
    { "straggler.one-phase", AT(straggler_one_phase), 0.85, 0, 1, "share",
      "share of the excess in one host phase, where there are no device times, from which that phase's code is blamed" },
    { "regress.share", AT(regress_share), 0.05, 0.001, 10, "share",
      "smallest slowdown of all ranks, as a share of the step; jobs vary by less without a cause" },
    { "regress.stepped", AT(regress_stepped), 0.6, 0.1, 1, "share",
      "share of the growth that occurs within two windows of eight steps, from which the slowdown is sudden and not gradual" },
    { "crash.settle", AT(crash_settle), 1, 0, 600, "s",
      "time to wait for further exits after the first; related exits arrive within it, and a longer wait only delays the verdict" },
    { "crash.near", AT(crash_near), 5, 0, 600, "s",
      "time between two exits within which signals and messages decide which caused the other, and not their order; a rank that dumps core exits late" },
    { "crash.same", AT(crash_same), 50, 0, 60000, "ms",
      "time between two exits below which their order is unknown" },
    { "hang.fresh", AT(hang_fresh), 5, 1, 600, "s",
      "age of a rank's last beat up to which it shows the rank's current operation; a rank without a recent beat is not named" },
    { "corrupt.least-values", AT(corrupt_least_values), 8, 2, 1000, "steps",
      "steps with a loss or norm before a jump can be detected; the typical value is not known earlier" },
    { "corrupt.risen-share", AT(corrupt_risen_share), 0.33, 0, 1, "share",
      "share of a jump's limit from which another rank counts as affected too; each rank estimates its noise from few values, so their limits differ" },
    { "sync.bytes-alike", AT(sync_bytes_alike), 0.05, 0, 1, "share",
      "largest change of a link's bytes with which its earlier durations still count; rounding and partial last batches cause such changes" },
    { "checkpoint.least-usual", AT(checkpoint_least_usual), 2, 1, 100, "times",
      "earlier pauses that must be known before one is longer than usual; with fewer, its ratio to them must be the square of checkpoint.clear-times" },
    { "checkpoint.least-share", AT(checkpoint_least_share), 4, 1, 32, "times",
      "earlier pauses that must be known before their share of the time is judged" },
    { "cpu.share", AT(cpu_share), 0.06, 0, 100, "share",
      "smallest growth of the step, as a share of it, from which a lack of CPUs is reported; without longer steps it does no harm" },
    { "cpu.wait-share", AT(cpu_wait_share), 0.4, 0, 1, "share",
      "smallest share of the slowdown that a rank must have waited for a CPU; a shorter wait does not explain it" },
    { "cpu.few-nodes", AT(cpu_few_nodes), 8, 1, 1e6, "nodes",
      "nodes beyond which each doubling requires half a lost step more; among many nodes some are always briefly busy" },
    { "imbalance.data-steps", AT(imbalance_data_steps), 6, 3, 30, "steps",
      "steps over which sequence lengths must explain the waiting; single batches are uneven by chance" },
    { "imbalance.stage-steps", AT(imbalance_stage_steps), 4, 2, 30, "steps",
      "steps over which a stage must have more work; the split is permanent, so a few steps show it" },
    { "imbalance.slight-steps", AT(imbalance_slight_steps), 12, 2, 30, "steps",
      "steps over which a stage must have slightly more work; more steps are needed to exclude noise" },
    { "imbalance.looks", AT(imbalance_looks), 64, 1, 1e6, "steps",
      "steps over which the gain of a better split is averaged; after that many, the average follows the newest steps" },
    { "imbalance.fit-steps", AT(imbalance_fit_steps), 16, 2, 32, "steps",
      "steps from which the cost of sequence lengths is learned; enough for batches to differ" },
    { "imbalance.fit-least", AT(imbalance_fit_least), 16, 3, 4096, "times",
      "steps of single ranks with known sequence lengths that are needed before lengths explain anything" },
    { "imbalance.vary-share", AT(imbalance_vary_share), 0.01, 0, 1, "share",
      "smallest relative deviation of sequence lengths; smaller differences have no effect" },
    { "sync.settles", AT(sync_settles), 4, 1, 1000, "steps",
      "consecutive steps that show the same node, before a verdict without a node names it" },
    { "sync.clear-share", AT(sync_clear_share), 0.5, 0, 1, "share",
      "share of the worst excess below which a slow link is ignored; a slow link also makes other links uneven" },
    { "storage.looks", AT(storage_looks), 2, 1, 1000, "times",
      "samples in which one rank waits for storage, and half of all samples of all ranks, that set the layer to storage; one may be chance, and an agent samples its ranks at the same moment" },
    { "storage.fade", AT(storage_fade), 0.8, 0, 0.99, "share",
      "share of the weight of earlier samples of a loader that remains after a second; about five seconds count" },
    { "startup.reason-share", AT(startup_reason_share), 0.5, 0, 1, "share",
      "smallest share of a rank's delay that a phase must explain to be its reason" },
    { "startup.beat-most", AT(startup_beat_most), 5, 0.1, 600, "s",
      "longest time that one beat counts for the phase that it shows; a longer gap between beats does not show what was done" },
    { "verdict.warm-up", AT(verdict_warm_up), 2, 0, 1000, "steps",
      "first steps of an attempt that are not judged; they are never typical" },
    { "detect.false-alarms", AT(detect_false_alarms), 0.1, 1e-6, 1000, "times",
      "false alarms that are accepted in one job and week, of all its series together; decides how much evidence a rise needs" },
    { "verdict.look", AT(verdict_look), 100, 1, 60000, "ms",
      "time within which steps are one observation; a node holds up a process for tens of milliseconds at a time, which several short steps show" },
    { "verdict.close-after", AT(verdict_close_after), 8, 1, 100000, "steps",
      "steps without the fault after which its verdict closes" },
    { "verdict.flaps-most", AT(verdict_flaps_most), 5, 0, 16, "times",
      "times that this number of steps is doubled for a fault that returns repeatedly; such a fault is reported once" },
    { "verdict.after-restart", AT(verdict_after_restart), 16, 0, 100000, "steps",
      "additional steps after a restart from an earlier step, within which the fault of an open verdict must be seen again" },
    { "verdict.base-steps", AT(verdict_base_steps), 8, 2, 16, "steps",
      "steps after the warm-up that define what is typical; later steps only lower it, so that a slow degradation is still detected" },
    { "verdict.noise-steps", AT(verdict_noise_steps), 20, 4, 32, "steps",
      "steps over which the noise of single steps is measured; noise is measured over time, so that a permanent straggler does not raise it" },
    { "clock.wall", AT(clock_wall), 2, 0, 60000, "ms",
      "largest difference between a node's wall clock and the time that collectives show; beyond it the clock is not synchronized" },
    { "learn.prompt", AT(learn_prompt), 1, 0, 60000, "ms",
      "time after its launch within which a starting operation may have been delayed by the host" },
    { "learn.pace-least", AT(learn_pace_least), 8, 2, 1e6, "times",
      "times that a point of the program must be seen, on any rank, before its timing shows whether the host waits there; until then it is taken to wait" },
    { "learn.pace-clear", AT(learn_pace_clear), 2, 1, 1000, "times",
      "ratio of the two variances that is conclusive; the host waits for the event after which its own time varies less" },
    { "ledger.data-explained", AT(ledger_data_explained), 0.5, 0, 1, "share",
      "smallest share of the differences between ranks that sequence lengths must explain to be booked as imbalance" },
    { "ledger.typical-least", AT(ledger_typical_least), 4, 1, 32, "steps",
      "steps from before the lack of CPUs that are needed to know how long a step should have taken" },
    { "replay.fit-share", AT(replay_fit_share), 0.02, 0.0001, 0.5, "share",
      "largest difference between a step and its replay, as a share of the step; beyond it no rank is blamed and no cost is computed" },
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
      "longest time before a fault at which a line about the node may be its cause; older events would have had an effect earlier" },
    { "kernel.before-pid", AT(kernel_before_pid), 900, 0, 86400, "s",
      "the same for a line that names the process; a process that waits for a failed device gives up after minutes" },
    { "kernel.after-crash", AT(kernel_after_crash), 10, 0, 86400, "s",
      "time after a crash within which the kernel may still log the cause" },
    { "kernel.after", AT(kernel_after), 600, 0, 86400, "s",
      "time after any other open verdict within which the kernel may log the cause; it waits for minutes before it reports a disk or a task" },
    { "kernel.unwatched", AT(kernel_unwatched), 172800, 0, 1e7, "s",
      "largest distance of a kernel log line from a job that was not observed; its date may lack the zone and the year" },
    { "kernel.fault-after", AT(kernel_fault_after), 60, 0, 86400, "s",
      "time after an observation of a node until it is reported as a fault of the node, if no rank is hurt; what hurts shows within some steps" },
    { "kernel.fault-lasts", AT(kernel_fault_lasts), 3600, 0, 1e7, "s",
      "time for which a fault of a node lasts after its newest observation" },
    { "diff.alike", AT(diff_alike), 0.5, 0, 1, "share",
      "share of the largest growth between two runs from which a rank belongs to the same group" },
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
