/* score_ledger.c - are the seconds that a fault costs in the bucket where they belong?
 *
 * A healthy twin with the same seed has the same jitter, so what the run with the fault took longer is
 * the fault's, and so is what its buckets have more.  That holds in pipelines, too, where some of
 * what is injected falls into slack and costs nobody anything; and for faults of which nobody but
 * the clock knows how many seconds they took, like scarce cpus.
 */
#include <math.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score_parts.h"

static double bucket(struct json_object *ledger, const char *name)
{
    struct json_object *buckets, *value;

    if (ledger && json_object_object_get_ex(ledger, "buckets", &buckets) &&
        json_object_object_get_ex(buckets, name, &value))
        return json_object_get_double(value);
    return 0;
}

static double whole(struct json_object *ledger)
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
        ret->bucket[i] = bucket(ledger, ledger_bucket_name(i));
    ret->whole = whole(ledger) - ret->bucket[LEDGER_START_UP];
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

static double jitter_more(const struct score_ledger *run, const struct score_ledger *twin)
{
    double usual = twin->bucket[LEDGER_STRAGGLER_WAIT];

    return MIN(run->bucket[LEDGER_STRAGGLER_WAIT], JITTER_MORE * usual) - usual;
}

static double off_by(double found, double due)
{
    return due > 0 ? found / due - 1 : 1; /* a fault that costs nothing is none */
}

double score_ledger_compare(const struct score_case *at, const struct score_ledger *run,
                            const struct score_ledger *twin, double *due, double *found)
{
    const struct score_expect *expect = score_expect(&at->fault);
    uint32_t buckets = expect ? expect->buckets : 0;
    double error, worked = run->bucket[LEDGER_PRODUCTIVE] - twin->bucket[LEDGER_PRODUCTIVE];

    *due = run->whole - twin->whole;
    *found = 0;
    if (!(buckets & SCORE_IN(STRAGGLER_WAIT)))
        *due -= jitter_more(run, twin);
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++) {
        if (buckets & 1u << i)
            *found += run->bucket[i] - twin->bucket[i];
    }
    error = off_by(*found, *due);
    worked = off_by(worked, run->injected);
    return buckets & SCORE_WORK && fabs(worked) > fabs(error) ? worked : error;
}
