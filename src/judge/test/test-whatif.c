/* test-whatif.c - traces whose answer is known by arithmetic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "judge/compare/whatif.h"

#define MS INT64_C(1000000)

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static void add(struct optrace *trace, unsigned kind, uint32_t dp, uint32_t stage, uint32_t seq,
                int64_t start_ms, int64_t duration_ms)
{
    struct optrace_row row = { .step = 1,
                               .start_ns = start_ms * MS,
                               .duration_ns = duration_ms * MS,
                               .dp = dp,
                               .stage = stage,
                               .rank = 10 * stage + dp,
                               .seq = seq,
                               .chunk = kind <= OPTRACE_BACKWARD ? 0 : -1,
                               .gchunk = kind <= OPTRACE_BACKWARD ? (int32_t)stage : -1,
                               .kind = (uint8_t)kind };

    assert_int_equal(optrace_add(trace, &row), 0);
}

static void run(struct optrace *trace, struct whatif_plan *plan, struct whatif *whatif)
{
    struct err err = { "" };

    assert_int_equal(whatif_plan_pipeline(trace, plan, &err), 0);
    assert_int_equal(whatif_run(plan, whatif), 0);
    optrace_fini(trace);
}

static void let_go(struct whatif_plan *plan, struct whatif *whatif)
{
    whatif_plan_fini(plan);
    whatif_fini(whatif);
}

#define close_to(value, expected) assert_true(fabs((value) - (expected)) < 1e-9)

/* Two replicas compute 100 and 160 ms, meet for 20 ms, 10 ms of optimizer.  Ideal: 130 + 20 + 10. */
static void one_slow_replica(struct optrace *trace)
{
    for (uint32_t dp = 0; dp < 2; dp++) {
        int64_t compute = dp ? 160 : 100;

        add(trace, OPTRACE_FORWARD, dp, 0, 0, 0, compute);
        add(trace, OPTRACE_GRADS, dp, 0, 0, compute + 5, 180 - compute); /* all end at 185 */
        add(trace, OPTRACE_OPTIMIZER, dp, 0, 0, 185, 10);
    }
}

static void the_slow_replica_has_all_the_loss(void **state)
{
    struct optrace trace = { 0 };
    struct whatif_plan plan;
    struct whatif whatif;

    (void)state;
    one_slow_replica(&trace);
    run(&trace, &plan, &whatif);
    close_to(whatif.mean.traced, 0.195);
    close_to(whatif.mean.no_delay, 0.190); /* the 5 ms before the collective are a launch delay */
    close_to(whatif.mean.ideal, 0.160);
    close_to(whatif.S, 190.0 / 160);
    close_to(whatif.waste, 1 - 160.0 / 190);
    close_to(whatif.launch, 195.0 / 190);
    close_to(whatif.S_of[WHATIF_DP][0], 1.0);
    close_to(whatif.S_of[WHATIF_DP][1], 190.0 / 160);
    close_to(whatif.S_of[WHATIF_KIND][OPTRACE_FORWARD], 190.0 / 160);
    close_to(whatif.S_of[WHATIF_KIND][OPTRACE_GRADS], 1.0);
    assert_int_equal(whatif.worst_count, 1);
    assert_int_equal(plan.worker[whatif.worst[0]].rank, 1);
    close_to(whatif.worst_workers.share, 1.0);
    close_to(whatif.worst_workers.without, 0.160);
    close_to(whatif.worst_workers.added, 1.0);
    let_go(&plan, &whatif);
}

/* Two stages, two micro-batches, no time on the wire: a send and its receive end together.  Stage 1
 * takes 30 ms a forward and 30 a backward, stage 0 10 and 10.
 */
static void two_stages(struct optrace *trace)
{
    add(trace, OPTRACE_FORWARD, 0, 0, 0, 0, 10);
    add(trace, OPTRACE_FORWARD_SEND, 0, 0, 0, 10, 0);
    add(trace, OPTRACE_FORWARD, 0, 0, 1, 10, 10);
    add(trace, OPTRACE_FORWARD_SEND, 0, 0, 1, 20, 50);
    add(trace, OPTRACE_BACKWARD_RECV, 0, 0, 0, 20, 50);
    add(trace, OPTRACE_BACKWARD, 0, 0, 0, 70, 10);
    add(trace, OPTRACE_BACKWARD_RECV, 0, 0, 1, 80, 50);
    add(trace, OPTRACE_BACKWARD, 0, 0, 1, 130, 10);
    add(trace, OPTRACE_FORWARD_RECV, 0, 1, 0, 0, 10);
    add(trace, OPTRACE_FORWARD, 0, 1, 0, 10, 30);
    add(trace, OPTRACE_BACKWARD, 0, 1, 0, 40, 30);
    add(trace, OPTRACE_BACKWARD_SEND, 0, 1, 0, 70, 0);
    add(trace, OPTRACE_FORWARD_RECV, 0, 1, 1, 70, 0);
    add(trace, OPTRACE_FORWARD, 0, 1, 1, 70, 30);
    add(trace, OPTRACE_BACKWARD, 0, 1, 1, 100, 30);
    add(trace, OPTRACE_BACKWARD_SEND, 0, 1, 1, 130, 0);
}

/* With every op at 20 ms: forward 0 ends at 20 on stage 0 and at 40 on stage 1, then three more on
 * stage 1 until 100, and the last backward of stage 0 until 120.
 */
static void a_heavy_last_stage_is_found(void **state)
{
    struct optrace trace = { 0 };
    struct whatif_plan plan;
    struct whatif whatif;

    (void)state;
    two_stages(&trace);
    run(&trace, &plan, &whatif);
    assert_int_equal(plan.unpaired, 0);
    close_to(whatif.mean.traced, 0.140);
    close_to(whatif.mean.no_delay, 0.140);
    close_to(whatif.mean.ideal, 0.120);
    close_to(whatif.S_of[WHATIF_STAGE][1], 160.0 / 120); /* 20 + 4 * 30 + 20 */
    close_to(whatif.S_of[WHATIF_STAGE][0], 100.0 / 120); /* 10 + 4 * 20 + 10 */
    close_to(whatif.last_stage.without, 0.100);
    close_to(whatif.last_stage.share, 2.0); /* it hides that stage 0 is light */
    let_go(&plan, &whatif);
}

static void an_even_job_loses_nothing(void **state)
{
    struct optrace trace = { 0 };
    struct whatif_plan plan;
    struct whatif whatif;

    (void)state;
    for (uint32_t dp = 0; dp < 3; dp++) {
        add(&trace, OPTRACE_FORWARD, dp, 0, 0, 0, 50);
        add(&trace, OPTRACE_BACKWARD, dp, 0, 0, 50, 70);
        add(&trace, OPTRACE_CLIP, dp, 0, 0, 120, 7);
    }
    run(&trace, &plan, &whatif);
    close_to(whatif.S, 1.0);
    close_to(whatif.waste, 0.0);
    close_to(whatif.launch, 1.0);
    close_to(whatif.worst_workers.share, 0.0);
    let_go(&plan, &whatif);
}

/* Overlapped: the reduce-scatter of a chunk begins with its last backward, the layer norms wait for it. */
static void overlapped_gradients_follow_their_chunk(void **state)
{
    struct optrace trace = { 0 };
    struct whatif_plan plan;
    struct whatif whatif;

    (void)state;
    add(&trace, OPTRACE_BACKWARD, 0, 0, 0, 0, 10);
    add(&trace, OPTRACE_GRADS, 0, 0, 0, 10, 100);
    trace.row[trace.count - 1].chunk = 0;
    add(&trace, OPTRACE_FORWARD, 0, 0, 0, 10, 30);
    trace.row[trace.count - 1].chunk = 1;
    add(&trace, OPTRACE_LAYERNORM, 0, 0, 0, 110, 1);
    add(&trace, OPTRACE_SEPARATE, 0, 0, 0, 111, 2);
    run(&trace, &plan, &whatif);
    close_to(whatif.mean.no_delay, 0.113); /* not 10 + 30 + 100 + 3 */
    let_go(&plan, &whatif);
}

static void refused(struct optrace *trace, const char *words)
{
    struct err err = { "" };
    struct whatif_plan plan;

    assert_int_equal(whatif_plan_pipeline(trace, &plan, &err), -EINVAL);
    assert_non_null(strstr(err.text, words));
    optrace_fini(trace);
}

static void what_is_wrong_with_a_trace_is_said(void **state)
{
    struct optrace trace = { 0 };

    (void)state;
    refused(&trace, "0 ops");
    add(&trace, OPTRACE_FORWARD, 0, 0, 0, 0, 1);
    add(&trace, OPTRACE_FORWARD, 0, 0, 0, 5, 1);
    refused(&trace, "step 1 of rank 0 has forward-compute 0 twice");
    add(&trace, OPTRACE_FORWARD, 0, 0, 0, 0, 1);
    add(&trace, OPTRACE_FORWARD, 3, 5, 0, 0, 1);
    refused(&trace, "no op of some worker");
    add(&trace, OPTRACE_FORWARD, 0, 0, 0, 0, 1);
    add(&trace, OPTRACE_FORWARD, 0, 0, 1, 0, 1);
    trace.row[1].rank = 7;
    refused(&trace, "ranks 0 and 7 are both dp_rank 0 of stage 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_replica_has_all_the_loss),
        cmocka_unit_test(a_heavy_last_stage_is_found),
        cmocka_unit_test(an_even_job_loses_nothing),
        cmocka_unit_test(overlapped_gradients_follow_their_chunk),
        cmocka_unit_test(what_is_wrong_with_a_trace_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
