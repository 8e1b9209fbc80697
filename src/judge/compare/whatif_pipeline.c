/* whatif_pipeline.c - the ops of a trace as programs, one a step.
 *
 * Rows are sorted twice: worker by worker, to see what follows what, and the same op of all workers side
 * by side, as replay.h likes it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/compare/whatif.h"
#include "judge/compare/whatif_private.h"

static void whatif_builder_fini(struct whatif_builder *builder)
{
    free(builder->work);
    free(builder->of_kind);
    free(builder->arrive_ns);
    free(builder->members);
    map_fini(&builder->meet);
}

/* On the compute line, what comes after what. */
static uint32_t whatif_work_phase(unsigned kind)
{
    static const uint8_t phase[OPTRACE_KIND_COUNT] = {
        [OPTRACE_GC] = 1,        [OPTRACE_LAYERNORM] = 2, [OPTRACE_EMBEDDING] = 3,
        [OPTRACE_GRADS] = 4,     [OPTRACE_SEPARATE] = 5,  [OPTRACE_CLIP] = 6,
        [OPTRACE_OPTIMIZER] = 7,
    };

    return phase[kind];
}

static void whatif_work_place(const struct whatif_builder *builder, struct whatif_work *work)
{
    unsigned kind = work->row->kind;

    if (kind >= OPTRACE_FORWARD_SEND) {
        work->line = LINE_PIPE + (kind - OPTRACE_FORWARD_SEND);
    } else if (kind == OPTRACE_PARAMS || (kind == OPTRACE_GRADS && builder->overlap)) {
        work->line = LINE_DATA;
    } else {
        work->line = LINE_COMPUTE;
        work->phase = whatif_work_phase(kind);
    }
}

#define ORDER(a, b)                                                                                \
    if ((a) != (b))                                                                                \
    return (a) < (b) ? -1 : 1

static int whatif_work_by_worker(const void *left, const void *right)
{
    const struct whatif_work *a = left, *b = right;

    ORDER(a->row->step, b->row->step);
    ORDER(a->worker, b->worker);
    ORDER(a->line, b->line);
    ORDER(a->phase, b->phase);
    ORDER(a->row->start_ns, b->row->start_ns);
    ORDER(a->row->seq, b->row->seq);
    ORDER(a->row->kind, b->row->kind);
    return 0;
}

/* The same op of all workers side by side, as replay.h likes it. */
static int whatif_work_by_place(const void *left, const void *right)
{
    const struct whatif_work *a = *(struct whatif_work *const *)left,
                             *b = *(struct whatif_work *const *)right;

    ORDER(a->row->step, b->row->step);
    ORDER(a->place, b->place);
    ORDER(a->worker, b->worker);
    return 0;
}

static int whatif_builder_sizes(struct whatif_builder *builder, struct err *err)
{
    const struct optrace *trace = builder->trace;

    for (size_t i = 0; i < trace->count; i++) {
        const struct optrace_row *row = &trace->row[i];

        builder->dps = MAX(builder->dps, row->dp + 1);
        builder->stages = MAX(builder->stages, row->stage + 1);
        builder->chunks = MAX(builder->chunks, (uint32_t)(row->chunk + 1));
        builder->overlap |= row->kind == OPTRACE_SEPARATE;
    }
    builder->chunks = MAX(builder->chunks, 1u);
    if ((uint64_t)builder->dps * builder->stages > trace->count)
        return err_set(
            err, -EINVAL,
            "%u data-parallel indices and %u stages, but only %zu ops: no op of some worker",
            builder->dps, builder->stages, trace->count);
    return 0;
}

/* Workers by stage, then by data-parallel index; every one of them has ops, and one rank. */
static int whatif_builder_workers(struct whatif_builder *builder, struct err *err)
{
    struct whatif_plan *plan = builder->plan;
    size_t count = (size_t)builder->dps * builder->stages;

    plan->worker = calloc(count, sizeof(*plan->worker));
    if (!plan->worker)
        return err_nomem(err);
    plan->labels[WHATIF_WORKER] = count;
    plan->labels[WHATIF_STAGE] = builder->stages;
    plan->labels[WHATIF_DP] = builder->dps;
    for (size_t i = 0; i < count; i++)
        plan->worker[i] = (struct whatif_worker){ UINT32_MAX, (uint32_t)(i / builder->dps),
                                                  (uint32_t)(i % builder->dps) };
    for (size_t i = 0; i < builder->trace->count; i++) {
        const struct optrace_row *row = &builder->trace->row[i];
        struct whatif_worker *worker = &plan->worker[(size_t)row->stage * builder->dps + row->dp];

        if (worker->rank != UINT32_MAX && worker->rank != row->rank)
            return err_set(err, -EINVAL, "ranks %u and %u are both dp_rank %u of stage %u",
                           worker->rank, row->rank, row->dp, row->stage);
        worker->rank = row->rank;
    }
    for (size_t i = 0; i < count; i++) {
        if (plan->worker[i].rank == UINT32_MAX)
            return err_set(err, -EINVAL, "no op of dp_rank %u of stage %u", plan->worker[i].dp,
                           plan->worker[i].stage);
    }
    return 0;
}

static int whatif_work_twice(const struct whatif_builder *builder, struct err *err)
{
    for (size_t i = 1; i < builder->trace->count; i++) {
        const struct whatif_work *a = &builder->work[i - 1], *b = &builder->work[i];

        if (a->worker == b->worker && a->row->step == b->row->step &&
            a->row->kind == b->row->kind && a->row->seq == b->row->seq)
            return err_set(err, -EINVAL, "step %" PRId64 " of rank %u has %s %u twice",
                           a->row->step, a->row->rank, optrace_kind_name(a->row->kind),
                           a->row->seq);
    }
    return 0;
}

/* Sorts the rows into workers and lines, and gives each its op. */
static int whatif_builder_sort(struct whatif_builder *builder, struct err *err)
{
    size_t count = builder->trace->count;
    CLEAN(free_clean) struct whatif_work **by_place = calloc(count, sizeof(*by_place));
    int result;

    builder->work = calloc(count, sizeof(*builder->work));
    builder->of_kind = calloc(count, sizeof(struct whatif_work *));
    if (!by_place || !builder->work || !builder->of_kind)
        return err_nomem(err);
    for (size_t i = 0; i < count; i++) {
        builder->work[i].row = &builder->trace->row[i];
        builder->work[i].worker =
            builder->work[i].row->stage * builder->dps + builder->work[i].row->dp;
        whatif_work_place(builder, &builder->work[i]);
    }
    qsort(builder->work, count, sizeof(*builder->work), whatif_work_by_worker);
    result = whatif_work_twice(builder, err);
    for (size_t i = 0; i < count; i++) {
        struct whatif_work *work = &builder->work[i];

        if (i && work[-1].worker == work->worker && work[-1].row->step == work->row->step)
            work->place = work[-1].place + 1;
        by_place[i] = work;
    }
    qsort(by_place, count, sizeof(struct whatif_work *), whatif_work_by_place);
    for (size_t i = 0; i < count; i++)
        by_place[i]->op = i;
    return result;
}

/* Of who meets others the transfer alone counts: from the last arrival to its own end. */
static int whatif_step_transfers(struct whatif_builder *builder, const struct whatif_work *work,
                                 size_t count)
{
    struct whatif_plan *plan = builder->plan;
    size_t meets = builder->meet.used;

    free(builder->arrive_ns);
    free(builder->members);
    builder->arrive_ns = malloc((meets + 1) * sizeof(*builder->arrive_ns));
    builder->members = calloc(meets + 1, sizeof(*builder->members));
    if (!builder->arrive_ns || !builder->members)
        return -ENOMEM;
    for (size_t i = 0; i < meets; i++)
        builder->arrive_ns[i] = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        uint32_t meet = plan->op[work[i].op].meet;

        if (meet == REPLAY_NONE)
            continue;
        builder->arrive_ns[meet] = MAX(builder->arrive_ns[meet], work[i].row->start_ns);
        builder->members[meet]++;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t meet = plan->op[work[i].op].meet;
        int64_t *traced = &plan->traced_ns[work[i].op];

        *traced = work[i].row->duration_ns;
        if (meet == REPLAY_NONE)
            continue;
        *traced = MAX(work_end(&work[i]) - builder->arrive_ns[meet], 0);
        plan->unpaired += work[i].line >= LINE_PIPE && builder->members[meet] == 1;
    }
    return 0;
}

static void whatif_step_ops(struct whatif_builder *builder, const struct whatif_work *work,
                            size_t count)
{
    static const uint32_t merged[OPTRACE_KIND_COUNT] = { [OPTRACE_FORWARD_RECV] =
                                                             OPTRACE_FORWARD_SEND,
                                                         [OPTRACE_BACKWARD_RECV] =
                                                             OPTRACE_BACKWARD_SEND };
    struct whatif_plan *plan = builder->plan;

    for (size_t i = 0; i < count; i++) {
        size_t op = work[i].op;
        uint32_t kind = work[i].row->kind;

        plan->op[op] = (struct replay_op){ .line = work[i].worker * LINE_COUNT + work[i].line,
                                           .meet = REPLAY_NONE,
                                           .dep = { REPLAY_NONE, REPLAY_NONE } };
        plan->label[WHATIF_KIND][op] = merged[kind] ? merged[kind] : kind;
        plan->label[WHATIF_WORKER][op] = work[i].worker;
        plan->label[WHATIF_STAGE][op] = work[i].row->stage;
        plan->label[WHATIF_DP][op] = work[i].row->dp;
    }
}

static int64_t whatif_step_traced_ns(const struct whatif_work *work, size_t count)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (size_t i = 0; i < count; i++) {
        first = MIN(first, work[i].row->start_ns);
        last = MAX(last, work_end(&work[i]));
    }
    return last - first;
}

/* Dependencies were written as ops of the plan; a program counts its own from 0. */
static void whatif_step_local(struct whatif_builder *builder, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        uint32_t *dep = builder->plan->op[i].dep;

        for (unsigned k = 0; k < 2; k++) {
            if (dep[k] != REPLAY_NONE)
                dep[k] -= (uint32_t)first;
        }
    }
}

static int whatif_build_step(struct whatif_builder *builder, size_t first, size_t count,
                             struct err *err)
{
    struct whatif_plan *plan = builder->plan;
    struct whatif_plan_step *step = &plan->step[plan->steps];
    struct whatif_work *work = builder->work + first;
    int result = 0;

    whatif_step_ops(builder, work, count);
    map_fini(&builder->meet);
    builder->meet = (struct map){ 0 };
    for (size_t i = 0, n; i < count && result == 0; i += n) {
        for (n = 1; i + n < count && work[i + n].worker == work[i].worker;)
            n++;
        result = whatif_link_worker(builder, work + i, n);
    }
    if (result == 0)
        result = whatif_step_transfers(builder, work, count);
    if (result < 0)
        return err_nomem(err);
    whatif_step_local(builder, first, count);
    *step = (struct whatif_plan_step){ .step = work->row->step, .first = first, .count = count };
    step->traced_ns = whatif_step_traced_ns(work, count);
    plan->steps++;
    result = whatif_plan_program(plan, step, err);
    return result == -ELOOP ? err_wrap(err, result, "step %" PRId64, step->step) : result;
}

static bool whatif_kind_is_compute(uint32_t kind)
{
    return kind == OPTRACE_FORWARD || kind == OPTRACE_BACKWARD || kind == OPTRACE_GC ||
           kind == OPTRACE_OPTIMIZER;
}

/* Typical over everything: sends and receives each their own. */
static int whatif_build_ideal(struct whatif_builder *builder)
{
    struct whatif_plan *plan = builder->plan;
    CLEAN(free_clean) int64_t *value = malloc(plan->count * sizeof(*value));

    if (!value)
        return -ENOMEM;
    for (unsigned kind = 0; kind < OPTRACE_KIND_COUNT; kind++) {
        size_t count = 0;
        int64_t typical;

        for (size_t i = 0; i < plan->count; i++) {
            if (builder->work[i].row->kind == kind)
                value[count++] = plan->traced_ns[builder->work[i].op];
        }
        typical = whatif_typical_ns(value, count, whatif_kind_is_compute(kind));
        for (size_t i = 0; i < plan->count; i++) {
            if (builder->work[i].row->kind == kind)
                plan->ideal_ns[builder->work[i].op] = typical;
        }
    }
    return 0;
}

static int whatif_build_kinds(struct whatif_plan *plan)
{
    plan->labels[WHATIF_KIND] = OPTRACE_KIND_COUNT;
    plan->kind = calloc(OPTRACE_KIND_COUNT, sizeof(*plan->kind));
    if (!plan->kind)
        return -ENOMEM;
    for (unsigned i = 0; i < OPTRACE_KIND_COUNT; i++)
        strcpy(plan->kind[i], optrace_kind_name(i));
    strcpy(plan->kind[OPTRACE_FORWARD_SEND], "forward-pp-comm");
    strcpy(plan->kind[OPTRACE_BACKWARD_SEND], "backward-pp-comm");
    return 0;
}

static int whatif_build_all(struct whatif_builder *builder, struct err *err)
{
    size_t count = builder->trace->count;
    int result = whatif_builder_sizes(builder, err);

    if (result == 0)
        result = whatif_builder_workers(builder, err);
    if (result == 0)
        result = whatif_builder_sort(builder, err);
    if (result == 0 && whatif_build_kinds(builder->plan) < 0)
        return err_nomem(err);
    for (size_t first = 0, n; first < count && result == 0; first += n) {
        for (n = 1; first + n < count &&
                    builder->work[first + n].row->step == builder->work[first].row->step;)
            n++;
        result = whatif_build_step(builder, first, n, err);
    }
    return result == 0 && whatif_build_ideal(builder) < 0 ? err_nomem(err) : result;
}

int whatif_plan_pipeline(const struct optrace *trace, struct whatif_plan *ret, struct err *err)
{
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(whatif_builder_fini) struct whatif_builder builder = { .trace = trace, .plan = &plan };
    int result;

    if (!trace->count || trace->count >= REPLAY_NONE)
        return err_set(err, -EINVAL, "%zu ops; a trace has some, and less than 4 billion",
                       trace->count);
    result = whatif_plan_room(&plan, trace->count);
    result = result < 0 ? err_nomem(err) : whatif_build_all(&builder, err);
    if (result == -ENOMEM)
        return err_wrap(err, result, "%zu ops", trace->count);
    if (result < 0)
        return result;
    *ret = plan;
    plan = (struct whatif_plan){ 0 };
    return 0;
}
