/* test-price.c - several suspects are priced together: their costs add up, and a verdict tells one cost.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/price.h"

#include <math.h>
#include <stdio.h>

#include "judge/test/bench.h"

/* What the removal of all flagged ranks at once gives back. */
static double removed_ms(struct bench *bench, const uint8_t *who, uint32_t count)
{
    uint8_t flag[LAB_RANKS];

    for (uint32_t rank = 0; rank < bench->lab->world; rank++)
        flag[rank] = who[rank] < count;
    return (double)(program_replayed_ns(bench->judge.program) -
                    program_without_ns(bench->judge.program, flag)) /
           1e6;
}

static double sum_ms(const struct price *price, uint32_t count)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += price->cost_ms[i];
    return sum;
}

static void two_suspects_cost_what_the_removal_of_both_gives_back(void **state)
{
    static const double stretch[][2] = { { 0.3, 0.3 }, { 1.0, 0.3 }, { 0.2, 0.25 }, { 0.5, 0 } };
    static const uint32_t layouts[][3] = { { 1, 1, 8 }, { 1, 2, 4 }, { 2, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts) * COUNT(stretch); i++) {
        const uint32_t *size = layouts[i / COUNT(stretch)];
        struct lab_config config = layout(size[0], size[1], size[2]);
        const double *slow = stretch[i % COUNT(stretch)];
        struct bench bench = bench_open(&config);
        uint8_t who[LAB_RANKS];
        struct price price;

        lab_judge_many(bench.lab, &bench.judge, 10);
        bench.lab->fault.stretch[1] = slow[0];
        bench.lab->fault.stretch[6] = slow[1];
        lab_judge(bench.lab, &bench.judge);
        memset(who, PRICE_NOBODY, sizeof(who));
        who[1] = 0;
        who[6] = 1;
        price_ranks(&bench.judge, who, 2, &price);
        assert_true(price.all_ms > 1);
        assert_true(fabs(price.all_ms - removed_ms(&bench, who, 2)) < 1e-9);
        assert_true(fabs(price.all_ms - sum_ms(&price, 2)) < 1e-9);
        assert_true(price.cost_ms[0] >= 0 && price.cost_ms[1] >= 0);
        if (slow[1] == 0)
            assert_true(price.cost_ms[1] < 0.02 * price.cost_ms[0]); /* it only waited */
        bench_close(&bench);
    }
}

static void of_two_that_are_equally_slow_each_costs_half(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;
    uint8_t who[LAB_RANKS];
    struct price price;

    (void)state;
    config.noise = 0;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 10);
    bench.lab->fault.stretch[1] = bench.lab->fault.stretch[5] = 0.5;
    lab_judge(bench.lab, &bench.judge);
    memset(who, PRICE_NOBODY, sizeof(who));
    who[1] = 0;
    who[5] = 1;
    price_ranks(&bench.judge, who, 2, &price);
    assert_true(fabs(price.cost_ms[0] - price.cost_ms[1]) < 0.02 * price.all_ms);
    bench_close(&bench);
}

static void more_suspects_than_replays_still_add_up(void **state)
{
    struct lab_config config = layout(1, 1, 64);
    struct bench bench;
    uint8_t who[LAB_RANKS];
    struct price price;

    (void)state;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 6);
    memset(who, PRICE_NOBODY, sizeof(who));
    for (uint32_t rank = 0; rank < 30; rank++) {
        bench.lab->fault.stretch[rank] = 0.01 * (rank + 1);
        who[rank] = (uint8_t)rank;
    }
    lab_judge(bench.lab, &bench.judge);
    price_ranks(&bench.judge, who, 30, &price);
    assert_true(fabs(price.all_ms - removed_ms(&bench, who, 30)) < 1e-9);
    assert_true(fabs(price.all_ms - sum_ms(&price, 30)) < 1e-9);
    for (uint32_t i = 0; i < 29; i++)
        assert_true(price.cost_ms[29] >= price.cost_ms[i]);
    bench_close(&bench);
}

/* Of different judges: late batches on one rank, slow work on another, and slow transfers. */
static void verdicts_of_several_judges_cost_what_the_step_lost(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    const struct lab_fault none = { 0 };
    struct bench bench;
    uint32_t seen = 0;

    (void)state;
    config.per_node = 4;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 30);
    bench.lab->fault.stretch[1] = 0.4;
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_DATA;
    bench.lab->fault.sleep_ns[5] = 40000000;
    bench.lab->fault.fabric = 4;
    for (uint32_t step = 0; step < 40; step++) {
        const struct verdict_table *table = &bench.judge.verdicts;
        double sum = 0, lost;
        uint32_t open = 0;

        lab_judge(bench.lab, &bench.judge);
        lost = (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
        for (uint32_t i = 0; i < table->count; i++) {
            if (!table->tracked[i]->open || table->tracked[i]->seen_step != bench.judge.last_step)
                continue;
            sum += table->tracked[i]->step_seconds;
            open++;
        }
        if (open < 3)
            continue;
        assert_true(sum > 0.96 * lost && sum < 1.04 * lost);
        seen++;
    }
    assert_true(seen > 10);
    bench_close(&bench);
}

/* The line that says what would be gained has the cost that the verdict has, also where only some steps are slow. */
static void a_verdict_tells_one_cost(void **state)
{
    static const uint32_t every[] = { 1, 4 };

    (void)state;
    for (size_t i = 0; i < COUNT(every); i++) {
        struct lab_config config = layout(1, 1, 8);
        struct bench bench = bench_open(&config);
        uint32_t seen = 0;

        for (uint32_t step = 0; step < 120; step++) {
            const struct tracked_verdict *tracked;
            double period, shorter;

            bench.lab->fault.stretch[6] = step > 40 && step % every[i] == 0 ? 0.2 + 0.01 * step : 0;
            lab_judge(bench.lab, &bench.judge);
            tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
            for (uint32_t at = 0; tracked && at < tracked->verdict.because_count; at++) {
                const struct verdict_line *line = &tracked->verdict.because[at];

                if (strcmp(line->source, "replay") != 0)
                    continue;
                assert_int_equal(sscanf(line->what,
                                        "each step of %lf ms would be %lf ms shorter if", &period,
                                        &shorter),
                                 2);
                assert_true(fabs(shorter - 1e3 * tracked->verdict.seconds_per_step) < 0.06);
                assert_true(shorter < period);
                seen++;
            }
        }
        assert_true(seen > 20);
        bench_close(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_suspects_cost_what_the_removal_of_both_gives_back),
        cmocka_unit_test(of_two_that_are_equally_slow_each_costs_half),
        cmocka_unit_test(more_suspects_than_replays_still_add_up),
        cmocka_unit_test(verdicts_of_several_judges_cost_what_the_step_lost),
        cmocka_unit_test(a_verdict_tells_one_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
