/* score_card.c - the numbers of a score card, each with the reason where there is none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/score_card.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/report/run_frames.h"
#include "control/report/run_report.h"
#include "control/report/score_device.h"
#include "control/report/shape_book.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "show/ledger_view.h"
#include "wire/policy_table.h"
#include "wire/spool.h"

#define STEADY_STEPS 10   /* in a row that are not much longer than the median */
#define STEADY_FACTOR 1.1 /* of the median */
#define SPIKE_FACTOR 1.5
#define PAUSE_FACTOR 10.0 /* of the median, and at least PAUSE_NS, without the end of a step */
#define PAUSE_NS NS_PER_S
#define LOSS_SHARE 20 /* a twentieth of the losses at each end is averaged, */
#define LOSS_MOST 100 /* at most so many: the page of a long run has no more of its first steps */
#define CONFIDENCE_TAIL 0.025

struct score_step { /* of all ranks */
    uint32_t attempt, ranks;
    uint64_t step;
    int64_t begin_ns, end_ns; /* real time: first rank's begin, last rank's end */
    int64_t duration_ns;      /* of the rank that took longest, to its next begin */
    int64_t data_ns, checkpoint_ns;
    double loss;     /* sum of the ranks that reported it */
    uint32_t losses; /* how many these are */
};

struct score_builder {
    struct score_card *card;
    const struct score_question *question;
    struct shape_book book;
    struct map clock; /* sender → real minus monotonic time */
    struct map place; /* attempt and step → place in `step` */
    struct score_step *step;
    size_t steps, room;
    double tokens, token_seconds; /* token_seconds: GPU-seconds of the steps that have tokens */
    uint64_t token_steps;
    uint32_t split;                        /* tp x pp; 0: no rank has a layout */
    int64_t submit_real_ns, start_real_ns; /* of the scheduler's job; 0: not known */
    int64_t begin_real_ns, attempt_begin_ns, first_attempt_ns, end_real_ns;
    double flop, flop_seconds; /* that ranks reported, and the GPU-seconds of these steps */
    char gpu[128];             /* its name, of the first rank that has one; "": not known */
    size_t device_room;
    char node[FACT_NAME]; /* of a rank */
    bool several_nodes;
    bool launched, in_attempt;
};

static void score_builder_fini(struct score_builder *builder)
{
    shape_book_fini(&builder->book);
    map_fini(&builder->clock);
    map_fini(&builder->place);
    free(builder->step);
}

/* ---- facts ---- */

static void score_take_run(struct score_builder *builder, const struct fact_run *run)
{
    struct score_card *card = builder->card;

    builder->launched = true;
    builder->end_real_ns = MAX(builder->end_real_ns, run->real_ns);
    if (run->event == RUN_BEGIN && !builder->begin_real_ns)
        builder->begin_real_ns = run->real_ns;
    if (run->event == RUN_ATTEMPT_BEGIN) {
        builder->attempt_begin_ns = run->real_ns;
        builder->in_attempt = true;
        if (!builder->first_attempt_ns)
            builder->first_attempt_ns = run->real_ns;
    }
    if (run->event == RUN_ATTEMPT_END && builder->in_attempt) {
        builder->in_attempt = false;
        card->exposure_seconds += (double)(run->real_ns - builder->attempt_begin_ns) / 1e9;
        card->failures += run->status != 0 && !fact_run_stopped(run);
    }
}

static struct score_step *score_step_of(struct score_builder *builder, const struct fact_step *fact)
{
    uint64_t key = hash64_u64(fact->attempt + 1, fact->step);
    uint64_t *at = map_put(&builder->place, key, UINT64_MAX);

    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (!ARRAY_FIT(builder->step, builder->room, builder->steps + 1))
            return NULL;
        *at = builder->steps++;
        builder->step[*at] = (struct score_step){ .attempt = fact->attempt,
                                                  .step = fact->step,
                                                  .begin_ns = INT64_MAX };
    }
    return &builder->step[*at];
}

static void score_add_phases(struct score_step *step, const struct fact_step *fact,
                             const struct fact_shape *shape)
{
    int64_t data_ns = 0, checkpoint_ns = 0;

    for (uint32_t i = 0; i < MIN(fact->count, shape->count); i++) {
        int64_t length = fact->time[i].end_ns - fact->time[i].start_ns;

        if (shape->item[i].kind != ITEM_PHASE)
            continue;
        if (shape->item[i].what == LOCKSTEP_PHASE_DATA)
            data_ns += length;
        if (shape->item[i].what == LOCKSTEP_PHASE_CHECKPOINT)
            checkpoint_ns += length;
    }
    step->data_ns = MAX(step->data_ns, data_ns);
    step->checkpoint_ns = MAX(step->checkpoint_ns, checkpoint_ns);
}

static void score_add_step(struct score_builder *builder, struct score_step *step,
                           const struct fact_step *fact, const struct fact_shape *shape,
                           int64_t clock_ns)
{
    int64_t period_ns = fact->duration_ns + fact->tail_ns;
    double loss = fact->metric[LOCKSTEP_METRIC_LOSS];

    step->ranks++;
    step->begin_ns = MIN(step->begin_ns, fact->begin_ns + clock_ns);
    step->end_ns = MAX(step->end_ns, fact->begin_ns + clock_ns + fact->duration_ns);
    step->duration_ns = MAX(step->duration_ns, period_ns);
    builder->end_real_ns = MAX(builder->end_real_ns, step->end_ns);
    score_add_phases(step, fact, shape);
    if (fact->metric_set & 1u << LOCKSTEP_METRIC_LOSS && isfinite(loss)) {
        step->loss += loss;
        step->losses++;
    }
    if (fact->metric_set & 1u << LOCKSTEP_METRIC_TOKENS &&
        fact->metric[LOCKSTEP_METRIC_TOKENS] > 0) {
        builder->tokens += fact->metric[LOCKSTEP_METRIC_TOKENS];
        builder->token_seconds += (double)period_ns / 1e9;
        builder->token_steps++;
    }
    if (fact->metric_set & 1u << LOCKSTEP_METRIC_FLOP && fact->metric[LOCKSTEP_METRIC_FLOP] > 0) {
        builder->flop += fact->metric[LOCKSTEP_METRIC_FLOP];
        builder->flop_seconds += (double)period_ns / 1e9;
    }
}

static int score_take_step(struct score_builder *builder, uint64_t sender, struct reader in)
{
    CLEAN(fact_step_fini) struct fact_step fact = { 0 };
    const struct fact_shape *shape = NULL;
    const uint64_t *clock = map_get(&builder->clock, sender);
    int result = shape_book_step(&builder->book, in, &fact, &shape);
    struct score_step *step;

    if (result == -ENOMEM)
        return result;
    if (result < 0 || !clock || fact.flags & (STEP_BARE | STEP_TORN | STEP_UNFINISHED) ||
        builder->steps >= SCORE_STEPS) {
        builder->card->steps_left_out++;
        return 0;
    }
    step = score_step_of(builder, &fact);
    if (!step)
        return -ENOMEM;
    score_add_step(builder, step, &fact, shape, (int64_t)*clock);
    return score_device_add(builder->card, &builder->device_room, &fact, shape);
}

static void score_take_node(struct score_builder *builder, const struct fact_ring *ring)
{
    if (!builder->node[0])
        snprintf(builder->node, sizeof(builder->node), "%s", ring->node);
    builder->several_nodes |= strcmp(builder->node, ring->node) != 0;
}

static void score_take_layout(struct score_builder *builder, const struct fact_ring *ring)
{
    if (ring->has_layout)
        builder->split = MAX(1u, (uint32_t)ring->layout[0]) * MAX(1u, (uint32_t)ring->layout[1]);
}

static void score_take_merged(struct score_builder *builder, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };

    if (fact_merged_get(in, &merged) == 0)
        builder->card->steps_left_out += merged.steps;
}

/* Of the first launcher: what a requeue waited for later is not how long this run took to begin. */
static void score_take_job(struct score_builder *builder, const struct policy_means *means)
{
    if (builder->start_real_ns)
        return;
    builder->submit_real_ns = means->submit_real_ns;
    builder->start_real_ns = means->start_real_ns;
}

static int score_take_environment(struct score_builder *builder, struct reader in)
{
    CLEAN(environment_fini) struct environment environment = { 0 };

    if (builder->gpu[0] || environment_get(in, &environment) < 0)
        return 0;
    for (uint32_t i = 0; i < environment.count; i++) {
        if (strcmp(environment.pair[i].name, ENVIRONMENT_GPU) == 0)
            snprintf(builder->gpu, sizeof(builder->gpu), "%s", environment.pair[i].value);
    }
    return 0;
}

static int score_take_frame(void *arg, const struct frame *frame, struct err *err)
{
    struct score_builder *builder = arg;
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_hello hello;
    struct fact_ring ring;
    struct policy_means means;
    struct fact_run run;
    int result = 0;

    switch (frame->type) {
    case FRAME_HELLO:
        if (fact_hello_get(in, &hello) == 0 &&
            !map_put(&builder->clock, frame->sender, (uint64_t)(hello.real_ns - hello.mono_ns)))
            result = -ENOMEM;
        break;
    case FRAME_RING:
        if (fact_ring_get(in, &ring) == 0) {
            score_take_layout(builder, &ring);
            score_take_node(builder, &ring);
        }
        break;
    case FRAME_RUN:
        if (fact_run_get(in, &run) == 0)
            score_take_run(builder, &run);
        break;
    case FRAME_MEANS:
        if (policy_means_get(in, &means) == 0)
            score_take_job(builder, &means);
        break;
    case FRAME_SHAPE:
        result = shape_book_add(&builder->book, in);
        break;
    case FRAME_STEP:
        result = score_take_step(builder, frame->sender, in);
        break;
    case FRAME_MERGED:
        score_take_merged(builder, in);
        break;
    case FRAME_ENVIRONMENT:
        result = score_take_environment(builder, in);
        break;
    default:
        break;
    }
    return result < 0 ? err_nomem(err) : 0;
}

/* ---- numbers ---- */

static int score_compare_double(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* Sorts.  NAN: there is none. */
static double score_quantile(double *value, size_t count, double q)
{
    if (!count)
        return NAN;
    qsort(value, count, sizeof(*value), score_compare_double);
    return value[(size_t)ceil(q * (double)count) - (q > 0)];
}

static int score_compare_time(const void *a, const void *b)
{
    const struct score_step *left = a, *right = b;

    return left->end_ns < right->end_ns ? -1 : left->end_ns > right->end_ns;
}

static void score_steps(struct score_builder *builder, double *scratch)
{
    struct score_card *card = builder->card;
    size_t count = 0, plain = 0, at_spikes = 0;

    for (size_t i = 0; i < builder->steps; i++)
        scratch[i] = (double)builder->step[i].duration_ns / 1e9;
    card->steps = card->has_ledger ? card->ledger.steps : builder->steps;
    /* A step in which a rank was killed may be whole on others: the ledger does not count it. */
    card->steps_measured = MIN(builder->steps, card->steps);
    card->step_p99_s = score_quantile(scratch, builder->steps, 0.99);
    card->step_p50_s = score_quantile(scratch, builder->steps, 0.5);
    for (size_t i = 0; i < builder->steps; i++) {
        const struct score_step *step = &builder->step[i];

        if ((double)step->duration_ns / 1e9 <= SPIKE_FACTOR * card->step_p50_s)
            scratch[plain++] = (double)step->data_ns / 1e9;
    }
    card->data_p50_s = score_quantile(scratch, plain, 0.5);
    for (size_t i = 0; i < builder->steps; i++) {
        const struct score_step *step = &builder->step[i];

        if ((double)step->duration_ns / 1e9 > SPIKE_FACTOR * card->step_p50_s)
            scratch[at_spikes++] = (double)step->data_ns / 1e9;
    }
    card->spikes = at_spikes;
    card->data_p50_at_spikes_s = score_quantile(scratch, at_spikes, 0.5);
    if (!at_spikes)
        score_set_unknown(card, "data_p50_at_spikes_s", "no step took 1.5 times the median");
    for (size_t i = 0; i < builder->steps; i++) {
        if (builder->step[i].checkpoint_ns > 0)
            scratch[count++] = (double)builder->step[i].checkpoint_ns / 1e9;
    }
    card->checkpoints = (uint32_t)count;
    card->checkpoint_p99_s = score_quantile(scratch, count, 0.99);
    card->checkpoint_p50_s = score_quantile(scratch, count, 0.5);
    for (size_t i = 0; i < count; i++)
        card->checkpoint_deviation_s += scratch[i] / (double)count;
    for (size_t i = 0; i < count; i++) {
        double off = scratch[i] - card->checkpoint_deviation_s;

        scratch[i] = off * off / (double)count;
    }
    card->checkpoint_deviation_s = count ? 0 : NAN;
    for (size_t i = 0; i < count; i++)
        card->checkpoint_deviation_s += scratch[i];
    card->checkpoint_deviation_s = sqrt(card->checkpoint_deviation_s);
}

static void score_checkpoint_unknown(struct score_card *card)
{
    static const char *const fields[] = { "checkpoint_p50_s", "checkpoint_p99_s",
                                          "checkpoint_deviation_s" };

    for (size_t i = 0; !card->checkpoints && i < COUNT(fields); i++)
        score_set_unknown(card, fields[i], "no rank marked a checkpoint phase in its steps");
}

/* From the end of one step to the end of the next, over restarts too; steps are sorted by end. */
static void score_pauses(struct score_builder *builder)
{
    struct score_card *card = builder->card;
    double least = MAX(PAUSE_FACTOR * card->step_p50_s * 1e9, (double)PAUSE_NS);
    double hours;

    if (builder->steps < 2) {
        score_set_unknown(card, "pauses_per_hour", "fewer than two steps were observed");
        card->pauses_per_hour = NAN;
        return;
    }
    for (size_t i = 1; i < builder->steps; i++)
        card->pauses += (double)(builder->step[i].end_ns - builder->step[i - 1].end_ns) > least;
    hours = (double)(builder->step[builder->steps - 1].end_ns - builder->step[0].begin_ns) /
            (3600.0 * 1e9);
    card->pauses_per_hour = card->pauses / hours;
}

/* The end of the first of STEADY_STEPS in a row that are no longer than usual; NAN: none.  The time to the first step is measured
 * to its end, too: else the first step could be steady before it was made.
 */
static double score_steady_seconds(const struct score_builder *builder, int64_t begin_ns)
{
    double limit = STEADY_FACTOR * builder->card->step_p50_s * 1e9;
    size_t row = 0;

    for (size_t i = 0; i < builder->steps; i++) {
        row = (double)builder->step[i].duration_ns <= limit ? row + 1 : 0;
        if (row == STEADY_STEPS)
            return (double)(builder->step[i + 1 - STEADY_STEPS].end_ns - begin_ns) / 1e9;
    }
    return NAN;
}

/* What the run did before it began: the scheduler knows, if there is one. */
static void score_queue(struct score_builder *builder, int64_t begin_ns)
{
    int64_t submit_ns = builder->submit_real_ns, start_ns = builder->start_real_ns;
    struct score_card *card = builder->card;

    card->queue_seconds = card->prolog_seconds = NAN;
    if (submit_ns && start_ns >= submit_ns)
        card->queue_seconds = (double)(start_ns - submit_ns) / 1e9;
    else
        score_set_unknown(card, "queue_seconds",
                          "no scheduler recorded when the job was submitted");
    if (start_ns && begin_ns >= start_ns)
        card->prolog_seconds = (double)(begin_ns - start_ns) / 1e9;
    else
        score_set_unknown(card, "prolog_seconds", "no scheduler recorded when the job was started");
}

static void score_start(struct score_builder *builder)
{
    struct score_card *card = builder->card;
    int64_t begin_ns = builder->begin_real_ns ? builder->begin_real_ns : builder->first_attempt_ns;

    score_queue(builder, begin_ns);
    card->time_to_first_step_seconds = card->time_to_steady_seconds = card->start_up_seconds = NAN;
    if (!begin_ns || !builder->steps) {
        const char *why =
            begin_ns ? "no step was observed" : "no launcher recorded when the run began";

        score_set_unknown(card, "time_to_first_step_seconds", "%s", why);
        score_set_unknown(card, "time_to_steady_seconds", "%s", why);
        score_set_unknown(card, "start_up_seconds", "%s", why);
        return;
    }
    card->time_to_first_step_seconds = (double)(builder->step[0].end_ns - begin_ns) / 1e9;
    card->start_up_seconds = (double)(builder->step[0].begin_ns - begin_ns) / 1e9;
    card->time_to_steady_seconds = score_steady_seconds(builder, begin_ns);
    if (isnan(card->time_to_steady_seconds))
        score_set_unknown(card, "time_to_steady_seconds",
                          "no %d steps in a row were within 10 %% of the median", STEADY_STEPS);
}

/* Losses of the surviving lineage: a step that a later attempt did again does not count. */
static size_t score_lineage(const struct score_builder *builder, double *scratch)
{
    uint64_t next = UINT64_MAX;
    size_t count = 0;

    for (size_t i = builder->steps; i-- > 0;) {
        const struct score_step *step = &builder->step[i];

        if (step->step >= next)
            continue;
        next = step->step;
        if (step->losses)
            scratch[count++] = step->loss / step->losses;
    }
    return count; /* the newest first */
}

static void score_learning(struct score_builder *builder, double *scratch)
{
    struct score_card *card = builder->card;
    size_t count = score_lineage(builder, scratch),
           ends = MIN(count / LOSS_SHARE + 1, (size_t)LOSS_MOST);
    double hours = card->has_ledger ? ledger_total(&card->ledger) / 3600 : 0;

    card->learning_velocity = card->learning_velocity_per_money = NAN;
    card->loss_first = card->loss_last = NAN;
    if (count < 2 || hours <= 0) {
        const char *why = count < 2 ? "fewer than two losses were reported (lockstep_metric_put)"
                                    : "the run has no ledger";

        score_set_unknown(card, "learning_velocity", "%s", why);
        score_set_unknown(card, "learning_velocity_per_money", "%s", why);
        score_set_unknown(card, "loss_first", "%s", why);
        score_set_unknown(card, "loss_last", "%s", why);
        return;
    }
    card->loss_first = card->loss_last = 0;
    for (size_t i = 0; i < ends; i++) {
        card->loss_last += scratch[i] / (double)ends;
        card->loss_first += scratch[count - 1 - i] / (double)ends;
    }
    card->learning_velocity = (card->loss_first - card->loss_last) / hours;
    card->price = builder->question->price;
    if (card->price > 0)
        card->learning_velocity_per_money = card->learning_velocity / card->price;
    else
        score_set_unknown(card, "learning_velocity_per_money", "no price was given (--price)");
}

/* FLOP/s of one GPU: as given, else by its name. */
static double score_peak(struct score_builder *builder)
{
    const char *precision = builder->question->precision ? builder->question->precision : "bf16";
    struct score_card *card = builder->card;
    double peak = builder->question->peak_flops;

    if (peak > 0) {
        snprintf(card->mfu_peak, sizeof(card->mfu_peak), "%.6g TFLOP/s, as given", peak / 1e12);
        return peak;
    }
    peak = gpu_peak_flops(builder->gpu, precision);
    if (peak > 0)
        snprintf(card->mfu_peak, sizeof(card->mfu_peak), "%.6g TFLOP/s: %.48s, dense %.8s",
                 peak / 1e12, builder->gpu, precision);
    return peak;
}

static void score_mfu_unknown(struct score_builder *builder, double peak)
{
    if (peak > 0)
        score_set_unknown(builder->card, "mfu",
                          "FLOP per token not given (--parameters or --flop-per-token), nor "
                          "reported by the ranks");
    else if (builder->gpu[0])
        score_set_unknown(builder->card, "mfu",
                          "peak FLOP/s of %s in this precision not known (--peak-tflops)",
                          builder->gpu);
    else
        score_set_unknown(builder->card, "mfu", "peak FLOP/s of a GPU not given (--peak-tflops)");
}

static void score_mfu(struct score_builder *builder)
{
    const struct score_question *question = builder->question;
    struct score_card *card = builder->card;
    double seconds = builder->token_seconds, split = MAX(builder->split, 1u);
    double peak = score_peak(builder);

    card->tokens_per_second = card->mfu = NAN;
    card->mfu_by_ranks = question->flop_per_token <= 0 && builder->flop_seconds > 0;
    if (card->mfu_by_ranks && peak > 0)
        card->mfu = builder->flop / (builder->flop_seconds * peak);
    if (!builder->token_steps || seconds <= 0) {
        score_set_unknown(card, "tokens_per_second",
                          "no rank reported its tokens (lockstep_metric_put)");
        if (isnan(card->mfu))
            score_set_unknown(card, "mfu", "no rank reported its tokens (lockstep_metric_put)");
        return;
    }
    /* Per rank and second, times the ranks, over those that process the same tokens. */
    card->tokens_per_second = builder->tokens / seconds * card->ranks / split;
    if (question->flop_per_token > 0 && peak > 0)
        card->mfu = builder->tokens * question->flop_per_token / (split * seconds * peak);
    if (isnan(card->mfu))
        score_mfu_unknown(builder, peak);
}

/* ---- failures ---- */

/* Of a Poisson variable with this mean: at most n. */
static double score_poisson(double mean, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i <= n; i++)
        sum += exp(-mean + i * log(mean) - lgamma(i + 1.0));
    return sum;
}

/* The mean for which at most n have that probability; by bisection, it falls as the mean grows. */
static double score_poisson_mean(uint32_t n, double probability)
{
    double low = 1e-9, high = 10.0 * n + 20;

    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;

        if (score_poisson(middle, n) > probability)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

void score_card_mttf(double seconds, uint32_t failures, double *middle, double *low, double *high)
{
    *middle = *low = *high = NAN;
    if (!(seconds > 0))
        return;
    /* Without a failure only one end is open to doubt. */
    *low = seconds / score_poisson_mean(failures, failures ? CONFIDENCE_TAIL : 2 * CONFIDENCE_TAIL);
    if (!failures)
        return;
    *middle = seconds / failures;
    *high = seconds / score_poisson_mean(failures - 1, 1 - CONFIDENCE_TAIL);
}

static void score_failures(struct score_builder *builder)
{
    struct score_card *card = builder->card;

    if (builder->in_attempt) /* it goes on, or nobody recorded its end */
        card->exposure_seconds += (double)(builder->end_real_ns - builder->attempt_begin_ns) / 1e9;
    if (!builder->launched) {
        card->exposure_seconds = card->mttf_seconds = card->mttf_low = card->mttf_high = NAN;
        score_set_unknown(card, "exposure_seconds", "no launcher recorded attempts");
        score_set_unknown(card, "mttf_seconds", "no launcher recorded attempts");
        score_set_unknown(card, "mttf_low", "no launcher recorded attempts");
        score_set_unknown(card, "mttf_high", "no launcher recorded attempts");
        return;
    }
    score_card_mttf(card->exposure_seconds, card->failures, &card->mttf_seconds, &card->mttf_low,
                    &card->mttf_high);
    if (isnan(card->mttf_seconds)) {
        score_set_unknown(card, "mttf_seconds", "no failure was observed");
        score_set_unknown(card, "mttf_high", "no failure was observed");
    }
}

/* ---- verdicts ---- */

static int score_compare_cost(const void *a, const void *b)
{
    const struct verdict *left = a, *right = b;

    if (left->gpu_seconds != right->gpu_seconds)
        return left->gpu_seconds > right->gpu_seconds ? -1 : 1;
    return strcmp(left->id, right->id);
}

static void score_add_saving(struct score_saving *list, size_t *count, size_t most,
                             const char *kind, const char *name, double gpu_seconds)
{
    char what[sizeof(list->what)];

    snprintf(what, sizeof(what), "%s %s", kind, name);
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(list[i].what, what) == 0) {
            list[i].gpu_seconds += gpu_seconds;
            return;
        }
    }
    if (*count == most)
        return;
    memcpy(list[*count].what, what, sizeof(what));
    list[(*count)++].gpu_seconds = gpu_seconds;
}

static int score_compare_saving(const void *a, const void *b)
{
    const struct score_saving *left = a, *right = b;

    if (left->gpu_seconds != right->gpu_seconds)
        return left->gpu_seconds > right->gpu_seconds ? -1 : 1;
    return strcmp(left->what, right->what);
}

/* By node and by layer: a verdict that names several nodes is not any one's, and without its only node there is no run. */
static void score_savings(const struct score_builder *builder, const struct verdict *verdict,
                          size_t count)
{
    struct score_card *card = builder->card;
    struct score_saving list[64];
    size_t used = 0;

    for (size_t i = 0; i < count && verdict[i].gpu_seconds > 0; i++) {
        if (verdict[i].node_count == 1 && builder->several_nodes)
            score_add_saving(list, &used, COUNT(list), "node", verdict[i].node[0],
                             verdict[i].gpu_seconds);
        score_add_saving(list, &used, COUNT(list), "faults of layer",
                         verdict_layer_name(verdict[i].layer), verdict[i].gpu_seconds);
    }
    qsort(list, used, sizeof(list[0]), score_compare_saving);
    card->saving_count = (uint32_t)MIN(used, (size_t)SCORE_SAVINGS);
    memcpy(card->saving, list, card->saving_count * sizeof(list[0]));
}

static void score_verdicts(struct score_card *card, struct verdict *verdict, size_t count)
{
    if (count)
        qsort(verdict, count, sizeof(*verdict), score_compare_cost);
    for (size_t i = 0; i < MIN(count, (size_t)SCORE_DEAREST) && verdict[i].gpu_seconds > 0; i++)
        card->dearest[card->dearest_count++] = verdict[i];
}

static void score_ledger(struct score_card *card)
{
    bool known = card->has_ledger && card->ledger.steps > 0;

    card->goodput = known ? ledger_goodput(&card->ledger) : NAN;
    card->ettr = known ? ledger_ettr(&card->ledger) : NAN;
    if (known)
        return;
    score_set_unknown(card, "goodput", "no step of all ranks was observed");
    score_set_unknown(card, "ettr", "no step of all ranks was observed");
}

static void score_summary(struct score_card *card, const struct run_summary *summary)
{
    snprintf(card->run, sizeof(card->run), "%s", summary->run);
    card->alive = summary->alive;
    card->ranks = summary->ranks;
    card->attempts = summary->attempts;
    card->has_ledger = summary->has_ledger;
    card->ledger = summary->ledger;
    score_ledger(card);
    score_verdicts(card, summary->verdict, summary->verdicts);
}

static void score_numbers(struct score_builder *builder, double *scratch)
{
    if (builder->steps)
        qsort(builder->step, builder->steps, sizeof(builder->step[0]), score_compare_time);
    score_steps(builder, scratch);
    score_checkpoint_unknown(builder->card);
    if (!builder->steps) {
        score_set_unknown(builder->card, "step_p50_s", "no step was observed");
        score_set_unknown(builder->card, "step_p99_s", "no step was observed");
        score_set_unknown(builder->card, "data_p50_s", "no step was observed");
    }
    score_pauses(builder);
    score_start(builder);
    score_failures(builder);
    score_learning(builder, scratch);
    score_mfu(builder);
    score_devices(builder->card);
}

int score_card_read(const char *run_dir, const struct score_question *question,
                    struct score_card *ret, struct err *err)
{
    CLEAN(score_builder_fini) struct score_builder builder = { .card = ret, .question = question };
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    CLEAN(free_clean) double *scratch = NULL;
    int result = run_report_read(run_dir, false, &summary, err);

    memset(ret, 0, sizeof(*ret));
    if (result == 0)
        score_summary(ret, &summary);
    if (result == 0)
        result = run_frames_each(run_dir, score_take_frame, &builder, err);
    if (result < 0)
        return result;
    score_savings(&builder, summary.verdict, summary.verdicts);
    scratch = calloc(builder.steps + 1, sizeof(*scratch));
    if (!scratch)
        return err_nomem(err);
    score_numbers(&builder, scratch);
    return 0;
}

static void score_sum_ledger(struct ledger *sum, const struct ledger *ledger)
{
    sum->ranks = MAX(sum->ranks, ledger->ranks);
    sum->wall_seconds += ledger->wall_seconds;
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++)
        sum->gpu_seconds[i] += ledger->gpu_seconds[i];
    sum->steps += ledger->steps;
    sum->unfit_steps += ledger->unfit_steps;
    sum->host_view |= ledger->host_view;
}

void score_card_sum(const struct score_card *card, size_t count, struct score_card *ret)
{
    memset(ret, 0, sizeof(*ret));
    snprintf(ret->run, sizeof(ret->run), "all %zu", count);
    for (size_t i = 0; i < count; i++) {
        ret->alive |= card[i].alive;
        ret->ranks = MAX(ret->ranks, card[i].ranks);
        ret->attempts += card[i].attempts;
        ret->steps += card[i].steps;
        ret->has_ledger |= card[i].has_ledger;
        score_sum_ledger(&ret->ledger, &card[i].ledger);
        ret->failures += card[i].failures;
        if (!isnan(card[i].exposure_seconds))
            ret->exposure_seconds += card[i].exposure_seconds;
    }
    score_ledger(ret);
    score_card_mttf(ret->exposure_seconds, ret->failures, &ret->mttf_seconds, &ret->mttf_low,
                    &ret->mttf_high);
}
