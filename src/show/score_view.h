/* score_view.h - the score card of a run, for whoever pays for it.
 *
 * A number that is not known is NAN, and `unknown` has the reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_SCORE_VIEW_H
#define LOCKSTEP_SHOW_SCORE_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "show/style.h"
#include "wire/facts.h"
#include "wire/verdict.h"

#define SCORE_DEAREST 10
#define SCORE_SAVINGS 5
#define SCORE_UNKNOWN 28

struct score_unknown {
    const char *field; /* as in JSON */
    char why[160];
};

/* What one node, layer or kind of verdict cost: the sum of the costs of its verdicts, each found by replay. */
struct score_saving {
    char what[80]; /* "node n2", "layer storage" */
    double gpu_seconds;
};

struct score_device { /* of a rank */
    uint32_t rank;
    double seconds, computing, idle; /* of all its steps that its device told of */
};

struct score_card {
    char run[64];
    bool alive;
    uint32_t ranks, attempts;
    uint64_t steps;          /* of all ranks, as the ledger counts them */
    uint64_t steps_measured; /* of these: whole on some rank, so the times of steps are theirs */
    uint64_t steps_left_out; /* of single ranks: incomplete, merged or beyond the limit */
    bool has_ledger;
    struct ledger ledger;
    double goodput, ettr;
    double tokens_per_second, mfu;
    bool mfu_by_ranks; /* from what the ranks reported, and no option */
    char mfu_peak[96]; /* "989 TFLOP/s: NVIDIA H200, dense bf16"; "": not known */
    double device_computing,
        device_idle;             /* shares of the steps' time on the devices; the rest is waiting */
    struct score_device *device; /* by rank; free with score_card_fini() */
    uint32_t devices;
    double exposure_seconds; /* training time in which a failure would have been seen */
    uint32_t failures;
    double mttf_seconds, mttf_low, mttf_high; /* 95 % interval */
    double time_to_first_step_seconds, time_to_steady_seconds;
    double queue_seconds, prolog_seconds, start_up_seconds;
    uint32_t checkpoints;
    double checkpoint_p50_s, checkpoint_p99_s, checkpoint_deviation_s;
    double step_p50_s, step_p99_s;
    uint64_t spikes; /* steps of more than 1.5 times the median */
    double data_p50_s, data_p50_at_spikes_s;
    uint32_t pauses;
    double pauses_per_hour;
    double loss_first, loss_last;
    double learning_velocity, learning_velocity_per_money; /* per GPU-hour, per unit of money */
    double price;                                          /* of a GPU-hour */
    struct verdict dearest[SCORE_DEAREST];
    uint32_t dearest_count;
    struct score_saving saving[SCORE_SAVINGS];
    uint32_t saving_count;
    struct score_unknown unknown[SCORE_UNKNOWN];
    uint32_t unknown_count;
};

void score_card_fini(struct score_card *card);

/* Says why a field is not known; the first reason stays. */
void score_set_unknown(struct score_card *card, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The caller puts it; man/lockstep-report.1.scd lists the fields. */
struct json_object *score_json(const struct score_card *card);
void score_text(const struct score_card *card, const struct show_style *style, FILE *out);
/* What several runs have in common, after the card of each. */
void score_sum_text(const struct score_card *sum, FILE *out);

#endif
