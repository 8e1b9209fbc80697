/* test-score-card.c - mean time to failure and its interval, against the quantiles of the chi-squared distribution.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "control/report/score_card.h"
#include "control/report/score_device.h"
#include "core/clean.h"

static void interval_of_few_failures(void **state)
{
    double middle, low, high;

    (void)state;
    score_card_mttf(100, 3, &middle, &low, &high);
    assert_true(fabs(middle - 100.0 / 3) < 1e-9);
    assert_true(fabs(low - 200 / 17.534546) < 1e-4); /* 0.975 quantile with 8 degrees of freedom */
    assert_true(fabs(high - 200 / 1.237344) < 1e-3); /* 0.025 quantile with 6 */
}

static void interval_of_many_failures_is_narrow(void **state)
{
    double middle, low, high;

    (void)state;
    score_card_mttf(1e6, 10000, &middle, &low, &high);
    assert_true(fabs(middle - 100) < 1e-9);
    assert_true(low > 98 && low < middle && high > middle && high < 102.1);
}

static void without_a_failure_there_is_a_lower_bound(void **state)
{
    double middle, low, high;

    (void)state;
    score_card_mttf(3600, 0, &middle, &low, &high);
    assert_true(isnan(middle) && isnan(high));
    assert_true(fabs(low - 3600 / 2.995732) < 1e-2);
}

static void without_time_nothing_is_known(void **state)
{
    double middle, low, high;

    (void)state;
    score_card_mttf(0, 0, &middle, &low, &high);
    assert_true(isnan(middle) && isnan(low) && isnan(high));
    score_card_mttf(NAN, 2, &middle, &low, &high);
    assert_true(isnan(middle) && isnan(low) && isnan(high));
}

static void several_runs_are_one_exposure(void **state)
{
    static struct score_card card[2], sum;

    (void)state;
    card[0] = (struct score_card){ .exposure_seconds = 60, .failures = 1, .ranks = 4 };
    card[1] = (struct score_card){ .exposure_seconds = NAN, .ranks = 8 };
    score_card_sum(card, 2, &sum);
    assert_true(sum.exposure_seconds == 60 && sum.mttf_seconds == 60);
    assert_int_equal(sum.ranks, 8);
    assert_true(isnan(sum.goodput)); /* none has a ledger */
}

static void peaks_follow_from_names(void **state)
{
    (void)state;
    assert_float_equal(gpu_peak_flops("NVIDIA H200", "bf16"), 989e12, 1);
    assert_float_equal(gpu_peak_flops("NVIDIA H20", "bf16"), 148e12, 1);
    assert_float_equal(gpu_peak_flops("NVIDIA H100 PCIe", "fp8"), 1513e12, 1);
    assert_float_equal(gpu_peak_flops("NVIDIA H100 80GB HBM3", "tf32"), 494e12, 1);
    assert_float_equal(gpu_peak_flops("NVIDIA A100-SXM4-80GB", "fp16"), 312e12, 1);
    assert_float_equal(gpu_peak_flops("NVIDIA A100-SXM4-80GB", "fp8"), 0, 0); /* it has none */
    assert_float_equal(gpu_peak_flops("NVIDIA A1000 Laptop GPU", "bf16"), 0, 0);
    assert_float_equal(gpu_peak_flops("NVIDIA H200", "int4"), 0, 0);
    assert_float_equal(gpu_peak_flops("", "bf16"), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_follow_from_names),
        cmocka_unit_test(interval_of_few_failures),
        cmocka_unit_test(interval_of_many_failures_is_narrow),
        cmocka_unit_test(without_a_failure_there_is_a_lower_bound),
        cmocka_unit_test(without_time_nothing_is_known),
        cmocka_unit_test(several_runs_are_one_exposure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
