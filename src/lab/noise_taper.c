/* noise_taper.c - records a tape from the steps of a real run, and prints it as a table. */
#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/median.h"
#include "lab/noise.h"

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
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void noise_taper_destroy(struct noise_taper *taper)
{
    free(taper);
}

void noise_taper_step(struct noise_taper *taper, const struct court *court)
{
    const struct past_step *past = history_back(&court->history, 0);

    if (!past || court->model.world < NOISE_RANKS || past->measured_ns <= 0 ||
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

static double column_median(struct noise_taper *taper, uint32_t rank, size_t offset)
{
    for (uint32_t step = 0; step < taper->steps; step++) {
        const char *at = (const char *)&taper->at[step][rank];

        taper->column[step] = *(const double *)(const void *)(at + offset);
    }
    return median_f64(taper->column, taper->steps);
}

static int16_t parts(double value, double whole)
{
    double share = whole > 0 ? 1e4 * value / whole : 0;

    return (int16_t)MAX(-32000, MIN(32000, share));
}

int noise_taper_end(struct noise_taper *taper, struct noise_tape *ret)
{
    double period, transfer;

    if (taper->steps < LEAST)
        return -ENODATA;
    period = column_median(taper, 0, offsetof(struct taken, period));
    transfer = column_median(taper, 0, offsetof(struct taken, transfer));
    ret->steps = taper->steps;
    for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
        double compute = column_median(taper, rank, offsetof(struct taken, compute));
        double host = column_median(taper, rank, offsetof(struct taken, host));

        for (uint32_t step = 0; step < taper->steps; step++) {
            const struct taken *at = &taper->at[step][rank];

            ret->sample[step][rank] = (struct noise_sample){
                .compute = parts(at->compute - compute, compute),
                .host = parts(at->host - host, period),
                .delay = parts(at->delay, period),
            };
        }
    }
    for (uint32_t step = 0; step < taper->steps; step++) {
        double value[NOISE_RANKS];

        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++)
            value[rank] = taper->at[step][rank].transfer;
        ret->transfer[step] = parts(median_f64(value, NOISE_RANKS) - transfer, transfer);
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
