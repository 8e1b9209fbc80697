/* test-crew.c - a job with one launcher on each node: start, stop, spares, lost nodes, the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "policy/policy_private.h"
#include "policy/test/scene.h"

#define LEASE_NS (10 * NS_PER_S)
#define JOIN_NS (60 * NS_PER_S)

static int scene_make(void **state)
{
    struct scene *scene = scene_create();

    scene->min = scene->max = 2;
    scene->restarts = 3;
    *state = scene;
    return 0;
}

static void tick(struct scene *scene)
{
    struct policy_view view = { .mono_ns = scene->now_ns,
                                .real_ns = REAL_NS + scene->now_ns,
                                .deaf = scene->deaf };

    policy_tick(scene->policy, &view, said, scene);
}

static struct member *join(struct scene *scene, const char *node, uint32_t life)
{
    struct member *member = &scene->member[scene->members++];

    *member = (struct member){ .life = life,
                               .port = (uint16_t)(1000 + life),
                               .state = MEMBER_IDLE,
                               .culprit = -1,
                               .resume = life == 10 ? 60 : 61,
                               .ranks = 4,
                               .nodes_min = scene->min,
                               .nodes_max = scene->max,
                               .quorum = scene->quorum,
                               .max_restarts = scene->restarts,
                               .lease_ns = LEASE_NS,
                               .join_ns = JOIN_NS };
    snprintf(member->node, sizeof(member->node), "%s", node);
    snprintf(member->host, sizeof(member->host), "10.0.0.%u", life);
    assert_int_equal(policy_member(scene->policy, member), 0);
    return member;
}

static void says(struct scene *scene, struct member *member, enum member_state state,
                 uint32_t attempt)
{
    member->state = (uint8_t)state;
    member->attempt = attempt;
    if (state == MEMBER_FAILED || state == MEMBER_STOPPED)
        policy_attempt_ended(scene->policy, attempt);
    assert_int_equal(policy_member(scene->policy, member), 0);
}

/* Time passes; all but `silent` (NULL: none is) go on to report. */
static void passes(struct scene *scene, int64_t seconds, const struct member *silent)
{
    for (int64_t i = 0; i < 2 * seconds; i++) {
        for (size_t k = 0; k < scene->members; k++) {
            if (&scene->member[k] != silent)
                policy_member(scene->policy, &scene->member[k]);
        }
        scene->now_ns += NS_PER_S / 2;
        tick(scene);
    }
}

/* The newest order; all others were superseded. */
static const struct decision *order(const struct scene *scene)
{
    const struct decision *newest = NULL;

    for (size_t i = 0; i < scene->count; i++) {
        bool over = false;

        for (size_t k = i + 1; k < scene->count; k++)
            over |= strcmp(scene->said[k].id, scene->said[i].id) == 0;
        if (!over && scene->said[i].state == DECISION_ORDERED)
            newest = &scene->said[i];
    }
    return newest;
}

static const struct decision *order_is(const struct scene *scene, enum action action,
                                       uint32_t attempt)
{
    const struct decision *newest = order(scene);

    assert_non_null(newest);
    assert_string_equal(action_name(newest->action), action_name(action));
    assert_int_equal(newest->attempt, attempt);
    return newest;
}

/* n1 and n2 run attempt 0; with a spare n3. */
static void two_run(struct scene *scene)
{
    join(scene, "n1", 11);
    join(scene, "n2", 12);
    tick(scene);
    order_is(scene, ACTION_START, 0);
    join(scene, "n3", 13);
    says(scene, &scene->member[0], MEMBER_RUNNING, 0);
    says(scene, &scene->member[1], MEMBER_RUNNING, 0);
    tick(scene);
}

static void an_attempt_starts_when_all_nodes_have_joined(void **state)
{
    struct scene *scene = *state;
    const struct decision *start;

    join(scene, "n10", 10);
    passes(scene, 5, NULL);
    assert_null(order(scene));
    join(scene, "n9", 9);
    tick(scene);
    start = order_is(scene, ACTION_START, 0);
    assert_int_equal(start->node_count, 2);
    assert_string_equal(start->node[0], "n9"); /* as a number */
    assert_string_equal(start->node[1], "n10");
    assert_int_equal(start->start.world, 8);
    assert_int_equal(start->start.first[1], 4);
    assert_int_equal(start->start.life[1], 10);
    assert_string_equal(start->start.host, "10.0.0.9");
    assert_int_equal(start->start.port, 1009);
    assert_int_equal(start->start.clock_ns, REAL_NS);
    assert_int_equal(start->start.resume, 60); /* that both see */
}

static void all_are_stopped_before_any_starts_again(void **state)
{
    struct scene *scene = *state;
    const struct decision *stop;

    two_run(scene);
    scene->member[1].culprit = 5;
    scene->member[1].status = 7;
    says(scene, &scene->member[1], MEMBER_FAILING, 0);
    tick(scene);
    stop = order_is(scene, ACTION_STOP, 0);
    assert_int_equal(stop->argument, 7);
    assert_int_equal(stop->rank[0], 5);
    assert_string_equal(stop->node[0], "n1");
    says(scene, &scene->member[1], MEMBER_FAILED, 0);
    passes(scene, 3, NULL);
    order_is(scene, ACTION_STOP, 0); /* n1 still has ranks */
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_START, 1)->node[1],
                        "n2"); /* the spare is not needed */
    assert_int_equal(order(scene)->start.spare, 4);
}

static void a_spare_takes_the_ranks_of_a_lost_node(void **state)
{
    struct scene *scene = *state;
    const struct decision *start;

    two_run(scene);
    passes(scene, 9, &scene->member[0]);
    order_is(scene, ACTION_START, 0);
    passes(scene, 2, &scene->member[0]);
    assert_string_equal(order_is(scene, ACTION_STOP, 0)->node[0], "n2"); /* who reports */
    scene->member[1].resume = 80;
    scene->member[2].resume = 40;
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    passes(scene, 1, &scene->member[0]);
    start = order_is(scene, ACTION_START, 1);
    assert_int_equal(start->start.resume, 80); /* n3 has looked long ago */
    assert_string_equal(start->node[0], "n3");
    assert_string_equal(start->node[1], "n2"); /* keeps its ranks */
    assert_string_equal(start->start.host, "10.0.0.13");
    assert_int_equal(start->start.down, 4);
}

/* Its own launcher, or the keeper, ends them a little before the lease is over. */
static void the_ranks_of_a_lost_node_have_a_moment_to_end(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    says(scene, &scene->member[1], MEMBER_FAILED, 0);
    tick(scene); /* all others are ready for the next attempt */
    passes(scene, 10, &scene->member[0]);
    scene->now_ns += NS_PER_S / 2;
    policy_member(scene->policy, &scene->member[1]);
    policy_member(scene->policy, &scene->member[2]);
    tick(scene);
    order_is(scene, ACTION_STOP, 0); /* it is lost since now */
    passes(scene, 1, &scene->member[0]);
    order_is(scene, ACTION_START, 1);
}

/* It was lost and comes back with its ranks, while a spare already has its place. */
static void a_node_that_comes_back_with_ranks_is_waited_for(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    passes(scene, 11, &scene->member[0]);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    passes(scene, 1, &scene->member[0]);
    order_is(scene, ACTION_START, 1); /* n3 and n2 */
    passes(scene, 1, NULL);
    says(scene, &scene->member[1], MEMBER_FAILED, 1);
    says(scene, &scene->member[2], MEMBER_STOPPED, 1);
    tick(scene);
    passes(scene, 5, NULL); /* n1 still runs attempt 0 */
    order_is(scene, ACTION_STOP, 1);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    tick(scene);
    order_is(scene, ACTION_START, 2);
}

/* The first node had to report the end of the attempt, and is lost. */
static void another_node_reports_the_end_of_the_attempt(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    scene->member[1].state = MEMBER_FAILED; /* it notices before anybody else does */
    scene->member[1].culprit = 5;
    passes(scene, 1, &scene->member[0]);
    assert_string_equal(order_is(scene, ACTION_STOP, 0)->node[0], "n1");
    passes(scene, 10, &scene->member[0]);
    assert_string_equal(order_is(scene, ACTION_STOP, 0)->node[0], "n2");
    assert_non_null(strstr(order(scene)->why, "node n1 is lost"));
    policy_attempt_ended(scene->policy, 0);
    passes(scene, 1, &scene->member[0]);
    order_is(scene, ACTION_START, 1);
}

static void a_controller_that_was_away_loses_nobody(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    scene->now_ns += 3600 * NS_PER_S;
    tick(scene);
    passes(scene, 30, NULL);
    order_is(scene, ACTION_START, 0);
}

/* Else the run would wait for it for another lease, and the last launcher leaves before. */
static void a_controller_that_was_away_does_not_find_who_was_lost_before(void **state)
{
    struct scene *scene = *state;

    scene->min = 1;
    join(scene, "n1", 11);
    join(scene, "n2", 12);
    tick(scene);
    says(scene, &scene->member[0], MEMBER_RUNNING, 0);
    says(scene, &scene->member[1], MEMBER_RUNNING, 0);
    passes(scene, 12, &scene->member[0]);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    passes(scene, 2, &scene->member[0]);
    order_is(scene, ACTION_START, 1);
    says(scene, &scene->member[1], MEMBER_RUNNING, 1);
    scene->now_ns += 3600 * NS_PER_S;
    tick(scene);
    order_is(scene, ACTION_START, 1);
    scene->member[1].status = 143;
    says(scene, &scene->member[1], MEMBER_LEFT, 1);
    policy_attempt_ended(scene->policy, 1);
    tick(scene);
    assert_int_equal(order_is(scene, ACTION_END, 1)->argument, 143);
}

/* The controller knows that launcher and ranks of n1 have ended: nobody waits for the lease. */
static void nobody_waits_for_a_node_that_has_ended(void **state)
{
    struct scene *scene = *state;
    struct member gone;

    two_run(scene);
    gone = scene->member[0];
    gone.state = MEMBER_GONE;
    assert_int_equal(policy_member(scene->policy, &gone), 0);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_STOP, 0)->why,
                        "node n1 is lost: its launcher and ranks have ended");
    /* What was still on its way. */
    assert_int_equal(policy_member(scene->policy, &scene->member[0]), 0);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    tick(scene);
    order_is(scene, ACTION_START, 1);
    assert_string_equal(order(scene)->node[0], "n3");
    assert_string_equal(order(scene)->node[1], "n2");
}

static void fails_at(struct scene *scene, uint32_t attempt, uint64_t step)
{
    for (size_t i = 0; i < 2; i++)
        says(scene, &scene->member[i], MEMBER_RUNNING, attempt);
    policy_attempt(scene->policy, attempt, REAL_NS + scene->now_ns);
    policy_step(scene->policy, attempt, step);
    tick(scene);
    says(scene, &scene->member[0], MEMBER_FAILED, attempt);
    tick(scene);
    says(scene, &scene->member[1], MEMBER_STOPPED, attempt);
    tick(scene);
}

static void only_attempts_that_get_no_further_are_put_off(void **state)
{
    struct scene *scene = *state;

    scene->restarts = 9;
    join(scene, "n1", 11)->backoff_ns = 4 * NS_PER_S;
    join(scene, "n2", 12)->backoff_ns = 4 * NS_PER_S;
    tick(scene);
    order_is(scene, ACTION_START, 0);
    for (uint32_t attempt = 0; attempt < 3; attempt++) {
        fails_at(scene, attempt, 100 * attempt + 7);
        order_is(scene, ACTION_START, attempt + 1);
    }
    fails_at(scene, 3, 207);
    order_is(scene, ACTION_STOP, 3);
    passes(scene, 5, NULL);
    order_is(scene, ACTION_START, 4);
    fails_at(scene, 4, 207);
    passes(scene, 5, NULL);
    order_is(scene, ACTION_STOP, 4);
    passes(scene, 4, NULL);
    order_is(scene, ACTION_START, 5);
    fails_at(scene, 5, 208);
    order_is(scene, ACTION_START, 6);
}

/* Another launcher on the same node is a new one, and what ended was not it. */
static void a_launcher_that_follows_one_that_ended_is_there(void **state)
{
    struct scene *scene = *state;
    struct member gone;

    two_run(scene);
    gone = scene->member[0];
    gone.state = MEMBER_GONE;
    gone.life = 99;
    assert_int_equal(policy_member(scene->policy, &gone), 0);
    passes(scene, 2, NULL);
    order_is(scene, ACTION_START, 0);
    gone.life = 11;
    scene->member[2].state = MEMBER_LEFT; /* no spare */
    assert_int_equal(policy_member(scene->policy, &gone), 0);
    tick(scene);
    order_is(scene, ACTION_STOP, 0);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    scene->member[0].life = 21;
    scene->member[0].state = MEMBER_IDLE;
    passes(scene, 2, NULL);
    assert_int_equal(order_is(scene, ACTION_START, 1)->start.life[0], 21);
}

/* The log could not be written: who came meanwhile was told so, and heard of all the same. */
static void a_controller_that_could_not_write_loses_nobody(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    passes(scene, 9, &scene->member[0]);
    scene->now_ns += NS_PER_S;
    scene->deaf = true;
    tick(scene);
    scene->deaf = false;
    passes(scene, 9, &scene->member[0]);
    order_is(scene, ACTION_START, 0);
    passes(scene, 2, &scene->member[0]);
    order_is(scene, ACTION_STOP, 0);
}

static void without_a_spare_the_run_waits_and_ends(void **state)
{
    struct scene *scene = *state;

    join(scene, "n1", 11);
    join(scene, "n2", 12);
    tick(scene);
    says(scene, &scene->member[0], MEMBER_RUNNING, 0);
    says(scene, &scene->member[1], MEMBER_RUNNING, 0);
    passes(scene, 12, &scene->member[1]);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    passes(scene, 50, &scene->member[1]);
    order_is(scene, ACTION_STOP, 0);
    passes(scene, 15, &scene->member[1]);
    assert_int_equal(order_is(scene, ACTION_END, 0)->argument, 1);
    assert_non_null(strstr(order(scene)->why, "1 node is left, at least 2 needed"));
    assert_non_null(strstr(order(scene)->why, "node n2 is lost"));
    assert_int_equal(order(scene)->node_count, 2); /* who reports, then who is missing */
    assert_string_equal(order(scene)->node[0], "n1");
    assert_string_equal(order(scene)->node[1], "n2");
}

/* Three launchers could have a controller.  The first has it no longer, and another one begins without any history. */
static void another_controller_goes_on_with_most_of_the_launchers(void **state)
{
    struct scene *scene = *state;

    scene->quorum = 2;
    scene->min = 1;
    scene->max = 3;
    for (uint32_t i = 0; i < 2; i++) {
        struct member *member = join(scene, i ? "n3" : "n2", 12 + i);

        says(scene, member, MEMBER_STOPPED, 4);
    }
    passes(scene, 19, NULL); /* the third may still come */
    assert_null(order(scene));
    passes(scene, 2, NULL);
    assert_int_equal(order_is(scene, ACTION_START, 5)->node_count, 2);
}

static void a_minority_ends(void **state)
{
    struct scene *scene = *state;

    scene->quorum = 2;
    scene->min = 1;
    scene->max = 3;
    says(scene, join(scene, "n1", 11), MEMBER_STOPPED, 0);
    passes(scene, 39, NULL);
    assert_null(order(scene)); /* alone it would be within --nnodes */
    passes(scene, 2, NULL);
    assert_int_equal(order_is(scene, ACTION_END, 0)->argument, 1);
    assert_non_null(strstr(order(scene)->why, "1 node is left, at least 2 needed"));
}

static void it_goes_on_with_fewer_nodes_if_that_is_allowed(void **state)
{
    struct scene *scene = *state;
    const struct decision *start;

    scene->min = 1;
    join(scene, "n1", 11);
    join(scene, "n2", 12);
    tick(scene);
    says(scene, &scene->member[0], MEMBER_RUNNING, 0);
    says(scene, &scene->member[1], MEMBER_RUNNING, 0);
    passes(scene, 12, &scene->member[0]);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    passes(scene, 1, &scene->member[0]);
    start = order_is(scene, ACTION_START, 1);
    assert_int_equal(start->node_count, 1);
    assert_int_equal(start->start.first[0], 0);
    assert_int_equal(start->start.world, 4);
}

static void a_launcher_that_is_started_again_has_no_ranks_of_the_former(void **state)
{
    struct scene *scene = *state;
    const struct decision *start;

    two_run(scene);
    scene->member[1].life = 99;
    says(scene, &scene->member[1], MEMBER_IDLE, 1);
    passes(scene, 5, NULL);
    order_is(scene, ACTION_START, 0); /* the former one may live, with its ranks */
    passes(scene, 6, NULL);
    order_is(scene, ACTION_STOP, 0);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    tick(scene);
    start = order_is(scene, ACTION_START, 1);
    assert_int_equal(start->start.life[1], 99);
    scene->member[1].life = 12; /* the former one speaks again: nobody listens */
    says(scene, &scene->member[1], MEMBER_FAILED, 1);
    tick(scene);
    order_is(scene, ACTION_START, 1);
}

static void restarts_are_limited_and_the_status_stays(void **state)
{
    struct scene *scene = *state;

    scene->restarts = 0;
    two_run(scene);
    scene->member[0].status = 9;
    scene->member[0].culprit = 0;
    says(scene, &scene->member[0], MEMBER_FAILED, 0);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    tick(scene);
    assert_int_equal(order_is(scene, ACTION_END, 0)->argument, 9);
}

static void it_ends_when_all_nodes_are_done(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    says(scene, &scene->member[0], MEMBER_DONE, 0);
    passes(scene, 3, NULL);
    order_is(scene, ACTION_START, 0);
    says(scene, &scene->member[1], MEMBER_DONE, 0);
    tick(scene);
    assert_int_equal(order_is(scene, ACTION_END, 0)->argument, 0);
    passes(scene, 30, NULL);
    order_is(scene, ACTION_END, 0);
}

/* A node that never started its ranks is not asked again. */
static void a_node_that_does_not_start_is_left_out(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    scene->member[1].attempt = 0;
    says(scene, &scene->member[1], MEMBER_FAILED, 0);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    tick(scene);
    order_is(scene, ACTION_START, 1);
    says(scene, &scene->member[0], MEMBER_RUNNING, 1);
    passes(scene, 62, NULL); /* n2 is heard of, and does nothing */
    order_is(scene, ACTION_STOP, 1);
    says(scene, &scene->member[0], MEMBER_STOPPED, 1);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_START, 2)->node[1], "n3");
}

static void it_ends_when_all_launchers_leave(void **state)
{
    struct scene *scene = *state;
    const struct decision *end;

    join(scene, "n1", 11);
    join(scene, "n2", 12);
    tick(scene);
    for (int i = 0; i < 2; i++) {
        scene->member[i].status = 143;
        says(scene, &scene->member[i], MEMBER_LEFT, 0);
    }
    policy_attempt_ended(scene->policy, 0);
    tick(scene);
    end = order_is(scene, ACTION_END, 0);
    assert_int_equal(end->argument, 143);
    assert_string_equal(end->node[0], "n1"); /* which waits for that */
}

static void a_run_that_all_left_before_it_began_ends_with_that_reason(void **state)
{
    struct scene *scene = *state;

    join(scene, "n1", 11);
    tick(scene);
    says(scene, &scene->member[0], MEMBER_LEFT, 0);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_END, 0)->why,
                        "all launchers left before 2 nodes had joined");
}

static void many_nodes_get_several_orders(void **state)
{
    struct scene *scene = *state;
    uint32_t named = 0;
    char name[16];

    scene->min = scene->max = 35;
    for (uint32_t i = 0; i < 35; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        join(scene, name, 100 + i);
    }
    tick(scene);
    assert_int_equal(scene->count, 3);
    for (size_t i = 0; i < scene->count; i++) {
        assert_int_equal(scene->said[i].start.first[0], named * 4);
        assert_int_equal(scene->said[i].start.world, 140);
        named += scene->said[i].node_count;
    }
    assert_int_equal(named, 35);
}

static struct member *second_n2(struct scene *scene)
{
    struct member *second = join(scene, "n2", 99);

    snprintf(second->host, sizeof(second->host), "10.0.0.99");
    return second;
}

static void two_nodes_of_one_name_are_no_restart(void **state)
{
    struct scene *scene = *state;
    const struct decision *refusal;

    two_run(scene);
    second_n2(scene);
    passes(scene, 20, NULL); /* both report */
    refusal = order_is(scene, ACTION_END, 0);
    assert_int_equal(refusal->target, TARGET_NODES);
    assert_string_equal(refusal->of, "00000063"); /* 99: it, and not the first */
    assert_int_equal(refusal->argument, 2);
    assert_non_null(strstr(refusal->why, "another launcher of node n2 is in this run already, at "
                                         "10.0.0.12; this one is at 10.0.0.99"));
    assert_int_equal(scene->count, 2); /* once, and the attempt goes on */
}

/* A log whose ticks are gone: the decisions in it say what the state is. */
static void follow_begin(struct scene *scene)
{
    policy_destroy(scene->policy);
    assert_int_equal(policy_create("r1", &scene->policy), 0);
    policy_follow(scene->policy, true);
}

static void follow_members(struct scene *scene)
{
    for (size_t i = 0; i < scene->members; i++)
        policy_member(scene->policy, &scene->member[i]);
}

static void follow_said(struct scene *scene, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        policy_follow_log(scene->policy, &scene->said[i]);
}

static void follow_end(struct scene *scene)
{
    policy_follow(scene->policy, false);
    tick(scene);
}

static struct decision decided(enum action action, const char *node)
{
    struct decision decision = { .action = (uint8_t)action,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .step = DECISION_NO_STEP,
                                 .node_count = 1 };

    snprintf(decision.node[0], sizeof(decision.node[0]), "%s", node);
    return decision;
}

static void a_node_that_was_swapped_before_a_compaction_stays_out(void **state)
{
    struct scene *scene = *state;
    struct decision swap = decided(ACTION_SWAP, "n2");

    two_run(scene);
    follow_begin(scene);
    follow_members(scene);
    follow_said(scene, 0, scene->count);
    policy_follow_log(scene->policy, &swap);
    follow_end(scene); /* the controller was killed before it said STOP */
    order_is(scene, ACTION_STOP, 0);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_START, 1)->node[1], "n3");
}

static void both_are_stopped(struct scene *scene, uint32_t attempt)
{
    says(scene, &scene->member[1], MEMBER_FAILED, attempt);
    tick(scene);
    order_is(scene, ACTION_STOP, attempt);
    says(scene, &scene->member[0], MEMBER_STOPPED, attempt);
    tick(scene);
}

/* The verdict about a crash comes when its attempt is over, and perhaps when the next one runs. */
static void a_node_that_is_swapped_late_is_taken_from_the_next_attempt(void **state)
{
    struct scene *scene = *state;
    struct decision swap = decided(ACTION_SWAP, "n2");

    two_run(scene);
    both_are_stopped(scene, 0);
    assert_string_equal(order_is(scene, ACTION_START, 1)->node[1], "n2");
    says(scene, &scene->member[0], MEMBER_RUNNING, 1);
    says(scene, &scene->member[1], MEMBER_RUNNING, 1);
    policy_follow_log(scene->policy, &swap);
    tick(scene);
    order_is(scene, ACTION_STOP, 1);
    says(scene, &scene->member[0], MEMBER_STOPPED, 1);
    says(scene, &scene->member[1], MEMBER_STOPPED, 1);
    tick(scene);
    assert_string_equal(order_is(scene, ACTION_START, 2)->node[1], "n3");
}

static void after_an_error_of_a_node_the_verdict_is_waited_for(void **state)
{
    struct scene *scene = *state;
    const struct policy_means means = { .mode = POLICY_ACT };
    struct finding finding = { .severity = FINDING_FATAL, .real_ns = REAL_NS + scene->now_ns };

    policy_take_means(scene->policy, &means);
    two_run(scene);
    snprintf(finding.node, sizeof(finding.node), "n4"); /* not of this attempt */
    policy_finding(scene->policy, &finding);
    both_are_stopped(scene, 0);
    order_is(scene, ACTION_START, 1);
    says(scene, &scene->member[0], MEMBER_RUNNING, 1);
    says(scene, &scene->member[1], MEMBER_RUNNING, 1);
    snprintf(finding.node, sizeof(finding.node), "n2");
    policy_finding(scene->policy, &finding);
    both_are_stopped(scene, 1);
    order_is(scene, ACTION_STOP, 1);
    passes(scene, 1, NULL);
    order_is(scene, ACTION_STOP, 1);
    passes(scene, 1, NULL); /* and not for long */
    assert_string_equal(order_is(scene, ACTION_START, 2)->node[1], "n2");
}

/* The kill switch of any of the nodes is that of the run: also of one that waits as a spare. */
static void the_kill_switch_of_one_launcher_is_for_all(void **state)
{
    struct scene *scene = *state;
    const struct policy_means means = { .mode = POLICY_ACT };

    policy_take_means(scene->policy, &means);
    two_run(scene);
    assert_int_equal(policy_mode(scene->policy), POLICY_ACT);
    scene->member[2].off = true;
    passes(scene, 1, NULL);
    assert_int_equal(policy_mode(scene->policy), POLICY_OFF);
    scene->member[2].off = false;
    passes(scene, 1, NULL);
    assert_int_equal(policy_mode(scene->policy), POLICY_ACT);
    scene->member[2].off = true;
    passes(scene, 1, NULL);
    passes(scene, 12, &scene->member[2]); /* it is lost */
    assert_int_equal(policy_mode(scene->policy), POLICY_ACT);
}

static void fails_first_on(struct scene *scene, uint32_t attempt, const char *node)
{
    struct verdict verdict = { .kind = VERDICT_CRASH, .node_count = 1 };

    snprintf(verdict.id, sizeof(verdict.id), "cr-%u", attempt);
    snprintf(verdict.node[0], sizeof(verdict.node[0]), "%s", node);
    policy_attempt(scene->policy, attempt, REAL_NS + scene->now_ns);
    both_are_stopped(scene, attempt);
    policy_attempt_ended(scene->policy, attempt);
    policy_attempt_failed(scene->policy, attempt, REAL_NS + scene->now_ns);
    passes(scene, 1, NULL);
    policy_verdict(scene->policy, &verdict);
    tick(scene);
}

/* Nothing says that the node is at fault; that its ranks always fail first is reason enough for a spare, before a person is asked. */
static void a_node_that_always_fails_first_is_swapped_before_the_run_is_given_up(void **state)
{
    struct scene *scene = *state;
    const struct policy_table table = { .crash_loop = 3 };
    const struct policy_means means = { .mode = POLICY_ACT,
                                        .actions = 1u << ACTION_SWAP | 1u << ACTION_GIVE_UP,
                                        .restarts_left = 100 };

    assert_int_equal(policy_take_table(scene->policy, &table), 0);
    policy_take_means(scene->policy, &means);
    scene->restarts = 100;
    two_run(scene);
    for (uint32_t attempt = 0; attempt < 3; attempt++) {
        fails_first_on(scene, attempt, "n2");
        if (attempt == 2)
            break;
        assert_string_equal(order_is(scene, ACTION_START, attempt + 1)->node[1], "n2");
        says(scene, &scene->member[0], MEMBER_RUNNING, attempt + 1);
        says(scene, &scene->member[1], MEMBER_RUNNING, attempt + 1);
    }
    order_is(scene, ACTION_STOP, 3); /* had begun there meanwhile */
    says(scene, &scene->member[0], MEMBER_STOPPED, 3);
    says(scene, &scene->member[1], MEMBER_STOPPED, 3);
    passes(scene, 10, NULL); /* the pause between restarts */
    assert_string_equal(order_is(scene, ACTION_START, 4)->node[1], "n3");
}

static void a_run_that_was_given_up_before_a_compaction_ends(void **state)
{
    struct scene *scene = *state;
    struct decision up = decided(ACTION_GIVE_UP, "n1"), stop = decided(ACTION_STOP, "n1");

    two_run(scene);
    follow_begin(scene);
    follow_members(scene);
    follow_said(scene, 0, scene->count);
    policy_follow_log(scene->policy, &up);
    policy_follow_log(scene->policy, &stop);
    follow_end(scene);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    says(scene, &scene->member[1], MEMBER_STOPPED, 0);
    tick(scene);
    order_is(scene, ACTION_END, 0);
}

/* n2 was started again in attempt 0; attempt 1, which has the new one, runs when the log is read. */
static void a_launcher_that_was_replaced_in_an_earlier_attempt_is_no_news(void **state)
{
    struct scene *scene = *state;
    struct member former, *second = &scene->member[1];
    size_t first;

    two_run(scene);
    first = scene->count;
    former = *second;
    second->life = 99;
    says(scene, second, MEMBER_IDLE, 1);
    passes(scene, 11, NULL);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    passes(scene, 1, NULL);
    assert_int_equal(order_is(scene, ACTION_START, 1)->start.life[1], 99);
    says(scene, &scene->member[0], MEMBER_RUNNING, 1);
    says(scene, second, MEMBER_RUNNING, 1);
    follow_begin(scene);
    policy_member(scene->policy, &scene->member[0]);
    policy_member(scene->policy, &former);
    follow_said(scene, 0, first);
    policy_member(scene->policy, second);
    follow_said(scene, first, scene->count);
    follow_end(scene);
    passes(scene, 5, NULL);
    order_is(scene, ACTION_START, 1);
    policy_member(scene->policy, &former); /* what it left */
    passes(scene, 5, NULL);
    order_is(scene, ACTION_START, 1);
}

/* It had joined when the controller was killed: the first one is no less there for that. */
static void a_second_launcher_in_a_compacted_log_takes_no_place(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    second_n2(scene);
    follow_begin(scene);
    follow_members(scene);
    follow_said(scene, 0, scene->count);
    follow_end(scene);
    passes(scene, 20, NULL);
    assert_int_equal(order_is(scene, ACTION_END, 0)->target, TARGET_NODES);
    assert_int_equal(scene->count, 2);
}

static void decisions_of_a_log_are_followed(void **state)
{
    struct scene *scene = *state;

    two_run(scene);
    follow_begin(scene);
    follow_members(scene);
    follow_said(scene, 0, scene->count);
    follow_end(scene);
    says(scene, &scene->member[1], MEMBER_FAILED, 0);
    tick(scene);
    order_is(scene, ACTION_STOP, 0);
    says(scene, &scene->member[0], MEMBER_STOPPED, 0);
    tick(scene);
    order_is(scene, ACTION_START, 1);
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(an_attempt_starts_when_all_nodes_have_joined),
        SCENE(all_are_stopped_before_any_starts_again),
        SCENE(a_spare_takes_the_ranks_of_a_lost_node),
        SCENE(the_ranks_of_a_lost_node_have_a_moment_to_end),
        SCENE(a_node_that_comes_back_with_ranks_is_waited_for),
        SCENE(another_node_reports_the_end_of_the_attempt),
        SCENE(a_controller_that_was_away_loses_nobody),
        SCENE(a_controller_that_was_away_does_not_find_who_was_lost_before),
        SCENE(the_kill_switch_of_one_launcher_is_for_all),
        SCENE(nobody_waits_for_a_node_that_has_ended),
        SCENE(only_attempts_that_get_no_further_are_put_off),
        SCENE(a_launcher_that_follows_one_that_ended_is_there),
        SCENE(a_controller_that_could_not_write_loses_nobody),
        SCENE(without_a_spare_the_run_waits_and_ends),
        SCENE(another_controller_goes_on_with_most_of_the_launchers),
        SCENE(a_minority_ends),
        SCENE(it_goes_on_with_fewer_nodes_if_that_is_allowed),
        SCENE(a_launcher_that_is_started_again_has_no_ranks_of_the_former),
        SCENE(restarts_are_limited_and_the_status_stays),
        SCENE(it_ends_when_all_nodes_are_done),
        SCENE(a_node_that_does_not_start_is_left_out),
        SCENE(it_ends_when_all_launchers_leave),
        SCENE(a_run_that_all_left_before_it_began_ends_with_that_reason),
        SCENE(many_nodes_get_several_orders),
        SCENE(two_nodes_of_one_name_are_no_restart),
        SCENE(decisions_of_a_log_are_followed),
        SCENE(a_node_that_was_swapped_before_a_compaction_stays_out),
        SCENE(a_node_that_is_swapped_late_is_taken_from_the_next_attempt),
        SCENE(after_an_error_of_a_node_the_verdict_is_waited_for),
        SCENE(a_node_that_always_fails_first_is_swapped_before_the_run_is_given_up),
        SCENE(a_run_that_was_given_up_before_a_compaction_ends),
        SCENE(a_launcher_that_was_replaced_in_an_earlier_attempt_is_no_news),
        SCENE(a_second_launcher_in_a_compacted_log_takes_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
