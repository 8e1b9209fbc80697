/* test-site-orders.c - what is asked of nodes: decisions, deadlines, the budget, and a log that replays with them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/nodes/site_log.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "wire/spool.h"

#define NOW (1700000000 * NS_PER_S)

struct stage {
    struct site_orders orders;
    struct decision said[8];
    size_t count;
};

static void on_decision(void *arg, const struct decision *decision)
{
    struct stage *stage = arg;

    assert_true(stage->count < COUNT(stage->said));
    stage->said[stage->count++] = *decision;
}

static bool is_known(const void *arg, const char *node)
{
    (void)arg;
    return node[0] == 'n';
}

static void ask(struct stage *stage, const char *node, int64_t real_ns)
{
    struct request request = { .real_ns = real_ns, .kind = REQUEST_INSPECT, .who = "admin" };

    snprintf(request.text, sizeof(request.text), "%s", node);
    request_identify(&request);
    site_orders_request(&stage->orders, &request);
}

static const struct decision *tick(struct stage *stage, int64_t real_ns, size_t expected)
{
    stage->count = 0;
    assert_int_equal(site_orders_tick(&stage->orders, real_ns, is_known, NULL, on_decision, stage),
                     0);
    assert_int_equal(stage->count, expected);
    return &stage->said[0];
}

static void answer(struct stage *stage, const char *id, const char *node, int64_t ended_ns)
{
    struct outcome outcome = { .result = ended_ns ? OUTCOME_DONE : OUTCOME_UNKNOWN,
                               .ended_real_ns = ended_ns };

    snprintf(outcome.decision, sizeof(outcome.decision), "%s", id);
    snprintf(outcome.part, sizeof(outcome.part), "node %s", node);
    site_orders_outcome(&stage->orders, &outcome);
}

static void a_node_has_one_open_order(void **state)
{
    struct stage stage = { .count = 0 };
    char id[DECISION_ID];

    (void)state;
    site_orders_init(&stage.orders);
    ask(&stage, "n1", NOW);
    assert_true(site_orders_are_due(&stage.orders, NOW));
    memcpy(id, tick(&stage, NOW, 1)->id, sizeof(id));
    assert_int_equal(stage.said[0].state, DECISION_ORDERED);
    assert_string_equal(stage.said[0].node[0], "n1");
    assert_true(site_order_is_open(&stage.orders.order[0], NOW));
    ask(&stage, "n1", NOW + 1);
    ask(&stage, "n2", NOW + 2);
    ask(&stage, "x1", NOW + 3);
    tick(&stage, NOW + 4, 3);
    assert_int_equal(stage.said[0].state, DECISION_EXPIRED);
    assert_non_null(strstr(stage.said[0].why, "is open"));
    assert_int_equal(stage.said[1].state, DECISION_ORDERED);
    assert_int_equal(stage.said[2].state, DECISION_EXPIRED);
    answer(&stage, id, "n2", NOW + 5); /* not its order */
    assert_true(site_order_is_open(&stage.orders.order[0], NOW));
    answer(&stage, id, "n1", 0); /* it begins: nobody gets it again */
    assert_false(site_order_is_open(&stage.orders.order[0], NOW));
    answer(&stage, id, "n1", NOW + 6);
    ask(&stage, "n1", NOW + 7);
    assert_int_equal(tick(&stage, NOW + 8, 1)->state, DECISION_ORDERED);
    site_orders_fini(&stage.orders);
}

static void an_order_without_an_end_expires(void **state)
{
    struct stage stage = { .count = 0 };

    (void)state;
    site_orders_init(&stage.orders);
    ask(&stage, "n1", NOW);
    tick(&stage, NOW, 1);
    tick(&stage, NOW + SITE_ORDER_NS, 0);
    assert_false(site_orders_are_due(&stage.orders, NOW + SITE_ORDER_NS));
    assert_true(site_orders_are_due(&stage.orders, NOW + 2 * SITE_ORDER_NS));
    assert_int_equal(tick(&stage, NOW + 2 * SITE_ORDER_NS, 1)->state, DECISION_EXPIRED);
    assert_non_null(strstr(stage.said[0].why, "no executor began it"));
    tick(&stage, NOW + 3 * SITE_ORDER_NS, 0);
    site_orders_fini(&stage.orders);
}

static void the_budget_holds_for_an_hour(void **state)
{
    struct stage stage = { .count = 0 };

    (void)state;
    site_orders_init(&stage.orders);
    site_orders_budget(&stage.orders, 2);
    ask(&stage, "n1", NOW);
    ask(&stage, "n2", NOW + 1);
    ask(&stage, "n3", NOW + 2);
    tick(&stage, NOW + 3, 3);
    assert_int_equal(stage.said[1].state, DECISION_ORDERED);
    assert_int_equal(stage.said[2].state, DECISION_EXPIRED);
    assert_non_null(strstr(stage.said[2].why, "budget is used up: 2 inspections"));
    ask(&stage, "n3", NOW + 3600 * NS_PER_S);
    tick(&stage, NOW + 3601 * NS_PER_S, 3); /* the first two have expired */
    assert_int_equal(stage.said[2].state, DECISION_ORDERED);
    site_orders_fini(&stage.orders);
}

/* A node says hello. */
static void log_hello(struct site_log *log)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = { .kind = SENDER_AGENT, .node = "n1", .real_ns = time_real_ns() };
    struct frame frame = { .type = FRAME_HELLO, .version = FRAME_VERSION, .boot = 1 };

    frame.sender = hash64(0, "node-n1", 7);
    fact_hello_put(&payload, &hello);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    assert_int_equal(site_log_take(log, &frame, 1, NULL), 0);
}

static void log_open(const char *path, struct site_log **ret)
{
    struct site_log_counts counts;

    assert_int_equal(site_log_open(path, ret, NULL), 0);
    site_log_counts(*ret, &counts);
    assert_int_equal(counts.different, 0);
}

static void a_log_replays_with_requests_budgets_and_decisions(void **state)
{
    char base[] = "/tmp/test-site-orders-XXXXXX", path[64], old[72];
    struct request request = { .kind = REQUEST_INSPECT, .who = "admin", .text = "n1" };
    const struct site_orders *orders;
    struct site_log_counts counts;
    struct site_log *log;
    char id[DECISION_ID];

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/site.lsf", base);
    snprintf(old, sizeof(old), "%s.old", path);
    log_open(path, &log);
    log_hello(log);
    assert_int_equal(site_log_set(log, SITE_BUDGET, 1, NULL), 0);
    assert_int_equal(site_log_request(log, &request, NULL), 0);
    site_log_close(log); /* killed before the tick: the next life decides */
    log_open(path, &log);
    assert_int_equal(site_log_on_disk(log), 0);
    assert_int_equal(site_log_turn(log, NULL), 0);
    assert_int_equal(site_log_on_disk(log), 1);
    memcpy(id, site_core_orders(site_log_core(log))->order[0].decision.id, sizeof(id));
    assert_int_equal(site_log_request(log, &request, NULL), 0);
    assert_int_equal(site_log_turn(log, NULL), 0);
    site_log_close(log);

    log_open(path, &log);
    orders = site_core_orders(site_log_core(log));
    site_log_counts(log, &counts);
    assert_int_equal(counts.equal, 4); /* the state of the node, its life, and two decisions */
    assert_int_equal(orders->count, 2);
    assert_string_equal(orders->order[0].decision.id, id);
    assert_int_equal(orders->order[1].decision.state, DECISION_EXPIRED);
    assert_int_equal(site_log_on_disk(log), 1);

    /* A new log goes on with what is open. */
    assert_int_equal(site_log_rotate(log, 0, NULL), -ESTALE);
    site_log_close(log);
    log_open(path, &log);
    orders = site_core_orders(site_log_core(log));
    assert_int_equal(orders->count, 2);
    assert_true(site_order_is_open(&orders->order[0], time_real_ns()));
    assert_string_equal(orders->order[0].decision.id, id);
    site_log_close(log);
    unlink(path);
    unlink(old);
    rmdir(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_one_open_order),
        cmocka_unit_test(an_order_without_an_end_expires),
        cmocka_unit_test(the_budget_holds_for_an_hour),
        cmocka_unit_test(a_log_replays_with_requests_budgets_and_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
