/* flight-feed.h - plain data that somebody wrote, taken for the dumps of a job and judged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_TEST_FUZZ_FLIGHT_FEED_H
#define LOCKSTEP_TEST_FUZZ_FLIGHT_FEED_H

#include <stdlib.h>

#include "autopsy/postmortem.h"
#include "core/clean.h"
#include "read/flight.h"

/* The same dump for rank 0 and, as if half of it were lost, for rank 1; whoever is named must be there. */
static inline void flight_feed(const struct value_tree *tree)
{
    CLEAN(flight_fini) struct flight flight = { 0 };
    CLEAN(dumps_fini) struct dumps dumps = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };

    if (!flight_is(tree) || flight_add(&flight, 0, "_dump_0", tree, NULL) < 0 ||
        flight_add(&flight, 1, "_dump_1", tree, NULL) < 0)
        return;
    for (size_t i = 0; i < flight.dumps.ranks; i++)
        flight.dumps.rank[i].ops /= i + 1;
    if (flight_take(&flight, &dumps) < 0 || dumps.ranks > 4096 ||
        postmortem_dumps(&dumps, "fuzz", &findings) < 0)
        return;
    for (size_t v = 0; v < findings.count; v++) {
        if (!findings.verdict[v].because_count)
            abort();
        for (uint32_t i = 0; i < MIN(findings.verdict[v].rank_count, VERDICT_RANKS); i++) {
            size_t r = 0;

            while (r < dumps.ranks && dumps.rank[r].rank != findings.verdict[v].rank[i])
                r++;
            if (r == dumps.ranks)
                abort();
        }
    }
}

#endif
