/* noise.c - records a tape from the steps of a real run and prints it as a table; fits the tails of one, and draws from it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/noise/noise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/median.h"

#define UNIT 1e-4
#define BLOCK_STEPS 16   /* of a block, on average: longer than what lasts on the tape */
#define TAIL_SHARE 0.02  /* of all values that the tail is fitted to, and that are drawn from it */
#define TAIL_LEAST 0.005 /* where the tape is quieter than this there is no tail to speak of */
#define INDEX_LEAST 1.1  /* lower ones have no mean */
#define TAIL_MOST 5.0    /* steps; what lasts longer is a hang, not noise */
#define BURST_DAYS 1.0   /* between two bursts of a host */
#define BURST_TIMES 3
#define BURST_STEPS 3  /* on average; one that lasts is a straggler, not noise */
#define PAUSE_DAYS 7.0 /* between two pauses of a rank */
#define PAUSE_LEAST 0.5
#define PAUSE_MOST 5.0 /* steps */

enum noise_series {
    SERIES_OF_COMPUTE,
    SERIES_OF_HOST,
    SERIES_OF_TRANSFER
};

static double noise_tape_value(const struct noise_tape *tape, enum noise_series series,
                               uint32_t step, uint32_t rank)
{
    switch (series) {
    case SERIES_OF_COMPUTE:
        return UNIT * tape->sample[step][rank].compute;
    case SERIES_OF_HOST:
        return UNIT * tape->sample[step][rank].host;
    default:
        return UNIT * tape->transfer[step];
    }
}

/* Hill: the mean of the logarithms above the quantile is the index's inverse. */
static struct noise_tail noise_tail_fit(const struct noise_tape *tape, enum noise_series series)
{
    CLEAN(free_clean) double *value = calloc(NOISE_STEPS_MAX, NOISE_RANKS * sizeof(*value));
    uint32_t ranks = series == SERIES_OF_TRANSFER ? 1 : NOISE_RANKS, count = 0, above;
    double sum = 0;

    for (uint32_t step = 0; value && step < tape->steps; step++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            value[count++] = noise_tape_value(tape, series, step, rank);
    }
    qsort(value, count, sizeof(*value), order_f64_falling);
    above = MAX(4, (uint32_t)(TAIL_SHARE * count));
    if (above >= count || value[above] < TAIL_LEAST)
        return (struct noise_tail){ TAIL_LEAST, 4 };
    for (uint32_t i = 0; i < above; i++)
        sum += log(value[i] / value[above]);
    return (struct noise_tail){ value[above], MAX(INDEX_LEAST, above / MAX(sum, 1e-9)) };
}

void noise_init(struct noise *noise, const struct noise_tape *tape, uint64_t seed, double step_s,
                double often)
{
    *noise = (struct noise){ .tape = tape, .rand = { seed } };
    noise->compute = noise_tail_fit(tape, SERIES_OF_COMPUTE);
    noise->host = noise_tail_fit(tape, SERIES_OF_HOST);
    noise->transfer = noise_tail_fit(tape, SERIES_OF_TRANSFER);
    noise->burst_odds = often * step_s / (BURST_DAYS * 86400);
    noise->pause_odds = often * step_s / (PAUSE_DAYS * 86400);
}

static double noise_tail_draw(struct noise *noise, const struct noise_tail *tail, double value)
{
    if (value <= tail->from)
        return value;
    return MIN(TAIL_MOST, tail->from * pow(1 - rand_unit(&noise->rand), -1 / tail->index));
}

void noise_next(struct noise *noise, struct noise_host *host, struct noise_draw ret[NOISE_RANKS])
{
    double times = 1;

    if (host->left == 0) {
        host->at = rand_below(&noise->rand, noise->tape->steps);
        host->left = 1 + rand_below(&noise->rand, 2 * BLOCK_STEPS);
    }
    if (host->burst == 0 && rand_unit(&noise->rand) < noise->burst_odds)
        host->burst = 1 + rand_below(&noise->rand, 2 * BURST_STEPS);
    if (host->burst > 0) {
        host->burst--;
        times = BURST_TIMES;
    }
    for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
        const struct noise_sample *at = &noise->tape->sample[host->at][rank];

        ret[rank].compute = times * noise_tail_draw(noise, &noise->compute, UNIT * at->compute);
        ret[rank].host = times * MAX(0, noise_tail_draw(noise, &noise->host, UNIT * at->host));
        ret[rank].delay = UNIT * at->delay;
    }
    if (rand_unit(&noise->rand) < NOISE_RANKS * noise->pause_odds)
        ret[rand_below(&noise->rand, NOISE_RANKS)].host +=
            PAUSE_LEAST + (PAUSE_MOST - PAUSE_LEAST) * rand_unit(&noise->rand);
    host->left--;
    host->at = (host->at + 1) % noise->tape->steps;
}

double noise_transfer(struct noise *noise)
{
    uint32_t step = rand_below(&noise->rand, noise->tape->steps);

    return noise_tail_draw(noise, &noise->transfer, UNIT * noise->tape->transfer[step]);
}

/* ---- recording ---- */

#define WARM_UP 10 /* steps of a run that are not typical */
#define LEAST 64   /* steps of a tape */

struct taken {
    double compute, host, delay, period, transfer;
};

struct noise_taper {
    uint32_t steps, skipped;
    struct taken at[NOISE_STEPS_MAX][NOISE_RANKS];
    double column[NOISE_STEPS_MAX]; /* scratch */
};

int noise_taper_create(struct noise_taper **ret)
{
    struct noise_taper *taper = calloc(1, sizeof(*taper));

    if (!taper)
        return -ENOMEM;
    *ret = taper;
    return 0;
}

void noise_taper_destroy(struct noise_taper *taper)
{
    free(taper);
}

void noise_taper_step(struct noise_taper *taper, const struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);

    if (!past || judge->model.world < NOISE_RANKS || past->measured_ns <= 0 ||
        taper->skipped++ < WARM_UP || taper->steps == NOISE_STEPS_MAX)
        return;
    for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
        const struct rank_split *split = &past->split[rank];

        taper->at[taper->steps][rank] =
            (struct taken){ .compute = (double)split->compute_ns,
                            .host = (double)(split_host_ns(split) + split->queued_ns),
                            .delay = (double)(split->delay_ns + split->throttled_ns),
                            .period = (double)past->measured_ns,
                            .transfer = (double)split->transfer_ns };
    }
    taper->steps++;
}

static double noise_column_median(struct noise_taper *taper, uint32_t rank, size_t offset)
{
    for (uint32_t step = 0; step < taper->steps; step++) {
        const char *at = (const char *)&taper->at[step][rank];

        taper->column[step] = *(const double *)(const void *)(at + offset);
    }
    return median_f64(taper->column, taper->steps);
}

static int16_t noise_parts(double value, double total)
{
    double share = total > 0 ? 1e4 * value / total : 0;

    return (int16_t)MAX(-32000, MIN(32000, share));
}

int noise_taper_end(struct noise_taper *taper, struct noise_tape *ret)
{
    double period, transfer;

    if (taper->steps < LEAST)
        return -ENODATA;
    period = noise_column_median(taper, 0, offsetof(struct taken, period));
    transfer = noise_column_median(taper, 0, offsetof(struct taken, transfer));
    ret->steps = taper->steps;
    for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
        double compute = noise_column_median(taper, rank, offsetof(struct taken, compute));
        double host = noise_column_median(taper, rank, offsetof(struct taken, host));

        for (uint32_t step = 0; step < taper->steps; step++) {
            const struct taken *at = &taper->at[step][rank];

            ret->sample[step][rank] = (struct noise_sample){
                .compute = noise_parts(at->compute - compute, compute),
                .host = noise_parts(at->host - host, period),
                .delay = noise_parts(at->delay, period),
            };
        }
    }
    for (uint32_t step = 0; step < taper->steps; step++) {
        double value[NOISE_RANKS];

        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++)
            value[rank] = taper->at[step][rank].transfer;
        ret->transfer[step] = noise_parts(median_f64(value, NOISE_RANKS) - transfer, transfer);
    }
    return 0;
}

void noise_tape_print(const struct noise_tape *tape, FILE *out)
{
    fprintf(out, "    .steps = %u,\n    .sample = {\n", tape->steps);
    for (uint32_t step = 0; step < tape->steps; step++) {
        fprintf(out, "        {");
        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
            const struct noise_sample *at = &tape->sample[step][rank];

            fprintf(out, "%s{%d,%d,%d}", rank ? "," : "", at->compute, at->host, at->delay);
        }
        fprintf(out, "},\n");
    }
    fprintf(out, "    },\n    .transfer = {");
    for (uint32_t step = 0; step < tape->steps; step++)
        fprintf(out, "%s%d,", step % 16 ? "" : "\n        ", tape->transfer[step]);
    fprintf(out, "\n    },\n");
}
