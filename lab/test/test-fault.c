/* test-fault.c - faults are read as people write them, and refused with the reason.
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
#include "lab/faults/fault.h"
#include "lab/faults/plan.h"
#include "lockstep/probe.h"

static void reads_every_parameter(void **state)
{
    struct fault fault;
    struct err err = { "" };

    (void)state;
    assert_int_equal(
        fault_parse("host-sleep:rank=3,ms=12.5,step=40,steps=8,phase=backward", &fault, &err), 0);
    assert_int_equal(fault.kind->id, FAULT_HOST_SLEEP);
    assert_int_equal(fault.rank, 3);
    assert_true(fault.ms == 12.5);
    assert_int_equal(fault.step, 40);
    assert_int_equal(fault.steps, 8);
    assert_int_equal(fault.phase, LOCKSTEP_PHASE_BACKWARD);
    assert_int_equal(fault_parse("cpu-quota:node=n2,factor=1.25", &fault, &err), 0);
    assert_int_equal(fault.node, 2);
    assert_true(fault.factor == 1.25);
    assert_int_equal(fault_parse("few-channels:comm=tp,rank=3,factor=4,step=9", &fault, &err), 0);
    assert_int_equal(fault.comm, LOCKSTEP_COMM_TP);
    assert_int_equal(fault.step, 9);
    assert_int_equal(fault.attempt, 0);
}

static void one_of_a_later_attempt_begins_with_it(void **state)
{
    struct fault fault;
    char text[FAULT_TEXT];

    (void)state;
    assert_int_equal(fault_parse("few-channels:attempt=1", &fault, NULL), 0);
    assert_int_equal(fault.attempt, 1);
    assert_int_equal(fault.step, 0);
    assert_int_equal(fault.comm, LOCKSTEP_COMM_DP);
    fault_format(&fault, text);
    assert_string_equal(text, "few-channels:factor=8,step=0,attempt=1");
    assert_int_equal(fault_parse("few-channels:step=30,attempt=1", &fault, NULL), 0);
    assert_int_equal(fault.step, 30);
}

static void takes_what_is_not_said_from_the_kind(void **state)
{
    struct fault fault;

    (void)state;
    assert_int_equal(fault_parse("gpu-slow", &fault, NULL), 0);
    assert_true(fault.factor == fault.kind->factor);
    assert_int_equal(fault.step, fault.kind->step);
    assert_int_equal(fault.set, 0);
}

static void says_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        { "gpu-fast", "unknown fault 'gpu-fast'" },
        { "", "unknown fault ''" },
        { "gpu-slow:", "'' is not name=value" },
        { "gpu-slow:rank", "'rank' is not name=value" },
        { "gpu-slow:rank=", "is not name=value" },
        { "gpu-slow:rank=1,", "'' is not name=value" },
        { "gpu-slow:rank=x", "rank 'x' is not a number" },
        { "gpu-slow:rank=-1", "rank '-1' is not a number" },
        { "gpu-slow:rank=1.5", "rank '1.5' is not a whole number" },
        { "gpu-slow:factor=1.2.3", "is not a number" },
        { "gpu-slow:factor=.", "is not a number" },
        { "gpu-slow:factor=0.5", "factor must be 1 to 100, not 0.5" },
        { "gpu-slow:factor=nan", "is not a number" },
        { "gpu-slow:rank=1,rank=2", "rank is given twice" },
        { "gpu-slow:node=1", "unknown parameter 'node'; expected rank, factor, step, steps" },
        { "none:rank=1", "unknown parameter 'rank'; expected none" },
        { "host-sleep:ms=3,factor=2", "ms or factor, not both" },
        { "few-channels:comm=pp", "comm must be dp or tp, not 'pp'" },
        { "gpu-slow:attempt=1", "unknown parameter 'attempt'" },
        { "host-sleep:phase=lunch", "phase must be forward, backward or optimizer" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct fault fault;
        struct err err = { "" };

        assert_true(fault_parse(bad[i].text, &fault, &err) < 0);
        if (!strstr(err.text, bad[i].message))
            fail_msg("%s: said '%s'", bad[i].text, err.text);
    }
}

static void draws_the_same_from_the_same_seed(void **state)
{
    const struct fault_shape shape = { .world = 16, .nodes = 2, .stages = 4, .seed = 7 };
    struct fault one, two, other;
    uint32_t differ = 0;

    (void)state;
    assert_int_equal(fault_parse("kill", &one, NULL), 0);
    two = one;
    assert_int_equal(fault_resolve(&one, &shape, 0, NULL), 0);
    assert_int_equal(fault_resolve(&two, &shape, 0, NULL), 0);
    assert_int_equal(one.rank, two.rank);
    assert_true(one.set & FAULT_RANK);
    for (uint32_t which = 1; which < 20; which++) {
        assert_int_equal(fault_parse("kill", &other, NULL), 0);
        assert_int_equal(fault_resolve(&other, &shape, which, NULL), 0);
        assert_true(other.rank < shape.world);
        differ += other.rank != one.rank;
    }
    assert_true(differ > 10);
}

static void keeps_all_ranks_where_none_is_given(void **state)
{
    const struct fault_shape shape = { .world = 4, .nodes = 1, .stages = 1, .seed = 1 };
    struct fault fault;

    (void)state;
    assert_int_equal(fault_parse("slow-input:ms=5", &fault, NULL), 0);
    assert_int_equal(fault_resolve(&fault, &shape, 0, NULL), 0);
    assert_false(fault.set & FAULT_RANK);
}

static void refuses_what_the_run_does_not_have(void **state)
{
    const struct fault_shape shape = { .world = 4, .nodes = 2, .stages = 1, .seed = 1 };
    struct fault fault;
    struct err err = { "" };

    (void)state;
    assert_int_equal(fault_parse("kill:rank=4", &fault, NULL), 0);
    assert_true(fault_resolve(&fault, &shape, 0, &err) < 0);
    assert_string_equal(err.text, "fault kill: rank 4 does not exist: expected less than 4");
    assert_int_equal(fault_parse("neighbours:node=2", &fault, NULL), 0);
    assert_true(fault_resolve(&fault, &shape, 0, &err) < 0);
    assert_int_equal(fault_parse("heavy-stage", &fault, NULL), 0);
    assert_true(fault_resolve(&fault, &shape, 0, &err) < 0);
    assert_non_null(strstr(err.text, "pp of 2 or more"));
}

static void writes_text_that_reads_back(void **state)
{
    const struct fault_shape shape = { .world = 8, .nodes = 2, .stages = 2, .seed = 3 };
    size_t count;
    const struct fault_kind *kind = fault_kinds(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct fault fault, again;
        char text[FAULT_TEXT], text_again[FAULT_TEXT];

        assert_int_equal(fault_parse(kind[i].name, &fault, NULL), 0);
        assert_int_equal(fault_resolve(&fault, &shape, (uint32_t)i, NULL), 0);
        fault_format(&fault, text);
        assert_int_equal(fault_parse(text, &again, NULL), 0);
        fault_format(&again, text_again);
        assert_string_equal(text, text_again);
        assert_int_equal(again.kind->id, fault.kind->id);
        assert_int_equal(again.rank, fault.rank);
        assert_int_equal(again.step, fault.step);
        assert_true(again.factor == fault.factor);
    }
}

static void acts_from_its_step_for_its_steps(void **state)
{
    struct fault fault;

    (void)state;
    assert_int_equal(fault_parse("gpu-slow:step=10,steps=5", &fault, NULL), 0);
    assert_false(fault_active(&fault, 9));
    assert_true(fault_active(&fault, 10));
    assert_true(fault_active(&fault, 14));
    assert_false(fault_active(&fault, 15));
    fault.steps = 0;
    assert_true(fault_active(&fault, UINT64_MAX));
}

static void grows_to_its_factor_over_its_steps(void **state)
{
    struct fault fault;

    (void)state;
    assert_int_equal(fault_parse("all-slow:factor=2,step=10,over=4", &fault, NULL), 0);
    assert_true(fault_factor(&fault, 10) == 1.25);
    assert_true(fault_factor(&fault, 12) == 1.75);
    assert_true(fault_factor(&fault, 13) == 2);
    assert_true(fault_factor(&fault, 500) == 2);
    assert_int_equal(fault_parse("all-slow:factor=2,step=10", &fault, NULL), 0);
    assert_true(fault_factor(&fault, 10) == 2);
}

static void places_ranks_on_nodes_in_blocks(void **state)
{
    (void)state;
    assert_int_equal(fault_node_of_rank(0, 8, 2), 0);
    assert_int_equal(fault_node_of_rank(3, 8, 2), 0);
    assert_int_equal(fault_node_of_rank(4, 8, 2), 1);
    assert_int_equal(fault_node_of_rank(7, 8, 0), 0);
}

static void a_plan_reads_back_as_it_was_written(void **state)
{
    char path[] = "/tmp/lockstep-test-plan-XXXXXX";
    int fd = mkstemp(path);
    struct fault_plan plan = { .truth = "/tmp/some where/truth", .count = 2 }, again;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(fault_parse("gpu-slow:rank=3,factor=1.1,step=20", &plan.fault[0], NULL), 0);
    assert_int_equal(fault_parse("kill:rank=2,step=60", &plan.fault[1], NULL), 0);
    plan.nodes = 4;
    assert_int_equal(plan_write(path, &plan, NULL), 0);
    assert_int_equal(plan_read(path, &again, NULL), 0);
    unlink(path);
    assert_int_equal(again.nodes, 4);
    assert_string_equal(again.truth, plan.truth);
    assert_int_equal(again.count, 2);
    assert_true(again.fault[0].factor == 1.1);
    assert_int_equal(again.fault[1].step, 60);
}

static void a_bad_plan_names_the_line(void **state)
{
    static const char text[] = "lockstep-plan 1\nfault none\nfault gpu-slow:rank=x\n";
    struct fault_plan plan;
    struct err err = { "" };

    (void)state;
    assert_true(plan_parse(text, sizeof(text) - 1, &plan, &err) < 0);
    assert_string_equal(err.text, "line 3: fault gpu-slow: rank 'x' is not a number");
    assert_true(plan_parse("lockstep-plan 2\n", 16, &plan, &err) < 0);
    assert_true(plan_parse("lockstep-plan 1\nnodes 0", 23, &plan, &err) < 0);
    assert_string_equal(err.text, "line 2: nodes must be 1 to 65535, not '0'");
    assert_true(plan_parse("lockstep-plan 1\nnodes 4x", 24, &plan, &err) < 0);
    assert_true(plan_parse("lockstep-plan 1\nnodes -1", 24, &plan, &err) < 0);
    assert_true(plan_parse("", 0, &plan, &err) < 0);
}

static void truth_adds_up_and_is_read_from_all_ranks(void **state)
{
    char base[] = "/tmp/lockstep-test-truth-XXXXXX", path[80];
    struct fault_plan plan = { .count = 2 };
    struct plan_deed deed[8];

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(plan.truth, sizeof(plan.truth), "%s/truth", base);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct truth *truth;

        assert_int_equal(truth_open(&plan, rank, 1, &truth, NULL), 0);
        truth_add(truth, 1, 20, 5000);
        truth_add(truth, 1, 20, 1000);
        truth_add(truth, 1, 21, 5000);
        truth_flush(truth); /* what stands now stands also if the rank dies */
        assert_int_equal(truth_read(plan.truth, deed, COUNT(deed), NULL), 2 * (rank + 1));
        truth_close(truth);
    }
    assert_int_equal(deed[0].steps, 0);
    assert_int_equal(deed[3].rank, 1);
    assert_int_equal(deed[3].attempt, 1);
    assert_int_equal(deed[3].first_step, 20);
    assert_int_equal(deed[3].steps, 2);
    assert_int_equal(deed[3].injected_ns, 11000);
    for (uint32_t rank = 0; rank < 2; rank++) {
        snprintf(path, sizeof(path), "%s/truth.rank-%u.attempt-1", base, rank);
        assert_int_equal(unlink(path), 0);
    }
    rmdir(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_parameter),
        cmocka_unit_test(one_of_a_later_attempt_begins_with_it),
        cmocka_unit_test(takes_what_is_not_said_from_the_kind),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(draws_the_same_from_the_same_seed),
        cmocka_unit_test(keeps_all_ranks_where_none_is_given),
        cmocka_unit_test(refuses_what_the_run_does_not_have),
        cmocka_unit_test(writes_text_that_reads_back),
        cmocka_unit_test(acts_from_its_step_for_its_steps),
        cmocka_unit_test(grows_to_its_factor_over_its_steps),
        cmocka_unit_test(places_ranks_on_nodes_in_blocks),
        cmocka_unit_test(a_plan_reads_back_as_it_was_written),
        cmocka_unit_test(a_bad_plan_names_the_line),
        cmocka_unit_test(truth_adds_up_and_is_read_from_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
