/* test-wait.c - who waits for whom: a picture that must be named and one that must not, for each sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "judge/wait.h"
#include "lockstep/probe.h"

#define S INT64_C(1000000000)
#define RANKS 32
#define WORLD_ID 1
#define PAIR_ID(n) (100 + (uint64_t)(n)) /* ranks 2n and 2n+1 */
#define LINE_ID 50                       /* all ranks, for messages */

struct scene {
    struct model model;
    struct wait_rank rank[RANKS];
    struct beat_op op[RANKS][8];
    struct beat_channel channel[RANKS][8];
    struct wait_finding found[2];
    int count;
};

static const struct wait_rule rule = {
    .limit_ns = 10 * S, .stuck_ns = 5 * S, .late_ns = 600 * S, .burns = 0.5
};

static void join(struct model *model, uint64_t id, uint32_t rank, uint32_t index, uint32_t size)
{
    struct fact_comm fact = { .rank = rank, .id = id, .size = size, .index = index };

    snprintf(fact.name, sizeof(fact.name), "comm%llu", (unsigned long long)id);
    assert_int_equal(model_comm(model, &fact), 0);
}

/* All seen, all moving, nobody in anything. */
static void scene_open(struct scene *scene, uint32_t world)
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
                                                .burns = 0.01,
                                                .op = scene->op[rank],
                                                .channel = scene->channel[rank] };
    }
}

static void scene_close(struct scene *scene)
{
    model_fini(&scene->model);
}

static struct beat_channel *channel(struct scene *scene, uint32_t rank, uint64_t comm, uint8_t what,
                                    uint32_t peer, uint64_t enqueued, uint64_t started,
                                    uint64_t ended)
{
    struct wait_rank *at = &scene->rank[rank];
    struct beat_channel *fresh = &at->channel[at->channels++];

    *fresh = (struct beat_channel){ comm, what, peer, enqueued, started, ended };
    return fresh;
}

/* In the collective `key` for so many seconds. */
static struct beat_op *in(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t key,
                          int64_t age_s)
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

/* Has done `count` collectives and is in none. */
static void out(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t count)
{
    channel(scene, rank, comm, 0, 0, count, count, count);
}

static struct beat_op *message(struct scene *scene, uint32_t rank, uint8_t what, uint32_t peer,
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

static const struct wait_finding *look(struct scene *scene)
{
    scene->count = wait_look(&scene->model, scene->rank, &rule, scene->found);
    assert_true(scene->count >= 0);
    return scene->count ? &scene->found[0] : NULL;
}

static void names_only(struct scene *scene, uint32_t culprit, enum wait_how how)
{
    const struct wait_finding *found = look(scene);

    assert_non_null(found);
    assert_int_equal(scene->count, 1);
    assert_int_equal(found->kind, WAIT_ROOTS);
    assert_int_equal(found->culprits, 1);
    assert_int_equal(found->culprit[0], culprit);
    assert_int_equal(found->how[0], how);
}

static void all_but(struct scene *scene, uint32_t world, uint32_t absent, int64_t age_s)
{
    scene_open(scene, world);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (rank == absent)
            out(scene, rank, WORLD_ID, 7);
        else
            in(scene, rank, WORLD_ID, 7, age_s);
    }
}

/* ---- one who does not come ---- */

static void one_who_has_not_entered_is_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 11);
    names_only(&scene, 3, WAIT_ABSENT);
    assert_int_equal(scene.found[0].victims, 7);
    scene_close(&scene);
}

static void nobody_is_named_before_the_limit(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 9);
    assert_null(look(&scene));
    scene_close(&scene);
}

static void one_who_is_elsewhere_for_good_reason_has_a_limit_of_its_own(void **state)
{
    static const uint8_t phases[] = { LOCKSTEP_PHASE_INIT, LOCKSTEP_PHASE_COMM_INIT,
                                      LOCKSTEP_PHASE_COMPILE, LOCKSTEP_PHASE_CHECKPOINT,
                                      LOCKSTEP_PHASE_EVAL };

    (void)state;
    for (size_t i = 0; i < COUNT(phases); i++) {
        struct scene scene;

        all_but(&scene, 8, 3, 60);
        scene.rank[3].phase = phases[i];
        assert_null(look(&scene));
        scene.rank[3].phase = LOCKSTEP_PHASE_DATA; /* inside of it */
        scene.rank[3].phases = 1u << phases[i];
        assert_null(look(&scene));
        scene.rank[3].stuck_ns = 601 * S;
        names_only(&scene, 3, WAIT_ABSENT);
        scene_close(&scene);
    }
}

static void one_who_burns_cpu_is_slow_and_not_hung(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 60);
    scene.rank[3].burns = 0.97;
    assert_null(look(&scene));
    scene.rank[3].stuck_ns = 601 * S;
    names_only(&scene, 3, WAIT_ABSENT);
    scene_close(&scene);
}

static void one_who_moves_is_slow_and_not_hung(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 60);
    scene.rank[3].stuck_ns = 1 * S;
    assert_null(look(&scene));
    scene_close(&scene);
}

static void an_unseen_rank_is_never_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 60);
    scene.rank[3].seen = false;
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_UNSEEN);
    assert_int_equal(scene.found[0].culprits, 0);
    assert_int_equal(scene.found[0].op.unseen, 1);
    scene_close(&scene);
}

static void beside_an_unseen_rank_the_seen_culprit_is_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 60);
    scene.rank[5].seen = false;
    names_only(&scene, 3, WAIT_ABSENT);
    scene_close(&scene);
}

static void several_culprits_are_all_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 11);
    scene.rank[6].ops = scene.rank[6].channels = 0;
    out(&scene, 6, WORLD_ID, 7);
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].culprits, 2);
    assert_int_equal(scene.found[0].culprit[0], 3);
    assert_int_equal(scene.found[0].culprit[1], 6);
    scene_close(&scene);
}

static void one_whose_process_has_ended_is_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 11);
    scene.rank[3].gone = true;
    scene.rank[3].state = 'X';
    names_only(&scene, 3, WAIT_GONE);
    scene_close(&scene);
}

static void one_who_is_stopped_inside_is_named(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 99, 11);
    scene.rank[5].state = 'T';
    names_only(&scene, 5, WAIT_HELD);
    scene.rank[5].state = 't';
    names_only(&scene, 5, WAIT_HELD);
    scene_close(&scene);
}

static void a_device_that_does_not_come_to_what_was_launched_is_named(void **state)
{
    struct scene scene;
    struct beat_op *op;

    (void)state;
    all_but(&scene, 8, 99, 11);
    op = &scene.rank[2].op[0];
    op->started = false;
    scene.rank[2].channel[0] = (struct beat_channel){ WORLD_ID, 0, 0, 8, 7, 7 };
    scene.rank[2].burns = 1; /* its host spins in a synchronise */
    names_only(&scene, 2, WAIT_LAUNCHED);
    scene_close(&scene);
}

static void all_stuck_in_their_own_loaders_are_all_named(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        scene.rank[rank].phase = LOCKSTEP_PHASE_DATA;
        scene.rank[rank].state = 'D';
    }
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].culprits, 4);
    scene.rank[1].advanced = true;
    scene.rank[1].stuck_ns = 0;
    assert_null(look(&scene)); /* one goes on */
    scene_close(&scene);
}

static void a_program_that_marks_nothing_may_rest(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    for (uint32_t rank = 0; rank < 4; rank++)
        scene.rank[rank].phase = 0;
    assert_null(look(&scene));
    scene_close(&scene);
}

/* ---- followed to where it begins ---- */

static void a_victim_in_another_group_is_followed_to_the_culprit(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4); /* 0 waits for 1 in their pair; all others wait for 0 in the world */
    for (uint32_t rank = 2; rank < 4; rank++)
        in(&scene, rank, WORLD_ID, 7, 11);
    in(&scene, 0, PAIR_ID(0), 3, 12);
    out(&scene, 0, WORLD_ID, 7);
    out(&scene, 1, PAIR_ID(0), 3);
    out(&scene, 1, WORLD_ID, 7);
    names_only(&scene, 1, WAIT_ABSENT);
    scene_close(&scene);
}

static void a_pipeline_is_followed_to_the_stage_that_does_not_send(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4); /* 3 waits for 2, 2 for 1, 1 for 0, and 0 does nothing */
    for (uint32_t rank = 1; rank < 4; rank++) {
        message(&scene, rank, LOCKSTEP_OP_RECV, rank - 1, 5, 10 + rank);
        channel(&scene, rank - 1, LINE_ID, LOCKSTEP_OP_SEND, rank, 5, 5, 5);
    }
    names_only(&scene, 0, WAIT_ABSENT);
    scene_close(&scene);
}

static void a_receive_that_was_posted_ahead_is_no_excuse(void **state)
{
    struct scene scene;
    struct beat_op *op;

    (void)state;
    scene_open(&scene, 2); /* 0 waits for 1, whose send is launched and whose device is stuck */
    message(&scene, 0, LOCKSTEP_OP_RECV, 1, 5, 11);
    op = message(&scene, 1, LOCKSTEP_OP_SEND, 0, 5, 11);
    op->started = false;
    op->queued_ns = 12 * S;
    scene.rank[1].channel[0].started = 5;
    message(&scene, 1, LOCKSTEP_OP_RECV, 0, 7, 11)->queued_ns = 11 * S; /* launched later */
    channel(&scene, 0, LINE_ID, LOCKSTEP_OP_SEND, 1, 7, 7, 7);
    names_only(&scene, 1, WAIT_LAUNCHED);
    scene.rank[1].op[1].queued_ns = 13 * S; /* launched before: then it may be what holds 1 up */
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_ORDER);
    scene_close(&scene);
}

/* Ranks on nodes of their own, but for the last two, which share one. */
static void scene_nodes(struct scene *scene, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        char name[16];

        snprintf(name, sizeof(name), "n%u", rank == world - 1 ? rank - 1 : rank);
        scene->model.rank[rank].node = model_node(&scene->model, name);
    }
}

/* `from` sends, `to` receives, and it does not come through. */
static void stuck(struct scene *scene, uint32_t from, uint32_t to)
{
    message(scene, to, LOCKSTEP_OP_RECV, from, 5, 11);
    message(scene, from, LOCKSTEP_OP_SEND, to, 5, 11);
}

static void stuck_messages_that_touch_one_node_name_it(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    scene_nodes(&scene, 4); /* 2 and 3 share one */
    stuck(&scene, 0, 1);
    stuck(&scene, 3, 1);
    out(&scene, 2, WORLD_ID, 3);
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    assert_int_equal(scene.found[0].culprits, 1);
    assert_int_equal(scene.found[0].culprit[0], 1);
    scene_close(&scene);
}

static void stuck_messages_without_a_node_in_common_name_nobody(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 5);
    scene_nodes(&scene, 5); /* 3 and 4 share one */
    stuck(&scene, 0, 1);
    stuck(&scene, 2, 3);
    out(&scene, 4, WORLD_ID, 3);
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    assert_int_equal(scene.found[0].culprits, 0);
    scene_close(&scene);

    scene_open(&scene, 4);
    scene_nodes(&scene, 4);
    stuck(&scene, 1, 2); /* the same two nodes */
    stuck(&scene, 1, 3);
    out(&scene, 0, WORLD_ID, 3);
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    assert_int_equal(scene.found[0].culprits, 0);
    scene_close(&scene);

    scene_open(&scene, 4);
    scene_nodes(&scene, 4);
    stuck(&scene, 0, 1); /* a ring: each node is in two of three */
    stuck(&scene, 1, 2);
    stuck(&scene, 3, 0);
    assert_non_null(look(&scene));
    assert_int_equal(scene.found[0].kind, WAIT_LINK);
    assert_int_equal(scene.found[0].culprits, 0);
    scene_close(&scene);
}

static void a_message_that_both_ends_are_in_is_a_link_and_neither_is_named(void **state)
{
    struct scene scene;
    const struct wait_finding *found;

    (void)state;
    scene_open(&scene, 4);
    message(&scene, 1, LOCKSTEP_OP_RECV, 0, 5, 11);
    message(&scene, 0, LOCKSTEP_OP_SEND, 1, 5, 11);
    out(&scene, 2, WORLD_ID, 3);
    out(&scene, 3, WORLD_ID, 3);
    found = look(&scene);
    assert_non_null(found);
    assert_int_equal(found->kind, WAIT_LINK);
    assert_int_equal(found->culprits, 0);
    assert_true(found->op.p2p);
    scene_close(&scene);
}

static void all_entered_and_nothing_moves_names_nobody(void **state)
{
    struct scene scene;
    const struct wait_finding *found;

    (void)state;
    all_but(&scene, 8, 99, 11);
    found = look(&scene);
    assert_non_null(found);
    assert_int_equal(found->kind, WAIT_LINK);
    assert_int_equal(found->culprits, 0);
    scene_close(&scene);
}

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

static void of_two_who_disagree_the_one_that_is_new_to_it_is_named(void **state)
{
    struct fact_shape shape = { .count = 1, .item = calloc(1, sizeof(*shape.item)) };
    struct scene scene;

    (void)state;
    all_but(&scene, 2, 99, 11);
    shape.item[0] = (struct shape_item){ .kind = ITEM_COLL,
                                         .what = LOCKSTEP_OP_ALL_REDUCE,
                                         .comm = WORLD_ID,
                                         .count = 1,
                                         .bytes = scene.rank[0].op[0].bytes };
    shape_hash(&shape);
    assert_int_equal(model_shape(&scene.model, &shape), 0);
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
    uint32_t told = 0;

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
        told += waits;
        scene_close(&scene);
    }
    assert_true(told > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_who_has_not_entered_is_named),
        cmocka_unit_test(nobody_is_named_before_the_limit),
        cmocka_unit_test(one_who_is_elsewhere_for_good_reason_has_a_limit_of_its_own),
        cmocka_unit_test(one_who_burns_cpu_is_slow_and_not_hung),
        cmocka_unit_test(one_who_moves_is_slow_and_not_hung),
        cmocka_unit_test(an_unseen_rank_is_never_named),
        cmocka_unit_test(beside_an_unseen_rank_the_seen_culprit_is_named),
        cmocka_unit_test(several_culprits_are_all_named),
        cmocka_unit_test(one_whose_process_has_ended_is_named),
        cmocka_unit_test(one_who_is_stopped_inside_is_named),
        cmocka_unit_test(a_device_that_does_not_come_to_what_was_launched_is_named),
        cmocka_unit_test(all_stuck_in_their_own_loaders_are_all_named),
        cmocka_unit_test(a_program_that_marks_nothing_may_rest),
        cmocka_unit_test(a_victim_in_another_group_is_followed_to_the_culprit),
        cmocka_unit_test(a_pipeline_is_followed_to_the_stage_that_does_not_send),
        cmocka_unit_test(a_receive_that_was_posted_ahead_is_no_excuse),
        cmocka_unit_test(a_message_that_both_ends_are_in_is_a_link_and_neither_is_named),
        cmocka_unit_test(stuck_messages_that_touch_one_node_name_it),
        cmocka_unit_test(stuck_messages_without_a_node_in_common_name_nobody),
        cmocka_unit_test(all_entered_and_nothing_moves_names_nobody),
        cmocka_unit_test(another_collective_is_a_desync_of_the_smaller_side),
        cmocka_unit_test(another_size_is_a_desync),
        cmocka_unit_test(as_many_bytes_of_another_type_are_a_desync),
        cmocka_unit_test(sizes_may_differ_where_they_need_not_agree),
        cmocka_unit_test(two_who_disagree_are_both_named),
        cmocka_unit_test(of_two_who_disagree_the_one_that_is_new_to_it_is_named),
        cmocka_unit_test(opposite_order_on_two_communicators_names_the_smaller_side),
        cmocka_unit_test(a_stopped_rank_and_a_mismatch_are_two_findings),
        cmocka_unit_test(nothing_is_said_while_somebody_goes_on),
        cmocka_unit_test(in_random_programs_those_who_stopped_are_named_and_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
