/* thresholds.c - the table: what each number means, and why it is what it is. */
#include "judge/thresholds.h"

#include <errno.h>
#include <string.h>

#define AT(field) offsetof(struct thresholds, field)

/* clang-format off */
const struct threshold thresholds_table[] = {
    { "straggler.least-history", AT(straggler_least_history), 5, 3, 1000, "steps",
      "before so many steps of an attempt nobody is suspected: the first ones are never typical" },
    { "straggler.least-excess", AT(straggler_least_excess), 0.3, 0, 60000, "ms",
      "nothing finer is anyone's business: clocks and 16-bit times are not much better" },
    { "straggler.cost-share", AT(straggler_cost_share), 0.01, 0, 1, "share",
      "of the step; a straggler that costs everybody less is not worth a word" },
    { "straggler.stay-share", AT(straggler_stay_share), 0.6, 0, 1, "share",
      "of the lowest limit: an open verdict stays while so much remains, or it would come and go" },
    { "straggler.cpu-share", AT(straggler_cpu_share), 0.4, 0, 1, "share",
      "of the excess spent ready to run but without a cpu: then the layer is cpu" },
    { "cpu.pressure-least", AT(cpu_pressure_least), 0.04, 0, 1, "share",
      "of time ready to run but without a cpu, above the node's typical share" },
    { "cpu.pressure-times", AT(cpu_pressure_times), 2, 1, 1000, "times",
      "the node's typical share: machines that are always a little short are not news" },
    { "cpu.slower", AT(cpu_slower), 1.06, 1, 100, "times",
      "the typical period: without slower steps scarce cpus hurt nobody" },
    { "cpu.host-share", AT(cpu_host_share), 0.4, 0, 1, "share",
      "of the slowdown that must be host time which devices waited for" },
    { "cpu.worst-share", AT(cpu_worst_share), 0.5, 0, 1, "share",
      "of the worst node's pressure: where all suffer, the worst are named" },
    { "cpu.strong-least", AT(cpu_strong_least), 0.25, 0, 1, "share",
      "of time without a cpu: so high that one slow step is enough" },
    { "cpu.strong-slower", AT(cpu_strong_slower), 1.10, 1, 100, "times",
      "the typical period, in that one step" },
    { "cpu.stay-share", AT(cpu_stay_share), 0.5, 0, 1, "share",
      "of these limits: an open verdict stays while so much remains" },
    { "imbalance.data-explained", AT(imbalance_data_explained), 0.6, 0, 1, "share",
      "of the spread between ranks that tokens and squared lengths must explain" },
    { "imbalance.data-share", AT(imbalance_data_share), 0.03, 0, 1, "share",
      "of the step; uneven sequences that cost less are not worth packing anew" },
    { "imbalance.stage-heavier", AT(imbalance_stage_heavier), 1.10, 1, 100, "times",
      "the mean stage: so much that four steps are enough" },
    { "imbalance.stage-slightly", AT(imbalance_stage_slightly), 1.03, 1, 100, "times",
      "the mean stage, over twelve steps: device compute of a whole stage is a quiet number" },
    { "imbalance.stage-share", AT(imbalance_stage_share), 0.01, 0, 1, "share",
      "of the step that it must be longer by than were the stage as the others; less is not worth a word" },
    { "imbalance.stay-share", AT(imbalance_stay_share), 0.6, 0, 1, "share",
      "of these limits: an open verdict stays while so much remains" },
    { "input.cost-share", AT(input_cost_share), 0.03, 0.001, 1, "share",
      "of the step that devices idle for batches, over twelve steps; three times that is clear after three" },
    { "input.times", AT(input_times), 2, 1, 1000, "times",
      "what the same ranks waited in the run's first steps: what was always so needs more to be news" },
    { "input.always-share", AT(input_always_share), 0.05, 0.001, 1, "share",
      "of the step, where it was so from the first steps on and no better past proves that it can be less" },
    { "input.host-share", AT(input_host_share), 0.10, 0.001, 1, "share",
      "the same where no device tells its times: some of the wait may be hidden behind it" },
    { "input.stay-share", AT(input_stay_share), 0.6, 0, 1, "share",
      "of the lowest limit: an open verdict stays while so much remains" },
    { "input.cpu-share", AT(input_cpu_share), 0.5, 0, 1, "share",
      "of the wait that was spent ready to run but without a cpu: then it is not the input's" },
    { "input.long-wait", AT(input_long_wait), 60, 0.1, 1000000, "s",
      "for one batch: so long that no second one is needed to say it" },
    { "stall.major-faults", AT(stall_major_faults), 50, 1, 1000000000, "faults",
      "of pages read from storage a step, on a rank that waits: then the layer is storage" },
    { "hang.least-limit", AT(hang_least_limit), 10, 1, 86400, "s",
      "waiting in one operation; below this it is everyday life: a slow batch, a page fault storm" },
    { "hang.step-times", AT(hang_step_times), 3, 1, 1000, "times",
      "the p99 step of this shape: where steps are long, so is ordinary waiting" },
    { "hang.late-limit", AT(hang_late_limit), 600, 1, 604800, "s",
      "before training is warm, in init, comm-init, compile, checkpoint and evaluation, and of a rank that works: their own pace" },
    { "hang.warm-steps", AT(hang_warm_steps), 3, 1, 1000, "steps",
      "whole steps of an attempt before anything is typical" },
    { "hang.burns", AT(hang_burns), 0.5, 0, 1024, "times",
      "one CPU: who uses more is slow, not hung" },
    { "corrupt.frozen-updates", AT(corrupt_frozen_updates), 8, 1, 1000000, "steps",
      "with an optimizer after which parameters must have changed: scaled losses skip a few of them" },
    { "corrupt.nan-steps", AT(corrupt_nan_steps), 3, 1, 1000, "steps",
      "in a row with a gradient norm that is not finite: scaled losses skip such a step and go on" },
    { "corrupt.jump-share", AT(corrupt_jump_share), 1, 0, 1000, "share",
      "of a rank's typical loss or norm by which it must rise: batches differ, but not by that much" },
    { "corrupt.jump-noises", AT(corrupt_jump_noises), 12, 1, 1000, "times",
      "the deviation of a rank's own values, for jobs whose losses are noisy" },
    { "corrupt.jump-steps", AT(corrupt_jump_steps), 3, 1, 1000, "steps",
      "that a jump must last: a single one is a hard batch" },
    { "checkpoint.times", AT(checkpoint_times), 2.5, 1, 1000, "times",
      "the median of the run's earlier ones, twice in a row: storage is moody, one may be unlucky" },
    { "checkpoint.clear-times", AT(checkpoint_clear_times), 5, 1, 1000, "times",
      "that median, and more than a step longer: then one is enough; evaluations alike" },
    { "checkpoint.least-steps", AT(checkpoint_least_steps), 0.3, 0, 1000, "steps",
      "by which it must be longer than usual: short ones vary by many times and nobody is hurt" },
    { "checkpoint.cost-share", AT(checkpoint_cost_share), 0.10, 0.001, 1, "share",
      "of the time, all checkpoints together: a planned one that costs less is no fault" },
    { "eval.cost-share", AT(eval_cost_share), 0.25, 0.001, 1, "share",
      "of the time that devices idle in evaluations: they are wanted, so only much is said" },
    { "startup.late", AT(startup_late), 60, 0.1, 100000, "s",
      "by which a rank begins its first step after the median rank; image pulls differ by less" },
    { "startup.most", AT(startup_most), 900, 1, 1000000, "s",
      "until the first step: large jobs take ten minutes when all goes well" },
    { "startup.times", AT(startup_times), 3, 1, 1000, "times",
      "what the attempt before took to its first step: a restart finds caches warm" },
    { "sync.times", AT(sync_times), 1.5, 1.01, 1000, "times",
      "what the same transfers of the same bytes took before, over ten steps; twice the rise is clear after three" },
    { "sync.least", AT(sync_least), 0.2, 0, 60000, "ms",
      "of transfer a step: of shorter ones many times as much is still nothing" },
    { "sync.cost-share", AT(sync_cost_share), 0.02, 0, 1, "share",
      "of the step that its replay must win with transfers as before: what compute hides hurts nobody" },
    { "sync.host-share", AT(sync_host_share), 0.10, 0, 1, "share",
      "the same where no device tells its times: hosts move the data while they compute, and when a transfer ended is known late" },
    { "sync.stay-share", AT(sync_stay_share), 0.6, 0, 1, "share",
      "of the rise: an open verdict stays while so much remains" },
    { "sync.cpu-share", AT(sync_cpu_share), 0.5, 0, 1, "share",
      "of the cost that hosts spent ready to run but without a cpu: where they move the data it is not the network's" },
    { "straggler.share-3", AT(straggler_share_3), 0.12, 0, 100, "share",
      "of its peers' work by which a rank must be slower in three steps: a device that takes 1.25 times as long is clear by then" },
    { "straggler.share-6", AT(straggler_share_6), 0.07, 0, 100, "share",
      "the same over six steps: what is less needs more of them" },
    { "straggler.share-10", AT(straggler_share_10), 0.05, 0, 100, "share",
      "over ten steps: 1.10 times dilutes to this where half of the step is shared work" },
    { "straggler.share-18", AT(straggler_share_18), 0.035, 0, 100, "share",
      "over eighteen steps: the least that is called slow; below it only a trend counts" },
    { "straggler.noises-3", AT(straggler_noises_3), 8, 0, 1000, "times",
      "the noise of single steps, that excess of three steps: three bad steps in a row are rare, but ranks are many" },
    { "straggler.noises-6", AT(straggler_noises_6), 5, 0, 1000, "times",
      "the same over six steps" },
    { "straggler.noises-10", AT(straggler_noises_10), 4, 0, 1000, "times",
      "over ten steps: a median of so many moves by a third of what single steps do" },
    { "straggler.noises-18", AT(straggler_noises_18), 4, 0, 1000, "times",
      "over eighteen steps" },
    { "straggler.gpu-share", AT(straggler_gpu_share), 0.5, 0, 1, "share",
      "of the excess that is device compute: then the layer is gpu" },
    { "straggler.one-phase", AT(straggler_one_phase), 0.85, 0, 1, "share",
      "of the excess in one phase of the host, where no device tells its times: then it is that phase's code" },
    { "straggler.hit-share", AT(straggler_hit_share), 0.12, 0.001, 100, "share",
      "of its peers' work by which a rank is slow in a single step, for those that come and go: as for three in a row" },
    { "straggler.hit-noises", AT(straggler_hit_noises), 8, 0, 1000, "times",
      "the noise of single steps, the same" },
    { "straggler.recurs", AT(straggler_recurs), 4, 2, 16, "times",
      "that a rank becomes slow anew within 32 steps: fewer may be chance" },
    { "straggler.recurs-window", AT(straggler_recurs_window), 24, 8, 32, "steps",
      "of an attempt before those that come and go are told from those that stay" },
    { "straggler.recurs-most", AT(straggler_recurs_most), 0.6, 0, 1, "share",
      "of the steps: who is slow in more does not come and go" },
    { "straggler.recurs-stay", AT(straggler_recurs_stay), 2, 1, 16, "times",
      "within 32 steps: an open verdict stays while it comes back so often" },
    { "straggler.everyday", AT(straggler_everyday), 0.001, 0, 1, "share",
      "of the steps in which any rank may be slow for once, in a job where nothing is wrong: pauses, retries, page faults" },
    { "straggler.chance", AT(straggler_chance), 0.0001, 0, 1, "share",
      "how likely it may be that everyday slowness, or that of the other ranks if it is more, looks like this on any of the job's ranks" },
    { "straggler.migrates", AT(straggler_migrates), 0.4, 0.1, 1, "share",
      "of 32 steps with a slow rank, another one each time: single bad steps are everyday life" },
    { "straggler.migrates-ranks", AT(straggler_migrates_ranks), 3, 2, 1000, "ranks",
      "that take turns: two may as well be two faults" },
    { "straggler.migrates-most", AT(straggler_migrates_most), 0.5, 0, 1, "share",
      "of the slow steps that one rank may have: who has more is a straggler of his own" },
    { "straggler.migrates-noises", AT(straggler_migrates_noises), 5, 0, 1000, "times",
      "the deviation of the share of such steps in this run's past: among thousands of ranks somebody is always slow, and only more of it is news" },
    { "straggler.forming", AT(straggler_forming), 0.03, 0.001, 1, "share",
      "of the step: a rank whose work grows is told before it costs so much, with when it will" },
    { "straggler.forming-noises", AT(straggler_forming_noises), 3, 0, 1000, "times",
      "the noise of single steps by which each of three times ten steps must be above the one before: five deviations of such medians" },
    { "straggler.forming-alike", AT(straggler_forming_alike), 2, 1, 1000, "times",
      "by which both halves of the growth may differ: one jump is no trend" },
    { "straggler.forming-starts", AT(straggler_forming_starts), 0.01, 0, 1, "share",
      "of its peers' work that it must have grown to: less may be anything" },
    { "straggler.forming-inverted", AT(straggler_forming_inverted), 0.06, 0, 0.5, "share",
      "of all pairs of these thirty steps in which the later one is lower: by chance that few come once in a hundred thousand million times, and large jobs have many ranks and steps" },
    { "straggler.forming-horizon", AT(straggler_forming_horizon), 1000, 1, 1000000, "steps",
      "until it costs that much: what is farther away is no forecast" },
    { "regress.share", AT(regress_share), 0.05, 0.001, 10, "share",
      "of a step by which all have become slower: less is within what jobs do by themselves" },
    { "regress.noises", AT(regress_noises), 2, 0, 100, "times",
      "the deviation, from step to step, of what the median rank does itself: the lowest median of many windows is lower than typical" },
    { "regress.steps", AT(regress_steps), 32, 8, 64, "steps",
      "of one kind that say what is typical, and as many that say what is so now" },
    { "regress.stay-share", AT(regress_stay_share), 0.6, 0, 1, "share",
      "of these limits: an open verdict stays while so much remains" },
    { "regress.stepped", AT(regress_stepped), 0.6, 0.1, 1, "share",
      "of the growth that comes within twice eight steps: then the job became slower at once, else bit by bit" },
    { "crash.settle", AT(crash_settle), 1, 0, 600, "s",
      "exits that belong together come within this; waiting longer only delays the verdict" },
    { "crash.near", AT(crash_near), 5, 0, 600, "s",
      "between two ends: of two so near, what they say counts before who was first, as one that dumps its core ends late" },
    { "hang.fresh", AT(hang_fresh), 5, 1, 600, "s",
      "since a rank's last beat came: what is older does not show where it is now, and who is not seen is not named" },
    { "corrupt.least-values", AT(corrupt_least_values), 8, 2, 1000, "steps",
      "with a loss or norm before any of them can jump: what is typical is not known before" },
    { "corrupt.risen-share", AT(corrupt_risen_share), 0.33, 0, 1, "share",
      "of a jump's limit: who has risen by so much has begun, too; ranks know their noise from few values, so one calls a jump what is not quite one for another" },
    { "sync.bytes-alike", AT(sync_bytes_alike), 0.05, 0, 1, "share",
      "by which a link's bytes may change and its past still count: rounding and ragged last batches" },
    { "checkpoint.least-usual", AT(checkpoint_least_usual), 2, 1, 100, "times",
      "that a pause must have been seen before: what is usual is not known earlier" },
    { "checkpoint.least-share", AT(checkpoint_least_share), 4, 1, 32, "times",
      "that pauses must have been seen before their share of the time says something" },
    { "verdict.warm-up", AT(verdict_warm_up), 2, 0, 1000, "steps",
      "of an attempt that nothing is judged by: the first ones are never typical" },
    { "verdict.close-after", AT(verdict_close_after), 8, 1, 100000, "steps",
      "a fault that has not been seen for so long is over" },
    { "replay.fit-share", AT(replay_fit_share), 0.02, 0.0001, 0.5, "share",
      "of the step by which its replay may differ; beyond it nothing is blamed or priced" },
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
