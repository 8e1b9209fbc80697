/* wait_scene.c - puts ranks into collectives and messages, and looks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/wait_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct wait_rule rule = {
    .limit_ns = 10 * S, .stuck_ns = 5 * S, .late_ns = 600 * S, .busy_cpus = 0.5
};

void join(struct model *model, uint64_t id, uint32_t rank, uint32_t index, uint32_t size)
{
    struct fact_comm fact = { .rank = rank, .id = id, .size = size, .index = index };

    snprintf(fact.name, sizeof(fact.name), "comm%llu", (unsigned long long)id);
    assert_int_equal(model_comm(model, &fact), 0);
}

void scene_open(struct scene *scene, uint32_t world)
{
    memset(scene, 0, sizeof(*scene));
    assert_int_equal(model_resize(&scene->model, world), 0);
    for (uint32_t rank = 0; rank < world; rank++) {
        join(&scene->model, WORLD_ID, rank, rank, world);
        join(&scene->model, LINE_ID, rank, rank, world);
        if (world % 2 == 0)
            join(&scene->model, PAIR_ID(rank / 2), rank, rank % 2, 2);
        scene->rank[rank] = (struct wait_rank){ .seen = true,
                                                .state = 'S',
                                                .phase = LOCKSTEP_PHASE_BACKWARD,
                                                .stuck_ns = 12 * S,
                                                .phase_age_ns = 12 * S,
                                                .cpus = 0.01,
                                                .op = scene->op[rank],
                                                .channel = scene->channel[rank] };
    }
}

void scene_close(struct scene *scene)
{
    model_fini(&scene->model);
}

/* NOLINTNEXTLINE(readability-function-size): eight parameters */
struct beat_channel *channel(struct scene *scene, uint32_t rank, uint64_t comm, uint8_t what,
                             uint32_t peer, uint64_t enqueued, uint64_t started, uint64_t ended)
{
    struct wait_rank *at = &scene->rank[rank];
    struct beat_channel *fresh = &at->channel[at->channels++];

    *fresh = (struct beat_channel){ comm, what, peer, enqueued, started, ended };
    return fresh;
}

struct beat_op *in(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t key, int64_t age_s)
{
    struct wait_rank *at = &scene->rank[rank];
    struct beat_op *op = &at->op[at->ops++];

    *op = (struct beat_op){ .stream = 2,
                            .kind = ITEM_COLL,
                            .what = LOCKSTEP_OP_ALL_REDUCE,
                            .comm = comm,
                            .key = key,
                            .age_ns = age_s * S,
                            .started = true,
                            .bytes = 4096 };
    channel(scene, rank, comm, 0, 0, key + 1, key + 1, key);
    return op;
}

void out(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t count)
{
    channel(scene, rank, comm, 0, 0, count, count, count);
}

struct beat_op *message(struct scene *scene, uint32_t rank, uint8_t what, uint32_t peer,
                        uint64_t ordinal, int64_t age_s)
{
    struct beat_op *op = in(scene, rank, LINE_ID, 1000 + ordinal, age_s);
    struct beat_channel *at = &scene->rank[rank].channel[scene->rank[rank].channels - 1];

    op->kind = ITEM_P2P;
    op->what = what;
    op->peer = peer;
    op->ordinal = ordinal;
    *at = (struct beat_channel){ LINE_ID, what, peer, ordinal + 1, ordinal + 1, ordinal };
    return op;
}

const struct wait_finding *look(struct scene *scene)
{
    scene->count = wait_look(&scene->model, scene->rank, &rule, scene->found);
    assert_true(scene->count >= 0);
    return scene->count ? &scene->found[0] : NULL;
}

void names_only(struct scene *scene, uint32_t culprit, enum wait_cause cause)
{
    const struct wait_finding *found = look(scene);

    assert_non_null(found);
    assert_int_equal(scene->count, 1);
    assert_int_equal(found->kind, WAIT_ROOTS);
    assert_int_equal(found->culprits, 1);
    assert_int_equal(found->culprit[0], culprit);
    assert_int_equal(found->cause[0], cause);
}

void all_but(struct scene *scene, uint32_t world, uint32_t absent, int64_t age_s)
{
    scene_open(scene, world);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (rank == absent)
            out(scene, rank, WORLD_ID, 7);
        else
            in(scene, rank, WORLD_ID, 7, age_s);
    }
}
