/* signals_cpu.c - how much of what a rank takes longer is waiting for a CPU, and how much its own work.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "judge/median.h"
#include "judge/slow/signals.h"

/* The larger of both excesses over the last steps: noise hides, it does not slow devices down. */
double signals_excess_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    return MAX(history_excess_ms(&judge->history, SERIES_LOCAL, rank, steps),
               history_excess_ms(&judge->history, SERIES_COMPUTE, rank, steps));
}

/* How much longer than its peers it waits for a CPU. */
static double signals_starved_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    return history_starved_ms(&judge->history, rank, steps) -
           history_peers_starved_ms(&judge->history, &judge->model, rank, steps);
}

#define NEIGHBOURS 16 /* ranks of a node that are looked at */

/* What the other ranks on its node wait for a CPU, the median of them; -1: there are none. */
double signals_neighbours_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    const struct model_rank *all = judge->model.rank;
    double value[NEIGHBOURS];
    uint32_t used = 0;

    for (uint32_t other = 0; other < judge->model.world && used < NEIGHBOURS; other++) {
        if (other != rank && all[other].node == all[rank].node)
            value[used++] = history_starved_ms(&judge->history, other, steps);
    }
    return used ? median_f64(value, used) : -1;
}

/* ... and the others on its node do, too.  A rank that waits for a CPU alone has a reason of its own, such as a thread that
 * keeps the interpreter's lock.
 */
static double signals_shared_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double own = history_starved_ms(&judge->history, rank, steps);
    double others = signals_neighbours_ms(judge, rank, steps);

    return signals_starved_ms(judge, rank, steps) - (others < 0 ? 0 : MAX(0, own - others));
}

double signals_own_work_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double excess = MAX(0, signals_excess_ms(judge, rank, steps));
    double starved = signals_shared_ms(judge, rank, steps);

    if (starved <= judge->limits.verdict_explains * excess)
        return excess; /* too little to be the reason: waiting for a CPU need not delay anything */
    return MAX(0, excess - starved);
}

/* Whether waiting for a CPU explains a large part of what it took longer, in the steps of which the kernel tells both. */
bool signals_is_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    uint32_t count = history_window(&judge->history, steps), used = 0;
    double excess = 0;

    for (uint32_t back = 0; back < count; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (!past->split[rank].present || !split_tells_cpu(&past->split[rank]))
            continue;
        excess += (double)MAX(past->excess_ms[rank], past->compute_ms[rank]);
        used++;
    }
    return used > 0 && signals_starved_ms(judge, rank, steps) * used >
                           judge->limits.verdict_explains * MAX(0, excess);
}

/* Whether it may: waits differ so much from step to step that the mean of these says neither that it does nor that it does not. */
bool signals_may_be_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double most = signals_starved_ms(judge, rank, steps) +
                  SIGNALS_BLUR * history_starved_error_ms(&judge->history, rank, steps);

    return signals_excess_ms(judge, rank, steps) - most < signals_least_ms(judge, rank, steps);
}
