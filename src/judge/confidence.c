/* confidence.c - the caps, by what verdicts of recorded runs were worth.
 *
 * Where hosts stand for devices they follow from the half of the recorded runs that is looked at (test/recorded/runs):
 * `tools/recorded-runs calibrate` counts them.  t4210 compares them with the other half.  Where devices are seen there are
 * too few recordings; those caps are set by hand, and lower than what `lockstep bench noise --cases` finds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/confidence.h"

#include "core/clean.h"

static const double by_peers[] = { [PEER_BASIS_DP] = 0.98,
                                   [PEER_BASIS_TP] = 0.9,
                                   [PEER_BASIS_CLASS] = 0.9,
                                   [PEER_BASIS_PAST] = 0.5,
                                   [PEER_BASIS_NONE] = 0.3 };

/* Where hosts stand for devices: verdicts on slowness in the recorded runs for development, and those of them with the right kind
 * and ranks.  Of those on a whole job that became slower none was right while they were shown, as others used the
 * processors; their number was not kept, and stands here as 5.
 */
static const struct counted {
    double right, verdicts;
} by_host_view[] = { [AGAINST_PEERS] = { 26, 28 },
                     [AGAINST_OTHERS] = { 1, 1 },
                     [AGAINST_PAST] = { 5, 8 },
                     [AGAINST_JOB] = { 0, 5 } };
#define HOST_MOST 0.7 /* few runs are counted, and a host does not show what its device does */
#define SUPPOSED 5    /* verdicts at that rate before any was counted */

#define ONE_PEER 0.08 /* less: of two that differ, either may be the odd one */
#define NEAR 0.75     /* what is near the least that counts may be chance ... */
#define FAR 0.2       /* ... by so much less than what is twice that */
#define UNPRICED 0.6

static double confidence_peers(const struct judge_state *judge, uint32_t rank)
{
    uint32_t peers = 0;

    for (uint32_t other = 0; other < judge->model.world && peers < 2; other++)
        peers += other != rank && judge->model.rank[other].peers == judge->model.rank[rank].peers;
    return by_peers[judge->model.rank[rank].basis] - (peers < 2 ? ONE_PEER : 0);
}

static double confidence_counted(const struct counted *counted)
{
    return MIN(HOST_MOST, (counted->right + SUPPOSED * HOST_MOST) / (counted->verdicts + SUPPOSED));
}

double confidence_of(const struct judge_state *judge, const struct confidence *basis)
{
    double sure = basis->best;

    if (basis->against == AGAINST_PEERS)
        sure = MIN(sure, confidence_peers(judge, basis->rank));
    if (basis->margin > 0)
        sure = MIN(sure, NEAR + FAR * MIN(1, basis->margin - 1));
    if (judge->history.host_view)
        sure = MIN(sure, basis->best_host > 0 ? basis->best_host
                                              : confidence_counted(&by_host_view[basis->against]));
    if (basis->unpriced)
        sure = MIN(sure, UNPRICED);
    return sure;
}
