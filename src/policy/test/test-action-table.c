/* test-action-table.c - from verdicts to actions by the table: consent, pay-back, limits, crash loops.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "policy/test/scene.h"

#define STEP_NS (100 * NS_PER_MS)
#define RANKS 4

static void row(struct scene *scene, const char *name, unsigned kind, unsigned action)
{
    struct policy_row *at = &scene->table.row[scene->table.rows++];

    *at = (struct policy_row){ .kinds = kind ? 1u << kind : 0,
                               .severity = FINDING_INFO,
                               .confidence = 0.8,
                               .action_count = 1,
                               .action = { (uint8_t)action } };
    snprintf(at->name, sizeof(at->name), "%s", name);
    snprintf(at->reason, sizeof(at->reason), "because");
}

static void give(struct scene *scene)
{
    assert_int_equal(policy_take_table(scene->policy, &scene->table), 0);
    policy_take_means(scene->policy, &scene->means);
}

static int scene_make(void **state)
{
    struct scene *scene = scene_create();

    scene->table = (struct policy_table){ .restarts_per_hour = 6,
                                          .restarts_per_cause = 3,
                                          .drains_per_hour = 2,
                                          .fleet_share = 0.5,
                                          .cool_down_ns = 60 * NS_PER_S,
                                          .breaker = 3,
                                          .crash_loop = 3,
                                          .poison_step = 3,
                                          .horizon_ns = 3600 * NS_PER_S };
    row(scene, "hang", VERDICT_HANG, ACTION_RESTART);
    row(scene, "slow", VERDICT_STRAGGLER, ACTION_SWAP);
    row(scene, "crash", VERDICT_CRASH, ACTION_RESTART);
    scene->means = (struct policy_means){ .mode = POLICY_ACT,
                                          .actions = 1u << ACTION_RESTART | 1u << ACTION_SWAP |
                                                     1u << ACTION_CHECKPOINT | 1u << ACTION_GIVE_UP,
                                          .restarts_left = 100,
                                          .spares = 1 };
    scene->ledger = (struct ledger){ .ranks = RANKS };
    scene->ledger.gpu_seconds[LEDGER_START_UP] = 5 * RANKS;
    policy_attempt(scene->policy, 0, REAL_NS);
    *state = scene;
    return 0;
}

static void tick(struct scene *scene)
{
    struct policy_view view = { .mono_ns = scene->now_ns,
                                .real_ns = REAL_NS + scene->now_ns,
                                .ranks = RANKS,
                                .nodes = 4,
                                .ledger = &scene->ledger };

    policy_tick(scene->policy, &view, said, scene);
}

static void train(struct scene *scene, int64_t seconds)
{
    for (int64_t until_ns = scene->now_ns + seconds * NS_PER_S; scene->now_ns < until_ns;) {
        policy_step(scene->policy, scene->attempt, scene->step++);
        scene->now_ns += STEP_NS;
        tick(scene);
    }
}

static struct verdict verdict_of(const struct scene *scene, unsigned kind, const char *id)
{
    struct verdict verdict = { .kind = (uint8_t)kind,
                               .confidence = 0.9,
                               .rank_count = 1,
                               .rank = { 2 },
                               .node_count = 1,
                               .node = { "n2" },
                               .since_real_ns = REAL_NS + scene->now_ns,
                               .decided_real_ns = REAL_NS + scene->now_ns };

    snprintf(verdict.id, sizeof(verdict.id), "%s", id);
    return verdict;
}

static void find(struct scene *scene, unsigned kind, const char *id)
{
    struct verdict verdict = verdict_of(scene, kind, id);

    verdict.seconds_per_step = 0.02;
    policy_verdict(scene->policy, &verdict);
    tick(scene);
}

static void next_attempt(struct scene *scene)
{
    policy_attempt_failed(scene->policy, scene->attempt, REAL_NS + scene->now_ns);
    policy_attempt(scene->policy, ++scene->attempt, REAL_NS + scene->now_ns);
    scene->now_ns += NS_PER_S;
}

static void must_be(const struct scene *scene, enum decision_state state, const char *why)
{
    assert_int_equal(newest(scene)->state, state);
    if (!strstr(newest(scene)->why, why))
        fail_msg("expected \"%s\", got \"%s\"", why, newest(scene)->why);
}

static void a_job_without_a_verdict_is_left_alone(void **state)
{
    struct scene *scene = *state;

    give(scene);
    train(scene, 120);
    assert_int_equal(scene->count, 0);
}

static void without_consent_it_is_a_dry_run_that_is_written_once(void **state)
{
    struct scene *scene = *state;

    scene->means.mode = POLICY_DRY_RUN;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_HANG, "v-1");
    train(scene, 5);
    assert_int_equal(scene->count, 1);
    must_be(scene, DECISION_DRY_RUN, "hang: pays back after");
    must_be(scene, DECISION_DRY_RUN, "--act was not given; because");
    scene->means.mode = POLICY_ACT;
    give(scene);
    tick(scene);
    assert_int_equal(scene->count, 2);
    must_be(scene, DECISION_ORDERED, "hang: pays back after");
    assert_int_equal(newest(scene)->rank[0], 2);
}

static void the_consent_to_restart_hangs_is_enough_for_a_hang(void **state)
{
    struct scene *scene = *state;

    scene->means.mode = POLICY_DRY_RUN;
    scene->means.restart_hangs = true;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_STRAGGLER, "v-0");
    must_be(scene, DECISION_DRY_RUN, "--act was not given");
    find(scene, VERDICT_HANG, "v-1");
    must_be(scene, DECISION_ORDERED, "hang: ");
    scene->means.restarts_left = 0;
    give(scene);
    next_attempt(scene);
    find(scene, VERDICT_HANG, "v-2");
    must_be(scene, DECISION_DRY_RUN, "no restart is left");
}

static void the_kill_switch_stops_everything(void **state)
{
    struct scene *scene = *state;

    scene->means.mode = POLICY_OFF;
    scene->means.restart_hangs = true;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_HANG, "v-1");
    must_be(scene, DECISION_DRY_RUN, "the kill switch is on");
}

static void what_does_not_pay_back_is_not_done(void **state)
{
    struct scene *scene = *state;

    scene->means.steps = 120; /* two seconds are left, a start takes five */
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_HANG, "v-1");
    must_be(scene, DECISION_DRY_RUN, "does not pay back");
    assert_true(newest(scene)->saves_gpu_seconds < newest(scene)->costs_gpu_seconds);
}

/* A fifth of each step, of four ranks: 0.8 GPU-seconds a second.  It costs four times 5 s of start and the seconds since the
 * newest checkpoint. */
static void a_slow_node_is_swapped_if_it_pays(void **state)
{
    struct scene *scene = *state;

    give(scene);
    train(scene, 10);
    scene->ledger.gpu_seconds[LEDGER_CHECKPOINT] = 1;
    train(scene, 1);
    find(scene, VERDICT_STRAGGLER, "v-1");
    must_be(scene, DECISION_ORDERED, "slow: pays back after");
    assert_int_equal(newest(scene)->action, ACTION_SWAP);
    assert_int_equal(newest(scene)->target, TARGET_NODES);
    assert_string_equal(newest(scene)->node[0], "n2");
    assert_true(newest(scene)->saves_gpu_seconds > 0.7 * 3600 &&
                newest(scene)->saves_gpu_seconds < 0.9 * 3600);
    assert_true(newest(scene)->costs_gpu_seconds > 20 && newest(scene)->costs_gpu_seconds < 25);
}

static void launcher_says(struct scene *scene, const char *node, enum member_state state)
{
    struct member member = { .host = "10.0.0.1",
                             .port = 1000,
                             .life = (uint32_t)(node[1] - '0'),
                             .state = (uint8_t)state,
                             .culprit = -1,
                             .ranks = 2,
                             .nodes_min = 2,
                             .nodes_max = 2,
                             .max_restarts = 5,
                             .lease_ns = 3600 * NS_PER_S };

    snprintf(member.node, sizeof(member.node), "%s", node);
    assert_int_equal(policy_member(scene->policy, &member), 0);
}

/* n1 and n2 train; n3 waits. */
static void two_nodes_train(struct scene *scene, bool spare)
{
    scene->means.spares = 0;
    give(scene);
    launcher_says(scene, "n1", MEMBER_IDLE);
    launcher_says(scene, "n2", MEMBER_IDLE);
    tick(scene);
    if (spare)
        launcher_says(scene, "n3", MEMBER_IDLE);
    launcher_says(scene, "n1", MEMBER_RUNNING);
    launcher_says(scene, "n2", MEMBER_RUNNING);
    train(scene, 10);
}

/* A launcher that waits is the spare; nobody tells the policy their number. */
static void a_slow_node_is_swapped_for_a_launcher_that_waits(void **state)
{
    struct scene *scene = *state;

    two_nodes_train(scene, true);
    scene->ledger.gpu_seconds[LEDGER_CHECKPOINT] = 1;
    train(scene, 1);
    find(scene, VERDICT_STRAGGLER, "v-1");
    assert_int_equal(newest(scene)->action, ACTION_STOP);
    launcher_says(scene, "n1", MEMBER_STOPPED);
    launcher_says(scene, "n2", MEMBER_STOPPED);
    policy_attempt_ended(scene->policy, 0);
    tick(scene);
    assert_int_equal(newest(scene)->action, ACTION_START);
    assert_string_equal(newest(scene)->node[0], "n1");
    assert_string_equal(newest(scene)->node[1], "n3");
    assert_int_equal(newest(scene)->start.down, 2); /* n2 gets no ranks any more */
}

/* The newest decision of this action; NULL: none. */
static const struct decision *of_action(const struct scene *scene, enum action action)
{
    for (size_t i = scene->count; i > 0; i--) {
        if (scene->said[i - 1].action == action)
            return &scene->said[i - 1];
    }
    return NULL;
}

static void ranks_answer(struct scene *scene, const struct decision *decision,
                         enum outcome_result result)
{
    struct outcome outcome = { .result = (uint8_t)result,
                               .part = "launcher",
                               .began_real_ns = REAL_NS + scene->now_ns,
                               .ended_real_ns = REAL_NS + scene->now_ns };

    memcpy(outcome.decision, decision->id, sizeof(outcome.decision));
    policy_outcome(scene->policy, &outcome);
}

static void site_wants_back(struct scene *scene, const char *node, enum node_out_when when)
{
    struct request request = {
        .kind = REQUEST_NODE_OUT, .id = "q-1", .who = "ada", .argument = when
    };

    snprintf(request.text, sizeof(request.text), "%s", node);
    policy_request(scene->policy, &request);
}

static void a_node_that_will_fail_is_replaced_when_all_ranks_have_saved(void **state)
{
    struct scene *scene = *state;
    const struct decision *save;

    scene->table.row[1].action[0] = ACTION_REPLACE;
    scene->means.actions |= 1u << ACTION_REPLACE;
    two_nodes_train(scene, true);
    scene->ledger.gpu_seconds[LEDGER_CHECKPOINT] = 1;
    train(scene, 1);
    find(scene, VERDICT_STRAGGLER, "v-1");
    train(scene, 1);
    save = of_action(scene, ACTION_CHECKPOINT);
    assert_non_null(save);
    assert_string_equal(save->of, "v-1");
    assert_null(of_action(scene, ACTION_SWAP));
    ranks_answer(scene, save, OUTCOME_DONE);
    train(scene, 1);
    assert_string_equal(of_action(scene, ACTION_SWAP)->of, "v-1");
    assert_string_equal(of_action(scene, ACTION_SWAP)->node[0], "n2");
    assert_non_null(strstr(of_action(scene, ACTION_SWAP)->why, "slow: pays back after"));
    assert_int_equal(newest(scene)->action, ACTION_STOP);
}

static void ranks_that_cannot_save_stay_where_they_are(void **state)
{
    struct scene *scene = *state;

    two_nodes_train(scene, true);
    site_wants_back(scene, "n2", NODE_OUT_CHECKPOINT);
    train(scene, 1);
    ranks_answer(scene, of_action(scene, ACTION_CHECKPOINT), OUTCOME_REFUSED);
    train(scene, 1);
    assert_int_equal(of_action(scene, ACTION_SWAP)->state, DECISION_EXPIRED);
    must_be(scene, DECISION_EXPIRED,
            "ada takes the node out of service; not done: launcher: refused");
    assert_null(of_action(scene, ACTION_STOP));
}

static void a_node_that_the_site_wants_now_is_left_at_once(void **state)
{
    struct scene *scene = *state;

    two_nodes_train(scene, true);
    site_wants_back(scene, "n1", NODE_OUT_NOW);
    tick(scene);
    assert_null(of_action(scene, ACTION_CHECKPOINT));
    assert_string_equal(of_action(scene, ACTION_SWAP)->node[0], "n1");
    assert_int_equal(newest(scene)->action, ACTION_STOP);
}

static void a_site_gets_no_node_of_a_run_that_did_not_agree(void **state)
{
    struct scene *scene = *state;

    scene->means.mode = POLICY_DRY_RUN;
    two_nodes_train(scene, true);
    site_wants_back(scene, "n1", NODE_OUT_NOW);
    tick(scene);
    must_be(scene, DECISION_EXPIRED, "--act was not given");
    assert_null(of_action(scene, ACTION_STOP));
}

static void without_a_spare_the_ranks_stay(void **state)
{
    struct scene *scene = *state;

    two_nodes_train(scene, false);
    site_wants_back(scene, "n1", NODE_OUT_CHECKPOINT);
    tick(scene);
    must_be(scene, DECISION_EXPIRED, "no spare is free, so the ranks stay there");
    assert_null(of_action(scene, ACTION_STOP));
}

/* Without a spare, where the scheduler can start the job elsewhere. */
static void a_job_on_a_bad_node_is_requeued_without_it(void **state)
{
    struct scene *scene = *state;

    scene->table.row[0].action[0] = ACTION_REQUEUE;
    scene->means.actions |= 1u << ACTION_REQUEUE;
    two_nodes_train(scene, false);
    find(scene, VERDICT_HANG, "v-1");
    assert_int_equal(of_action(scene, ACTION_REQUEUE)->state, DECISION_ORDERED);
    assert_int_equal(newest(scene)->action, ACTION_STOP);
    launcher_says(scene, "n1", MEMBER_STOPPED);
    launcher_says(scene, "n2", MEMBER_STOPPED);
    policy_attempt_ended(scene->policy, 0);
    tick(scene);
    assert_int_equal(newest(scene)->action, ACTION_END);
    assert_int_not_equal(newest(scene)->argument, 0);
    assert_int_equal(newest(scene)->node_count, 2); /* who reports, then what is left out */
    assert_string_equal(newest(scene)->node[0], "n1");
    assert_string_equal(newest(scene)->node[1], "n2");
}

static void without_a_spare_the_next_action_of_the_row_counts(void **state)
{
    struct scene *scene = *state;

    scene->means.spares = 0;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_STRAGGLER, "v-1");
    must_be(scene, DECISION_DRY_RUN, "has no spare node");
    scene->table.row[1].action[1] = ACTION_NONE;
    scene->table.row[1].action_count = 2;
    give(scene);
    find(scene, VERDICT_STRAGGLER, "v-2");
    assert_int_equal(scene->count, 1); /* watch */
}

static void one_cause_waits_for_its_cool_down_and_ends_at_its_limit(void **state)
{
    struct scene *scene = *state;

    scene->table.breaker = 0;
    give(scene);
    for (int i = 0; i < 3; i++) {
        train(scene, 10);
        find(scene, VERDICT_HANG, "v-1");
        if (i > 0) {
            must_be(scene, DECISION_DRY_RUN, "the pause is 60 s");
            scene->now_ns += 60 * NS_PER_S;
            tick(scene);
        }
        must_be(scene, DECISION_ORDERED, "hang: ");
        next_attempt(scene);
    }
    train(scene, 100);
    find(scene, VERDICT_HANG, "v-1");
    must_be(scene, DECISION_DRY_RUN, "3 actions because of this verdict, the limit is 3");
}

static void the_hour_has_a_limit(void **state)
{
    struct scene *scene = *state;
    char id[16];

    scene->table.breaker = 0;
    give(scene);
    for (int i = 0; i < 6; i++) {
        train(scene, 10);
        snprintf(id, sizeof(id), "v-%d", i);
        find(scene, VERDICT_HANG, id);
        must_be(scene, DECISION_ORDERED, "hang: ");
        next_attempt(scene);
    }
    train(scene, 10);
    find(scene, VERDICT_HANG, "v-9");
    must_be(scene, DECISION_DRY_RUN, "6 actions in the last hour, the limit is 6");
    scene->now_ns += 3600 * NS_PER_S;
    tick(scene);
    must_be(scene, DECISION_ORDERED, "hang: ");
}

static void actions_that_do_not_help_open_the_breaker(void **state)
{
    struct scene *scene = *state;

    give(scene);
    train(scene, 10);
    for (int i = 0; i < 3; i++) {
        find(scene, VERDICT_HANG, i == 0 ? "v-0" : i == 1 ? "v-1" : "v-2");
        must_be(scene, DECISION_ORDERED, "hang: ");
        next_attempt(scene);
        train(scene, 1);
    }
    find(scene, VERDICT_HANG, "v-3");
    must_be(scene, DECISION_DRY_RUN, "the last 3 actions did not help");
    next_attempt(scene); /* somebody mended it: it trains for longer than the cool-down */
    train(scene, 150);
    find(scene, VERDICT_HANG, "v-4");
    must_be(scene, DECISION_ORDERED, "hang: ");
}

static void a_run_never_loses_more_than_its_share_of_nodes(void **state)
{
    struct scene *scene = *state;

    scene->table.breaker = 0;
    scene->table.drains_per_hour = 100;
    give(scene);
    for (int i = 0; i < 3; i++) {
        train(scene, 10);
        find(scene, VERDICT_STRAGGLER, i == 0 ? "v-0" : i == 1 ? "v-1" : "v-2");
        next_attempt(scene);
    }
    must_be(scene, DECISION_DRY_RUN, "2 of 4 nodes were taken from the run");
}

/* The launcher has restarted it already. */
static void a_crash_is_recorded_for_the_attempt_that_failed(void **state)
{
    struct scene *scene = *state;
    struct verdict verdict;

    scene->means.mode = POLICY_DRY_RUN;
    give(scene);
    train(scene, 5);
    verdict = verdict_of(scene, VERDICT_CRASH, "v-1");
    scene->now_ns += NS_PER_S;
    next_attempt(scene);
    policy_verdict(scene->policy, &verdict);
    train(scene, 5);
    assert_int_equal(scene->count, 1);
    must_be(scene, DECISION_ORDERED, "crash: ");
    assert_int_equal(newest(scene)->attempt, 0);
}

static void attempts_that_get_no_further_are_a_crash_loop(void **state)
{
    struct scene *scene = *state;

    give(scene);
    for (int i = 0; i < 3; i++) {
        scene->step = 40; /* from a checkpoint */
        train(scene, i == 0 ? 4 : 3);
        assert_int_equal(scene->count, 0);
        next_attempt(scene);
    }
    tick(scene);
    assert_int_equal(scene->count, 1);
    assert_int_equal(newest(scene)->action, ACTION_GIVE_UP);
    must_be(scene, DECISION_ORDERED, "the last 3 attempts failed and did not get beyond step 79");
    train(scene, 5);
    assert_int_equal(scene->count, 1);
}

static void attempts_that_get_further_are_none(void **state)
{
    struct scene *scene = *state;

    give(scene);
    for (int i = 0; i < 9; i++) {
        train(scene, 3);
        next_attempt(scene);
    }
    tick(scene);
    assert_int_equal(scene->count, 0);
}

static void one_step_that_fails_on_different_nodes_is_poison(void **state)
{
    struct scene *scene = *state;

    scene->table.crash_loop = 0;
    scene->table.rows = 0;
    give(scene);
    for (int i = 0; i < 3; i++) {
        struct verdict verdict = verdict_of(scene, VERDICT_CRASH, "v-1");

        scene->step = 40;
        train(scene, 2);
        next_attempt(scene);
        snprintf(verdict.node[0], sizeof(verdict.node[0]), "n%d", i);
        policy_verdict(scene->policy, &verdict);
        tick(scene);
    }
    assert_int_equal(scene->count, 1);
    must_be(scene, DECISION_ORDERED, "step 59 failed 3 times on 3 different nodes");
}

static void a_finding_on_its_node_makes_a_verdict_worse(void **state)
{
    struct scene *scene = *state;
    struct finding finding = { .kind = FINDING_SEGFAULT,
                               .severity = FINDING_FATAL,
                               .node = "n2",
                               .real_ns = REAL_NS + 55 * NS_PER_S };

    scene->table.row[1].severity = FINDING_FATAL;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_STRAGGLER, "v-1");
    assert_int_equal(scene->count, 0);
    policy_finding(scene->policy, &finding);
    tick(scene);
    assert_int_equal(scene->count, 1);
}

static void a_site_sees_a_kind_of_finding_differently(void **state)
{
    struct scene *scene = *state;
    struct finding finding = { .kind = FINDING_SEGFAULT,
                               .severity = FINDING_FATAL,
                               .node = "n2",
                               .real_ns = REAL_NS + 55 * NS_PER_S };

    scene->table.row[1].severity = FINDING_FATAL;
    scene->table.finding_severity[FINDING_SEGFAULT] = FINDING_INFO;
    give(scene);
    train(scene, 10);
    policy_finding(scene->policy, &finding);
    find(scene, VERDICT_STRAGGLER, "v-1");
    assert_int_equal(scene->count, 0);
    scene->table.verdict_severity[VERDICT_STRAGGLER] = FINDING_FATAL;
    give(scene);
    tick(scene);
    assert_int_equal(scene->count, 1);
}

static void a_checkpoint_gets_a_step(void **state)
{
    struct scene *scene = *state;

    scene->table.row[1].action[0] = ACTION_CHECKPOINT;
    give(scene);
    train(scene, 10);
    find(scene, VERDICT_STRAGGLER, "v-1");
    train(scene, 1);
    assert_int_equal(scene->count, 1);
    assert_int_equal(newest(scene)->action, ACTION_CHECKPOINT);
    assert_string_equal(newest(scene)->of, "v-1");
    assert_true(newest(scene)->step > scene->step);
}

/* A compacted log has the decisions, and not all ticks. */
static void one_that_follows_the_log_has_the_same_budget(void **state)
{
    struct scene *scene = *state;
    struct policy *first = scene->policy;

    give(scene);
    train(scene, 10);
    assert_int_equal(policy_create("r1", &scene->policy), 0);
    policy_attempt(scene->policy, 0, REAL_NS);
    give(scene);
    policy_follow(scene->policy, true);
    find(scene, VERDICT_HANG, "v-1");
    assert_int_equal(scene->count, 0);
    {
        struct policy *second = scene->policy;

        scene->policy = first;
        find(scene, VERDICT_HANG, "v-1");
        must_be(scene, DECISION_ORDERED, "hang: ");
        policy_follow_log(second, newest(scene));
        policy_follow(second, false);
        scene->policy = second;
    }
    tick(scene);
    assert_int_equal(scene->count, 1);
    next_attempt(scene);
    train(scene, 1);
    find(scene, VERDICT_HANG, "v-1");
    must_be(scene, DECISION_DRY_RUN, "the pause is 60 s");
    policy_destroy(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_make, scene_free)
        SCENE(a_job_without_a_verdict_is_left_alone),
        SCENE(without_consent_it_is_a_dry_run_that_is_written_once),
        SCENE(the_consent_to_restart_hangs_is_enough_for_a_hang),
        SCENE(the_kill_switch_stops_everything),
        SCENE(what_does_not_pay_back_is_not_done),
        SCENE(a_slow_node_is_swapped_if_it_pays),
        SCENE(a_slow_node_is_swapped_for_a_launcher_that_waits),
        SCENE(a_node_that_will_fail_is_replaced_when_all_ranks_have_saved),
        SCENE(ranks_that_cannot_save_stay_where_they_are),
        SCENE(a_node_that_the_site_wants_now_is_left_at_once),
        SCENE(a_site_gets_no_node_of_a_run_that_did_not_agree),
        SCENE(without_a_spare_the_ranks_stay),
        SCENE(a_job_on_a_bad_node_is_requeued_without_it),
        SCENE(without_a_spare_the_next_action_of_the_row_counts),
        SCENE(one_cause_waits_for_its_cool_down_and_ends_at_its_limit),
        SCENE(the_hour_has_a_limit),
        SCENE(actions_that_do_not_help_open_the_breaker),
        SCENE(a_run_never_loses_more_than_its_share_of_nodes),
        SCENE(a_crash_is_recorded_for_the_attempt_that_failed),
        SCENE(attempts_that_get_no_further_are_a_crash_loop),
        SCENE(attempts_that_get_further_are_none),
        SCENE(one_step_that_fails_on_different_nodes_is_poison),
        SCENE(a_finding_on_its_node_makes_a_verdict_worse),
        SCENE(a_site_sees_a_kind_of_finding_differently),
        SCENE(a_checkpoint_gets_a_step),
        SCENE(one_that_follows_the_log_has_the_same_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
