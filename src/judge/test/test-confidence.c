/* test-confidence.c - what makes a verdict less sure.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/confidence.h"
#include "judge/test/bench.h"

static double sure(uint32_t dp, bool host_view, struct confidence basis)
{
    struct lab_config config = layout(1, 1, dp);
    struct bench bench;
    double ret;

    config.host_view = host_view;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 3);
    ret = confidence_of(&bench.judge, &basis);
    bench_close(&bench);
    return ret;
}

static void fewer_peers_make_it_less_sure(void **state)
{
    struct confidence basis = { .best = 1 };

    (void)state;
    assert_true(sure(4, false, basis) > 0.9);
    assert_true(sure(2, false, basis) < sure(4, false, basis));
    assert_true(sure(1, false, basis) <= 0.5); /* nobody to compare it with */
}

static void an_excess_near_its_limit_makes_it_less_sure(void **state)
{
    double before = 0;

    (void)state;
    for (double margin = 1; margin <= 2; margin += 0.5) {
        double now = sure(4, false, (struct confidence){ .best = 1, .margin = margin });

        assert_true(now > before && now >= 0.7);
        before = now;
    }
    assert_true(before > 0.9);
}

/* On a machine that others use, steps of a job are long for many reasons. */
static void hosts_in_place_of_devices_make_it_less_sure(void **state)
{
    (void)state;
    assert_true(sure(4, true, (struct confidence){ .best = 1 }) <= 0.7);
    assert_true(sure(4, true, (struct confidence){ .best = 1, .against = AGAINST_JOB }) < 0.5);
    assert_true(sure(4, false, (struct confidence){ .best = 0.7, .against = AGAINST_JOB }) > 0.6);
}

static void what_no_replay_prices_is_less_sure(void **state)
{
    (void)state;
    assert_true(sure(4, false, (struct confidence){ .best = 1, .unpriced = true }) < 0.7);
}

static void no_basis_makes_weak_evidence_strong(void **state)
{
    (void)state;
    for (int against = AGAINST_PEERS; against <= AGAINST_JOB; against++) {
        struct confidence basis = { .best = 0.3,
                                    .margin = 9,
                                    .against = (enum confidence_against)against };

        assert_true(sure(8, false, basis) <= 0.3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_peers_make_it_less_sure),
        cmocka_unit_test(an_excess_near_its_limit_makes_it_less_sure),
        cmocka_unit_test(hosts_in_place_of_devices_make_it_less_sure),
        cmocka_unit_test(what_no_replay_prices_is_less_sure),
        cmocka_unit_test(no_basis_makes_weak_evidence_strong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
