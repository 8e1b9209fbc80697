/* test-corrupt.c - numbers that are wrong, where that began, and what only looks like it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "judge/test/bench.h"

#define BEFORE 20 /* sound steps before anything goes wrong */

static struct lab_config config_of(uint32_t tp, uint32_t pp, uint32_t dp)
{
    struct lab_config config = layout(tp, pp, dp);

    config.digest_parts = 1;
    config.values = true;
    return config;
}

/* The only verdict, which names exactly these ranks. */
static const struct verdict *only(const struct bench *bench, uint32_t count, const uint32_t *rank)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_CORRUPTION, 0);

    assert_int_equal(bench->judge.verdicts.count, 1);
    assert_non_null(tracked);
    assert_int_equal(tracked->verdict.rank_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(tracked->verdict.rank[i], rank[i]);
    assert_true(tracked->verdict.because_count > 0);
    return &tracked->verdict;
}

static void nothing(const struct bench *bench)
{
    assert_int_equal(bench->judge.verdicts.count, 0);
}

static bool has_text(const struct verdict *verdict, const char *text)
{
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        if (strstr(verdict->because[i].what, text))
            return true;
    }
    return false;
}

/* ---- replicas ---- */

static void the_replica_that_differs_is_named_at_once(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 3 }, { 1, 1, 8 }, { 2, 1, 4 }, { 2, 2, 4 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = config_of(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench = bench_open(&config);
        uint32_t rank = bench.lab->world - 2;
        const struct verdict *verdict;

        lab_judge_many(bench.lab, &bench.judge, BEFORE);
        nothing(&bench);
        bench.lab->fault.flipped[rank] = 1;
        lab_judge(bench.lab, &bench.judge);
        verdict = only(&bench, 1, &rank);
        assert_int_equal(verdict->layer, LAYER_GPU_MEMORY);
        assert_int_equal(verdict->since_step, BEFORE);
        assert_true(has_text(verdict, "the last clean step is 19"));
        assert_true(verdict->confidence >= 0.9);
        lab_judge_many(bench.lab, &bench.judge, 40); /* it is one verdict, and stays */
        only(&bench, 1, &rank);
        bench_close(&bench);
    }
}

static void of_two_replicas_both_are_named_and_it_is_said(void **state)
{
    static const uint32_t both[] = { 0, 1 };
    struct lab_config config = config_of(1, 1, 2);
    struct bench bench = bench_open(&config);
    const struct verdict *verdict;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[1] = 1;
    lab_judge_many(bench.lab, &bench.judge, 5);
    verdict = only(&bench, 2, both);
    assert_true(verdict->confidence <= 0.5);
    assert_true(has_text(verdict, "it is unknown which is right"));
    bench_close(&bench);
}

static void parts_take_turns_and_only_equal_ones_are_compared(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    const uint32_t rank = 2;
    const struct verdict *verdict;
    struct bench bench;

    (void)state;
    config.digest_parts = 30;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 65);
    nothing(&bench);
    /* One part alone goes wrong: it is seen every thirty steps, and the verdict stays in between. */
    for (int i = 0; i < 95; i++) {
        bench.lab->fault.flipped[rank] = (bench.lab->step + 1) % 30 == 10;
        lab_judge(bench.lab, &bench.judge);
    }
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->since_step,
                     41); /* the step after the last at which this part was equal */
    assert_true(has_text(verdict, "the last clean step is 40"));
    bench.lab->fault.flipped[rank] = 0;
    lab_judge_many(bench.lab, &bench.judge, 60);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 0);
    bench_close(&bench);
}

static void two_replicas_that_go_wrong_one_after_the_other_are_two_verdicts(void **state)
{
    struct lab_config config = config_of(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[3] = 1;
    lab_judge_many(bench.lab, &bench.judge, 5);
    bench.lab->fault.flipped[6] = 2;
    lab_judge_many(bench.lab, &bench.judge, 5);
    assert_int_equal(bench.judge.verdicts.count, 2);
    assert_int_equal(lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict.rank[0], 3);
    assert_int_equal(lab_open(&bench.judge, VERDICT_CORRUPTION, 1)->verdict.rank[0], 6);
    bench_close(&bench);
}

static void digests_that_were_never_equal_are_shards(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.flipped[rank] = rank;
    lab_judge_many(bench.lab, &bench.judge, 40);
    nothing(&bench);
    bench_close(&bench);
}

static void without_a_layout_tensor_shards_are_no_replicas(void **state)
{
    struct lab_config config = config_of(2, 1, 3);
    struct bench bench;

    (void)state;
    config.no_layout = true;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 40);
    nothing(&bench);
    bench_close(&bench);
}

static void without_a_layout_replicas_that_were_equal_are_replicas(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    const uint32_t rank = 0;
    struct bench bench;

    (void)state;
    config.no_layout = true;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[rank] = 9;
    lab_judge(bench.lab, &bench.judge);
    only(&bench, 1, &rank);
    bench_close(&bench);
}

static void a_replica_that_differed_from_the_first_step_on_is_named_less_surely(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 3;
    const struct verdict *verdict;

    (void)state;
    bench.lab->fault.flipped[rank] = 1;
    lab_judge_many(bench.lab, &bench.judge, 3);
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->layer, LAYER_UNKNOWN);
    assert_true(verdict->confidence < 0.7);
    bench_close(&bench);
}

/* The agent may learn of a rank's layout when the job has run for a while. */
static void layout_put(const struct bench *bench, uint32_t rank, bool known)
{
    bench->judge.model.rank[rank].has_layout = known;
}

static void a_layout_that_comes_late_for_some_changes_nothing(void **state)
{
    static const uint32_t late[][2] = { { 2, 2 }, { 0, 1 }, { 0, 2 } }; /* from, to */
    const uint32_t rank = 2;

    (void)state;
    for (size_t i = 0; i < COUNT(late); i++) {
        struct lab_config config = config_of(1, 1, 3);
        struct bench bench = bench_open(&config);
        const struct verdict *verdict;

        for (uint32_t at = late[i][0]; at <= late[i][1]; at++)
            layout_put(&bench, at, false);
        lab_judge_many(bench.lab, &bench.judge, BEFORE);
        bench.lab->fault.flipped[rank] = 1;
        lab_judge_many(bench.lab, &bench.judge, 5);
        for (uint32_t at = late[i][0]; at <= late[i][1]; at++)
            layout_put(&bench, at, true);
        lab_judge_many(bench.lab, &bench.judge, 5);
        verdict = only(&bench, 1, &rank);
        assert_true(
            has_text(verdict, "1 of 3 replicas differ from those of the other 2 in step 20"));
        assert_true(has_text(verdict, "the last clean step is 19: all 3 replicas were equal"));
        bench_close(&bench);
    }
}

static void what_was_clean_stays_known_when_the_layout_comes(void **state)
{
    struct lab_config config = config_of(1, 1, 3);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 2;

    (void)state;
    layout_put(&bench, rank, false);
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    layout_put(&bench, rank, true);
    bench.lab->fault.flipped[rank] = 1;
    lab_judge(bench.lab, &bench.judge);
    assert_true(
        has_text(only(&bench, 1, &rank), "the last clean step is 19: all 3 replicas were equal"));
    bench_close(&bench);
}

static void replicas_that_are_known_late_have_no_clean_step_that_they_did_not_earn(void **state)
{
    struct lab_config config = config_of(2, 1, 3);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 4;
    const struct verdict *verdict;

    (void)state;
    layout_put(&bench, rank, false);
    bench.lab->fault.flipped[rank] = 1;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    nothing(&bench); /* shards and replicas alike, as far as is known */
    layout_put(&bench, rank, true);
    lab_judge_many(bench.lab, &bench.judge, 3);
    verdict = only(&bench, 1, &rank);
    assert_true(has_text(verdict, "the last step with equal digests is not known"));
    assert_false(has_text(verdict, "clean"));
    bench_close(&bench);
}

#define TURNS 16 /* parts of a device's digests, which come some steps late */

/* A step in which each rank tells what it was to tell so many steps before; LATE_NEVER: it does not. */
#define LATE_NEVER UINT32_MAX
static void judge_late(struct bench *bench, uint64_t since, const uint32_t *late)
{
    CLEAN(job_step_fini) struct job_step job_step = { 0 };

    lab_step(bench->lab);
    lab_job_step(bench->lab, &bench->judge, &job_step);
    for (uint32_t rank = 0; rank < bench->lab->world; rank++) {
        struct fact_step *step = &job_step.step_of[rank];
        uint64_t turn = job_step.step - late[rank];

        if (late[rank] == LATE_NEVER || job_step.step < late[rank]) {
            step->digest_parts = 0;
            continue;
        }
        step->digest_part = (uint32_t)(turn % TURNS);
        step->digest[0] = turn;
        step->digest[1] = bench->lab->fault.flipped[rank] && turn >= since;
    }
    assert_int_equal(judge_state_step(&bench->judge, &job_step), 0);
}

static struct bench late_open(void)
{
    struct lab_config config = config_of(1, 1, 3);

    config.digest_parts = TURNS;
    return bench_open(&config);
}

static void digests_that_come_apart_are_compared_when_all_have_come(void **state)
{
    static const uint32_t late[][3] = { { 1, 2, 1 }, { 8, 0, 3 }, { 0, 0, 8 }, { 5, 1, 1 } };
    const uint32_t rank = 2;

    (void)state;
    for (size_t i = 0; i < COUNT(late); i++) {
        struct bench bench = late_open();
        const struct verdict *verdict;

        bench.lab->fault.flipped[rank] = 1;
        for (int step = 0; step < 80; step++)
            judge_late(&bench, 40, late[i]);
        verdict = only(&bench, 1, &rank);
        assert_true(
            has_text(verdict, "1 of 3 replicas differ from those of the other 2 in step 40"));
        assert_true(has_text(verdict, "the last clean step is 24: all 3 replicas were equal"));
        bench_close(&bench);
    }
}

static void two_of_three_do_not_decide_while_the_third_is_silent(void **state)
{
    static const uint32_t all[] = { 0, 0, 0 }, two[] = { LATE_NEVER, 0, 0 };
    struct bench bench = late_open();
    const uint32_t rank = 2;

    (void)state;
    bench.lab->fault.flipped[rank] = 1;
    for (int step = 0; step < 40; step++)
        judge_late(&bench, 40, all);
    for (int step = 0; step < 30; step++)
        judge_late(&bench, 40, two);
    nothing(&bench);
    judge_late(&bench, 40, all);
    assert_true(has_text(only(&bench, 1, &rank), "all 3 replicas were equal"));
    bench_close(&bench);
}

static void where_no_device_tells_it_is_said_less_surely(void **state)
{
    struct lab_config config = config_of(1, 1, 3);
    struct bench bench;
    const uint32_t rank = 2;
    const struct verdict *verdict;

    (void)state;
    config.host_view = true;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[rank] = 1;
    lab_judge(bench.lab, &bench.judge);
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->layer, LAYER_GPU_MEMORY);
    assert_true(verdict->confidence <= 0.7);
    assert_int_equal(verdict->ruled_out_count, 0);
    assert_string_equal(verdict->device, "");
    bench_close(&bench);
}

static void no_digests_are_no_evidence(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench;

    (void)state;
    config.digest_parts = 0;
    bench = bench_open(&config);
    bench.lab->fault.flipped[2] = 1;
    bench.lab->fault.frozen[2] = 3;
    lab_judge_many(bench.lab, &bench.judge, 40);
    nothing(&bench);
    bench_close(&bench);
}

/* ---- parameters that do not change ---- */

static void a_rank_that_stands_still_is_named_even_of_two(void **state)
{
    for (uint32_t dp = 2; dp <= 4; dp++) {
        struct lab_config config = config_of(1, 1, dp);
        struct bench bench = bench_open(&config);
        const uint32_t rank = 1;
        const struct verdict *verdict;

        (void)state;
        lab_judge_many(bench.lab, &bench.judge, BEFORE);
        bench.lab->fault.frozen[rank] = BEFORE - 1;
        lab_judge_many(bench.lab, &bench.judge, 30);
        verdict = only(&bench, 1, &rank);
        assert_int_equal(verdict->layer, LAYER_USER_CODE);
        assert_true(has_text(verdict, "they do not change while those of the others do"));
        bench_close(&bench);
    }
}

static void parameters_that_stand_still_everywhere_are_nobodys(void **state)
{
    struct lab_config config = config_of(2, 1, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.frozen[rank] = BEFORE - 1;
    lab_judge_many(bench.lab, &bench.judge, 8);
    nothing(&bench);
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(only(&bench, 0, NULL)->since_step, BEFORE - 1);
    memset(bench.lab->fault.frozen, 0, sizeof(bench.lab->fault.frozen));
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

static void a_stage_that_stands_still_is_named(void **state)
{
    static const uint32_t stage[] = { 2, 3 };
    struct lab_config config = config_of(1, 2, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.frozen[2] = bench.lab->fault.frozen[3] = BEFORE - 1;
    lab_judge_many(bench.lab, &bench.judge, 40);
    only(&bench, 2, stage);
    bench_close(&bench);
}

static void accumulated_gradients_rightly_change_nothing(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench;

    (void)state;
    config.accumulate = 16;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 130);
    nothing(&bench);
    bench_close(&bench);
}

/* ---- not finite ---- */

static void a_loss_that_is_no_number_is_named_where_it_began(void **state)
{
    struct lab_config config = config_of(1, 1, 8);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 5;
    const struct verdict *verdict;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.loss[rank] = NAN;
    lab_judge(bench.lab, &bench.judge);
    for (uint32_t i = 0; i < 8; i++) /* one step later the gradients have carried it everywhere */
        bench.lab->fault.loss[i] = NAN;
    lab_judge_many(bench.lab, &bench.judge, 20);
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->since_step, BEFORE);
    assert_true(has_text(verdict, "loss is not finite in step 20 on 1 of 8 ranks"));
    bench_close(&bench);
}

/* Those of a device arrive some steps later, and say so. */
static void a_late_loss_is_of_the_step_that_computed_it(void **state)
{
    struct lab_config config = config_of(1, 1, 8);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 5;
    const struct verdict *verdict;

    (void)state;
    bench.lab->fault.values_late = 8;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.loss[rank] = NAN;
    lab_judge(bench.lab, &bench.judge);
    for (uint32_t i = 0; i < 8; i++)
        bench.lab->fault.loss[i] = NAN;
    lab_judge_many(bench.lab, &bench.judge, 20);
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->since_step, BEFORE - 8);
    assert_true(has_text(verdict, "loss is not finite in step 12 on 1 of 8 ranks"));
    assert_true(has_text(verdict, "the last clean step is 11"));
    bench_close(&bench);
}

static void a_gradient_that_spoils_the_next_loss_is_named_where_it_began(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 2;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.norm[rank] = INFINITY;
    lab_judge(bench.lab, &bench.judge);
    nothing(&bench); /* with a scaled loss this would be all */
    for (uint32_t i = 0; i < 4; i++)
        bench.lab->fault.loss[i] = bench.lab->fault.norm[i] = NAN;
    lab_judge(bench.lab, &bench.judge);
    assert_int_equal(only(&bench, 1, &rank)->since_step, BEFORE);
    bench_close(&bench);
}

static void a_loss_that_is_no_number_on_all_at_once_names_nobody(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (uint32_t i = 0; i < 4; i++)
        bench.lab->fault.loss[i] = NAN;
    lab_judge_many(bench.lab, &bench.judge, 3);
    assert_true(has_text(only(&bench, 0, NULL), "no rank can be named"));
    bench_close(&bench);
}

static void scaled_losses_have_infinite_norms_now_and_then(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) /* the first scale is far too large */
        bench.lab->fault.norm[i] = INFINITY;
    lab_judge_many(bench.lab, &bench.judge, 6);
    for (int i = 0; i < 60; i++) {
        for (uint32_t rank = 0; rank < 4; rank++)
            bench.lab->fault.norm[rank] = i % 20 < 2 ? INFINITY : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    nothing(&bench);
    bench_close(&bench);
}

/* ---- jumps ---- */

static void a_loss_that_jumps_in_one_rank_and_stays_is_named(void **state)
{
    struct lab_config config = config_of(1, 1, 8);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 4;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.loss[rank] = 4;
    lab_judge_many(bench.lab, &bench.judge, 2);
    for (uint32_t i = 0; i < 8; i++) /* it spreads */
        bench.lab->fault.loss[i] = 4;
    lab_judge_many(bench.lab, &bench.judge, 10);
    assert_int_equal(only(&bench, 1, &rank)->since_step, BEFORE);
    bench_close(&bench);
}

static void a_loss_that_jumps_on_all_ranks_is_healthy(void **state)
{
    struct lab_config config = config_of(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (int i = 0; i < 40; i++) {
        for (uint32_t rank = 0; rank < 8; rank++)
            bench.lab->fault.loss[rank] = bench.lab->fault.norm[rank] = i % 20 < 10 ? 3 : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    nothing(&bench);
    bench_close(&bench);
}

static void a_loss_that_has_come_to_nothing_may_jump(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.loss[rank] = -1 + 1e-7;
    lab_judge_many(bench.lab, &bench.judge, 80);
    bench.lab->fault.loss[1] = -1 + 1e-6;
    lab_judge_many(bench.lab, &bench.judge, 20);
    nothing(&bench);
    bench_close(&bench);
}

/* Training diverges: all losses grow by the step, one of them a little earlier. */
static void losses_that_all_grow_name_no_rank(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (int i = 0; i < 8; i++) {
        for (uint32_t rank = 0; rank < 4; rank++)
            bench.lab->fault.loss[rank] = 0.05 * pow(2, i) * (rank == 2 ? 1.5 : 1);
        lab_judge(bench.lab, &bench.judge);
    }
    nothing(&bench);
    bench_close(&bench);
}

static void one_hard_batch_is_healthy(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (uint32_t i = 0; i < 40; i++) {
        memset(bench.lab->fault.loss, 0, sizeof(bench.lab->fault.loss));
        if (i % 4 == 0)
            bench.lab->fault.loss[i / 4 % 4] = 5;
        lab_judge(bench.lab, &bench.judge);
    }
    nothing(&bench);
    bench_close(&bench);
}

static void a_flip_that_ends_in_no_number_is_one_verdict(void **state)
{
    struct lab_config config = config_of(2, 1, 4);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 3;
    const struct verdict *verdict;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[rank] = 1;
    bench.lab->fault.loss[2] = bench.lab->fault.loss[3] = NAN; /* its tensor group has its loss */
    lab_judge(bench.lab, &bench.judge);
    for (uint32_t i = 0; i < 8; i++)
        bench.lab->fault.loss[i] = bench.lab->fault.norm[i] = NAN;
    lab_judge_many(bench.lab, &bench.judge, 20);
    verdict = only(&bench, 1, &rank);
    assert_int_equal(verdict->layer, LAYER_GPU_MEMORY);
    assert_int_equal(verdict->echo_count, 1);
    bench_close(&bench);
}

static void after_a_restart_from_sound_parameters_it_is_over(void **state)
{
    struct lab_config config = config_of(1, 1, 4);
    struct bench bench = bench_open(&config);
    const uint32_t rank = 1;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.flipped[rank] = 1;
    lab_judge_many(bench.lab, &bench.judge, 5);
    only(&bench, 1, &rank);
    bench.lab->fault.flipped[rank] = 0;
    lab_restart(bench.lab, 15, 1000000000);
    judge_state_attempt(&bench.judge, bench.lab->attempt, 0);
    lab_introduce(bench.lab, &bench.judge);
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench.lab->fault.flipped[rank] = 1; /* the same fault again is the same verdict */
    lab_judge_many(bench.lab, &bench.judge, 5);
    only(&bench, 1, &rank);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_replica_that_differs_is_named_at_once),
        cmocka_unit_test(of_two_replicas_both_are_named_and_it_is_said),
        cmocka_unit_test(parts_take_turns_and_only_equal_ones_are_compared),
        cmocka_unit_test(two_replicas_that_go_wrong_one_after_the_other_are_two_verdicts),
        cmocka_unit_test(digests_that_were_never_equal_are_shards),
        cmocka_unit_test(without_a_layout_tensor_shards_are_no_replicas),
        cmocka_unit_test(without_a_layout_replicas_that_were_equal_are_replicas),
        cmocka_unit_test(a_replica_that_differed_from_the_first_step_on_is_named_less_surely),
        cmocka_unit_test(a_layout_that_comes_late_for_some_changes_nothing),
        cmocka_unit_test(what_was_clean_stays_known_when_the_layout_comes),
        cmocka_unit_test(replicas_that_are_known_late_have_no_clean_step_that_they_did_not_earn),
        cmocka_unit_test(digests_that_come_apart_are_compared_when_all_have_come),
        cmocka_unit_test(two_of_three_do_not_decide_while_the_third_is_silent),
        cmocka_unit_test(where_no_device_tells_it_is_said_less_surely),
        cmocka_unit_test(no_digests_are_no_evidence),
        cmocka_unit_test(a_rank_that_stands_still_is_named_even_of_two),
        cmocka_unit_test(parameters_that_stand_still_everywhere_are_nobodys),
        cmocka_unit_test(a_stage_that_stands_still_is_named),
        cmocka_unit_test(accumulated_gradients_rightly_change_nothing),
        cmocka_unit_test(a_loss_that_is_no_number_is_named_where_it_began),
        cmocka_unit_test(a_late_loss_is_of_the_step_that_computed_it),
        cmocka_unit_test(a_gradient_that_spoils_the_next_loss_is_named_where_it_began),
        cmocka_unit_test(a_loss_that_is_no_number_on_all_at_once_names_nobody),
        cmocka_unit_test(scaled_losses_have_infinite_norms_now_and_then),
        cmocka_unit_test(a_loss_that_jumps_in_one_rank_and_stays_is_named),
        cmocka_unit_test(a_loss_that_jumps_on_all_ranks_is_healthy),
        cmocka_unit_test(a_loss_that_has_come_to_nothing_may_jump),
        cmocka_unit_test(losses_that_all_grow_name_no_rank),
        cmocka_unit_test(one_hard_batch_is_healthy),
        cmocka_unit_test(a_flip_that_ends_in_no_number_is_one_verdict),
        cmocka_unit_test(after_a_restart_from_sound_parameters_it_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
