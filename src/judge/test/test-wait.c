/* test-wait.c - who waits for whom: a picture that must be named and one that must not, for each sentence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clean.h"
#include "judge/test/wait_scene.h"

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
    scene.rank[3].cpus = 0.97;
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
    names_only(&scene, 5, WAIT_STOPPED);
    scene.rank[5].state = 't';
    names_only(&scene, 5, WAIT_STOPPED);
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
    scene.rank[2].cpus = 1; /* its host spins in a synchronise */
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

/* ---- operations of which only the launch is known ---- */

/* Has launched so many collectives of that communicator, as all-to-all on NCCL. */
static void launched(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t count)
{
    channel(scene, rank, comm, 0, 0, count, BEAT_UNKNOWN, BEAT_UNKNOWN);
}

/* Every rank has exchanged `count` messages with the other of its pair, and with itself. */
static void exchanged(struct scene *scene, uint32_t rank, uint64_t count)
{
    for (uint32_t peer = 0; peer < 2; peer++) {
        channel(scene, rank, PAIR_ID(rank / 2), LOCKSTEP_OP_SEND, peer, count, BEAT_UNKNOWN,
                BEAT_UNKNOWN);
        channel(scene, rank, PAIR_ID(rank / 2), LOCKSTEP_OP_RECV, peer, count, BEAT_UNKNOWN,
                BEAT_UNKNOWN);
    }
}

static void one_who_has_launched_less_is_named(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 8);
    for (uint32_t rank = 0; rank < 8; rank++) {
        launched(&scene, rank, WORLD_ID, rank == 3 ? 7 : 8);
        scene.rank[rank].cpus = rank == 3 ? 0.01 : 1; /* the others spin in a synchronise */
        scene.rank[rank].phase = 0;
    }
    names_only(&scene, 3, WAIT_ABSENT);
    assert_int_equal(scene.found[0].victims, 7);
    scene.rank[5].advanced = true; /* it is not stuck: its newest launch may be over */
    scene.rank[3].stuck_ns = 0;
    assert_null(look(&scene));
    scene_close(&scene);
}

static void a_wait_in_an_all_to_all_is_followed_to_who_has_not_come(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4); /* experts in pairs (0, 1) and (2, 3); the world has times */
    for (uint32_t rank = 0; rank < 4; rank++)
        exchanged(&scene, rank, rank == 3 ? 19 : 20);
    in(&scene, 0, WORLD_ID, 5, 11);
    in(&scene, 1, WORLD_ID, 5, 11);
    out(&scene, 2, WORLD_ID, 5); /* held up by 3, in messages that have no times */
    out(&scene, 3, WORLD_ID, 5);
    names_only(&scene, 3, WAIT_ABSENT);
    assert_int_equal(scene.found[0].victims, 3);
    scene_close(&scene);
}

static void launches_that_all_have_made_name_nobody(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        exchanged(&scene, rank, 20);
        scene.rank[rank].phase = 0;
    }
    assert_null(look(&scene));
    for (uint32_t rank = 0; rank < 4; rank++)
        scene.rank[rank].device_wait = true;
    assert_non_null(look(&scene)); /* nothing advances: that is never healthy */
    assert_int_equal(scene.found[0].kind, WAIT_STILL);
    assert_int_equal(scene.found[0].op.age_ns, 12 * S);
    assert_int_equal(scene.found[0].culprits, 0);
    assert_int_equal(scene.found[0].victims, 4);
    scene_close(&scene);
}

/* ---- hosts that wait for their devices, and processes that are stopped ---- */

static void one_who_spins_for_its_device_is_waiting_and_not_busy(void **state)
{
    struct scene scene;

    (void)state;
    all_but(&scene, 8, 3, 11);
    scene.rank[3].cpus = 1;
    scene.rank[3].device_wait = true;
    names_only(&scene, 3, WAIT_DEVICE);
    scene_close(&scene);
}

static void one_who_does_not_wait_for_its_device_while_all_others_do_is_named(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        scene.rank[rank].device_wait = rank != 2;
        scene.rank[rank].cpus = rank == 2 ? 0 : 1;
    }
    names_only(&scene, 2, WAIT_LOCAL);
    assert_int_equal(scene.found[0].victims, 3);
    scene.rank[2].cpus = 1; /* it computes on its host: it may need long */
    assert_null(look(&scene));
    scene_close(&scene);
}

static void one_who_is_stopped_is_named_without_any_operation(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        scene.rank[rank].phase = 0;
        scene.rank[rank].cpus = 1;
    }
    assert_null(look(&scene));
    scene.rank[2].state = 'T';
    names_only(&scene, 2, WAIT_STOPPED);
    assert_int_equal(scene.found[0].victims, 3);
    scene.rank[0].advanced = true;
    scene.rank[0].stuck_ns = 0;
    assert_null(look(&scene)); /* the others go on without it */
    scene_close(&scene);
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
        cmocka_unit_test(stuck_messages_that_touch_one_node_name_it),
        cmocka_unit_test(stuck_messages_without_a_node_in_common_name_nobody),
        cmocka_unit_test(a_message_that_both_ends_are_in_is_a_link_and_neither_is_named),
        cmocka_unit_test(all_entered_and_nothing_moves_names_nobody),
        cmocka_unit_test(one_who_has_launched_less_is_named),
        cmocka_unit_test(a_wait_in_an_all_to_all_is_followed_to_who_has_not_come),
        cmocka_unit_test(launches_that_all_have_made_name_nobody),
        cmocka_unit_test(one_who_spins_for_its_device_is_waiting_and_not_busy),
        cmocka_unit_test(one_who_does_not_wait_for_its_device_while_all_others_do_is_named),
        cmocka_unit_test(one_who_is_stopped_is_named_without_any_operation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
