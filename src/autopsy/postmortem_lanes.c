/* postmortem_lanes.c - slow ranks, from profiler traces of several ranks.
 *
 * The trace is replayed (whatif.h); a rank is named if the step with only this rank as traced is much longer than
 * the ideal step.  If the replay does not reproduce the traced steps, no rank is named.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "judge/compare/whatif.h"

static int lanes_tell(const struct whatif_plan *plan, const struct whatif *whatif, double straggles,
                      const char *run, struct findings *findings)
{
    struct verdict *verdict = findings_add(findings, run, VERDICT_STRAGGLER, LAYER_UNKNOWN);
    double lost = whatif->mean.no_delay - whatif->mean.ideal;

    if (!verdict)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->labels[WHATIF_WORKER]; i++) {
        double S = whatif->S_of[WHATIF_WORKER][i];

        if (S < straggles)
            continue;
        if (verdict->rank_count < VERDICT_RANKS)
            verdict->rank[verdict->rank_count] = plan->worker[i].rank;
        verdict->rank_count++;
        verdict_because(verdict, "profiler",
                        "with only rank %u as measured and all others ideal, a step takes %.2f "
                        "times the ideal step",
                        plan->worker[i].rank, S);
    }
    verdict_because(
        verdict, "profiler",
        "%zu steps of %zu ranks: %.4f s, ideal %.4f s if every op took equally long on all ranks",
        whatif->steps, plan->labels[WHATIF_WORKER], whatif->mean.no_delay, whatif->mean.ideal);
    snprintf(verdict->cause, sizeof(verdict->cause), "compute takes longer than on its peers");
    verdict->seconds_per_step = lost;
    verdict->gpu_seconds = lost * (double)whatif->steps * (double)plan->labels[WHATIF_WORKER];
    verdict->confidence = 0.7;
    verdict_identify(verdict);
    return 0;
}

int postmortem_lanes(const struct lanes *lanes, const char *run, struct findings *findings)
{
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(whatif_fini) struct whatif whatif = { 0 };
    int result = lanes->count ? whatif_plan_lanes(lanes, &plan, NULL) : -ENODATA;
    struct thresholds limits;
    size_t slow = 0, ranks;
    double straggles;

    if (result == 0)
        result = whatif_run(&plan, &whatif);
    if (result < 0)
        return result == -ENOMEM ? result : 0; /* nothing that could be replayed */
    postmortem_limits(findings, &limits);
    straggles = limits.traces_straggles;
    ranks = plan.labels[WHATIF_WORKER];
    for (size_t i = 0; i < ranks; i++)
        slow += whatif.S_of[WHATIF_WORKER][i] >= straggles;
    if (ranks < 2 || whatif.steps < 2 || whatif.launch > limits.traces_fit)
        return 0;
    if (whatif.S >= straggles && slow && 2 * slow < ranks)
        return lanes_tell(&plan, &whatif, straggles, run, findings);
    if (!findings->count && whatif.S < straggles)
        findings->well = true;
    return 0;
}
