/* bench_pipeline.c - builds the program stage by stage, in the order a stage works.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/bench_pipeline.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"

enum work {
    FORWARD,
    BACKWARD,
    SEND_UP,
    SEND_DOWN,
    WORKS
};

/* Per replica: which op is work w of micro-batch m at stage s.  An op's index in the program
 * follows from that and the replica.
 */
struct pipeline_plan {
    const struct pipeline_shape *shape;
    uint32_t *op; /* [stage][micro-batch][work] */
    uint32_t count;
};

static uint32_t *plan_op(const struct pipeline_plan *plan, uint32_t stage, uint32_t micro,
                         enum work work)
{
    return &plan->op[((size_t)stage * plan->shape->micro_batches + micro) * WORKS + work];
}

static uint32_t plan_index(const struct pipeline_plan *plan, uint32_t op, uint32_t replica)
{
    return plan->shape->by_rank ? replica * plan->count + op : op * plan->shape->replicas + replica;
}

/* What stage does as its k-th piece of work: forwards until the pipeline is full, then one
 * backward and one forward in turn, then the backwards that are left.
 */
static enum work plan_work(const struct pipeline_shape *shape, uint32_t stage, uint32_t k,
                           uint32_t *micro)
{
    uint32_t warm = MIN(shape->stages - 1 - stage, shape->micro_batches);
    uint32_t turns = shape->micro_batches - warm;

    if (k < warm) {
        *micro = k;
        return FORWARD;
    }
    if (k < warm + 2 * turns) {
        *micro = (k - warm) / 2;
        if ((k - warm) % 2 == 0) {
            *micro += warm;
            return FORWARD;
        }
        return BACKWARD;
    }
    *micro = turns + (k - warm - 2 * turns);
    return BACKWARD;
}

static void plan_stage(struct pipeline_plan *plan, uint32_t stage)
{
    for (uint32_t k = 0; k < 2 * plan->shape->micro_batches; k++) {
        uint32_t micro;
        enum work work = plan_work(plan->shape, stage, k, &micro);

        *plan_op(plan, stage, micro, work) = plan->count++;
        if (work == FORWARD && stage + 1 < plan->shape->stages)
            *plan_op(plan, stage, micro, SEND_UP) = plan->count++;
        if (work == BACKWARD && stage > 0)
            *plan_op(plan, stage, micro, SEND_DOWN) = plan->count++;
    }
    plan->count += 2; /* reduce-scatter, optimizer */
}

/* Lines of one replica: per stage its compute, its sends up, its sends down. */
static uint32_t plan_line(const struct pipeline_plan *plan, uint32_t stage, uint32_t kind,
                          uint32_t replica)
{
    return (kind * plan->shape->stages + stage) * plan->shape->replicas + replica;
}

struct pipeline_builder {
    struct pipeline *out;
    const struct pipeline_plan *plan;
    const struct pipeline_times *times;
    struct rand *rand;
};

static void builder_put(struct pipeline_builder *b, uint32_t op, uint32_t replica,
                        struct replay_op what, int64_t mean)
{
    uint32_t i = plan_index(b->plan, op, replica);
    double factor = 1 + b->times->jitter * rand_normal(b->rand);

    if (what.dep[0] != REPLAY_NONE)
        what.dep[0] = plan_index(b->plan, what.dep[0], replica);
    b->out->op[i] = what;
    b->out->duration[i] = (int64_t)((double)mean * MAX(factor, 0.0));
}

static void builder_micro(struct pipeline_builder *b, uint32_t stage, uint32_t micro,
                          uint32_t replica)
{
    const struct pipeline_plan *plan = b->plan;
    uint32_t at[WORKS], above = REPLAY_NONE, below = REPLAY_NONE;
    struct replay_op op = { .line = plan_line(plan, stage, 0, replica), .meet = REPLAY_NONE };

    for (int work = 0; work < WORKS; work++)
        at[work] = *plan_op(plan, stage, micro, (enum work)work);
    if (stage > 0)
        below = *plan_op(plan, stage - 1, micro, SEND_UP);
    if (stage + 1 < plan->shape->stages)
        above = *plan_op(plan, stage + 1, micro, SEND_DOWN);
    op.dep[1] = REPLAY_NONE;
    op.dep[0] = below;
    builder_put(b, at[FORWARD], replica, op, b->times->forward);
    op.dep[0] = above;
    builder_put(b, at[BACKWARD], replica, op, b->times->backward);
    if (above != REPLAY_NONE) {
        op.line = plan_line(plan, stage, 1, replica);
        op.dep[0] = at[FORWARD];
        builder_put(b, at[SEND_UP], replica, op, b->times->transfer);
    }
    if (below != REPLAY_NONE) {
        op.line = plan_line(plan, stage, 2, replica);
        op.dep[0] = at[BACKWARD];
        builder_put(b, at[SEND_DOWN], replica, op, b->times->transfer);
    }
    b->out->compute_count += 2;
}

static void builder_stage(struct pipeline_builder *b, uint32_t stage, uint32_t first,
                          uint32_t replica)
{
    const struct pipeline_shape *shape = b->plan->shape;
    uint32_t sends = (stage > 0) + (stage + 1 < shape->stages);
    uint32_t reduce = first + (2 + sends) * shape->micro_batches;
    struct replay_op op = {
        .line = plan_line(b->plan, stage, 0, replica),
        .meet = stage,
        .role = REPLAY_BOTH,
        .dep = { REPLAY_NONE, REPLAY_NONE },
    };

    for (uint32_t micro = 0; micro < shape->micro_batches; micro++)
        builder_micro(b, stage, micro, replica);
    builder_put(b, reduce, replica, op, b->times->reduce);
    op.meet = REPLAY_NONE;
    builder_put(b, reduce + 1, replica, op, b->times->optimizer);
}

int pipeline_init(struct pipeline *pipeline, const struct pipeline_shape *shape,
                  const struct pipeline_times *times, struct rand *rand)
{
    size_t places = (size_t)shape->stages * shape->micro_batches * WORKS;
    CLEAN(free_clean) uint32_t *place = calloc(places, sizeof(*place));
    CLEAN(free_clean) uint32_t *first = calloc(shape->stages, sizeof(*first));
    struct pipeline_plan plan = { .shape = shape, .op = place };
    struct pipeline_builder b = { .out = pipeline, .plan = &plan, .times = times, .rand = rand };

    if (!place || !first)
        return -ENOMEM;
    for (uint32_t stage = 0; stage < shape->stages; stage++) {
        first[stage] = plan.count;
        plan_stage(&plan, stage);
    }
    *pipeline = (struct pipeline){ .count = (size_t)plan.count * shape->replicas };
    pipeline->op = calloc(pipeline->count, sizeof(*pipeline->op));
    pipeline->duration = calloc(pipeline->count, sizeof(*pipeline->duration));
    if (!pipeline->op || !pipeline->duration) {
        pipeline_fini(pipeline);
        return -ENOMEM;
    }
    for (uint32_t stage = 0; stage < shape->stages; stage++) {
        for (uint32_t replica = 0; replica < shape->replicas; replica++)
            builder_stage(&b, stage, first[stage], replica);
    }
    return 0;
}

void pipeline_fini(struct pipeline *pipeline)
{
    free(pipeline->op);
    free(pipeline->duration);
    *pipeline = (struct pipeline){ 0 };
}
