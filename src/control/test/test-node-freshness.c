/* test-node-freshness.c - which node is checked next, and what its results replace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/node_freshness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/nodes/site_core.h"
#include "core/clean.h"
#include "core/time.h"

#define NOW (1700000000 * NS_PER_S)
#define MINUTE_NS (60 * NS_PER_S)
#define HOUR_NS (60 * MINUTE_NS)
#define DAY_NS (24 * HOUR_NS)

struct ordered { /* in one tick */
    size_t checks, drains, undrains;
    struct decision check, last;
};

static void fresh_core_clean(struct site_core **core)
{
    site_core_destroy(*core);
}

static void fresh_hear(void *arg, uint16_t type, const struct buf *payload)
{
    struct ordered *ordered = arg;
    struct decision decision;

    if (type != FRAME_DECISION)
        return;
    assert_int_equal(decision_get(reader_of(payload->data, payload->size), &decision), 0);
    if (decision.state != DECISION_ORDERED)
        return;
    ordered->drains += decision.action == ACTION_DRAIN;
    ordered->undrains += decision.action == ACTION_UNDRAIN;
    ordered->last = decision;
    if (decision.action != ACTION_VERIFY)
        return;
    ordered->checks++;
    ordered->check = decision;
}

static struct ordered fresh_tick(struct site_core *core, int64_t real_ns)
{
    struct ordered ordered = { .checks = 0 };

    assert_int_equal(
        site_core_tick(core, &(struct fact_tick){ .real_ns = real_ns }, fresh_hear, &ordered), 0);
    return ordered;
}

static void fresh_put(struct site_core *core, uint16_t type, struct buf *payload, bool own)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    if (own)
        site_core_ask(core, &frame);
    else
        assert_int_equal(site_core_feed(core, &frame), 0);
    buf_fini(payload);
}

static void fresh_set(struct site_core *core, const char *name, double value)
{
    struct fact_setting setting = { .real_ns = NOW, .value = value, .who = "test" };
    struct buf payload = { 0 };

    snprintf(setting.name, sizeof(setting.name), "%s", name);
    fact_setting_put(&payload, &setting);
    fresh_put(core, FRAME_SETTING, &payload, true);
}

static void fresh_result(struct site_core *core, const char *node, const char *stage,
                         const char *name, unsigned state, int64_t real_ns)
{
    struct check check = { .real_ns = real_ns, .state = (uint8_t)state, .seconds = 3 };
    struct buf payload = { 0 };

    snprintf(check.node, sizeof(check.node), "%s", node);
    snprintf(check.stage, sizeof(check.stage), "%s", stage);
    snprintf(check.name, sizeof(check.name), "%s", name);
    check_put(&payload, &check);
    fresh_put(core, FRAME_CHECK, &payload, false);
}

static void fresh_outcome(struct site_core *core, const struct decision *decision, unsigned result,
                          int64_t real_ns)
{
    bool node = decision->action == ACTION_VERIFY;
    struct outcome outcome = { .result = (uint8_t)result,
                               .began_real_ns = real_ns,
                               .ended_real_ns = real_ns,
                               .step = DECISION_NO_STEP };
    struct buf payload = { 0 };

    memcpy(outcome.decision, decision->id, sizeof(outcome.decision));
    if (node)
        snprintf(outcome.part, sizeof(outcome.part), "node %.50s", decision->node[0]);
    else
        snprintf(outcome.part, sizeof(outcome.part), SITE_CONTROLLER);
    outcome_put(&payload, &outcome);
    fresh_put(core, FRAME_OUTCOME, &payload, !node);
}

static struct site_core *fresh_core(double age_s, unsigned at_once)
{
    struct site_core *core = NULL;

    assert_int_equal(site_core_create(&core), 0);
    fresh_set(core, SITE_MODE, POLICY_ACT);
    fresh_set(core, SITE_BUDGET_SHARE, 1);
    fresh_set(core, SITE_VERIFY_AGE, age_s);
    fresh_set(core, SITE_VERIFY_AT_ONCE, at_once);
    return core;
}

static void every_stale_node_gets_one_order_and_no_other_does(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(7 * 86400, 2);
    unsigned got[5] = { 0 };
    int64_t now_ns = NOW;

    (void)state;
    fresh_result(core, "n1", "deep", CHECK_NAME_ALL, CHECK_OK, NOW - 8 * DAY_NS);
    fresh_result(core, "n2", "deep", CHECK_NAME_ALL, CHECK_OK, NOW - 6 * DAY_NS);
    fresh_result(core, "n3", "quick", CHECK_NAME_ALL, CHECK_OK, NOW); /* that was not all of it */
    fresh_result(core, "n4", "deep", CHECK_NAME_ALL, CHECK_UNKNOWN, NOW);
    for (int i = 0; i < 200; i++, now_ns += 11 * NS_PER_S) {
        struct ordered ordered = fresh_tick(core, now_ns);
        unsigned node = ordered.checks ? (unsigned)(ordered.check.node[0][1] - '0') : 0;

        assert_true(ordered.checks <= 1);
        got[node]++;
        if (!ordered.checks)
            continue;
        assert_int_equal(ordered.check.argument, node_stage_rank("deep"));
        fresh_outcome(core, &ordered.check, OUTCOME_DONE, now_ns);
        fresh_result(core, ordered.check.node[0], "deep", CHECK_NAME_ALL, CHECK_OK, now_ns);
    }
    assert_int_equal(got[1], 1);
    assert_int_equal(got[2], 0);
    assert_int_equal(got[3], 1);
    assert_int_equal(got[4], 1);
    assert_false(node_freshness_is_due(core, now_ns));
}

static void no_more_than_allowed_are_checked_at_a_time(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(86400, 2);
    struct decision open[8];
    size_t count = 0;

    (void)state;
    for (int i = 1; i <= 8; i++) {
        char name[8];

        snprintf(name, sizeof(name), "n%d", i);
        fresh_result(core, name, "quick", "kmsg", CHECK_OK, NOW);
    }
    for (int i = 0; i < 20; i++) {
        struct ordered ordered = fresh_tick(core, NOW + i * 11 * NS_PER_S);

        if (ordered.checks)
            open[count++] = ordered.check;
    }
    assert_int_equal(count, 2);
    fresh_outcome(core, &open[0], OUTCOME_NOT_EXECUTED, NOW + 30 * NS_PER_S);
    for (int i = 20; i < 40; i++) {
        struct ordered ordered = fresh_tick(core, NOW + i * 11 * NS_PER_S);

        if (ordered.checks)
            open[count++] = ordered.check;
    }
    assert_int_equal(count, 3); /* another node: the busy one is asked again in an hour */
    assert_string_not_equal(open[2].node[0], open[0].node[0]);

    /* Neither the kill switch nor a budget of none lets one begin. */
    fresh_outcome(core, &open[1], OUTCOME_DONE, NOW + 500 * NS_PER_S);
    fresh_set(core, SITE_MODE, POLICY_OFF);
    assert_int_equal(fresh_tick(core, NOW + 510 * NS_PER_S).checks, 0);
    fresh_set(core, SITE_MODE, POLICY_ACT);
    fresh_set(core, SITE_VERIFY_AT_ONCE, 0);
    assert_int_equal(fresh_tick(core, NOW + 530 * NS_PER_S).checks, 0);
    fresh_set(core, SITE_VERIFY_AT_ONCE, 2);
    assert_int_equal(fresh_tick(core, NOW + 550 * NS_PER_S).checks, 1);
}

/* From a failed check to the way back, with nobody's help but a repair. */
static void a_node_that_is_out_is_checked_until_it_has_passed_twice(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(0, 1);
    const unsigned results[] = { CHECK_FAILED, CHECK_OK, CHECK_FAILED, CHECK_OK, CHECK_OK };
    struct ordered ordered;
    int64_t now_ns = NOW, previous_ns = 0;

    (void)state;
    for (int i = 2; i < 9; i++) {
        char name[8];

        snprintf(name, sizeof(name), "n%d", i);
        fresh_result(core, name, "deep", CHECK_NAME_ALL, CHECK_OK, NOW);
    }
    fresh_result(core, "n1", "deep", "gpu-arithmetic", CHECK_FAILED, NOW);
    ordered = fresh_tick(core, now_ns);
    assert_int_equal(ordered.drains, 1);
    assert_int_equal(ordered.checks, 0); /* before it is out */
    fresh_outcome(core, &ordered.last, OUTCOME_DONE, now_ns + 1);
    for (size_t i = 0; i < COUNT(results); i++) {
        do {
            now_ns += 20 * NS_PER_S;
            ordered = fresh_tick(core, now_ns);
            assert_int_equal(ordered.undrains, 0);
            assert_true(now_ns < NOW + DAY_NS);
        } while (!ordered.checks);
        assert_string_equal(ordered.check.node[0], "n1");
        assert_int_equal(ordered.check.argument, node_stage_rank("deep") | VERIFY_NODE_IS_OUT);
        assert_true(now_ns - previous_ns >= 10 * MINUTE_NS);
        previous_ns = now_ns;
        now_ns += 5 * NS_PER_S;
        fresh_result(core, "n1", "deep", CHECK_NAME_ALL, results[i], now_ns);
        fresh_outcome(core, &ordered.check, OUTCOME_DONE, now_ns);
    }
    assert_int_equal(fresh_tick(core, now_ns + 1).undrains, 1);
}

static void a_node_in_maintenance_is_left_alone(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(86400, 4);
    struct request request = { .real_ns = NOW,
                               .id = "q-1",
                               .kind = REQUEST_NODE_OUT,
                               .argument = NODE_OUT_IDLE,
                               .who = "admin",
                               .text = "n1" };
    struct buf payload = { 0 };
    struct ordered ordered;

    (void)state;
    fresh_result(core, "n1", "deep", CHECK_NAME_ALL, CHECK_OK, NOW);
    fresh_tick(core, NOW);
    request_put(&payload, &request);
    fresh_put(core, FRAME_REQUEST, &payload, true);
    ordered = fresh_tick(core, NOW + 1);
    assert_int_equal(ordered.drains, 1);
    fresh_outcome(core, &ordered.last, OUTCOME_DONE, NOW + 2);
    for (int day = 1; day < 9; day++)
        assert_int_equal(fresh_tick(core, NOW + day * DAY_NS).checks, 0);

    /* Unless the person asks for it. */
    request.kind = REQUEST_VERIFY;
    request.argument = node_stage_rank("prolog");
    memcpy(request.id, "q-2", 4);
    request_put(&payload, &request);
    fresh_put(core, FRAME_REQUEST, &payload, true);
    ordered = fresh_tick(core, NOW + 10 * DAY_NS);
    assert_int_equal(ordered.checks, 1);
    assert_int_equal(ordered.check.argument, node_stage_rank("prolog") | VERIFY_NODE_IS_OUT);
}

static size_t fresh_rows(const struct site_core *core, unsigned state)
{
    const struct site_node *node = site_core_find(core, "n1");
    size_t count = 0;

    for (size_t i = 0; i < node->checks; i++)
        count += node->check[i].state == state;
    return count;
}

static void a_whole_stage_replaces_what_smaller_ones_found(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(0, 1);

    (void)state;
    fresh_result(core, "n1", "prolog", "gpu-rate", CHECK_LIMITED, NOW);
    fresh_result(core, "n1", "deep", "gpu-heat", CHECK_LIMITED, NOW);
    fresh_result(core, "n1", "prolog", CHECK_NAME_ALL, CHECK_LIMITED, NOW);
    assert_int_equal(fresh_rows(core, CHECK_LIMITED), 3);
    fresh_result(core, "n1", "prolog", "gpu-memory", CHECK_OK, NOW + MINUTE_NS);
    fresh_result(core, "n1", "prolog", CHECK_NAME_ALL, CHECK_OK, NOW + MINUTE_NS);
    assert_int_equal(fresh_rows(core, CHECK_OK), 2);      /* of the same report */
    assert_int_equal(fresh_rows(core, CHECK_LIMITED), 1); /* a prolog did not heat it */
    fresh_result(core, "n1", "deep", CHECK_NAME_ALL, CHECK_OK, NOW + HOUR_NS);
    assert_int_equal(fresh_rows(core, CHECK_LIMITED), 0);
}

static void good_results_make_room_for_bad_ones(void **state)
{
    CLEAN(fresh_core_clean) struct site_core *core = fresh_core(0, 1);
    char name[16];

    (void)state;
    fresh_result(core, "n1", "deep", "gpu-arithmetic", CHECK_FAILED, NOW);
    for (int i = 0; i < 2 * SITE_NODE_CHECKS; i++) {
        snprintf(name, sizeof(name), "check-%d", i);
        fresh_result(core, "n1", "deep", name, CHECK_OK, NOW + i + 1);
    }
    assert_int_equal(fresh_rows(core, CHECK_FAILED), 1);
    assert_int_equal(site_core_find(core, "n1")->checks, SITE_NODE_CHECKS);
}

/* The drains of an hour are counted in the table of orders. */
static void orders_to_check_do_not_displace_others(void **state)
{
    struct site_orders orders;
    struct decision decision = { .action = ACTION_DRAIN,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .node_count = 1,
                                 .node = { "n1" } };
    size_t drains = 0;

    (void)state;
    site_orders_init(&orders);
    for (int i = 0; i < 3 * SITE_ORDERS; i++) {
        decision.action = i < 3 ? ACTION_DRAIN : ACTION_VERIFY;
        decision.decided_real_ns = NOW + i;
        decision_identify(&decision, "site");
        assert_int_equal(site_orders_put(&orders, &decision), 0);
        orders.order[orders.count - 1].ended = true;
    }
    for (size_t i = 0; i < orders.count; i++)
        drains += orders.order[i].decision.action == ACTION_DRAIN;
    assert_int_equal(drains, 3);
    assert_int_equal(orders.count, SITE_ORDERS);
    site_orders_fini(&orders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stale_node_gets_one_order_and_no_other_does),
        cmocka_unit_test(no_more_than_allowed_are_checked_at_a_time),
        cmocka_unit_test(a_node_that_is_out_is_checked_until_it_has_passed_twice),
        cmocka_unit_test(a_node_in_maintenance_is_left_alone),
        cmocka_unit_test(a_whole_stage_replaces_what_smaller_ones_found),
        cmocka_unit_test(good_results_make_room_for_bad_ones),
        cmocka_unit_test(orders_to_check_do_not_displace_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
