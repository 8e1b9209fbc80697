/* postmortem_lanes.c - slow ranks, from profiler traces of several ranks.
 *
 * The trace is replayed (whatif.h); a rank is named if the step with only this rank as traced is much longer than
 * the ideal step.  If the replay does not reproduce the traced steps, no rank is named.  A device that has no work for most
 * of the step waits for its host; that is a finding of its own, and of all ranks.  Traces of a part of the ranks say nothing
 * about the others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "judge/compare/whatif.h"

#define HOST_BOUND 0.5 /* share of the step in which the devices have no work, on most ranks */

static void lanes_report_part(const struct lanes *lanes, size_t ranks, struct verdict *verdict)
{
    if (lanes->world > ranks)
        verdict_because(verdict, "profiler",
                        "there are traces of %zu of %u ranks; the others are not compared", ranks,
                        lanes->world);
}

static double lanes_span_idle(const struct lane_span *span)
{
    return 1 - (double)span->busy_ns / (double)span->total_ns;
}

/* The device of most ranks waits for the host most of the time. */
static int lanes_report_host_bound(const struct lanes *lanes, const char *run,
                                   struct findings *findings)
{
    double idle = 0, input = 0;
    struct verdict *verdict;
    size_t bound = 0;

    for (size_t i = 0; i < lanes->spans; i++) {
        double share = lanes_span_idle(&lanes->span[i]);

        if (share < HOST_BOUND)
            continue;
        bound++;
        idle += share;
        input += (double)lanes->span[i].input_ns / (double)lanes->span[i].total_ns;
    }
    if (!bound || 2 * bound <= lanes->spans)
        return 0;
    idle /= (double)bound;
    input /= (double)bound;
    verdict =
        findings_add(findings, run, VERDICT_INPUT_STALL, 2 * input > idle ? LAYER_DATA : LAYER_CPU);
    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "the device waits for the host %.0f %% of the step", 100 * idle);
    verdict_because(verdict, "profiler",
                    "on %zu of %zu traced ranks the device has no work for %.0f %% of the step",
                    bound, lanes->spans, 100 * idle);
    if (2 * input > idle)
        verdict_because(verdict, "profiler",
                        "the host waits for its data loader for %.0f %% of the step", 100 * input);
    lanes_report_part(lanes, lanes->spans, verdict);
    verdict->confidence = 0.8;
    verdict_identify(verdict);
    return 1;
}

static int lanes_report(const struct lanes *lanes, const struct whatif_plan *plan,
                        const struct whatif *whatif, double straggles, const char *run,
                        struct findings *findings)
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
    lanes_report_part(lanes, plan->labels[WHATIF_WORKER], verdict);
    snprintf(verdict->cause, sizeof(verdict->cause), "compute takes longer than on its peers");
    verdict->seconds_per_step = lost;
    verdict->gpu_seconds = lost * (double)whatif->steps * (double)plan->labels[WHATIF_WORKER];
    verdict->confidence = 0.7;
    verdict_identify(verdict);
    return 0;
}

static int lanes_compare(const struct lanes *lanes, const char *run, struct findings *findings)
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
        return lanes_report(lanes, &plan, &whatif, straggles, run, findings);
    if (!findings->count && whatif.S < straggles && lanes->world <= ranks)
        findings->well = true;
    return 0;
}

int postmortem_lanes(const struct lanes *lanes, const char *run, struct findings *findings)
{
    int bound = lanes_report_host_bound(lanes, run, findings);

    return bound < 0 ? bound : lanes_compare(lanes, run, findings);
}
