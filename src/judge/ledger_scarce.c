/* ledger_scarce.c - steps that scarce cpus made longer, in the ledger.
 *
 * Ranks of a starved node are slow at random places and by turns, and where half of a rank's peers
 * are starved their median is no measure.  The steps before are, as they are for the verdict: such a
 * step does what a typical one does, and all that it took longer was spent waiting for the node, and
 * so is straggler-wait.  The verdict comes after a few steps; they are booked again, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "core/clean.h"
#include "judge/ledger_private.h"

#define TYPICAL_STEPS                                                                              \
    32 /* before the first scarce one: all but the outermost of them are typical */

#define TYPICAL_LEAST 4 /* of them, to know how long a step should have taken */

/* Where a late host may show.  Checkpoints, evaluations and start-up are none of its making. */
static const enum ledger_bucket touched[] = { LEDGER_PRODUCTIVE, LEDGER_IMBALANCE, LEDGER_TRANSFER,
                                              LEDGER_INPUT, LEDGER_UNATTRIBUTED };

/* What a step has in a bucket that a late host may have made more. */
static double ledger_may_be_late(const struct step_account *account, enum ledger_bucket bucket)
{
    return account->seconds[bucket] - (bucket == LEDGER_PRODUCTIVE ? account->evaluated : 0);
}

static double ledger_late_seconds(const struct step_account *account)
{
    double sum = account->seconds[LEDGER_STRAGGLER_WAIT];

    for (size_t i = 0; i < COUNT(touched); i++)
        sum += ledger_may_be_late(account, touched[i]);
    return sum;
}

static int ledger_compare_accounts(const void *a, const void *b)
{
    double left = ledger_late_seconds(*(const struct step_account *const *)a);
    double right = ledger_late_seconds(*(const struct step_account *const *)b);

    return left < right ? -1 : left > right;
}

/* False: too few steps are known from before.  Each bucket's median would be of another step, and their sum
 * that of none: they are means, over steps among which no outlier is.
 */
static bool ledger_typical_learn(struct scarce_typical *typical, uint64_t since,
                                 const struct step_account step[KEPT_STEPS])
{
    const struct step_account *known[TYPICAL_STEPS];
    uint32_t count = 0, from, to;

    if (typical->before == since)
        return since > 0;
    for (uint64_t at = since; at-- > 0 && since - at <= TYPICAL_STEPS;) {
        const struct step_account *account = &step[at % KEPT_STEPS];

        if (account->step == at + 1 && !account->scarce)
            known[count++] = account;
    }
    if (count < TYPICAL_LEAST)
        return false;
    qsort(known, count, sizeof(known[0]), ledger_compare_accounts);
    from = count / 8;
    to = count - from;
    for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++) {
        double sum = 0;

        for (uint32_t i = from; i < to; i++)
            sum += ledger_may_be_late(known[i], (enum ledger_bucket)bucket);
        typical->seconds[bucket] = sum / (to - from);
    }
    typical->before = since;
    return true;
}

static void ledger_account_rebook(const struct scarce_typical *typical,
                                  struct step_account *account, double total[LEDGER_BUCKETS])
{
    double usual = typical->seconds[LEDGER_STRAGGLER_WAIT], moved = 0;

    for (size_t i = 0; i < COUNT(touched); i++)
        usual += typical->seconds[touched[i]];
    account->scarce = true;
    if (ledger_late_seconds(account) <= usual)
        return;
    for (size_t i = 0; i < COUNT(touched); i++) {
        enum ledger_bucket bucket = touched[i];
        double more = ledger_may_be_late(account, bucket) - typical->seconds[bucket];

        account->seconds[bucket] -= more;
        total[bucket] -= more;
        moved += more;
    }
    account->seconds[LEDGER_STRAGGLER_WAIT] += moved;
    total[LEDGER_STRAGGLER_WAIT] += moved;
}

/* The first step that an open verdict about scarce cpus is about. */
static uint64_t scarce_since(const struct judge_state *judge)
{
    uint64_t since = UINT64_MAX;

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct verdict *verdict = &tracked->verdict;

        if (tracked->open && verdict->kind == VERDICT_STRAGGLER && verdict->layer == LAYER_CPU)
            since = MIN(since, verdict->since_step);
    }
    return since;
}

void scarce_rebook(struct scarce_typical *typical, const struct judge_state *judge, uint64_t newest,
                   struct step_account step[KEPT_STEPS], double total[LEDGER_BUCKETS])
{
    uint64_t since = scarce_since(judge);

    if (since > newest || !ledger_typical_learn(typical, since, step))
        return;
    for (uint64_t at = newest + 1; at-- > since && newest - at < HISTORY_STEPS;) {
        struct step_account *account = &step[at % KEPT_STEPS];

        if (account->step != at + 1 || account->scarce)
            return; /* another attempt's, or done before with all that came before it */
        ledger_account_rebook(typical, account, total);
    }
}
