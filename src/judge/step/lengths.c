/* lengths.c - least squares of device compute on tokens and sum of squared lengths.
 *
 * Attention is quadratic in a sequence's length and the rest linear in tokens, so these two
 * explain what uneven data does to a rank.  All are taken relative to the mean of the rank's
 * peers and about it: a stage with more work than another must not blur what lengths do, and
 * what they do grows with its work.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/lengths.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define FIT_SAMPLES 4096

struct length_sums {
    double n, aa, ab, bb, ay, by, yy;
};

struct length_group { /* of peers: sums, then means, over the samples */
    double n, tokens, squares, compute_ms;
};

struct model_fit {
    double at_a, at_b; /* share of the compute, per unit of tokens / mean and squares / mean */
    double explained;
};

struct window {
    const struct history *history;
    const struct model *model;
    struct length_group *group;
    uint32_t steps, stride;
};

static const struct rank_split *lengths_sample(const struct past_step *past, uint32_t rank)
{
    const struct rank_split *split = &past->split[rank];

    return split->present && split->has_lengths ? split : NULL;
}

static struct length_group *group_of(const struct window *window, uint32_t rank)
{
    return &window->group[window->model->rank[rank].peers];
}

static double lengths_means(const struct window *window)
{
    double count = 0;

    for (uint32_t back = 0; back < window->steps; back++) {
        for (uint32_t rank = 0; rank < window->history->world; rank += window->stride) {
            const struct rank_split *split =
                lengths_sample(history_back(window->history, back), rank);
            struct length_group *group = group_of(window, rank);

            if (!split)
                continue;
            group->n++;
            group->tokens += split->tokens;
            group->squares += split->squares;
            group->compute_ms += (double)split->compute_ns / 1e6;
            count++;
        }
    }
    for (uint32_t i = 0; i < window->model->peer_groups; i++) {
        struct length_group *group = &window->group[i];

        if (group->n > 0) {
            group->tokens /= group->n;
            group->squares /= group->n;
            group->compute_ms /= group->n;
        }
    }
    return count;
}

static bool group_counts(const struct length_group *group)
{
    return group->n > 0 && group->tokens > 0 && group->squares > 0 && group->compute_ms > 0;
}

static void sums_fill(const struct window *window, struct length_sums *sums)
{
    for (uint32_t back = 0; back < window->steps; back++) {
        const struct past_step *past = history_back(window->history, back);

        for (uint32_t rank = 0; rank < window->history->world; rank += window->stride) {
            const struct rank_split *split = lengths_sample(past, rank);
            const struct length_group *group = group_of(window, rank);
            double a, b, y;

            if (!split || !group_counts(group))
                continue;
            a = split->tokens / group->tokens - 1;
            b = split->squares / group->squares - 1;
            y = (double)split->compute_ns / 1e6 / group->compute_ms - 1;
            sums->n++;
            sums->aa += a * a;
            sums->ab += a * b;
            sums->bb += b * b;
            sums->ay += a * y;
            sums->by += b * y;
            sums->yy += y * y;
        }
    }
}

/* Solves for the two slopes; tokens and squares are nearly the same thing when all
 * sequences are equal, so the smaller pivot falls back to one of them.
 */
static void lengths_solve(const struct length_sums *s, struct model_fit *fit)
{
    double det = s->aa * s->bb - s->ab * s->ab;

    *fit = (struct model_fit){ 0 };
    if (det > 1e-6 * s->aa * s->bb && det > 0) {
        fit->at_a = (s->ay * s->bb - s->by * s->ab) / det;
        fit->at_b = (s->by * s->aa - s->ay * s->ab) / det;
    } else if (s->bb > 0 && s->bb >= s->aa) {
        fit->at_b = s->by / s->bb;
    } else if (s->aa > 0) {
        fit->at_a = s->ay / s->aa;
    }
    if (s->yy > 0)
        fit->explained = MAX(0, MIN(1, (fit->at_a * s->ay + fit->at_b * s->by) / s->yy));
}

/* What the lengths of each rank explain, over the mean of the samples. */
static void lengths_predict(const struct window *window, const struct model_fit *fit,
                            struct past_step *past)
{
    for (uint32_t rank = 0; rank < window->history->world; rank++) {
        const struct rank_split *split = lengths_sample(past, rank);
        const struct length_group *group = group_of(window, rank);

        if (split && group_counts(group))
            past->length_ms[rank] =
                (float)(group->compute_ms * (fit->at_a * (split->tokens / group->tokens - 1) +
                                             fit->at_b * (split->squares / group->squares - 1)));
    }
}

int lengths_explain(struct history *history, const struct model *model,
                    const struct thresholds *limits)
{
    struct past_step *past = &history->step[(history->count - 1) % HISTORY_STEPS];
    CLEAN(free_clean) struct length_group *group = calloc(model->peer_groups + 1, sizeof(*group));
    uint32_t steps = MIN((uint32_t)limits->imbalance_fit, HISTORY_STEPS);
    struct window window = { history, model, group, MIN(history->count, steps), 0 };
    struct model_fit fit;
    struct length_sums sums = { 0 };

    if (!group)
        return -ENOMEM;
    /* Odd, so that groups of every second, fourth, eighth rank all have samples. */
    window.stride = (uint32_t)((uint64_t)history->world * window.steps / FIT_SAMPLES) | 1;
    memset(past->length_ms, 0, history->world * sizeof(float));
    history->lengths_vary = false;
    history->explained = 0;
    if (lengths_means(&window) < 2)
        return 0;
    sums_fill(&window, &sums);
    history->lengths_vary =
        sums.n > 0 && sqrt(MAX(sums.aa, sums.bb) / sums.n) > limits->verdict_least_cost;
    if (!history->lengths_vary || sums.n < limits->imbalance_fit)
        return 0;
    lengths_solve(&sums, &fit);
    history->explained = fit.explained;
    lengths_predict(&window, &fit, past);
    return 0;
}
