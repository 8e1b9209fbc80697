/* test-noise.c - recorded noise keeps what it was recorded with, and a job in it is judged as it should be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "lab/bench/noise/detect_sim.h"
#include "lab/bench/noise/noise_cases.h"
#include "lab/bench/noise/noise_job.h"

static void a_host_plays_blocks_of_the_tape(void **state)
{
    struct noise_tape *tape = calloc(1, sizeof(*tape));
    struct noise_host host = { 0 };
    uint32_t follows = 0;
    struct noise noise;
    double last = -1;

    (void)state;
    assert_non_null(tape);
    tape->steps = 100;
    for (uint32_t step = 0; step < tape->steps; step++) { /* too quiet for a tail */
        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++)
            tape->sample[step][rank].delay = (int16_t)step;
    }
    noise_init(&noise, tape, 3, 1, 0);
    for (int i = 0; i < 1000; i++) {
        struct noise_draw draw[NOISE_RANKS];

        noise_next(&noise, &host, draw);
        for (uint32_t rank = 1; rank < NOISE_RANKS; rank++) /* all ranks the same step */
            assert_true(draw[rank].delay == draw[0].delay);
        follows += fabs(draw[0].delay - last - 1e-4) < 1e-9;
        last = draw[0].delay;
    }
    assert_in_range(follows, 800, 990);
    free(tape);
}

static void tails_go_beyond_the_tape_and_fall_as_they_did(void **state)
{
    struct noise_tape *tape = calloc(1, sizeof(*tape));
    struct noise_host host = { 0 };
    struct rand rand = { 5 };
    uint32_t above = 0, far = 0;
    struct noise noise;

    (void)state;
    assert_non_null(tape);
    tape->steps = NOISE_STEPS_MAX;
    for (uint32_t step = 0; step < tape->steps; step++) {
        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) { /* index 2, from 1 % on */
            double value = 100 / sqrt(1 - rand_unit(&rand));

            tape->sample[step][rank].host = (int16_t)MIN(value, 30000);
        }
    }
    noise_init(&noise, tape, 3, 1, 0);
    assert_true(noise.host.index > 1.5 && noise.host.index < 2.6);
    for (int i = 0; i < 20000; i++) {
        struct noise_draw draw[NOISE_RANKS];

        noise_next(&noise, &host, draw);
        for (uint32_t rank = 0; rank < NOISE_RANKS; rank++) {
            above += draw[rank].host > noise.host.from;
            far += draw[rank].host > 10 * noise.host.from;
        }
    }
    /* Two of a hundred are in the tail, and of these one of a hundred ten times as far out. */
    assert_in_range(above, 20000 * 8 * 0.015, 20000 * 8 * 0.025);
    assert_in_range(far, above / 400, above / 30);
    free(tape);
}

static void the_upper_bound_is_poissons(void **state)
{
    (void)state;
    assert_true(fabs(noise_upper_95(0) - 2.996) < 0.001);
    assert_true(fabs(noise_upper_95(1) - 4.744) < 0.001);
    assert_true(fabs(noise_upper_95(10) - 16.962) < 0.001);
}

static void nothing_is_said_in_noise_and_faults_in_it_are_found(void **state)
{
    struct noise_job_settings settings = { .ranks = 64,
                                           .steps = 500,
                                           .seed = 2,
                                           .step_s = 6,
                                           .often = 10,
                                           .with_faults = true,
                                           .tape = &noise_tape_recorded };
    struct noise_job_result *result = calloc(1, sizeof(*result));
    struct err err = { "" };

    (void)state;
    assert_non_null(result);
    assert_int_equal(noise_job_run(&settings, result, &err), 0);
    assert_int_equal(result->steps, 500);
    if (result->alarms)
        fail_msg("step %llu: %s", (unsigned long long)result->alarm[0].step, result->alarm[0].text);
    assert_int_equal(result->faults, NOISE_FAULTS);
    for (uint32_t i = 0; i < result->faults; i++) {
        if (!result->fault[i].found || result->fault[i].wrong)
            fail_msg("%s: found %d, %u others", result->fault[i].name, result->fault[i].found,
                     result->fault[i].wrong);
    }
    free(result);
}

static void the_sequential_test_is_hardly_later_than_any_must_be(void **state)
{
    const struct detect_sim_settings settings = {
        .seed = 1, .step_s = 6, .runs = 100, .steps = 40000
    };
    struct detect_sim sim;

    (void)state;
    detect_sim_run(&settings, &sim);
    assert_int_equal(sim.delays, DETECT_SIM_DELAYS);
    assert_int_equal(sim.alarm_rows, DETECT_SIM_ALARMS);
    for (uint32_t i = 0; i < sim.delays; i++)
        assert_true(sim.delay[i].mean <= DETECT_SIM_LATE * sim.delay[i].bound);
    for (uint32_t i = 0; i < sim.alarm_rows; i += 2) /* in normal noise */
        assert_true(sim.alarms[i].raised <= sim.alarms[i].asked);
}

/* Jobs that the judges were not made with: exactly the right ranks, and nothing about those without a fault. */
static void small_jobs_are_judged_rightly(void **state)
{
    struct noise_cases_result *result = calloc(1, sizeof(*result));
    uint32_t cases = 0, ranks = 0, layer = 0, early = 0;

    (void)state;
    assert_non_null(result);
    assert_int_equal(noise_cases_run(11, 96, result, NULL), 0);
    for (int kind = 0; kind < NOISE_CASE_KINDS; kind++) {
        const struct noise_case_row *row = &result->row[kind];

        assert_int_equal(row->cases, 96 / NOISE_CASE_KINDS);
        cases += kind == NOISE_CASE_NONE ? 0 : row->cases;
        ranks += row->ranks;
        layer += row->layer;
        early += row->early;
    }
    assert_true(ranks >= 0.95 * cases);
    assert_true(layer >= 0.95 * cases);
    assert_true(early <= 1);
    free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_jobs_are_judged_rightly),
        cmocka_unit_test(a_host_plays_blocks_of_the_tape),
        cmocka_unit_test(tails_go_beyond_the_tape_and_fall_as_they_did),
        cmocka_unit_test(the_upper_bound_is_poissons),
        cmocka_unit_test(nothing_is_said_in_noise_and_faults_in_it_are_found),
        cmocka_unit_test(the_sequential_test_is_hardly_later_than_any_must_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
