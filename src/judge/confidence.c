/* confidence.c - the caps.
 *
 * They are set by hand and not calibrated.  In the recorded runs of ordinary programs (test/recorded/runs), none of which has
 * devices, every verdict that a whole job became slower was false: others used the processors.  No recorded run has such a
 * fault, so what the cap for it hides has not been measured.
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

/* Where hosts stand for devices. */
static const double by_host_view[] = {
    [AGAINST_PEERS] = 0.7, [AGAINST_OTHERS] = 0.7, [AGAINST_PAST] = 0.7, [AGAINST_JOB] = 0.4
};

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

double confidence_of(const struct judge_state *judge, const struct confidence *basis)
{
    double sure = basis->best;

    if (basis->against == AGAINST_PEERS)
        sure = MIN(sure, confidence_peers(judge, basis->rank));
    if (basis->margin > 0)
        sure = MIN(sure, NEAR + FAR * MIN(1, basis->margin - 1));
    if (judge->history.host_view)
        sure = MIN(sure, basis->best_host > 0 ? basis->best_host : by_host_view[basis->against]);
    if (basis->unpriced)
        sure = MIN(sure, UNPRICED);
    return sure;
}
