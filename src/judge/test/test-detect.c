/* test-detect.c - the statistics of the sequential test: how late it is, and how often wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/clean.h"
#include "judge/detect/detect.h"

static double uniform(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return ((double)(*seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2 * log(uniform(seed))) * cos(2 * 3.14159265358979 * uniform(seed));
}

/* Mean of the steps that a rise is open before it is found, with one sound step in four hundred before it. */
static double delay_of(double rise, double bar, uint64_t *seed)
{
    double sum = 0;

    for (int run = 0; run < 200; run++) {
        struct detect detect = { 0 };
        int step = 1;

        for (int before = 0; before < 100; before++)
            detect_step(&detect, normal(seed), bar);
        while (detect_step(&detect, rise + normal(seed), bar) == 0)
            step++;
        sum += step;
    }
    return sum / 200;
}

/* Where a step is noisy by 2, 5 or 10 %, a rank that is 10 % slower is 5, 2 or 1 deviations slower. */
static void is_hardly_later_than_any_test_must_be(void **state)
{
    static const double rises[] = { 0.2, 0.4, 0.5, 0.8, 1, 1.25, 2 }, units[] = { 8, 256, 16384 };
    uint64_t seed = 88172645463325252;

    (void)state;
    for (size_t i = 0; i < COUNT(rises); i++) {
        for (size_t many = 0; many < COUNT(units); many++) {
            double bar = detect_bar(0.1, units[many], 1);
            double bound = 2 * bar / (rises[i] * rises[i]);

            assert_true(delay_of(rises[i], bar, &seed) <= 1.5 * bound + 1);
        }
    }
    /* What is far above the noise is found as soon as one odd step is excluded. */
    assert_true(delay_of(5, detect_bar(0.1, 16384, 1), &seed) < 5);
    assert_true(delay_of(50, detect_bar(0.1, 16384, 1), &seed) <= 3);
}

/* Steps between false alarms: asked for one in 1,000, 10,000 and 100,000 steps of a series. */
static void is_wrong_no_oftener_than_asked_for(void **state)
{
    uint64_t seed = 362436069;

    (void)state;
    for (double between = 1e3; between <= 1e5; between *= 10) {
        double bar = detect_bar(7 * 24 * 3600 / between, 1, 1);
        struct detect detect = { 0 };
        uint32_t alarms = 0;

        for (double step = 0; step < 20 * between; step++) {
            if (detect_step(&detect, normal(&seed), bar) > 0) {
                alarms++;
                detect = (struct detect){ 0 };
            }
        }
        assert_in_range(alarms, 0, 30);
    }
}

static void put(struct detect_past *past, double value, double bar)
{
    const struct detect_rule rule = { .least = 1.4, .bar = bar };

    detect_past_put(past, value, &rule);
}

/* 120 ms of every fourth step are 30 ms of each, whatever the median says. */
static void what_comes_every_few_steps_is_found(void **state)
{
    (void)state;
    for (uint32_t every = 2; every <= 8; every *= 2) {
        struct detect_past past = { 0 };
        double bar = detect_bar(0.1, 64, 0.07);
        uint64_t seed = 5;
        uint32_t step = 0;

        for (; step < 60; step++)
            put(&past, 70 + normal(&seed), bar);
        assert_false(past.risen);
        for (; step < 160 && !past.risen; step++)
            put(&past, 70 + normal(&seed) + (step % every == 0 ? 120 : 0), bar);
        assert_true(past.risen);
        assert_in_range(step, 60, 60 + 8 * every);
    }
}

static void one_odd_step_is_nothing(void **state)
{
    struct detect_past past = { 0 };
    double bar = detect_bar(0.1, 64, 0.07);
    uint64_t seed = 7;

    (void)state;
    for (uint32_t step = 0; step < 1000; step++) {
        put(&past, 70 + normal(&seed) + (step % 200 == 199 ? 500 : 0), bar);
        assert_false(past.risen);
    }
}

/* Neighbouring steps are alike: what is high for a moment is so for several steps, and that is no rise. */
static void noise_that_lasts_is_still_noise(void **state)
{
    uint64_t seed = 11;
    uint32_t alarms = 0;

    (void)state;
    for (uint32_t run = 0; run < 50; run++) {
        struct detect_past past = { 0 };
        double bar = detect_bar(0.1, 64, 0.07), lasts = 0;

        for (uint32_t step = 0; step < 2000; step++) {
            bool before = past.risen;

            lasts = 0.8 * lasts + 0.6 * normal(&seed);
            put(&past, 70 + 3 * lasts, bar);
            alarms += past.risen && !before;
        }
    }
    assert_in_range(alarms, 0, 2);
}

static void what_is_not_worth_it_is_not_said(void **state)
{
    struct detect_past past = { 0 };
    double bar = detect_bar(0.1, 64, 0.07);

    (void)state;
    for (uint32_t step = 0; step < 2000; step++) {
        put(&past, step < 60 ? 0.8 : 1.7, bar); /* of a step of 70 ms */
        assert_false(past.risen);
    }
}

static void it_is_over_when_it_is_over(void **state)
{
    struct detect_past past = { 0 };
    double bar = detect_bar(0.1, 64, 0.07);
    uint64_t seed = 13;

    (void)state;
    for (uint32_t step = 0; step < 200; step++) {
        bool rise = step >= 60 && step < 120;

        put(&past, 70 + normal(&seed) + (rise ? 20 : 0), bar);
        if (step == 70 || step == 119)
            assert_true(past.risen);
        if (step == 59 || step == 140)
            assert_false(past.risen);
    }
    assert_true(fabs(past.mean - 70) < 1);
}

static void noise_is_that_of_means(void **state)
{
    float value[64];
    uint64_t seed = 17;
    double alone = 0, together = 0, lasts = 0;

    (void)state;
    for (int run = 0; run < 200; run++) {
        for (int i = 0; i < 64; i++)
            value[i] = (float)normal(&seed);
        alone += detect_noise(value, 64) / 200;
        for (int i = 0; i < 64; i++)
            value[i] = (float)(lasts = 0.7 * lasts + sqrt(1 - 0.49) * normal(&seed));
        together += detect_noise(value, 64) / 200;
    }
    assert_true(alone > 0.95 && alone < 1.35);
    assert_true(together >
                1.5); /* means of many such steps vary 2.4 times as much as of independent ones */
}

/* Steps resemble each other for tens of steps: whoever held them for independent would be wrong every few hundred steps. */
static void noise_that_lasts_raises_no_more_alarms_than_asked_for(void **state)
{
    struct detect_rule rule = { .least = 1e-3, .bar = detect_bar(0.1, 8, 1), .look_steps = 1 };
    uint32_t raised = 0;
    uint64_t seed = 37;

    (void)state;
    for (uint32_t series = 0; series < 8; series++) {
        struct detect_past past = { 0 };
        double lasts = 0;

        for (uint32_t step = 0; step < 50000; step++) {
            bool before = past.risen;

            lasts = 0.9 * lasts + sqrt(1 - 0.81) * normal(&seed);
            detect_past_put(&past, 100 + lasts + 0.5 * normal(&seed), &rule);
            raised += past.risen && !before;
        }
    }
    assert_in_range(raised, 0, 4);
}

/* Thousands of series, of which some look quiet in their first steps by chance. */
static uint32_t raised_by_many(bool kin_known)
{
    enum {
        SERIES = 4096,
        STEPS = 160
    };
    struct detect_past *past = calloc(SERIES, sizeof(*past));
    double *lasts = calloc(SERIES, sizeof(*lasts));
    struct detect_rule rule = { .least = 1e-3, .bar = detect_bar(0.1, SERIES, 6), .look_steps = 1 };
    uint32_t raised = 0;
    uint64_t seed = 4711;

    for (int step = 0; step < STEPS && past && lasts; step++) {
        struct detect_kin kin = { 0 };

        for (int i = 0; i < SERIES; i++) {
            bool before = past[i].risen;

            lasts[i] = 0.8 * lasts[i] + 0.6 * normal(&seed);
            detect_past_put(&past[i], 100 + lasts[i] + normal(&seed), &rule);
            raised += past[i].risen && !before;
            detect_kin_add(&kin, detect_past_noise(&past[i]));
        }
        if (kin_known)
            rule.noise = detect_kin_noise(&kin);
    }
    free(past);
    free(lasts);
    return raised;
}

static void what_is_typical_of_many_series_holds_for_each_from_the_first_step(void **state)
{
    (void)state;
    assert_true(raised_by_many(false) > 0); /* what there would be without it */
    assert_int_equal(raised_by_many(true), 0);
}

static void a_rise_began_with_its_first_step(void **state)
{
    struct detect_past past = { 0 };
    double bar = detect_bar(0.1, 64, 0.07);
    uint64_t seed = 19;

    (void)state;
    for (uint32_t step = 0; step < 70; step++) {
        put(&past, 70 + normal(&seed) + (step >= 60 ? 20 : 0), bar);
        if (past.risen)
            assert_int_equal(past.since, step - 60 + 1);
    }
    assert_true(past.risen);
    assert_true(fabs(detect_past_rise(&past, 1.4) - 20) < 2);
}

/* A process is held up for 60 ms, which is in 12 of its steps: that is one observation. */
static void what_short_steps_show_again_is_seen_once(void **state)
{
    struct detect_rule rule = { .least = 0.2, .bar = detect_bar(0.1, 1, 0.005), .look_steps = 20 };
    struct detect_past past = { 0 };
    uint64_t seed = 23;

    (void)state;
    for (uint32_t step = 0; step < 4000; step++) {
        detect_past_put(&past, 5 + normal(&seed) / 4 + (step % 900 < 12 ? 5 : 0), &rule);
        assert_false(past.risen);
    }
    for (uint32_t step = 0; step < 200; step++)
        detect_past_put(&past, 7 + normal(&seed) / 4, &rule);
    assert_true(past.risen);
}

/* What is usual follows a job, but not one whose growth is evident though not worth a word yet. */
static void what_grows_slowly_is_found(void **state)
{
    struct detect_rule rule = { .least = 5, .bar = detect_bar(0.1, 1, 0.1) };
    struct detect_past past = { 0 };
    uint64_t seed = 29;

    (void)state;
    for (uint32_t step = 0; step < 500; step++)
        detect_past_put(&past, 100 + normal(&seed) + (step < 80 ? 0 : 0.03 * (step - 80.0)), &rule);
    assert_true(past.risen);
}

static void what_becomes_shorter_is_usual_from_then_on(void **state)
{
    struct detect_rule rule = { .least = 5, .bar = detect_bar(0.1, 1, 0.1) };
    struct detect_past past = { 0 };
    uint64_t seed = 31;

    (void)state;
    for (uint32_t step = 0; step < 220; step++)
        detect_past_put(&past, (step < 100 ? 100 : 80) + normal(&seed), &rule);
    assert_true(fabs(past.mean - 80) < 1);
    for (uint32_t step = 0; step < 10; step++)
        detect_past_put(&past, 100 + normal(&seed), &rule);
    assert_true(past.risen);
}

static void what_was_usual_before_counts_at_once(void **state)
{
    struct detect_past past;
    double bar = detect_bar(0.1, 64, 0.07);

    (void)state;
    detect_past_begin(&past, 70, 1);
    assert_true(detect_past_known(&past));
    for (uint32_t step = 0; step < 3; step++)
        put(&past, 90, bar);
    assert_true(past.risen);
    assert_true(detect_past_is_high(&past, 74, 1.4));
    assert_false(detect_past_is_high(&past, 71, 1.4));
}

/* All that came before a rise was as usual, also what was too new to be learnt when it began. */
static void what_came_before_a_rise_is_learnt(void **state)
{
    uint64_t seed = 23;
    struct detect_past past = { 0 };
    double bar = detect_bar(0.1, 16, 0.06);

    (void)state;
    for (int step = 0; step < 22; step++)
        put(&past, 60 + normal(&seed), bar);
    assert_false(past.risen);
    assert_int_equal(past.usuals, DETECT_LEAST);
    for (int step = 0; step < 8; step++)
        put(&past, 75 + normal(&seed), bar);
    assert_true(past.risen);
    assert_in_range(past.usuals, 20, 22);
    assert_true(past.mean < 61.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_hardly_later_than_any_test_must_be),
        cmocka_unit_test(is_wrong_no_oftener_than_asked_for),
        cmocka_unit_test(what_comes_every_few_steps_is_found),
        cmocka_unit_test(one_odd_step_is_nothing),
        cmocka_unit_test(noise_that_lasts_is_still_noise),
        cmocka_unit_test(what_is_not_worth_it_is_not_said),
        cmocka_unit_test(it_is_over_when_it_is_over),
        cmocka_unit_test(noise_is_that_of_means),
        cmocka_unit_test(noise_that_lasts_raises_no_more_alarms_than_asked_for),
        cmocka_unit_test(what_is_typical_of_many_series_holds_for_each_from_the_first_step),
        cmocka_unit_test(a_rise_began_with_its_first_step),
        cmocka_unit_test(what_short_steps_show_again_is_seen_once),
        cmocka_unit_test(what_grows_slowly_is_found),
        cmocka_unit_test(what_becomes_shorter_is_usual_from_then_on),
        cmocka_unit_test(what_was_usual_before_counts_at_once),
        cmocka_unit_test(what_came_before_a_rise_is_learnt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
