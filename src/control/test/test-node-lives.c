/* test-node-lives.c - what takes a node out, and what does not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/nodes/site_core.h"
#include "core/clean.h"
#include "core/time.h"

#define NOW (1700000000 * NS_PER_S)
#define DAY_NS (24 * 3600 * NS_PER_S)

struct heard {
    size_t drains;
    struct decision last;   /* about nodes */
    struct decision repair; /* action 0: none */
    struct node_life life;
};

static void lives_core_clean(struct site_core **core)
{
    site_core_destroy(*core);
}

static void hear(void *arg, uint16_t type, const struct buf *payload)
{
    struct reader in = reader_of(payload->data, payload->size);
    struct heard *heard = arg;

    if (type == FRAME_NODE_LIFE)
        assert_int_equal(node_life_get(in, &heard->life), 0);
    if (type == FRAME_DECISION) {
        assert_int_equal(decision_get(in, &heard->last), 0);
        if (heard->last.action == ACTION_RESET_GPU || heard->last.action == ACTION_REBOOT)
            heard->repair = heard->last;
        heard->drains +=
            heard->last.action == ACTION_DRAIN && heard->last.state == DECISION_ORDERED;
    }
}

static void tick(struct site_core *core, int64_t real_ns, struct heard *heard)
{
    *heard = (struct heard){ .drains = 0 };
    assert_int_equal(site_core_tick(core, &(struct fact_tick){ .real_ns = real_ns }, hear, heard),
                     0);
}

static void put(struct site_core *core, uint16_t type, struct buf *payload, bool own)
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

static void set(struct site_core *core, const char *name, double value)
{
    struct fact_setting setting = { .real_ns = NOW, .value = value, .who = "test" };
    struct buf payload = { 0 };

    snprintf(setting.name, sizeof(setting.name), "%s", name);
    fact_setting_put(&payload, &setting);
    put(core, FRAME_SETTING, &payload, true);
}

static struct site_core *core_that_acts(void)
{
    struct site_core *core = NULL;

    assert_int_equal(site_core_create(&core), 0);
    set(core, SITE_MODE, POLICY_ACT);
    set(core, SITE_BUDGET_SHARE, 1);
    return core;
}

static void find_at(struct site_core *core, const char *device, unsigned severity, unsigned class,
                    unsigned origin, int64_t real_ns)
{
    struct finding finding = { .real_ns = real_ns,
                               .kind = FINDING_NVME,
                               .class = (uint8_t) class,
                               .severity = (uint8_t)severity,
                               .origin = (uint8_t)origin,
                               .count = 1,
                               .node = "n1",
                               .text = "I/O timeout" };
    struct buf payload = { 0 };

    snprintf(finding.device, sizeof(finding.device), "%s", device);
    finding_identify(&finding);
    finding_put(&payload, &finding);
    put(core, FRAME_FINDING, &payload, false);
}

static void find(struct site_core *core, unsigned severity, unsigned class, unsigned origin,
                 int64_t real_ns)
{
    find_at(core, "", severity, class, origin, real_ns);
}

static void judge(struct site_core *core, unsigned layer)
{
    struct verdict verdict = { .id = "v-1",
                               .run = "job-1",
                               .kind = VERDICT_CHECKPOINT_STALL,
                               .layer = (uint8_t)layer,
                               .cause = "slow disk",
                               .node_count = 1,
                               .node = { "n1" },
                               .confidence = 0.9,
                               .since_real_ns = NOW,
                               .decided_real_ns = NOW };
    struct buf payload = { 0 };

    verdict_because(&verdict, "ring", "slow");
    verdict_put(&payload, &verdict);
    put(core, FRAME_VERDICT, &payload, true);
}

/* What root's daemon has seen there. */
static void own(struct site_core *core, const char *run)
{
    struct owned_run owned = { .uid = 1001 };
    struct environment environment;
    struct buf payload = { 0 };

    snprintf(owned.run, sizeof(owned.run), "%s", run);
    assert_int_equal(node_owners_environment("n1", &owned, &environment), 0);
    environment_put(&payload, &environment);
    environment_fini(&environment);
    put(core, FRAME_ENVIRONMENT, &payload, false);
}

static void check(struct site_core *core, const char *node, unsigned state)
{
    struct check result = {
        .real_ns = NOW, .state = (uint8_t)state, .stage = "prolog", .name = "disk-rate"
    };
    struct buf payload = { 0 };

    snprintf(result.node, sizeof(result.node), "%s", node);
    check_put(&payload, &result);
    put(core, FRAME_CHECK, &payload, false);
}

static void a_verdict_alone_drains_nothing(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    check(core, "n1", CHECK_OK);
    own(core, "job-1");
    judge(core, LAYER_STORAGE);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 0);
    assert_int_equal(heard.life.state, NODE_SUSPECT);
    find(core, FINDING_FATAL, FINDING_CLASS_STORAGE, FINDING_FROM_USER, NOW);
    tick(core, NOW + 1, &heard);
    assert_int_equal(heard.drains, 0);
}

static void a_program_that_crashes_says_nothing_about_its_node(void **state)
{
    static const unsigned layers[] = { LAYER_UNKNOWN, LAYER_USER_CODE, LAYER_FRAMEWORK };

    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++) {
        CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
        struct heard heard;

        own(core, "job-1");
        judge(core, layers[i]);
        tick(core, NOW, &heard);
        assert_int_equal(heard.life.state, NODE_IN_SERVICE);
    }
}

/* Any user can let a run of his say that its ranks are there. */
static void a_verdict_of_a_run_elsewhere_says_nothing(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    own(core, "job-2");
    find(core, FINDING_ERROR, FINDING_CLASS_STORAGE, FINDING_FROM_KERNEL, NOW);
    judge(core, LAYER_STORAGE);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 0);
    assert_null(strstr(heard.life.why, "v-1"));
}

static void a_finding_that_fits_makes_it_evidence(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    own(core, "job-1");
    find(core, FINDING_ERROR, FINDING_CLASS_STORAGE, FINDING_FROM_KERNEL, NOW);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 0); /* an error alone does not suffice */
    judge(core, LAYER_GPU);
    tick(core, NOW + 1, &heard);
    assert_int_equal(heard.drains, 0); /* nor with a verdict about something else */
    judge(core, LAYER_STORAGE);
    tick(core, NOW + 2, &heard);
    assert_int_equal(heard.drains, 1);
    assert_string_equal(heard.last.why, "lockstep: checkpoint-stall slow-disk v-1");
}

/* An image of a container or of a user: the node has no such part. */
static void a_broken_image_takes_no_node_out(void **state)
{
    static const char *const images[] = { "loop0-8", "loop12", "nbd3", "zram0", "ram1" };
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    check(core, "n1", CHECK_OK);
    judge(core, LAYER_STORAGE);
    for (size_t i = 0; i < COUNT(images); i++) {
        find_at(core, images[i], FINDING_FATAL, FINDING_CLASS_STORAGE, FINDING_FROM_KERNEL, NOW);
        tick(core, NOW + 1, &heard);
        assert_int_equal(heard.drains, 0);
    }
    find_at(core, "loopback", FINDING_FATAL, FINDING_CLASS_STORAGE, FINDING_FROM_KERNEL, NOW);
    tick(core, NOW + 2, &heard); /* a name that only begins so */
    assert_int_equal(heard.drains, 1);
}

static void many_nodes_that_fail_one_check_are_a_fault_of_the_site(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    check(core, "n1", CHECK_FAILED);
    check(core, "n2", CHECK_FAILED);
    check(core, "n3", CHECK_OK);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 0);
    assert_int_equal(heard.last.action, ACTION_ALERT);
}

static void faults_of_the_site_are_named_while_they_last(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    char name[CHECK_SITE_FAULTS][FACT_NAME], node[8];

    (void)state;
    check(core, "n1", CHECK_FAILED);
    assert_int_equal(node_lives_site_faults(core, NOW, name, COUNT(name)),
                     0); /* one node is one node */
    check(core, "n2", CHECK_FAILED);
    assert_int_equal(node_lives_site_faults(core, NOW, name, COUNT(name)), 1);
    assert_string_equal(name[0], "disk-rate");
    assert_int_equal(node_lives_site_faults(core, NOW + 601 * NS_PER_S, name, COUNT(name)), 0);
    for (int i = 3; i < 41; i++) { /* of forty, two are no more than 5 % */
        snprintf(node, sizeof(node), "n%d", i);
        check(core, node, CHECK_OK);
    }
    assert_int_equal(node_lives_site_faults(core, NOW, name, COUNT(name)), 0);
    check(core, "n3", CHECK_FAILED);
    assert_int_equal(node_lives_site_faults(core, NOW, name, COUNT(name)), 1);
}

static void controller_says(struct site_core *core, const char *id, unsigned result, bool ended,
                            int64_t real_ns)
{
    struct outcome outcome = { .result = (uint8_t)result,
                               .part = SITE_CONTROLLER,
                               .step = DECISION_NO_STEP,
                               .began_real_ns = real_ns,
                               .ended_real_ns = ended ? real_ns : 0 };
    struct buf payload = { 0 };

    snprintf(outcome.decision, sizeof(outcome.decision), "%s", id);
    outcome_put(&payload, &outcome);
    put(core, FRAME_OUTCOME, &payload, true);
}

static void lose(struct site_core *core, const char *run)
{
    struct verdict verdict = { .id = "lost-1",
                               .kind = VERDICT_NODE_FAULT,
                               .layer = LAYER_UNKNOWN,
                               .cause = NODE_LOST,
                               .node_count = 1,
                               .node = { "n1" },
                               .confidence = 1,
                               .since_real_ns = NOW,
                               .decided_real_ns = NOW };
    struct buf payload = { 0 };

    snprintf(verdict.run, sizeof(verdict.run), "%s", run);
    verdict_because(&verdict, "launcher", "node n1 is lost");
    verdict_put(&payload, &verdict);
    put(core, FRAME_VERDICT, &payload, true);
}

static void a_node_that_a_run_has_lost_is_reported_dead(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    own(core, "job-4211");
    tick(core, NOW - NS_PER_S, &heard);
    lose(core, "job-4211");
    tick(core, NOW, &heard);
    assert_int_equal(heard.last.action, ACTION_DOWN);
    assert_int_equal(heard.last.state, DECISION_ORDERED);
    assert_int_equal(heard.last.argument, 4211);
    assert_string_equal(heard.last.why, "lockstep: node-fault lost lost-1");
    tick(core, NOW + 3600 * NS_PER_S, &heard); /* the order has expired: no executor began it */
    assert_int_not_equal(heard.life.state, NODE_OUT);
}

static void orders_that_took_nothing_out_use_up_no_budget(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    set(core, SITE_BUDGET_DRAINS, 1);
    own(core, "job-4211");
    lose(core, "job-4211");
    tick(core, NOW, &heard);
    assert_int_equal(heard.last.action, ACTION_DOWN);
    controller_says(core, heard.last.id, OUTCOME_REFUSED, true, NOW + 1); /* it answers */
    tick(core, NOW + 700 * NS_PER_S, &heard);
    assert_int_equal(heard.drains, 0);
    check(core, "n2", CHECK_FAILED);
    tick(core, NOW + 701 * NS_PER_S, &heard);
    assert_int_equal(heard.drains, 1);
}

static void a_node_that_is_heard_of_is_not_dead(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    own(core, "job-4211");
    find(core, FINDING_INFO, FINDING_CLASS_HOST, FINDING_FROM_KERNEL, NOW + 1);
    lose(core, "job-4211");
    tick(core, NOW + 2, &heard);
    assert_int_equal(heard.last.action, ACTION_NONE);
}

static void a_node_is_not_dead_because_of_a_run_elsewhere(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    own(core, "job-1");
    lose(core, "job-4211");
    tick(core, NOW, &heard);
    assert_int_equal(heard.last.action, ACTION_NONE);
}

/* The controller died after it had begun: its successor looks at the node, however late, and knows whose drain it is. */
static void what_the_controller_has_begun_does_not_expire(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;
    struct decision drain;

    (void)state;
    check(core, "n1", CHECK_FAILED);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 1);
    drain = heard.last;
    controller_says(core, drain.id, OUTCOME_DONE, false, NOW);
    tick(core, NOW + 3600 * NS_PER_S, &heard);
    assert_int_equal(heard.last.action, ACTION_NONE); /* no news of it */
    controller_says(core, drain.id, OUTCOME_DONE, true, NOW + 3600 * NS_PER_S);
    tick(core, NOW + 3600 * NS_PER_S + 1, &heard);
    assert_int_equal(heard.life.state, NODE_OUT);
    assert_string_equal(heard.life.reason, drain.why);
}

static void find_repair(struct site_core *core, unsigned action, unsigned origin, int64_t real_ns)
{
    struct finding finding = { .real_ns = real_ns,
                               .kind = FINDING_XID,
                               .class = FINDING_CLASS_HARDWARE,
                               .severity = FINDING_FATAL,
                               .origin = (uint8_t)origin,
                               .action = (uint8_t)action,
                               .count = 1,
                               .node = "n1",
                               .device = "0001:3b:00",
                               .text = "GSP does not respond" };
    struct buf payload = { 0 };

    finding_identify(&finding);
    finding_put(&payload, &finding);
    put(core, FRAME_FINDING, &payload, false);
}

/* Drained by us because of it, at NOW + 1 s. */
static void drained_for(struct site_core *core, unsigned action, unsigned origin)
{
    struct heard heard;

    find_repair(core, action, origin, NOW);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 1);
    controller_says(core, heard.last.id, OUTCOME_DONE, true, NOW + NS_PER_S);
}

static void a_gpu_is_reset_only_if_the_site_allows_it(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    set(core, SITE_VERIFY_AT_ONCE, 0);
    drained_for(core, ACTION_RESET_GPU, FINDING_FROM_KERNEL);
    tick(core, NOW + 2 * NS_PER_S, &heard);
    assert_int_equal(heard.repair.action, ACTION_RESET_GPU);
    assert_int_equal(heard.repair.state, DECISION_DRY_RUN);
    assert_string_equal(heard.repair.why,
                        "--repair reset-gpu was not given; xid of 0001:3b:00: GSP "
                        "does not respond");
    set(core, SITE_REPAIR, SITE_REPAIR_REBOOT);
    assert_false(site_core_is_due(core, NOW + 3 * NS_PER_S));
    set(core, SITE_REPAIR, SITE_REPAIR_RESET_GPU);
    assert_true(site_core_is_due(core, NOW + 3 * NS_PER_S));
    tick(core, NOW + 3 * NS_PER_S, &heard);
    assert_int_equal(heard.repair.action, ACTION_RESET_GPU);
    assert_int_equal(heard.repair.state, DECISION_ORDERED);
    assert_int_equal(heard.repair.argument, 0x13b00);
    tick(core, NOW + 4 * NS_PER_S, &heard);
    assert_int_equal(heard.repair.action, 0);
    tick(core, NOW + 4000 * NS_PER_S, &heard); /* nobody did it in time; it is not ordered again */
    assert_int_equal(heard.repair.state, DECISION_EXPIRED);
    tick(core, NOW + 8000 * NS_PER_S, &heard);
    assert_int_equal(heard.repair.action, 0);
}

static void what_a_user_can_write_repairs_nothing(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    set(core, SITE_REPAIR, SITE_REPAIR_RESET_GPU | SITE_REPAIR_REBOOT);
    find_repair(core, ACTION_REBOOT, FINDING_FROM_USER, NOW);
    for (int i = 0; i < 4; i++) {
        tick(core, NOW + i * NS_PER_S, &heard);
        assert_int_equal(heard.drains, 0);
        assert_int_equal(heard.repair.action, 0);
    }
}

static void a_node_that_a_person_took_out_is_not_rebooted(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct request request = {
        .id = "r-1", .kind = REQUEST_NODE_OUT, .real_ns = NOW, .who = "ops", .text = "n1"
    };
    struct buf payload = { 0 };
    struct heard heard;

    (void)state;
    set(core, SITE_REPAIR, SITE_REPAIR_REBOOT);
    check(core, "n1", CHECK_OK);
    tick(core, NOW, &heard);
    request_put(&payload, &request);
    put(core, FRAME_REQUEST, &payload, true);
    tick(core, NOW, &heard);
    assert_int_equal(heard.drains, 1);
    controller_says(core, heard.last.id, OUTCOME_DONE, true, NOW + NS_PER_S);
    find_repair(core, ACTION_REBOOT, FINDING_FROM_KERNEL, NOW + 2 * NS_PER_S);
    for (int i = 3; i < 6; i++) {
        tick(core, NOW + i * NS_PER_S, &heard);
        assert_int_equal(heard.repair.action, 0);
    }
}

static void a_node_that_is_named_over_weeks_is_a_lemon(void **state)
{
    CLEAN(lives_core_clean) struct site_core *core = core_that_acts();
    struct heard heard;

    (void)state;
    for (int week = 0; week < 3; week++) {
        find(core, FINDING_ERROR, FINDING_CLASS_STORAGE, FINDING_FROM_KERNEL,
             NOW + 7 * week * DAY_NS);
        tick(core, NOW + 7 * week * DAY_NS, &heard);
        assert_int_equal(heard.drains, week == 2);
        if (week < 2) {
            tick(core, NOW + (7 * week + 1) * DAY_NS, &heard); /* it is over */
            assert_int_not_equal(heard.life.state, NODE_SUSPECT);
        }
    }
    assert_non_null(strstr(heard.last.why, "lockstep: lemon nvme "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_alone_drains_nothing),
        cmocka_unit_test(a_program_that_crashes_says_nothing_about_its_node),
        cmocka_unit_test(a_verdict_of_a_run_elsewhere_says_nothing),
        cmocka_unit_test(a_finding_that_fits_makes_it_evidence),
        cmocka_unit_test(a_broken_image_takes_no_node_out),
        cmocka_unit_test(many_nodes_that_fail_one_check_are_a_fault_of_the_site),
        cmocka_unit_test(faults_of_the_site_are_named_while_they_last),
        cmocka_unit_test(a_node_that_a_run_has_lost_is_reported_dead),
        cmocka_unit_test(orders_that_took_nothing_out_use_up_no_budget),
        cmocka_unit_test(a_node_that_is_heard_of_is_not_dead),
        cmocka_unit_test(a_node_is_not_dead_because_of_a_run_elsewhere),
        cmocka_unit_test(what_the_controller_has_begun_does_not_expire),
        cmocka_unit_test(a_gpu_is_reset_only_if_the_site_allows_it),
        cmocka_unit_test(what_a_user_can_write_repairs_nothing),
        cmocka_unit_test(a_node_that_a_person_took_out_is_not_rebooted),
        cmocka_unit_test(a_node_that_is_named_over_weeks_is_a_lemon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
