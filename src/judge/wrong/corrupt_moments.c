/* corrupt_moments.c - checkpoints whose optimizer stands still while the training goes on.
 *
 * A program may save memory that it no longer trains: the list of its tensors has old pointers, or another optimizer than the one that
 * takes the steps.  Every checksum of such a checkpoint is right, and the training that continues from it begins with wrong moments.
 * The writer of each rank compares the digests of two saves; a rank's note has the result.
 *
 * Moments may rest for a few steps in a sound training: a gradient scaler that begins too high skips up to 16 steps in a row, some
 * programs call the optimizer every so many steps.  So they must have rested for MOMENTS_STEPS steps, while losses moved or there
 * were gradients.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/wrong/corrupt_private.h"

#define MOMENTS_STEPS                                                                              \
    32 /* more than twice the values that are remembered of a rank: CORRUPT_WINDOW */
_Static_assert(MOMENTS_STEPS >= 2 * CORRUPT_WINDOW, "all values must be of these steps");

static bool moments_values_of(const struct rank_values *values, enum value which, double *ret_least,
                              double *ret_most)
{
    uint32_t count = MIN(values->count[which], CORRUPT_WINDOW);

    for (uint32_t i = 0; i < count; i++) {
        double value = values->past[which][i];

        *ret_least = i ? MIN(*ret_least, value) : value;
        *ret_most = i ? MAX(*ret_most, value) : value;
    }
    return count > 0;
}

/* By the newest values of any rank: some report no loss, as all but the last stage of a pipeline. */
static bool moments_training_goes_on(const struct corrupt_book *book, struct verdict *draft)
{
    double least = 0, most = 0;

    for (uint32_t rank = 0; rank < book->world; rank++) {
        const struct rank_values *values = &book->rank[rank].values;

        if (moments_values_of(values, VALUE_LOSS, &least, &most) && least < most) {
            verdict_because(draft, "metric",
                            "meanwhile the loss moved: %g to %g on rank %" PRIu32
                            " in its newest steps",
                            least, most, rank);
            return true;
        }
        if (moments_values_of(values, VALUE_NORM, &least, &most) && least > 0) {
            verdict_because(draft, "metric",
                            "meanwhile there were gradients: norms of at least %g on rank %" PRIu32,
                            least, rank);
            return true;
        }
    }
    return false;
}

static void moments_accuse(struct judge_state *judge, struct corrupt_book *book)
{
    struct moments_point *point = &book->moments;
    struct verdict draft = { .kind = VERDICT_CORRUPTION,
                             .layer = LAYER_CHECKPOINT,
                             .confidence = 0.8,
                             .since_step = point->since };
    struct tracked_verdict *tracked;
    bool fresh;

    verdict_because(&draft, "note",
                    "checkpoint of step %" PRIu64 ": all moments of the optimizer are bit for bit "
                    "those of the saves since step %" PRIu64 ", on %" PRIu32 " of %" PRIu32
                    " ranks",
                    point->step, point->since, point->stale, point->ranks);
    point->waits = !moments_training_goes_on(book, &draft);
    if (point->waits)
        return;
    verdict_because(&draft, "note",
                    "checksums cannot show it: check that the program saves the optimizer that "
                    "takes its steps, and that gradients reach it");
    if (point->stale == point->ranks)
        snprintf(draft.group, sizeof(draft.group), "checkpoint");
    for (uint32_t i = 0; point->stale < point->ranks && i < MIN(point->stale, MOMENTS_NAMED); i++)
        judge_state_add_rank(judge, &draft, point->rank[i]);
    snprintf(draft.cause, sizeof(draft.cause),
             "optimizer moments in checkpoints do not change while the training goes on");
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        snprintf(point->verdict, sizeof(point->verdict), "%s", tracked->verdict.id);
}

/* Whether this rank's moments have rested for long enough. */
static bool moments_rest(struct rank_numbers *numbers, const struct save_note *save)
{
    bool same = save->moments && save->moments_unchanged == save->moments;

    if (!same || !numbers->moments_since || numbers->moments_since > save->saved_in)
        numbers->moments_since = save->moments ? save->saved_in + 1 : 0;
    return numbers->moments_since && save->saved_in + 1 - numbers->moments_since >= MOMENTS_STEPS;
}

static void moments_point_add(struct moments_point *point, uint32_t rank, uint64_t since)
{
    uint32_t at = MIN(point->stale, MOMENTS_NAMED - 1);

    point->since = point->stale ? MIN(point->since, since) : since;
    if (point->stale >= MOMENTS_NAMED && rank > point->rank[at]) {
        point->stale++;
        return;
    }
    for (; at && point->rank[at - 1] > rank; at--)
        point->rank[at] = point->rank[at - 1];
    point->rank[at] = rank;
    point->stale++;
}

void corrupt_save(struct judge_state *judge, uint32_t rank, const struct save_note *save)
{
    struct corrupt_book *book = judge->corrupt;
    struct moments_point *point = &book->moments;

    if (rank >= judge->model.world || save->saved_in == UINT64_MAX ||
        !ARRAY_FIT_ZERO(book->rank, book->world, judge->model.world))
        return;
    saved_verified(book, save->step);
    if (!point->ranks || point->step != save->step || point->ranks >= judge->model.world) {
        point->number++;
        point->step = save->step;
        point->ranks = point->stale = 0;
        point->saved_in = save->saved_in;
        point->waits = false;
    }
    point->saved_in = MAX(point->saved_in, save->saved_in);
    if (book->rank[rank].moments_point == point->number)
        return; /* twice: it does not stand for a rank that has not come */
    book->rank[rank].moments_point = point->number;
    point->ranks++;
    if (moments_rest(&book->rank[rank], save))
        moments_point_add(point, rank, book->rank[rank].moments_since - 1);
    if (point->ranks < judge->model.world) /* the others may show that it is this rank alone */
        return;
    if (point->stale)
        moments_accuse(judge, book);
    else
        point->verdict[0] = '\0'; /* they change again: the verdict ends */
}

/* The values that are remembered must be of the steps in which the moments rested. */
void moments_step(struct judge_state *judge, struct corrupt_book *book)
{
    struct moments_point *point = &book->moments;
    uint64_t step = judge->job_step->step;

    if (!point->waits || step < point->since + CORRUPT_WINDOW)
        return;
    if (step <= point->saved_in)
        moments_accuse(judge, book);
    else
        point->waits = false;
}

void moments_stay(struct judge_state *judge, const struct corrupt_book *book)
{
    if (!book->moments.verdict[0] && !book->saved.verdict[0])
        return;
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && (strcmp(tracked->verdict.id, book->moments.verdict) == 0 ||
                              strcmp(tracked->verdict.id, book->saved.verdict) == 0))
            tracked->seen_step = judge->job_step->step;
    }
}
