/* lengths.c - least squares of device compute on tokens and sum of squared lengths.
 *
 * Attention is quadratic in a sequence's length and the rest linear in tokens, so these two
 * explain what uneven data does to a rank.  Both are divided by their means first: the
 * normal equations then have numbers near one.
 */
#include "judge/lengths.h"

#include <math.h>
#include <string.h>

#include "core/clean.h"

#define FIT_STEPS 16
#define FIT_SAMPLES 4096
#define FIT_LEAST 16    /* samples before anything is explained */
#define VARY_SHARE 0.01 /* lengths that differ by less than this do not matter */

struct sums {
    double n, a, b, y, aa, ab, bb, ay, by, yy;
};

struct model_fit {
    double mean_a, mean_b;
    double at_a, at_b; /* milliseconds per unit of tokens / mean and squares / mean */
    double explained;
};

static const struct rank_split *sample(const struct past_step *past, uint32_t rank)
{
    const struct rank_split *split = &past->split[rank];

    return split->present && split->has_lengths ? split : NULL;
}

static void means(const struct history *history, uint32_t steps, uint32_t stride,
                  struct model_fit *fit, double *count)
{
    *count = fit->mean_a = fit->mean_b = 0;
    for (uint32_t back = 0; back < steps; back++) {
        for (uint32_t rank = 0; rank < history->world; rank += stride) {
            const struct rank_split *split = sample(history_back(history, back), rank);

            if (!split)
                continue;
            fit->mean_a += split->tokens;
            fit->mean_b += split->squares;
            (*count)++;
        }
    }
    if (*count > 0) {
        fit->mean_a /= *count;
        fit->mean_b /= *count;
    }
}

static void sums_fill(const struct history *history, uint32_t steps, uint32_t stride,
                      const struct model_fit *fit, struct sums *sums)
{
    for (uint32_t back = 0; back < steps; back++) {
        const struct past_step *past = history_back(history, back);

        for (uint32_t rank = 0; rank < history->world; rank += stride) {
            const struct rank_split *split = sample(past, rank);
            double a, b, y;

            if (!split)
                continue;
            a = split->tokens / fit->mean_a - 1;
            b = split->squares / fit->mean_b - 1;
            y = (double)split->compute_ns / 1e6;
            sums->n++;
            sums->a += a;
            sums->b += b;
            sums->y += y;
            sums->aa += a * a;
            sums->ab += a * b;
            sums->bb += b * b;
            sums->ay += a * y;
            sums->by += b * y;
            sums->yy += y * y;
        }
    }
}

/* Solves for the two slopes about the means; tokens and squares are nearly the same thing when all
 * sequences are equal, so the smaller pivot falls back to one of them.
 */
static void solve(struct sums *s, struct model_fit *fit)
{
    double aa = s->aa - s->a * s->a / s->n, bb = s->bb - s->b * s->b / s->n;
    double ab = s->ab - s->a * s->b / s->n, ay = s->ay - s->a * s->y / s->n;
    double by = s->by - s->b * s->y / s->n, yy = s->yy - s->y * s->y / s->n;
    double det = aa * bb - ab * ab;

    fit->at_a = fit->at_b = fit->explained = 0;
    if (det > 1e-6 * aa * bb && det > 0) {
        fit->at_a = (ay * bb - by * ab) / det;
        fit->at_b = (by * aa - ay * ab) / det;
    } else if (bb > 0 && bb >= aa) {
        fit->at_b = by / bb;
    } else if (aa > 0) {
        fit->at_a = ay / aa;
    }
    if (yy > 0)
        fit->explained = MAX(0, MIN(1, (fit->at_a * ay + fit->at_b * by) / yy));
}

static void predict(const struct history *history, const struct model_fit *fit,
                    struct past_step *past)
{
    double mean = 0, count = 0;

    for (uint32_t rank = 0; rank < history->world; rank++) {
        const struct rank_split *split = sample(past, rank);

        if (!split)
            continue;
        past->length_ms[rank] = (float)(fit->at_a * (split->tokens / fit->mean_a - 1) +
                                        fit->at_b * (split->squares / fit->mean_b - 1));
        mean += (double)past->length_ms[rank];
        count++;
    }
    for (uint32_t rank = 0; rank < history->world && count > 0; rank++) {
        if (sample(past, rank))
            past->length_ms[rank] -= (float)(mean / count);
    }
}

void lengths_explain(struct history *history)
{
    struct past_step *past = &history->step[(history->count - 1) % HISTORY_STEPS];
    uint32_t steps = MIN(MIN(history->count, FIT_STEPS), HISTORY_STEPS);
    uint32_t stride = history->world * steps / FIT_SAMPLES + 1;
    struct model_fit fit;
    struct sums sums = { 0 };
    double count, spread;

    memset(past->length_ms, 0, history->world * sizeof(float));
    history->lengths_vary = false;
    history->explained = 0;
    means(history, steps, stride, &fit, &count);
    if (count < 2 || fit.mean_a <= 0 || fit.mean_b <= 0)
        return;
    sums_fill(history, steps, stride, &fit, &sums);
    spread = sqrt(MAX(0, sums.aa - sums.a * sums.a / sums.n) / sums.n);
    spread = MAX(spread, sqrt(MAX(0, sums.bb - sums.b * sums.b / sums.n) / sums.n));
    history->lengths_vary = spread > VARY_SHARE;
    if (!history->lengths_vary || count < FIT_LEAST)
        return;
    solve(&sums, &fit);
    history->explained = fit.explained;
    predict(history, &fit, past);
}
