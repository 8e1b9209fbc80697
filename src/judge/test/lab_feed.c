/* lab_feed.c - what the made-up job tells, as facts and as whole steps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "judge/test/lab_step.h"

uint32_t lab_node(const struct lab *lab, uint32_t rank)
{
    return rank / lab->config.per_node;
}

void lab_node_name(uint32_t node, char *out, size_t room)
{
    snprintf(out, room, "n%u", node);
}

void lab_ring(const struct lab *lab, uint32_t rank, struct fact_ring *ret)
{
    const struct lab_rank *at = &lab->rank[rank];
    const uint16_t layout[10] = {
        (uint16_t)lab->config.tp, (uint16_t)lab->config.pp, (uint16_t)lab->config.dp, 1, 1,
        (uint16_t)at->tp,         (uint16_t)at->pp,         (uint16_t)at->dp,         0, 0
    };

    *ret = (struct fact_ring){ .rank = rank,
                               .world = lab->world,
                               .attempt = lab->attempt,
                               .ring = lab->attempt,
                               .pid = 1000 + rank,
                               .open_ns = at->begin_ns - 500000000,
                               .has_layout = !lab->config.no_layout };
    lab_node_name(lab_node(lab, rank), ret->node, sizeof(ret->node));
    if (ret->has_layout)
        memcpy(ret->layout, layout, sizeof(layout));
}

bool lab_comm(const struct lab *lab, uint32_t rank, uint32_t i, struct fact_comm *ret)
{
    const struct lab_config *config = &lab->config;
    const struct lab_rank *at = &lab->rank[rank];
    const struct fact_comm all[] = {
        { .id = 0x4000, .size = lab->world, .index = rank, .kind = LOCKSTEP_COMM_WORLD },
        { .id = 0x1000 + at->pp * 256 + at->dp,
          .size = config->tp,
          .index = at->tp,
          .kind = LOCKSTEP_COMM_TP },
        { .id = 0x2000 + at->pp * 256 + at->tp,
          .size = config->dp,
          .index = at->dp,
          .kind = LOCKSTEP_COMM_DP },
        { .id = 0x3000 + at->dp * 256 + at->tp,
          .size = config->pp,
          .index = at->pp,
          .kind = LOCKSTEP_COMM_PP },
    };
    static const char *const names[] = { "world", "tp", "dp", "pp" };

    if (i >= COUNT(all))
        return false;
    *ret = all[i];
    ret->rank = rank;
    ret->attempt = lab->attempt;
    snprintf(ret->name, sizeof(ret->name), "%s", names[i]);
    return true;
}

/* The parameters are a function of where they are and how often they were updated. */
static void digest_fill(const struct lab *lab, uint32_t rank, struct fact_step *ret)
{
    const struct lab_rank *at = &lab->rank[rank];
    const struct lab_config *config = &lab->config;
    uint64_t updates = lab->step / MAX(1, config->accumulate);

    if (lab->fault.frozen[rank])
        updates = MIN(updates, lab->fault.frozen[rank]);
    ret->digest_parts = config->digest_parts;
    ret->digest_part = (uint32_t)(lab->step % config->digest_parts);
    ret->digest[0] = hash64_u64(hash64_u64(hash64_u64(at->tp, at->pp), ret->digest_part), updates);
    ret->digest[1] = ret->digest[0] + lab->fault.flipped[rank];
}

static void values_fill(const struct lab *lab, uint32_t rank, struct fact_step *ret)
{
    struct rand rand = { hash64_u64(hash64_u64(lab->config.seed, lab->step), rank) };

    ret->metric_set |= 1u << LOCKSTEP_METRIC_LOSS | 1u << LOCKSTEP_METRIC_GRAD_NORM;
    ret->metric[LOCKSTEP_METRIC_LOSS] = (2 + 4.0 / (1 + 0.1 * (double)lab->step)) *
                                        (1 + 0.05 * rand_normal(&rand)) *
                                        (1 + lab->fault.loss[rank]);
    ret->metric[LOCKSTEP_METRIC_GRAD_NORM] =
        0.7 * (1 + 0.1 * rand_normal(&rand)) * (1 + lab->fault.norm[rank]);
    if (lab->fault.values_late)
        ret->metric_set |= 1u << LOCKSTEP_METRIC_VALUES_LATE;
    ret->metric[LOCKSTEP_METRIC_VALUES_LATE] = lab->fault.values_late;
}

void lab_fact(const struct lab *lab, uint32_t rank, struct fact_step *ret)
{
    struct lab_rank *at = &lab->rank[rank];
    const double mean = 4096;
    uint32_t observed_count = 0;

    for (uint32_t i = 0; i < at->items; i++) {
        if (!lab->config.host_view || at->item[i].shape.kind != ITEM_SPAN)
            at->observed[observed_count++] = at->time[i];
    }
    *ret = (struct fact_step){
        .rank = rank,
        .attempt = lab->attempt,
        .ring = lab->attempt,
        .step = lab->step,
        .shape = at->shape.hash,
        .begin_ns = at->begin_ns + lab->fault.skew_ns[lab_node(lab, rank)],
        .duration_ns = at->duration_ns,
        .tail_ns = lab->config.tail_ns,
        .cpu_ns = at->duration_ns / 10,
        .run_delay_ns = lab->fault.delay_ns[rank],
        .throttled_ns = lab->fault.throttled_ns[rank],
        .metric_set = 1u << LOCKSTEP_METRIC_TOKENS | 1u << LOCKSTEP_METRIC_LENGTH_SQUARES,
        .flags =
            (lab->config.host_view ? STEP_HOST_VIEW : 0u) | (lab->config.ahead ? STEP_AHEAD : 0u),
        .count = observed_count,
        .time = at->observed,
    };
    ret->metric[LOCKSTEP_METRIC_TOKENS] = mean * at->length;
    ret->metric[LOCKSTEP_METRIC_LENGTH_SQUARES] = mean * mean * at->length * at->length;
    if (lab->config.digest_parts)
        digest_fill(lab, rank, ret);
    if (lab->config.values)
        values_fill(lab, rank, ret);
}

static void shapes_introduce(const struct lab *lab, struct judge_state *judge)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        const struct fact_shape *shape = &lab->rank[rank].shape;
        CLEAN(fact_shape_fini) struct fact_shape copy = *shape;
        int result;

        copy.item = malloc(shape->count * sizeof(*copy.item));
        assert(copy.item);
        memcpy(copy.item, shape->item, shape->count * sizeof(*copy.item));
        result = model_shape(&judge->model, &copy);
        assert(result == 0);
    }
}

void lab_introduce(const struct lab *lab, struct judge_state *judge)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct fact_ring ring;
        struct fact_comm comm;
        int result;

        lab_ring(lab, rank, &ring);
        result = model_ring(&judge->model, &ring);
        for (uint32_t i = 0; lab_comm(lab, rank, i, &comm) && result == 0; i++)
            result = model_comm(&judge->model, &comm);
        assert(result == 0);
    }
    shapes_introduce(lab, judge);
}

void lab_job_step(const struct lab *lab, struct judge_state *judge, struct job_step *ret)
{
    int result = job_step_init(ret, lab->world, lab->step, lab->attempt);

    assert(result == 0);
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        CLEAN(buf_fini) struct buf bytes = { 0 };
        struct model_shape *shape = model_shape_get(&judge->model, lab->rank[rank].shape.hash);
        struct fact_step fact;

        assert(shape);
        lab_fact(lab, rank, &fact);
        fact_step_put(&bytes, &fact, &shape->fact);
        result =
            fact_step_get(reader_of(bytes.data, bytes.size), &shape->fact, &ret->step_of[rank]);
        assert(result == 0);
        ret->shape_of[rank] = shape;
        ret->have++;
    }
}

void lab_judge(struct lab *lab, struct judge_state *judge)
{
    CLEAN(job_step_fini) struct job_step job_step = { 0 };
    int result;

    lab_step(lab);
    shapes_introduce(lab, judge); /* a checkpoint makes another shape */
    lab_job_step(lab, judge, &job_step);
    result = judge_state_step(judge, &job_step);
    assert(result == 0);
}

void lab_judge_many(struct lab *lab, struct judge_state *judge, uint32_t steps)
{
    while (steps-- > 0)
        lab_judge(lab, judge);
}

const struct tracked_verdict *lab_open(const struct judge_state *judge, unsigned kind, uint32_t i)
{
    for (uint32_t at = 0; at < judge->verdicts.count; at++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[at];

        if (tracked->open && (!kind || tracked->verdict.kind == kind) && i-- == 0)
            return tracked;
    }
    return NULL;
}

uint32_t lab_open_count(const struct judge_state *judge, unsigned kind)
{
    uint32_t count = 0;

    while (lab_open(judge, kind, count))
        count++;
    return count;
}
