/* history.c - keeps the window and computes each rank's excess over its peers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/history.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/step/lengths.h"

static void history_past_fini(struct past_step *past)
{
    free(past->split);
    free(past->excess_ms);
    free(past->typical_ms);
    free(past->compute_ms);
    free(past->length_ms);
    free(past->input_ms);
    free(past->node);
    *past = (struct past_step){ 0 };
}

void history_fini(struct history *history)
{
    for (int i = 0; i < HISTORY_STEPS; i++)
        history_past_fini(&history->step[i]);
    free(history->typical);
    *history = (struct history){ 0 };
}

size_t history_bytes(const struct history *history)
{
    size_t rank = sizeof(struct rank_split) + 5 * sizeof(float), bytes = 0;

    for (int i = 0; i < HISTORY_STEPS; i++) {
        const struct past_step *past = &history->step[i];

        if (past->split)
            bytes += history->world * rank;
        bytes += past->nodes * sizeof(*past->node);
    }
    return bytes + history->nodes * sizeof(*history->typical);
}

void history_reset(struct history *history)
{
    for (uint32_t i = 0; i < history->nodes; i++)
        history->typical[i] = (struct node_typical){ -1, -1, -1 };
    history->count = 0;
    history->base_period_ms = 0;
    history->explained = 0;
    history->lengths_vary = false;
}

struct past_step *history_next(struct history *history, uint32_t world, uint64_t step)
{
    struct past_step *past;

    if (world != history->world) {
        history_fini(history);
        history->world = world;
    }
    past = &history->step[history->count % HISTORY_STEPS];
    if (!past->split) {
        past->split = malloc(world * sizeof(*past->split));
        past->excess_ms = malloc(world * sizeof(float));
        past->typical_ms = malloc(world * sizeof(float));
        past->compute_ms = malloc(world * sizeof(float));
        past->length_ms = malloc(world * sizeof(float));
        past->input_ms = malloc(world * sizeof(float));
    }
    if (!past->split || !past->excess_ms || !past->typical_ms || !past->compute_ms ||
        !past->length_ms || !past->input_ms) {
        history_past_fini(past);
        return NULL;
    }
    past->step = step;
    past->begin_ns = past->measured_ns = past->replayed_ns = past->ideal_ns = 0;
    past->uneven_ms = 0;
    return past;
}

const struct past_step *history_back(const struct history *history, uint32_t back)
{
    if (back >= history->count || back >= HISTORY_STEPS)
        return NULL;
    return &history->step[(history->count - 1 - back) % HISTORY_STEPS];
}

/* ---- excess over peers ---- */

#define INPUT_ALIKE_MS 0.5

struct history_member {
    uint32_t group, rank;
};

static int member_compare(const void *a, const void *b)
{
    const struct history_member *left = a, *right = b;

    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Median of the group without one of its values: the array is sorted. */
static double history_median_without(const double *sorted, uint32_t count, double left_out)
{
    uint32_t middle = (count - 2) / 2;

    /* Only whether it lies before or after the middle matters, not where: looking for it made a step of
     * 16,384 ranks a quarter longer.
     */
    return sorted[sorted[middle] < left_out ? middle : middle + 1];
}

/* Lengths over the median of the group, as the excess is: the longest of them explains all of it. */
static void history_group_lengths(struct past_step *past, const struct history_member *member,
                                  uint32_t count, double *sorted)
{
    double mean = 0, median;

    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = (double)past->length_ms[member[i].rank];
        mean += sorted[i] / count;
    }
    qsort(sorted, count, sizeof(*sorted), order_f64);
    median = sorted[(count - 1) / 2];
    past->uneven_ms = MAX(past->uneven_ms, sorted[count - 1] - mean);
    for (uint32_t i = 0; i < count; i++)
        past->length_ms[member[i].rank] -= (float)median;
}

static void history_group_excess(const struct past_step *past, const struct history_member *member,
                                 uint32_t count, bool compute, double *value, double *sorted)
{
    float *out = compute ? past->compute_ms : past->excess_ms;

    for (uint32_t i = 0; i < count; i++) {
        const struct rank_split *split = &past->split[member[i].rank];
        int64_t ns = compute ? split->compute_ns : split_local_ns(split);

        value[i] = sorted[i] = (double)ns / 1e6 - (double)past->length_ms[member[i].rank];
    }
    qsort(sorted, count, sizeof(*sorted), order_f64);
    for (uint32_t i = 0; i < count; i++) {
        double typical = count > 1 ? history_median_without(sorted, count, value[i]) : value[i];

        out[member[i].rank] = (float)(value[i] - typical);
        if (!compute)
            past->typical_ms[member[i].rank] = (float)typical;
    }
}

/* Where all wait alike nothing is sorted: so it is in almost all steps. */
static void history_group_input(const struct past_step *past, const struct history_member *member,
                                uint32_t count, double *value, double *sorted)
{
    double least = INFINITY, most = 0;

    for (uint32_t i = 0; i < count; i++) {
        value[i] = sorted[i] =
            (double)past->split[member[i].rank].host_ns[LOCKSTEP_PHASE_DATA] / 1e6;
        least = MIN(least, value[i]);
        most = MAX(most, value[i]);
    }
    if (count < 2 || most - least < INPUT_ALIKE_MS)
        return;
    qsort(sorted, count, sizeof(*sorted), order_f64);
    for (uint32_t i = 0; i < count; i++)
        past->input_ms[member[i].rank] =
            (float)MAX(0, value[i] - history_median_without(sorted, count, value[i]));
}

static int history_excess_fill(struct past_step *past, const struct model *model, bool lengths)
{
    CLEAN(free_clean) struct history_member *member = malloc(model->world * sizeof(*member));
    CLEAN(free_clean) double *value = malloc(2 * (size_t)model->world * sizeof(*value));
    uint32_t count = 0;

    if (!member || !value)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        past->excess_ms[rank] = past->compute_ms[rank] = past->typical_ms[rank] = 0;
        past->input_ms[rank] = 0;
        if (past->split[rank].present)
            member[count++] = (struct history_member){ model->rank[rank].peers, rank };
    }
    qsort(member, count, sizeof(*member), member_compare);
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && member[to].group == member[from].group;)
            to++;
        if (lengths)
            history_group_lengths(past, member + from, to - from, value);
        history_group_excess(past, member + from, to - from, false, value, value + model->world);
        history_group_excess(past, member + from, to - from, true, value, value + model->world);
        history_group_input(past, member + from, to - from, value, value + model->world);
    }
    return 0;
}

/* What the nodes' ranks had to wait for in the newest step, in one pass over the ranks. */
static int history_nodes_fill(struct past_step *past, const struct model *model)
{
    CLEAN(free_clean) double *total = calloc(model->nodes + 1, sizeof(*total));
    struct node_typical *grown =
        total ? realloc(past->node, (model->nodes + 1) * sizeof(*grown)) : NULL;

    if (!grown)
        return -ENOMEM;
    past->node = grown;
    past->nodes = model->nodes;
    memset(grown, 0, model->nodes * sizeof(*grown));
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct rank_split *split = &past->split[rank];
        uint32_t node = model->rank[rank].node;

        if (node >= model->nodes || !split->present)
            continue;
        grown[node].pressure += (double)(split->delay_ns + split->throttled_ns);
        grown[node].starved_ms =
            MAX(grown[node].starved_ms, (double)(split->delay_ns + split->throttled_ns) / 1e6);
        grown[node].host_ms =
            MAX(grown[node].host_ms, (double)(split_host_ns(split) + split->queued_ns) / 1e6);
        total[node] += (double)split->total_ns;
    }
    for (uint32_t node = 0; node < model->nodes; node++)
        grown[node].pressure = total[node] > 0 ? grown[node].pressure / total[node] : 0;
    return 0;
}

/* What is typical is fixed once, from the first steps after warm-up, and later only lowered:
 * a run that starts slow and gets better moves it, one that gets worse does not.
 */
static int history_baseline_update(struct history *history, const struct model *model,
                                   const struct thresholds *limits)
{
    uint32_t steps = (uint32_t)limits->verdict_steps;
    double period;

    if (history->nodes < model->nodes) {
        struct node_typical *grown = realloc(history->typical, model->nodes * sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        for (uint32_t i = history->nodes; i < model->nodes; i++)
            grown[i] = (struct node_typical){ -1, -1, -1 };
        history->typical = grown;
        history->nodes = model->nodes;
    }
    if (history->count < (uint32_t)limits->verdict_warm_up + steps)
        return 0;
    period = history_period_ms(history, steps);
    if (history->base_period_ms == 0 || period < history->base_period_ms)
        history->base_period_ms = period;
    for (uint32_t node = 0; node < model->nodes; node++) {
        struct node_typical *typical = &history->typical[node];
        struct node_typical now = history_node(history, node, steps, steps / 2);

        if (typical->pressure < 0 || now.pressure < typical->pressure)
            typical->pressure = now.pressure;
        if (typical->host_ms < 0 || now.host_ms < typical->host_ms)
            typical->host_ms = now.host_ms;
        if (typical->starved_ms < 0 || now.starved_ms < typical->starved_ms)
            typical->starved_ms = now.starved_ms;
    }
    return 0;
}

static const float *history_series_of(const struct past_step *past, enum series series)
{
    return series == SERIES_COMPUTE ? past->compute_ms : past->excess_ms;
}

/* Noise in time, not between ranks: a steady straggler must not hide itself. */
static double history_noise_ms(const struct history *history, enum series series, uint32_t steps)
{
    uint32_t count = MIN(MIN(history->count, steps), HISTORY_STEPS);
    uint32_t stride = history->world / 256 + 1, ranks = 0;
    double noise[257];

    for (uint32_t rank = 0; rank < history->world && ranks < COUNT(noise); rank += stride) {
        double value[HISTORY_STEPS], median;

        for (uint32_t i = 0; i < count; i++)
            value[i] = (double)history_series_of(history_back(history, i), series)[rank];
        median = median_f64(value, count);
        noise[ranks++] = spread_f64(value, count, median);
    }
    return median_f64(noise, ranks);
}

uint32_t history_looks(const struct history *history, uint32_t looks)
{
    return MIN(looks * MAX(1, history->look_steps), HISTORY_STEPS);
}

int history_judge(struct history *history, const struct model *model,
                  const struct thresholds *limits)
{
    struct past_step *past = &history->step[history->count % HISTORY_STEPS];
    int result;

    history->count++;
    result = lengths_explain(history, model, limits);
    if (result == 0)
        result = history_excess_fill(past, model, history->explained > 0);
    if (result == 0)
        result = history_nodes_fill(past, model);
    if (result < 0) {
        history->count--; /* a step that is half there would mislead all that follow */
        return result;
    }
    history->look_steps = (uint32_t)MIN(
        HISTORY_STEPS, limits->verdict_look / MAX(1, history_period_ms(history, HISTORY_STEPS)));
    for (int series = 0; series < SERIES_COUNT; series++)
        history->noise_ms[series] =
            history_noise_ms(history, (enum series)series, (uint32_t)limits->verdict_noise_steps);
    return history_baseline_update(history, model, limits);
}

/* ---- views over the last steps ---- */

uint32_t history_window(const struct history *history, uint32_t steps)
{
    return MIN(MIN(steps, history->count), HISTORY_STEPS);
}

static double history_field_median(const struct history *history, uint32_t rank, uint32_t steps,
                                   size_t offset)
{
    double value[HISTORY_STEPS];
    uint32_t count = history_window(history, steps);

    for (uint32_t i = 0; i < count; i++) {
        const char *past = (const char *)history_back(history, i);
        float *const *field = (float *const *)(const void *)(past + offset);

        value[i] = (double)(*field)[rank];
    }
    return median_f64(value, count);
}

double history_excess_ms(const struct history *history, enum series series, uint32_t rank,
                         uint32_t steps)
{
    return history_field_median(history, rank, steps,
                                series == SERIES_COMPUTE ? offsetof(struct past_step, compute_ms)
                                                         : offsetof(struct past_step, excess_ms));
}

double history_typical_ms(const struct history *history, uint32_t rank, uint32_t steps)
{
    return history_field_median(history, rank, steps, offsetof(struct past_step, typical_ms));
}

double history_period_ms(const struct history *history, uint32_t steps)
{
    double value[HISTORY_STEPS];
    uint32_t count = history_window(history, steps);

    for (uint32_t i = 0; i < count; i++)
        value[i] = (double)history_back(history, i)->measured_ns / 1e6;
    return median_f64(value, count);
}

/* The value that `above` others exceed. */
static double history_above_value(double *value, uint32_t count, uint32_t above)
{
    qsort(value, count, sizeof(*value), order_f64_falling);
    return count ? value[MIN(above, count - 1)] : 0;
}

struct node_typical history_node(const struct history *history, uint32_t node, uint32_t steps,
                                 uint32_t above)
{
    double pressure[HISTORY_STEPS], host_ms[HISTORY_STEPS], starved_ms[HISTORY_STEPS];
    uint32_t count = history_window(history, steps), used = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct past_step *past = history_back(history, i);

        if (node >= past->nodes)
            continue;
        pressure[used] = past->node[node].pressure;
        host_ms[used] = past->node[node].host_ms;
        starved_ms[used++] = past->node[node].starved_ms;
    }
    return (struct node_typical){ history_above_value(pressure, used, above),
                                  history_above_value(host_ms, used, above),
                                  history_above_value(starved_ms, used, above) };
}

double history_part_ms(const struct history *history, uint32_t rank, uint32_t steps,
                       split_part *part)
{
    double value[HISTORY_STEPS];
    uint32_t count = history_window(history, steps), used = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct rank_split *split = &history_back(history, i)->split[rank];

        if (split->present)
            value[used++] = (double)part(split) / 1e6;
    }
    return median_f64(value, used);
}

double history_peers_ms(const struct history *history, const struct model *model, uint32_t rank,
                        uint32_t steps, split_part *part, uint32_t *count)
{
    double value[257];
    uint32_t used = 0;

    *count = 0;
    for (uint32_t other = 0; other < history->world; other++) {
        if (other == rank || model->rank[other].peers != model->rank[rank].peers)
            continue;
        if (used < COUNT(value))
            value[used++] = history_part_ms(history, other, steps, part);
        (*count)++;
    }
    return median_f64(value, used);
}

/* Mean and variance of it. */
static double history_starved_look(const struct history *history, uint32_t rank, uint32_t steps,
                                   double *variance_of_mean)
{
    uint32_t count = history_window(history, steps), used = 0;
    double mean = 0, squares = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct rank_split *split = &history_back(history, i)->split[rank];
        double value = (double)split_starved_ns(split) / 1e6, off = value - mean;

        if (!split->present || !split_tells_cpu(split))
            continue;
        mean += off / ++used;
        squares += off * (value - mean);
    }
    *variance_of_mean = used > 1 ? squares / (used - 1) / used : mean * mean;
    return mean;
}

double history_starved_ms(const struct history *history, uint32_t rank, uint32_t steps)
{
    double variance;

    return history_starved_look(history, rank, steps, &variance);
}

double history_starved_error_ms(const struct history *history, uint32_t rank, uint32_t steps)
{
    double variance;

    history_starved_look(history, rank, steps, &variance);
    return sqrt(variance);
}

double history_peers_starved_ms(const struct history *history, const struct model *model,
                                uint32_t rank, uint32_t steps)
{
    double value[33]; /* so many tell the median of thousands well enough */
    uint32_t used = 0;

    for (uint32_t other = 0; other < history->world && used < COUNT(value); other++) {
        if (other != rank && model->rank[other].peers == model->rank[rank].peers)
            value[used++] = history_starved_ms(history, other, steps);
    }
    return median_f64(value, used);
}
