/* corrupt_values.c - losses and gradient norms that are not finite or jump, and the rank on which that began.
 *
 * One step after a rank computed a wrong gradient, all ranks have it, so only the first step shows the rank.  A loss that is
 * not finite is always wrong.  A gradient norm that is not finite also occurs in healthy jobs with scaled losses, which skip
 * such a step; so it is reported only if it lasts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/wrong/corrupt_private.h"
#include "wire/field.h"

static const struct {
    unsigned metric;
    const char *name;
} values[VALUE_COUNT] = {
    [VALUE_LOSS] = { LOCKSTEP_METRIC_LOSS, "loss" },
    [VALUE_NORM] = { LOCKSTEP_METRIC_GRAD_NORM, "gradient norm" },
};

static bool corrupt_value_of(const struct job_step *job_step, uint32_t rank, int which, double *ret)
{
    const struct fact_step *step = &job_step->step_of[rank];

    if (!job_step->shape_of[rank] || !(step->metric_set & 1u << values[which].metric))
        return false;
    *ret = step->metric[values[which].metric];
    return true;
}

/* The step that a rank's values are of: those of a device arrive later, on all ranks by as many steps. */
static uint64_t corrupt_value_step(const struct job_step *job_step, uint32_t rank)
{
    const struct fact_step *step = &job_step->step_of[rank];
    double late = step->metric_set & 1u << LOCKSTEP_METRIC_VALUES_LATE
                      ? step->metric[LOCKSTEP_METRIC_VALUES_LATE]
                      : 0;

    return late >= 0 && late <= (double)job_step->step ? job_step->step - (uint64_t)late
                                                       : job_step->step;
}

/* ---- not finite ---- */

/* Counts the values of this step; true: some value is not finite. */
static bool corrupt_step_count(const struct judge_state *judge, struct streak *ret, bool *finite)
{
    *ret = (struct streak){ .step = judge->job_step->step, .steps = 1 };
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        for (int which = 0; which < VALUE_COUNT; which++) {
            double value;

            if (!corrupt_value_of(judge->job_step, rank, which, &value))
                continue;
            ret->reporters[which]++;
            ret->not_finite[which] += !field_is_finite(value);
            *finite |= field_is_finite(value);
            if (!field_is_finite(value))
                ret->step = MIN(ret->step, corrupt_value_step(judge->job_step, rank));
        }
    }
    ret->loss = ret->not_finite[VALUE_LOSS] > 0;
    return ret->not_finite[VALUE_LOSS] || ret->not_finite[VALUE_NORM];
}

/* The value that shows where it began; -1: none.  A value that is not finite on all reporting ranks was reduced over them and
 * shows nothing.  Of two values, the one that is not finite on fewer ranks is closer to the origin.
 */
static int corrupt_streak_value(const struct streak *streak)
{
    int best = -1;

    for (int which = 0; which < VALUE_COUNT; which++) {
        if (streak->not_finite[which] == 0 || streak->not_finite[which] == streak->reporters[which])
            continue;
        if (best < 0 || streak->not_finite[which] < streak->not_finite[best])
            best = which;
    }
    return best;
}

static void corrupt_streak_begin(const struct judge_state *judge, struct corrupt_book *book,
                                 const struct streak *fresh)
{
    int which = corrupt_streak_value(fresh);

    book->streak = *fresh;
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        double value;

        book->rank[rank].not_finite = which >= 0 &&
                                      corrupt_value_of(judge->job_step, rank, which, &value) &&
                                      !field_is_finite(value);
    }
}

static void corrupt_streak_describe(const struct corrupt_book *book, struct verdict *draft)
{
    const struct streak *streak = &book->streak;
    int which = corrupt_streak_value(streak);

    for (int i = 0; i < VALUE_COUNT; i++) {
        if (streak->not_finite[i])
            verdict_because(draft, "metric", "%s is not finite in step %llu on %u of %u ranks",
                            values[i].name, (unsigned long long)streak->step, streak->not_finite[i],
                            streak->reporters[i]);
    }
    if (which < 0)
        verdict_because(draft, "metric",
                        "all reporting ranks had it in the same step, so no rank can be named");
    if (streak->steps > 1)
        verdict_because(draft, "metric", "%u steps in a row up to step %llu", streak->steps,
                        (unsigned long long)streak->last);
    if (streak->step > 0)
        verdict_because(draft, "metric", "the last clean step is %llu: all values were finite",
                        (unsigned long long)streak->step - 1);
    snprintf(draft->cause, sizeof(draft->cause), "%s is not finite%s",
             values[which >= 0                       ? which
                    : streak->not_finite[VALUE_LOSS] ? VALUE_LOSS
                                                     : VALUE_NORM]
                 .name,
             which >= 0 ? ", first on the named ranks" : "");
}

/* If a verdict on one of the first ranks is open, this is a follow-on error of it. */
static bool corrupt_streak_is_echo(struct judge_state *judge, const struct corrupt_book *book)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct tracked_verdict *tracked =
            book->rank[rank].not_finite ? corrupt_open(judge, rank) : NULL;

        if (!tracked)
            continue;
        tracked->seen_step = judge->job_step->step;
        if (!book->streak.reported && tracked->verdict.echo_count == 0 &&
            tracked->verdict.since_step <= book->streak.step) {
            struct verdict_line *line = &tracked->verdict.echo[tracked->verdict.echo_count++];

            snprintf(line->what, sizeof(line->what), "%s is not finite from step %llu on",
                     values[book->streak.loss ? VALUE_LOSS : VALUE_NORM].name,
                     (unsigned long long)book->streak.step);
            snprintf(line->source, sizeof(line->source), "metric");
            tracked->changed = true;
        }
        return true;
    }
    return false;
}

static void corrupt_streak_accuse(struct judge_state *judge, const struct corrupt_book *book)
{
    struct verdict draft = { .kind = VERDICT_CORRUPTION, .layer = LAYER_UNKNOWN };
    struct tracked_verdict *tracked;
    bool fresh;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (book->rank[rank].not_finite)
            judge_state_add_rank(judge, &draft, rank);
    }
    draft.confidence = draft.rank_count ? 0.85 : 0.7;
    draft.since_step = book->streak.step;
    corrupt_streak_describe(book, &draft);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        tracked->seen_step = judge->job_step->step;
}

static void corrupt_not_finite_step(struct judge_state *judge, struct corrupt_book *book)
{
    struct streak now;
    bool finite = false;

    if (!corrupt_step_count(judge, &now, &finite)) {
        book->streak.steps = 0;
        book->finite |= finite;
        return;
    }
    if (book->streak.steps == 0)
        corrupt_streak_begin(judge, book, &now);
    else
        book->streak.steps++;
    book->streak.last = now.step;
    book->streak.loss |= now.loss;
    /* Scaled losses begin with a scale that is too large, so the first norms may be infinite. */
    if (!book->streak.loss && (!book->finite || book->streak.steps < judge->limits.corrupt_steps))
        return;
    if (!corrupt_streak_is_echo(judge, book))
        corrupt_streak_accuse(judge, book);
    book->streak.reported = true;
}

/* ---- jumps ---- */

/* A loss that has come down to so little of what it was is rounding: a small model that knows its data by heart. */
#define VANISHED 1e-4

/* How far the value is above the rank's typical one; 1 and more is a jump. */
static double corrupt_value_height(const struct judge_state *judge, struct rank_values *at,
                                   int which, double value)
{
    uint32_t count = MIN(at->count[which], CORRUPT_WINDOW);
    double sorted[CORRUPT_WINDOW], median, limit, height = 0;

    if (count >= judge->limits.verdict_steps) {
        memcpy(sorted, at->past[which], count * sizeof(*sorted));
        median = median_f64(sorted, count);
        limit = judge->limits.corrupt_jump_noises * spread_f64(sorted, count, median);
        limit = MAX(limit, judge->limits.corrupt_jump_share * (median < 0 ? -median : median));
        at->most[which] = MAX(at->most[which], median < 0 ? -median : median);
        limit = MAX(limit, VANISHED * at->most[which]);
        height = limit > 0 ? (value - median) / limit : 0;
    }
    return height;
}

/* Where training diverges, all ranks rise, and chance decides which of them is above the limit a step earlier: a rank that rises is
 * the first only if those that do not are far below it.
 */
static void jumps_note_rises(const struct judge_state *judge, struct corrupt_book *book, int which,
                             double others)
{
    double risen = judge->limits.verdict_explains;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct rank_values *at = &book->rank[rank].values;

        if (at->height[which] > risen && !at->risen[which]) {
            at->rise_step[which] = corrupt_value_step(judge->job_step, rank);
            at->alone[which] = others < risen * at->height[which];
        }
        at->risen[which] = at->height[which] > risen;
    }
}

static void jumps_note(const struct judge_state *judge, struct corrupt_book *book, int which)
{
    double risen = judge->limits.verdict_explains, others = 0, value;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct rank_values *at = &book->rank[rank].values;

        if (!corrupt_value_of(judge->job_step, rank, which, &value) || !field_is_finite(value))
            continue;
        at->height[which] = corrupt_value_height(judge, at, which, value);
        if (at->height[which] <= risen)
            others = MAX(others, at->height[which]);
    }
    jumps_note_rises(judge, book, which, others);
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct rank_values *at = &book->rank[rank].values;
        double height = at->height[which];

        if (!corrupt_value_of(judge->job_step, rank, which, &value) || !field_is_finite(value))
            continue;
        if (height >= 1 && at->jump_values[which] == 0 && at->high_values[which] > 1)
            at->alone[which] = false; /* it has grown: that is no jump */
        at->jump_values[which] = height >= 1 ? at->jump_values[which] + 1 : 0;
        at->high_values[which] = height > risen && height < 1 ? at->high_values[which] + 1 : 0;
        if (!at->risen[which] ||
            at->high_values[which] > CORRUPT_WINDOW) /* this is typical from now on */
            at->past[which][at->count[which]++ % CORRUPT_WINDOW] = value;
    }
}

struct jump {
    uint64_t step; /* in which the first jump that lasts began */
    uint32_t began, ranks, reporters;
    bool alone; /* those that began are far above the others in that step */
};

static bool corrupt_rank_began(const struct corrupt_book *book, uint32_t rank, int which,
                               uint64_t step)
{
    const struct rank_values *at = &book->rank[rank].values;

    return at->risen[which] && at->rise_step[which] == step;
}

static struct jump jumps_count(const struct judge_state *judge, const struct corrupt_book *book,
                               int which)
{
    struct jump jump = { .step = UINT64_MAX, .alone = true };

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        const struct rank_values *at = &book->rank[rank].values;
        double value;

        jump.reporters += corrupt_value_of(judge->job_step, rank, which, &value);
        jump.ranks += at->risen[which];
        if (at->jump_values[which] >= judge->limits.corrupt_steps)
            jump.step = MIN(jump.step, at->rise_step[which]);
    }
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        const struct rank_values *at = &book->rank[rank].values;

        jump.alone &= !at->risen[which] || at->rise_step[which] >= jump.step;
        if (!corrupt_rank_began(book, rank, which, jump.step))
            continue;
        jump.began++;
        jump.alone &= at->alone[which];
    }
    return jump;
}

static double corrupt_typical_value(const struct rank_values *at, int which)
{
    uint32_t count = MIN(at->count[which], CORRUPT_WINDOW);
    double sorted[CORRUPT_WINDOW];

    memcpy(sorted, at->past[which], count * sizeof(*sorted));
    return median_f64(sorted, count);
}

static void jump_accuse(struct judge_state *judge, const struct corrupt_book *book, int which,
                        const struct jump *jump)
{
    struct verdict draft = { .kind = VERDICT_CORRUPTION,
                             .layer = LAYER_UNKNOWN,
                             .confidence = 0.6,
                             .since_step = jump->step };
    double value = 0;
    bool fresh;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (corrupt_rank_began(book, rank, which, jump->step))
            judge_state_add_rank(judge, &draft, rank);
    }
    corrupt_value_of(judge->job_step, draft.rank[0], which, &value);
    snprintf(draft.cause, sizeof(draft.cause), "its %s jumped first", values[which].name);
    verdict_because(&draft, "metric", "%s of rank %u is %.4g in step %llu, typically %.4g before",
                    values[which].name, draft.rank[0], value,
                    (unsigned long long)corrupt_value_step(judge->job_step, draft.rank[0]),
                    corrupt_typical_value(&book->rank[draft.rank[0]].values, which));
    verdict_because(&draft, "metric", "in step %llu it jumped on %u of %u ranks, by now on %u",
                    (unsigned long long)jump->step, jump->began, jump->reporters, jump->ranks);
    if (jump->step > 0)
        verdict_because(&draft, "metric", "the last clean step is %llu",
                        (unsigned long long)jump->step - 1);
    judge_state_find(judge, &draft, &fresh);
}

/* A jump on most ranks at once, or of some little before the others, comes from the data or the schedule; a jump of a single step
 * comes from its batch.
 */
static void jumps_step(struct judge_state *judge, struct corrupt_book *book, int which)
{
    struct jump jump;
    struct tracked_verdict *open = NULL;

    jumps_note(judge, book, which);
    jump = jumps_count(judge, book, which);
    if (jump.step == UINT64_MAX || 2 * jump.began > jump.reporters || !jump.alone)
        return;
    for (uint32_t rank = 0; rank < judge->model.world && !open; rank++) {
        if (corrupt_rank_began(book, rank, which, jump.step))
            open = corrupt_open(judge, rank);
    }
    if (open)
        open->seen_step = judge->job_step->step;
    else if (!judge_state_open_verdict(judge, VERDICT_CORRUPTION, LAYER_COUNT, MODEL_NONE))
        jump_accuse(judge, book, which, &jump);
}

void values_step(struct judge_state *judge, struct corrupt_book *book)
{
    corrupt_not_finite_step(judge, book);
    for (int which = 0; which < VALUE_COUNT; which++)
        jumps_step(judge, book, which);
}
