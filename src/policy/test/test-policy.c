/* test-policy.c - from requests and verdicts to decisions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "policy/test/scene.h"

#define STEP_NS (100 * NS_PER_MS)
#define RANKS 4

static int scene_make(void **state)
{
    struct scene *scene = scene_create();

    policy_attempt(scene->policy, 0, REAL_NS);
    *state = scene;
    return 0;
}

static void tick(struct scene *scene, bool last)
{
    struct policy_view view = {
        .mono_ns = scene->now_ns, .real_ns = REAL_NS + scene->now_ns, .ranks = RANKS, .last = last
    };

    policy_tick(scene->policy, &view, said, scene);
}

/* A step takes STEP_NS; a tick follows each. */
static void train(struct scene *scene, uint32_t attempt, int64_t seconds)
{
    for (int64_t until_ns = scene->now_ns + seconds * NS_PER_S; scene->now_ns < until_ns;) {
        policy_step(scene->policy, attempt, scene->step++);
        scene->now_ns += STEP_NS;
        tick(scene, false);
    }
}

static void ask(struct scene *scene, unsigned kind, const char *id)
{
    struct request request = { .kind = (uint8_t)kind, .who = "ada" };

    snprintf(request.id, sizeof(request.id), "%s", id);
    policy_request(scene->policy, &request);
}

static void answer(struct scene *scene, const struct decision *decision, const char *part,
                   enum outcome_result result)
{
    struct outcome outcome = { .result = (uint8_t)result,
                               .began_real_ns = REAL_NS + scene->now_ns,
                               .ended_real_ns = REAL_NS + scene->now_ns };

    memcpy(outcome.decision, decision->id, sizeof(outcome.decision));
    snprintf(outcome.part, sizeof(outcome.part), "%s", part);
    policy_outcome(scene->policy, &outcome);
}

static void a_checkpoint_gets_a_step_that_no_rank_has_begun(void **state)
{
    struct scene *scene = *state;
    const struct decision *decision;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    train(scene, 0, 1);
    assert_int_equal(scene->count, 1);
    decision = newest(scene);
    assert_int_equal(decision->action, ACTION_CHECKPOINT);
    assert_int_equal(decision->state, DECISION_ORDERED);
    assert_string_equal(decision->of, "q-1");
    assert_int_equal(decision->rank_count, RANKS);
    /* Two seconds for report and order, at ten steps a second, and not a minute. */
    assert_true(decision->step > 100 + 20 && decision->step < 100 + 60);
    assert_true(policy_is_open(scene->policy, "q-1"));
    for (int rank = 0; rank < RANKS; rank++) {
        char part[16];

        snprintf(part, sizeof(part), "rank %d", rank);
        assert_true(policy_is_open(scene->policy, "q-1"));
        answer(scene, decision, part, OUTCOME_DONE);
    }
    assert_false(policy_is_open(scene->policy, "q-1"));
    train(scene, 0, 1);
    assert_int_equal(scene->count, 1);
}

static void a_rank_that_is_past_makes_a_renewal_with_a_larger_margin(void **state)
{
    struct scene *scene = *state;
    uint64_t ahead;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    ahead = scene->step;
    train(scene, 0, 1);
    ahead = newest(scene)->step - ahead;
    answer(scene, newest(scene), "rank 2", OUTCOME_PAST);
    answer(scene, newest(scene), "rank 0", OUTCOME_DONE);
    scene->now_ns += STEP_NS;
    tick(scene, false);
    assert_int_equal(scene->count, 3);
    assert_int_equal(scene->said[1].state, DECISION_SUPERSEDED);
    assert_string_equal(scene->said[1].id, scene->said[0].id);
    assert_int_equal(scene->said[2].state, DECISION_ORDERED);
    assert_string_not_equal(scene->said[2].id, scene->said[0].id);
    assert_true(scene->said[2].step - scene->step > ahead);
    answer(scene, &scene->said[0], "launcher", OUTCOME_DONE); /* of the former one: too late */
    assert_true(policy_is_open(scene->policy, "q-1"));
    answer(scene, newest(scene), "launcher", OUTCOME_DONE);
    assert_false(policy_is_open(scene->policy, "q-1"));
}

/* It was stopped; the next order need not wait for twice as long. */
static void a_launcher_that_was_late_makes_the_margin_as_long_as_it_was_late(void **state)
{
    struct scene *scene = *state;
    struct outcome begins = { .part = "launcher" };
    uint64_t ahead;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    train(scene, 0, 21);
    memcpy(begins.decision, newest(scene)->id, sizeof(begins.decision));
    begins.began_real_ns = newest(scene)->decided_real_ns + 20 * NS_PER_S;
    policy_outcome(scene->policy, &begins);
    answer(scene, newest(scene), "launcher", OUTCOME_PAST);
    train(scene, 0, 1);
    ahead = newest(scene)->step - scene->step;
    assert_true(ahead > 18 * 10 && ahead < 30 * 10);
}

static void after_too_many_renewals_it_fails_with_the_reason(void **state)
{
    struct scene *scene = *state;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    for (int i = 0; i < 10 && (scene->count == 0 || policy_is_open(scene->policy, "q-1")); i++) {
        train(scene, 0, 1);
        answer(scene, newest(scene), "launcher", OUTCOME_PAST);
    }
    train(scene, 0, 1);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_non_null(strstr(newest(scene)->why, "renewed 5 times"));
    assert_int_equal(scene->count, 1 + 5 * 2 + 2);
}

static void the_next_attempt_gets_its_own_step(void **state)
{
    struct scene *scene = *state;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    train(scene, 0, 1);
    answer(scene, newest(scene), "launcher", OUTCOME_NOT_EXECUTED);
    train(scene, 0, 1);
    assert_int_equal(scene->count, 1); /* nothing new in an attempt that has ended */
    policy_attempt(scene->policy, 1, REAL_NS + scene->now_ns);
    scene->step = 50; /* it goes on from a checkpoint */
    train(scene, 1, 5);
    assert_int_equal(scene->count, 3);
    assert_int_equal(scene->said[1].state, DECISION_SUPERSEDED);
    assert_int_equal(newest(scene)->attempt, 1);
    assert_true(newest(scene)->step > 50 + 20 && newest(scene)->step < 50 + 200);
}

static void before_any_step_it_waits_and_then_fails(void **state)
{
    struct scene *scene = *state;

    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    for (int i = 0; i < 590; i++) {
        tick(scene, false);
        scene->now_ns += NS_PER_S;
    }
    assert_int_equal(scene->count, 0);
    scene->now_ns += 60 * NS_PER_S;
    tick(scene, false);
    assert_int_equal(scene->count, 1);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_string_equal(newest(scene)->of, "q-1");
    assert_string_equal(newest(scene)->why, "no step was observed");
}

static void a_refusal_a_second_request_and_the_end_fail(void **state)
{
    struct scene *scene = *state;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-2");
    ask(scene, REQUEST_DEPTH, "q-3");
    train(scene, 0, 1);
    assert_int_equal(scene->count, 3);
    assert_int_equal(scene->said[1].state, DECISION_EXPIRED);
    assert_non_null(strstr(scene->said[1].why, "q-1"));
    assert_int_equal(scene->said[2].action, ACTION_DEPTH);
    assert_string_equal(policy_open_request(scene->policy, REQUEST_CHECKPOINT_NOW), "q-1");
    answer(scene, &scene->said[0], "launcher", OUTCOME_REFUSED);
    tick(scene, false);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_string_equal(newest(scene)->of, "q-1");
    tick(scene, true);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_string_equal(newest(scene)->of, "q-3");
    assert_false(policy_is_open(scene->policy, "q-3"));
}

static void hang(struct scene *scene, double confidence)
{
    struct verdict verdict = { .kind = VERDICT_HANG,
                               .confidence = (float)confidence,
                               .decided_real_ns = REAL_NS + scene->now_ns };

    strcpy(verdict.id, "v-1");
    policy_verdict(scene->policy, &verdict);
}

static void a_run_that_hangs_ends_a_request_with_the_verdict(void **state)
{
    struct scene *scene = *state;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    tick(scene, false);
    hang(scene, 0.5);
    scene->now_ns += 29 * NS_PER_S;
    tick(scene, false);
    assert_int_equal(newest(scene)->state, DECISION_ORDERED);
    scene->now_ns += 2 * NS_PER_S;
    tick(scene, false);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_non_null(strstr(newest(scene)->why, "the run hangs (verdict v-1"));
    assert_non_null(strstr(newest(scene)->why, "no step has begun for 31 s"));
    assert_false(policy_is_open(scene->policy, "q-1"));
}

static void a_request_is_cancelled_and_its_step_is_waited_for(void **state)
{
    struct scene *scene = *state;
    struct request cancel = { .kind = REQUEST_CANCEL, .id = "q-2", .of = "q-1", .who = "ada" };
    uint64_t step;

    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    tick(scene, false);
    step = newest(scene)->step;
    strcpy(cancel.of, "q-9");
    policy_request(scene->policy, &cancel); /* another one */
    tick(scene, false);
    assert_true(policy_is_open(scene->policy, "q-1"));
    strcpy(cancel.of, "q-1");
    policy_request(scene->policy, &cancel);
    tick(scene, false);
    assert_false(policy_is_open(scene->policy, "q-1"));
    assert_int_equal(scene->count, 2);
    assert_int_equal(newest(scene)->state, DECISION_EXPIRED);
    assert_non_null(strstr(newest(scene)->why, "cancelled by ada; the ranks were asked already"));

    ask(scene, REQUEST_CHECKPOINT_NOW, "q-3");
    while (scene->step <= step)
        train(scene, 0, 1);
    train(scene, 0, 1);
    assert_int_equal(scene->count, 3);
    assert_string_equal(newest(scene)->of, "q-3");
    assert_true(newest(scene)->step > step);

    /* What no rank was asked for is simply not done. */
    policy_attempt(scene->policy, 1, REAL_NS + scene->now_ns);
    tick(scene, false);
    cancel.of[0] = '\0';
    policy_request(scene->policy, &cancel);
    tick(scene, false);
    assert_string_equal(newest(scene)->why, "cancelled by ada");
}

static void a_hang_restarts_the_run_once_if_its_launcher_consents(void **state)
{
    struct scene *scene = *state;
    struct request consent = { .kind = REQUEST_RESTART_ON_HANG, .argument = 1 };

    train(scene, 0, 3);
    hang(scene, 0.9);
    train(scene, 0, 1);
    assert_int_equal(scene->count, 0);
    policy_request(scene->policy, &consent);
    train(scene, 0, 1);
    assert_int_equal(scene->count, 1);
    assert_int_equal(newest(scene)->action, ACTION_RESTART);
    assert_string_equal(newest(scene)->of, "v-1");
    hang(scene, 0.95);
    train(scene, 0, 1);
    assert_int_equal(scene->count, 1);
    policy_attempt(scene->policy, 1, REAL_NS + scene->now_ns);
    hang(scene, 0.5); /* not sure enough */
    train(scene, 1, 1);
    assert_int_equal(scene->count, 1);
    hang(scene, 0.9);
    tick(scene, false);
    assert_int_equal(scene->count, 2);
    consent.argument = 0;
    policy_request(scene->policy, &consent);
    policy_attempt(scene->policy, 2, REAL_NS + scene->now_ns);
    scene->now_ns += NS_PER_S;
    hang(scene, 0.9);
    tick(scene, false);
    assert_int_equal(scene->count, 2);
}

/* A second policy reads the log: requests, outcomes and decisions, but not the ticks. */
static void one_that_follows_the_log_goes_on_where_the_first_one_was(void **state)
{
    struct scene *scene = *state, follower = { .now_ns = scene->now_ns };

    assert_int_equal(policy_create("r1", &follower.policy), 0);
    policy_attempt(follower.policy, 0, REAL_NS);
    policy_follow(follower.policy, true);
    train(scene, 0, 10);
    ask(scene, REQUEST_CHECKPOINT_NOW, "q-1");
    ask(&follower, REQUEST_CHECKPOINT_NOW, "q-1");
    train(scene, 0, 1);
    train(&follower, 0, 11);
    assert_int_equal(follower.count, 0);
    policy_follow_log(follower.policy, newest(scene));
    answer(&follower, newest(scene), "launcher", OUTCOME_PAST);
    answer(scene, newest(scene), "launcher", OUTCOME_PAST);
    policy_follow(follower.policy, false);
    train(scene, 0, 1);
    train(&follower, 0, 1);
    assert_int_equal(follower.count, 2);
    assert_memory_equal(&follower.said[1], newest(scene), sizeof(follower.said[1]));
    policy_destroy(follower.policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_make, scene_free)
        SCENE(a_checkpoint_gets_a_step_that_no_rank_has_begun),
        SCENE(a_rank_that_is_past_makes_a_renewal_with_a_larger_margin),
        SCENE(a_launcher_that_was_late_makes_the_margin_as_long_as_it_was_late),
        SCENE(after_too_many_renewals_it_fails_with_the_reason),
        SCENE(the_next_attempt_gets_its_own_step),
        SCENE(before_any_step_it_waits_and_then_fails),
        SCENE(a_refusal_a_second_request_and_the_end_fail),
        SCENE(a_run_that_hangs_ends_a_request_with_the_verdict),
        SCENE(a_request_is_cancelled_and_its_step_is_waited_for),
        SCENE(a_hang_restarts_the_run_once_if_its_launcher_consents),
        SCENE(one_that_follows_the_log_goes_on_where_the_first_one_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
