/* ledger_scores.c - are the seconds that a fault costs in the bucket where they belong?
 *
 * A healthy twin with the same seed has the same jitter, so what the run with the fault took longer is
 * the fault's, and so is what its buckets have more.  That holds in pipelines, too, where some of
 * what is injected falls into slack and costs nothing; and for faults whose seconds only the clock
 * knows, like scarce cpus.
 *
 * Two healthy runs with the same seed do not take equally long: a machine has moods.  So the slightest faults have two
 * twins, whose mean is compared; and what two twins differ by, at most, is how finely runs can be
 * compared on this machine.  An error below that may be the machine's as well as the ledger's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/ledger_scores.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score/score_private.h"

#define GOOD 0.05
#define BLUR_MOST 0.01 /* a machine more restless than this tells nothing about slight faults */

/* ---- one ledger, and its twin ---- */

static double ledger_scores_bucket(struct json_object *ledger, const char *name)
{
    struct json_object *buckets, *value;

    if (ledger && json_object_object_get_ex(ledger, "buckets", &buckets) &&
        json_object_object_get_ex(buckets, name, &value))
        return json_object_get_double(value);
    return 0;
}

static double ledger_scores_total(struct json_object *ledger)
{
    struct json_object *ranks, *wall;

    if (!ledger || !json_object_object_get_ex(ledger, "ranks", &ranks) ||
        !json_object_object_get_ex(ledger, "wall_seconds", &wall))
        return 0;
    return json_object_get_double(ranks) * json_object_get_double(wall);
}

void score_ledger_read(struct json_object *answer, const struct score_truth *truth,
                       struct score_ledger *ret)
{
    struct json_object *ledger = NULL;

    json_object_object_get_ex(answer, "ledger", &ledger);
    *ret = (struct score_ledger){ .injected = truth->seconds };
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++)
        ret->bucket[i] = ledger_scores_bucket(ledger, ledger_bucket_name(i));
    ret->total = ledger_scores_total(ledger) - ret->bucket[LEDGER_START_UP];
}

bool score_has_ledger(const struct score_case *at)
{
    const struct score_expect *expect = score_expect(&at->fault);

    return expect && expect->buckets && !at->also.kind && !at->torch;
}

/* Ranks wait for each other's jitter: more where the fault makes it matter, as in a stage that all wait for, and less
 * where they wait for the fault anyway.  That much is no part of what was injected; what is more than
 * half as much again as in the twin was booked there wrongly.
 */
#define JITTER_MORE 1.5

static double ledger_jitter_more(const struct score_ledger *run, const struct score_ledger *twin)
{
    double usual = twin->bucket[LEDGER_STRAGGLER_WAIT];

    return MIN(run->bucket[LEDGER_STRAGGLER_WAIT], JITTER_MORE * usual) - usual;
}

static double ledger_off_by(double found, double due)
{
    return due > 0 ? found / due - 1 : 1; /* a fault that costs nothing is none */
}

double score_ledger_compare(const struct score_case *at, const struct score_ledger *run,
                            const struct score_ledger *twin, double *due, double *found)
{
    const struct score_expect *expect = score_expect(&at->fault);
    uint32_t buckets = expect ? expect->buckets : 0;
    double error, worked = run->bucket[LEDGER_PRODUCTIVE] - twin->bucket[LEDGER_PRODUCTIVE];

    *due = run->total - twin->total;
    *found = 0;
    if (!(buckets & SCORE_IN(STRAGGLER_WAIT)))
        *due -= ledger_jitter_more(run, twin);
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++) {
        if (buckets & 1u << i)
            *found += run->bucket[i] - twin->bucket[i];
    }
    error = ledger_off_by(*found, *due);
    worked = ledger_off_by(worked, run->injected);
    return buckets & SCORE_WORK && fabs(worked) > fabs(error) ? worked : error;
}

/* ---- the ledgers of all cases ---- */

struct twins { /* of one case */
    struct score_ledger mean;
    uint32_t count;
    double apart; /* share of a run by which they differ */
};

static void ledger_add(struct score_ledger *sum, const struct score_ledger *more, double weight)
{
    sum->total += weight * more->total;
    for (size_t i = 0; i < LEDGER_BUCKETS; i++)
        sum->bucket[i] += weight * more->bucket[i];
}

static struct twins twins_of(uint32_t number, const struct score_case *cases,
                             const struct score_result *results, uint32_t count)
{
    struct twins twins = { .count = 0 };
    double least = INFINITY, most = 0;

    for (uint32_t i = 0; i < count; i++)
        twins.count += cases[i].twin == number && results[i].ran;
    for (uint32_t i = 0; i < count; i++) {
        if (cases[i].twin != number || !results[i].ran)
            continue;
        ledger_add(&twins.mean, &results[i].ledger, 1.0 / twins.count);
        least = MIN(least, results[i].ledger.total);
        most = MAX(most, results[i].ledger.total);
    }
    twins.apart = twins.count > 1 && least > 0 ? most / least - 1 : 0;
    return twins;
}

static struct score_book *ledger_family_book(struct ledger_scores *ledger_scores,
                                             const char *family)
{
    for (uint32_t i = 0; i < ledger_scores->families; i++) {
        if (strcmp(ledger_scores->family[i].name, family) == 0)
            return &ledger_scores->family[i];
    }
    if (ledger_scores->families == COUNT(ledger_scores->family))
        return NULL;
    ledger_scores->family[ledger_scores->families].name = family;
    return &ledger_scores->family[ledger_scores->families++];
}

void ledger_scores_fill(const struct score_case *cases, const struct score_result *results,
                        uint32_t count, struct ledger_scores *ledger_scores)
{
    struct twins twins;

    *ledger_scores = (struct ledger_scores){ 0 };
    for (uint32_t i = 0; i < count; i++)
        ledger_scores->blur = MAX(ledger_scores->blur, twins_of(i, cases, results, count).apart);
    for (uint32_t i = 0; i < count; i++) {
        struct score_book *family, *all = &ledger_scores->all;
        double due, found, error;

        if (!results[i].ran || (twins = twins_of(i, cases, results, count)).count == 0)
            continue;
        error = score_ledger_compare(&cases[i], &results[i].ledger, &twins.mean, &due, &found);
        ledger_scores->at[ledger_scores->count] = (struct score_booked){ i, due, found, error };
        ledger_scores->error[ledger_scores->count++] = error;
        ledger_scores->good += fabs(error) <= GOOD;
        ledger_scores->blurred +=
            fabs(error) > GOOD &&
            fabs(error * due) <= ledger_scores->blur * results[i].ledger.total;
        ledger_scores->most = MAX(ledger_scores->most, fabs(error));
        all->due += due;
        all->found += found;
        family = ledger_family_book(ledger_scores, score_family(&cases[i]));
        if (family) {
            family->due += due;
            family->found += found;
        }
    }
}

double score_book_error(const struct score_book *book)
{
    return book->due > 0 ? book->found / book->due - 1 : 0;
}

bool ledger_scores_good(const struct ledger_scores *ledger_scores)
{
    for (uint32_t i = 0; i < ledger_scores->families; i++) {
        if (fabs(score_book_error(&ledger_scores->family[i])) > GOOD)
            return false;
    }
    return ledger_scores->good + (ledger_scores->blur <= BLUR_MOST ? ledger_scores->blurred : 0) ==
           ledger_scores->count;
}
