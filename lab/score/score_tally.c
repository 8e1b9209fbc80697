/* score_tally.c - one case at a time into the counts, and shares out of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_tally.h"

#include <string.h>

#include "core/clean.h"
#include "lab/score/score_stats.h"

static struct score_tally *tally_of(struct score_board *board, const char *family)
{
    for (uint32_t i = 0; i < board->families; i++) {
        if (strcmp(board->family[i].family, family) == 0)
            return &board->family[i];
    }
    if (board->families == COUNT(board->family))
        return NULL;
    board->family[board->families].family = family;
    return &board->family[board->families++];
}

static struct score_calm *score_calm_of(struct score_board *board, const char *family)
{
    for (uint32_t i = 0; i < board->calm_families; i++) {
        if (strcmp(board->calm_family[i].family, family) == 0)
            return &board->calm_family[i];
    }
    if (board->calm_families == COUNT(board->calm_family))
        return NULL;
    board->calm_family[board->calm_families].family = family;
    return &board->calm_family[board->calm_families++];
}

static void tally_add(struct score_tally *tally, const struct score_result *result)
{
    /* Where nobody is to be named, the case itself counts as one that is found or not. */
    uint32_t expected = MAX(result->expected, 1);
    uint32_t right = result->expected ? result->right : result->found;

    if (!tally || tally->cases == SCORE_CASES_MAX)
        return;
    tally->cases++;
    tally->found += result->found;
    tally->layers += result->layer_exact;
    tally->right += right;
    tally->wrong += result->wrong;
    tally->expected += expected;
    tally->spoken += result->verdicts > 0;
    tally->clean += result->verdicts > 0 && result->wrong == 0;
    tally->complete += result->found && right == expected;
    tally->verdicts += result->verdicts;
    tally->brier += result->brier;
    if (result->found) {
        tally->seconds[tally->timed] = result->seconds;
        tally->steps[tally->timed++] = (double)result->steps;
    }
}

static void score_calm_add(struct score_calm *calm, const struct score_result *result)
{
    if (!calm)
        return;
    calm->cases++;
    calm->false_alarms += result->extra;
    calm->seconds += result->run_seconds;
}

void score_board_add(struct score_board *board, const struct score_case *at,
                     const struct score_result *result)
{
    const char *family = score_family(at);

    if (!result->ran) {
        board->skipped++;
    } else if (!score_expect(&at->fault)) {
        score_calm_add(&board->calm, result);
        score_calm_add(score_calm_of(board, family), result);
        /* A false alarm is as good as its confidence, too. */
        board->all.verdicts += result->verdicts;
        board->all.brier += result->brier;
    } else {
        tally_add(&board->all, result);
        tally_add(tally_of(board, family), result);
    }
}

static double score_tally_share(uint32_t part, uint32_t complete)
{
    return complete ? (double)part / complete : 1;
}

double score_precision(const struct score_tally *tally)
{
    return score_tally_share(tally->right, tally->right + tally->wrong);
}

double score_precision_low95(const struct score_tally *tally)
{
    return stats_share_low95(tally->clean, tally->spoken);
}

double score_recall(const struct score_tally *tally)
{
    return score_tally_share(tally->right, tally->expected);
}

double score_recall_low95(const struct score_tally *tally)
{
    return stats_share_low95(tally->complete, tally->cases);
}

double score_layer_exact(const struct score_tally *tally)
{
    return score_tally_share(tally->layers, tally->cases);
}

double score_brier(const struct score_tally *tally)
{
    return tally->verdicts ? tally->brier / tally->verdicts : 0;
}

double score_seconds(struct score_tally *tally, double at)
{
    return stats_quantile(tally->seconds, tally->timed, at);
}

double score_steps(struct score_tally *tally, double at)
{
    return stats_quantile(tally->steps, tally->timed, at);
}

double score_alarms_per_hour(const struct score_calm *calm)
{
    return calm->seconds > 0 ? calm->false_alarms / calm->seconds * 3600 : 0;
}

double score_alarms_per_hour_high95(const struct score_calm *calm)
{
    return calm->seconds > 0 ? stats_events_high95(calm->false_alarms) / calm->seconds * 3600 : 0;
}

bool score_result_good(const struct score_case *at, const struct score_result *result)
{
    if (!result->ran || result->extra || result->wrong)
        return false;
    return !score_expect(&at->fault) || (result->found && result->layer_exact &&
                                         (!result->expected || result->right == result->expected));
}
