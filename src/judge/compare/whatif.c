/* whatif.c - runs a plan with some ops as traced and the others ideal, and compares the step times.
 *
 * Ratios are of mean step times, not means of ratios: a job's cost is the sum of its steps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/compare/whatif.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/compare/whatif_private.h"
#include "judge/median.h"

#define WORST_PCT 3                      /* of the workers are "the worst" */
#define STEP_LIMIT_NS (INT64_C(1) << 61) /* all durations of a step together */

void whatif_plan_fini(struct whatif_plan *plan)
{
    for (size_t i = 0; i < plan->steps; i++)
        replay_destroy(plan->step[i].replay);
    for (unsigned by = 0; by < WHATIF_BY_COUNT; by++)
        free(plan->label[by]);
    free(plan->step);
    free(plan->op);
    free(plan->traced_ns);
    free(plan->ideal_ns);
    free(plan->worker);
    free(plan->kind);
    *plan = (struct whatif_plan){ 0 };
}

int whatif_plan_room(struct whatif_plan *plan, size_t ops)
{
    plan->count = ops;
    plan->step = calloc(ops, sizeof(*plan->step));
    plan->op = calloc(ops, sizeof(*plan->op));
    plan->traced_ns = calloc(ops, sizeof(*plan->traced_ns));
    plan->ideal_ns = calloc(ops, sizeof(*plan->ideal_ns));
    for (unsigned by = 0; by < WHATIF_BY_COUNT; by++) {
        plan->label[by] = calloc(ops, sizeof(*plan->label[by]));
        if (!plan->label[by])
            return -ENOMEM;
    }
    return plan->step && plan->op && plan->traced_ns && plan->ideal_ns ? 0 : -ENOMEM;
}

int whatif_plan_program(struct whatif_plan *plan, struct whatif_plan_step *step, struct err *err)
{
    const struct replay_op *op = plan->op + step->first;
    int64_t sum_ns = 0;

    for (size_t i = 0; i < step->count; i++) {
        if (plan->traced_ns[step->first + i] > STEP_LIMIT_NS - sum_ns)
            return err_set(err, -ERANGE, "step %" PRId64 ": longer than 73 years", step->step);
        sum_ns += plan->traced_ns[step->first + i];
    }
    if (step > plan->step && step[-1].count == step->count &&
        memcmp(op, plan->op + step[-1].first, step->count * sizeof(*op)) == 0)
        return 0;
    return replay_create(op, step->count, &step->replay, err);
}

int64_t whatif_typical_ns(int64_t *value, size_t count, bool mean)
{
    double sum = 0;

    if (!count)
        return 0;
    if (!mean) {
        qsort(value, count, sizeof(*value), order_i64);
        return value[(count - 1) / 2] + (value[count / 2] - value[(count - 1) / 2]) / 2;
    }
    for (size_t i = 0; i < count; i++)
        sum += (double)value[i];
    return (int64_t)(sum / (double)count);
}

struct runner {
    const struct whatif_plan *plan;
    int64_t *duration_ns; /* of one step */
    void *scratch;
};

static void runner_fini(struct runner *runner)
{
    free(runner->duration_ns);
    free(runner->scratch);
}

static int runner_init(struct runner *runner, const struct whatif_plan *plan)
{
    size_t ops = 1, bytes = 64;

    for (size_t i = 0; i < plan->steps; i++) {
        ops = MAX(ops, plan->step[i].count);
        if (plan->step[i].replay)
            bytes = MAX(bytes, replay_scratch_bytes(plan->step[i].replay));
    }
    *runner = (struct runner){ .plan = plan,
                               .duration_ns = malloc(ops * sizeof(int64_t)),
                               .scratch = malloc(bytes) };
    return runner->duration_ns && runner->scratch ? 0 : -ENOMEM;
}

/* Ops whose label has `keep` set are as traced, the others ideal.  Step times into `ret`; returns their
 * mean.
 */
static double runner_run(struct runner *runner, enum whatif_by by, const uint8_t *keep, double *ret)
{
    const struct whatif_plan *plan = runner->plan;
    const struct replay *replay = NULL;
    double sum = 0;

    for (size_t i = 0; i < plan->steps; i++) {
        const struct whatif_plan_step *step = &plan->step[i];
        double seconds;

        if (step->replay)
            replay = step->replay;
        for (size_t k = 0; k < step->count; k++) {
            size_t op = step->first + k;

            runner->duration_ns[k] =
                keep[plan->label[by][op]] ? plan->traced_ns[op] : plan->ideal_ns[op];
        }
        seconds =
            (double)replay_run(replay, runner->duration_ns, runner->scratch, NULL, NULL) / 1e9;
        sum += seconds;
        if (ret)
            ret[i] = seconds;
    }
    return sum / (double)plan->steps;
}

/* A step in which nothing takes time is not slowed by anything. */
static double whatif_ratio(double time, double ideal)
{
    return ideal > 0 ? time / ideal : 1;
}

static int whatif_split_by(struct runner *runner, enum whatif_by by, struct whatif *whatif)
{
    size_t labels = runner->plan->labels[by];
    CLEAN(free_clean) uint8_t *keep = calloc(labels, 1);
    double *times = NULL;

    whatif->S_of[by] = calloc(labels, sizeof(double));
    if (by != WHATIF_WORKER)
        whatif->S_of_step[by] = calloc(labels * whatif->steps, sizeof(double));
    if (!keep || !whatif->S_of[by] || (by != WHATIF_WORKER && !whatif->S_of_step[by]))
        return -ENOMEM;
    for (size_t i = 0; i < labels; i++) {
        keep[i] = 1;
        if (by != WHATIF_WORKER)
            times = whatif->S_of_step[by] + i * whatif->steps;
        whatif->S_of[by][i] = whatif_ratio(runner_run(runner, by, keep, times), whatif->mean.ideal);
        for (size_t k = 0; times && k < whatif->steps; k++)
            times[k] = whatif_ratio(times[k], whatif->step[k].ideal);
        keep[i] = 0;
    }
    return 0;
}

struct whatif_candidate {
    double S;
    uint32_t label, rank;
};

static int whatif_by_slowness(const void *left, const void *right)
{
    const struct whatif_candidate *a = left, *b = right;

    if (a->S != b->S)
        return a->S > b->S ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int whatif_find_worst(const struct whatif_plan *plan, struct whatif *whatif)
{
    size_t workers = plan->labels[WHATIF_WORKER];
    CLEAN(free_clean) struct whatif_candidate *list = calloc(workers, sizeof(*list));

    whatif->worst_count = (workers * WORST_PCT + 99) / 100;
    whatif->worst = calloc(whatif->worst_count, sizeof(*whatif->worst));
    if (!list || !whatif->worst)
        return -ENOMEM;
    for (size_t i = 0; i < workers; i++)
        list[i] = (struct whatif_candidate){ whatif->S_of[WHATIF_WORKER][i], (uint32_t)i,
                                             plan->worker[i].rank };
    qsort(list, workers, sizeof(*list), whatif_by_slowness);
    for (size_t i = 0; i < whatif->worst_count; i++)
        whatif->worst[i] = list[i].label;
    return 0;
}

/* `keep` holds the set; it is turned round. */
static struct whatif_share whatif_share_of(struct runner *runner, enum whatif_by by, uint8_t *keep,
                                           const struct whatif_times *mean)
{
    double lost = mean->no_delay - mean->ideal;
    struct whatif_share share = { .only = runner_run(runner, by, keep, NULL) };

    for (size_t i = 0; i < runner->plan->labels[by]; i++)
        keep[i] = !keep[i];
    share.without = runner_run(runner, by, keep, NULL);
    if (lost > 0 || lost < 0) { /* nothing lost: nobody has a share in it */
        share.share = (mean->no_delay - share.without) / lost;
        share.added = (share.only - mean->ideal) / lost;
    }
    return share;
}

static int whatif_find_shares(struct runner *runner, struct whatif *whatif)
{
    const struct whatif_plan *plan = runner->plan;
    CLEAN(free_clean) uint8_t *worst = calloc(plan->labels[WHATIF_WORKER], 1);
    CLEAN(free_clean) uint8_t *last = calloc(plan->labels[WHATIF_STAGE], 1);
    int result = whatif_find_worst(plan, whatif);

    if (result < 0 || !worst || !last)
        return -ENOMEM;
    for (size_t i = 0; i < whatif->worst_count; i++)
        worst[whatif->worst[i]] = 1;
    last[plan->labels[WHATIF_STAGE] - 1] = 1;
    whatif->worst_workers = whatif_share_of(runner, WHATIF_WORKER, worst, &whatif->mean);
    whatif->last_stage = whatif_share_of(runner, WHATIF_STAGE, last, &whatif->mean);
    return 0;
}

static int whatif_run_full(struct runner *runner, struct whatif *whatif)
{
    const struct whatif_plan *plan = runner->plan;
    CLEAN(free_clean) uint8_t *keep = calloc(plan->labels[WHATIF_STAGE], 1);
    CLEAN(free_clean) double *times = calloc(plan->steps, sizeof(*times));
    double traced = 0;

    whatif->step = calloc(plan->steps, sizeof(*whatif->step));
    if (!keep || !times || !whatif->step)
        return -ENOMEM;
    whatif->steps = plan->steps;
    whatif->mean.ideal = runner_run(runner, WHATIF_STAGE, keep, times);
    for (size_t i = 0; i < plan->steps; i++) {
        whatif->step[i].step = plan->step[i].step;
        whatif->step[i].traced = (double)plan->step[i].traced_ns / 1e9;
        whatif->step[i].ideal = times[i];
        traced += whatif->step[i].traced;
    }
    memset(keep, 1, plan->labels[WHATIF_STAGE]);
    whatif->mean.no_delay = runner_run(runner, WHATIF_STAGE, keep, times);
    whatif->mean.traced = traced / (double)plan->steps;
    for (size_t i = 0; i < plan->steps; i++)
        whatif->step[i].no_delay = times[i];
    whatif->S = whatif_ratio(whatif->mean.no_delay, whatif->mean.ideal);
    whatif->waste = whatif->S > 0 ? 1 - 1 / whatif->S : 0;
    whatif->launch = whatif_ratio(whatif->mean.traced, whatif->mean.no_delay);
    return 0;
}

int whatif_run(const struct whatif_plan *plan, struct whatif *ret)
{
    CLEAN(whatif_fini) struct whatif whatif = { 0 };
    CLEAN(runner_fini) struct runner runner = { 0 };
    int result = runner_init(&runner, plan);

    if (result == 0)
        result = whatif_run_full(&runner, &whatif);
    for (unsigned by = 0; by < WHATIF_BY_COUNT && result == 0; by++)
        result = whatif_split_by(&runner, by, &whatif);
    if (result == 0)
        result = whatif_find_shares(&runner, &whatif);
    if (result < 0)
        return result;
    *ret = whatif;
    whatif = (struct whatif){ 0 };
    return 0;
}

void whatif_fini(struct whatif *whatif)
{
    for (unsigned by = 0; by < WHATIF_BY_COUNT; by++) {
        free(whatif->S_of[by]);
        free(whatif->S_of_step[by]);
    }
    free(whatif->step);
    free(whatif->worst);
    *whatif = (struct whatif){ 0 };
}
