/* test-wait-sides.c - those who disagree, and random programs of which all is known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "judge/test/wait_scene.h"

/* ---- those who disagree ---- */

static void another_collective_is_a_desync_of_the_smaller_side(void **state)
{
    struct scene scene;
    const struct wait_finding *found;

    (void)state;
    all_but(&scene, 8, 99, 11);
    scene.rank[6].op[0].what = LOCKSTEP_OP_ALL_GATHER;
    found = look(&scene);
    assert_non_null(found);
    assert_int_equal(found->kind, WAIT_MISMATCH);
    assert_int_equal(found->culprits, 1);
    assert_int_equal(found->culprit[0], 6);
    assert_int_equal(found->side[0].count + found->side[1].count, 8);
    assert_false(found->undecided);
    scene_close(&scene);
}

static void another_size_is_a_desync(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    scene.rank[0].op[0].bytes = 2048; /* also when it is the first that is looked at */
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_MISMATCH);
    assert_int_equal(scene.found[0].culprits, 1);
    assert_int_equal(scene.found[0].culprit[0], 0);
    scene_close(&scene);
}

static void as_many_bytes_of_another_type_are_a_desync(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    for (uint32_t rank = 0; rank < 8; rank++)
        scene.rank[rank].op[0].dtype = LOCKSTEP_DTYPE_BFLOAT16;
    scene.rank[1].op[0].dtype =
        LOCKSTEP_DTYPE_UNKNOWN; /* who does not tell disagrees with nobody */
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    scene.rank[3].op[0].dtype = LOCKSTEP_DTYPE_FLOAT32;
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_MISMATCH);
    assert_int_equal(scene.found[0].culprits, 1);
    assert_int_equal(scene.found[0].culprit[0], 3);
    assert_int_equal(scene.found[0].side[0].op.dtype, LOCKSTEP_DTYPE_BFLOAT16);
    assert_int_equal(scene.found[0].side[1].op.dtype, LOCKSTEP_DTYPE_FLOAT32);
    scene_close(&scene);
}

static void sizes_may_differ_where_they_need_not_agree(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    for (uint32_t rank = 0; rank < 8; rank++) {
        scene.rank[rank].op[0].what = LOCKSTEP_OP_ALL_TO_ALL;
        scene.rank[rank].op[0].bytes = 100 * rank;
    }
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    scene_close(&scene);
}

static void two_who_disagree_are_both_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 2, 99, 11);
    scene.rank[1].op[0].bytes = 2048;
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_MISMATCH);
    assert_int_equal(scene.found[0].culprits, 2);
    assert_true(scene.found[0].undecided);
    scene_close(&scene);
}

static void know_reduce(struct scene *scene, uint64_t bytes, bool ended)
{
    struct fact_shape shape = { .count = 1, .item = calloc(1, sizeof(*shape.item)) };

    shape.item[0] = (struct shape_item){ .kind = ITEM_COLL,
                                         .what = LOCKSTEP_OP_ALL_REDUCE,
                                         .comm = WORLD_ID,
                                         .count = 1,
                                         .bytes = bytes };
    shape_hash(&shape);
    assert_int_equal(model_shape(&scene->model, &shape), 0);
    scene->model.shape[scene->model.shapes - 1]->ended = ended;
}

static void of_two_who_disagree_the_one_that_is_new_to_it_is_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 2, 99, 11);
    know_reduce(&scene, scene.rank[0].op[0].bytes, true);
    know_reduce(&scene, 2048, false); /* told when it ended in the middle of that very step */
    scene.rank[1].op[0].bytes = 2048;
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_MISMATCH);
    assert_int_equal(scene.found[0].culprits, 1);
    assert_int_equal(scene.found[0].culprit[0], 1);
    assert_false(scene.found[0].undecided);
    scene_close(&scene);
}

static void opposite_order_on_two_communicators_names_the_smaller_side(void **state)
{
    struct scene scene;
    const struct wait_finding *found;

    (void)state;
    scene_open(&scene, 8); /* 5 of the two is in LINE first, the others in WORLD first */
    for (uint32_t rank = 0; rank < 8; rank++) {
        bool odd = rank == 5;

        in(&scene, rank, odd ? LINE_ID : WORLD_ID, 7, 11);
        out(&scene, rank, odd ? WORLD_ID : LINE_ID, 7);
    }
    found = look(&scene);
    assert_non_null(found);
    assert_int_equal(found->kind, WAIT_ORDER);
    assert_int_equal(found->culprits, 1);
    assert_int_equal(found->culprit[0], 5);
    assert_int_equal(found->side[0].count + found->side[1].count, 8);
    scene_close(&scene);
}

/* Pairs are tensor groups; rank 0 has left out a reduction with rank 1 that ranks 2 and 3 have made. */
static void of_two_the_one_that_left_out_a_collective_is_named(void **state)
{
    struct scene scene;
    const struct wait_finding *found;

    (void)state;
    for (uint64_t made = 20; made <= 21; made++) {
        scene_open(&scene, 4);
        for (uint32_t i = 0; i < scene.model.comms; i++) {
            if (scene.model.comm[i].size == 2)
                scene.model.comm[i].kind = LOCKSTEP_COMM_TP;
        }
        in(&scene, 0, WORLD_ID, 7, 11);
        out(&scene, 0, PAIR_ID(0), made);
        in(&scene, 1, PAIR_ID(0), made, 11);
        out(&scene, 1, WORLD_ID, 7);
        for (uint32_t rank = 2; rank < 4; rank++) {
            in(&scene, rank, WORLD_ID, 7, 11);
            out(&scene, rank, PAIR_ID(1), 21);
        }
        found = look(&scene);
        assert_non_null(found);
        assert_int_equal(found->kind, WAIT_ORDER);
        /* Where it has made as many as they, rank 1 may have made one too many: nobody can tell. */
        assert_int_equal(found->culprits, made == 20 ? 1 : 2);
        if (made == 20)
            assert_int_equal(found->culprit[0], 0);
        assert_int_equal(found->undecided, made != 20);
        scene_close(&scene);
    }
}

/* Rank 3 may wait for rank 2 in an exchange of which only the launch is known. */
static void a_device_that_may_wait_for_a_stopped_rank_is_not_named(void **state)
{
    struct scene scene;

    (void)state;
    for (int untimed = 0; untimed < 2; untimed++) {
        uint64_t known = untimed ? BEAT_UNKNOWN : 5;

        scene_open(&scene, 4);
        for (uint32_t rank = 0; rank < 2; rank++)
            in(&scene, rank, WORLD_ID, 7, 11);
        out(&scene, 2, WORLD_ID, 7);
        scene.rank[2].state = 'T';
        channel(&scene, 3, WORLD_ID, 0, 0, 8, 7, 7);
        channel(&scene, 3, PAIR_ID(1), 0, 0, 5, known, known);
        assert_non_null(look(&scene));
        assert_int_equal(scene.found[0].kind, WAIT_ROOTS);
        assert_int_equal(scene.found[0].culprits, untimed ? 1 : 2);
        assert_int_equal(scene.found[0].culprit[0], 2);
        scene_close(&scene);
    }
}

static void a_stopped_rank_and_a_mismatch_are_two_findings(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    scene.rank[6].op[0].what = LOCKSTEP_OP_BROADCAST;
    scene.rank[2].state = 'T';
    look(&scene);
    assert_int_equal(scene.count, 2);
    assert_int_equal(scene.found[0].kind, WAIT_MISMATCH);
    assert_int_equal(scene.found[0].culprit[0], 6);
    assert_int_equal(scene.found[1].kind, WAIT_ROOTS);
    assert_int_equal(scene.found[1].culprit[0], 2);
    scene_close(&scene);
}

static void nothing_is_said_while_somebody_goes_on(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    scene.rank[4].ops = scene.rank[4].channels = 0; /* ended something: tells no counts */
    assert_null(look(&scene));
    scene_close(&scene);
}

/* ---- random programs ---- */

/* Ranks run the same random list of collectives over random groups, each waits for all members, and some
 * stop somewhere.  Run until nothing moves; then some who stopped must be named, if anyone waits, and never anybody else.
 */
struct program {
    uint32_t world, groups, ops;
    uint32_t member[8][RANKS], size[8];
    uint32_t group[64];
    uint32_t at[RANKS], stops[RANKS]; /* stops: before which op; UINT32_MAX: never */
    bool inside[RANKS];
};

static bool is_member(const struct program *program, uint32_t group, uint32_t rank)
{
    for (uint32_t i = 0; i < program->size[group]; i++) {
        if (program->member[group][i] == rank)
            return true;
    }
    return false;
}

static void program_make(struct program *program, struct rand *rand)
{
    memset(program, 0, sizeof(*program));
    program->world = 2 + rand_below(rand, RANKS - 2);
    program->groups = 1 + rand_below(rand, 8);
    program->ops = 1 + rand_below(rand, 63);
    for (uint32_t group = 0; group < program->groups; group++) {
        for (uint32_t rank = 0; rank < program->world; rank++) {
            if (group == 0 || rand_below(rand, 2))
                program->member[group][program->size[group]++] = rank;
        }
    }
    for (uint32_t i = 0; i < program->ops; i++)
        program->group[i] = rand_below(rand, program->groups);
    for (uint32_t rank = 0; rank < program->world; rank++)
        program->stops[rank] = UINT32_MAX;
    for (uint32_t n = 1 + rand_below(rand, 3); n > 0; n--)
        program->stops[rand_below(rand, program->world)] = rand_below(rand, program->ops);
}

/* Moves everybody as far as it goes: all run the ops in the same order, so there is one result. */
static void program_run(struct program *program)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < program->world; rank++) {
            while (!program->inside[rank] && program->at[rank] < program->ops &&
                   program->at[rank] != program->stops[rank]) {
                if (is_member(program, program->group[program->at[rank]], rank))
                    program->inside[rank] = true;
                else
                    program->at[rank]++;
                moved = true;
            }
        }
        for (uint32_t i = 0; i < program->ops; i++) {
            uint32_t group = program->group[i], present = 0;

            for (uint32_t n = 0; n < program->size[group]; n++) {
                uint32_t rank = program->member[group][n];

                present += program->inside[rank] && program->at[rank] == i;
            }
            if (!present || present < program->size[group])
                continue;
            for (uint32_t n = 0; n < program->size[group]; n++) {
                program->inside[program->member[group][n]] = false;
                program->at[program->member[group][n]]++;
            }
            moved = true;
        }
    }
}

static void program_show(const struct program *program, struct scene *scene, struct rand *rand)
{
    scene_open(scene, program->world);
    for (uint32_t group = 0; group < program->groups; group++) {
        for (uint32_t i = 0; i < program->size[group]; i++)
            join(&scene->model, 200 + group, program->member[group][i], i, program->size[group]);
    }
    for (uint32_t rank = 0; rank < program->world; rank++) {
        uint64_t done[8] = { 0 };

        for (uint32_t i = 0; i < program->at[rank]; i++)
            done[program->group[i]] += is_member(program, program->group[i], rank);
        for (uint32_t group = 0; group < program->groups; group++) {
            if (!is_member(program, group, rank))
                continue;
            if (program->inside[rank] && program->group[program->at[rank]] == group)
                in(scene, rank, 200 + group, done[group], 11 + rand_below(rand, 5));
            else
                out(scene, rank, 200 + group, done[group]);
        }
    }
}

static void in_random_programs_those_who_stopped_are_named_and_nobody_else(void **state)
{
    struct rand rand = { 20240607 };
    uint32_t count = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct program program;
        struct scene scene;
        const struct wait_finding *found;
        bool waits = false;

        program_make(&program, &rand);
        program_run(&program);
        program_show(&program, &scene, &rand);
        for (uint32_t rank = 0; rank < program.world; rank++)
            waits |= program.inside[rank];
        found = look(&scene);
        if (waits) {
            assert_non_null(found);
            assert_int_equal(found->kind, WAIT_ROOTS);
        }
        for (uint32_t i = 0; waits && i < found->culprits; i++) /* never a victim */
            assert_int_equal(program.at[found->culprit[i]], program.stops[found->culprit[i]]);
        count += waits;
        scene_close(&scene);
    }
    assert_true(count > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_collective_is_a_desync_of_the_smaller_side),
        cmocka_unit_test(another_size_is_a_desync),
        cmocka_unit_test(as_many_bytes_of_another_type_are_a_desync),
        cmocka_unit_test(sizes_may_differ_where_they_need_not_agree),
        cmocka_unit_test(two_who_disagree_are_both_named),
        cmocka_unit_test(of_two_who_disagree_the_one_that_is_new_to_it_is_named),
        cmocka_unit_test(opposite_order_on_two_communicators_names_the_smaller_side),
        cmocka_unit_test(of_two_the_one_that_left_out_a_collective_is_named),
        cmocka_unit_test(a_device_that_may_wait_for_a_stopped_rank_is_not_named),
        cmocka_unit_test(a_stopped_rank_and_a_mismatch_are_two_findings),
        cmocka_unit_test(nothing_is_said_while_somebody_goes_on),
        cmocka_unit_test(in_random_programs_those_who_stopped_are_named_and_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
