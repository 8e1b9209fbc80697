/* test-split.c - where each moment of a step goes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define MS INT64_C(1000000)

static int64_t sum_of(const struct rank_split *split)
{
    int64_t sum = split->compute_ns + split->wait_ns + split->transfer_ns + split->queued_ns;

    for (int phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++)
        sum += split->host_ns[phase];
    return sum;
}

static void about(int64_t value, int64_t wanted)
{
    if (llabs(value - wanted) > MS / 5)
        fail_msg("%lld is not about %lld", (long long)value, (long long)wanted);
}

static void parts_add_up_to_the_step_for_every_rank(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 4 }, { 2, 1, 2 }, { 1, 4, 1 }, { 2, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench;

        config.with_gc = true;
        bench = bench_open(&config);
        bench.lab->fault.stretch[1] = 0.4;
        bench.lab->fault.sleep_ns[2] = 20 * MS;
        bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_GC;
        bench.lab->fault.checkpoint_ns = 7 * MS;
        for (int step = 0; step < 10; step++) {
            lab_judge(bench.lab, &bench.judge);
            for (uint32_t rank = 0; rank < bench.lab->world; rank++) {
                const struct rank_split *split = &bench_past(&bench)->split[rank];

                assert_int_equal(sum_of(split), split->total_ns);
                assert_int_equal(split->total_ns,
                                 bench.lab->rank[rank].duration_ns + config.tail_ns);
            }
        }
        bench_close(&bench);
    }
}

static void a_rank_that_waits_has_not_worked_more(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 4 }, { 2, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        int64_t local[LAB_RANKS], wait[LAB_RANKS], stretch;
        struct bench bench;

        config.noise = 0;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 2);
        for (uint32_t rank = 0; rank < bench.lab->world; rank++) {
            local[rank] = split_local_ns(&bench_past(&bench)->split[rank]);
            wait[rank] = bench_past(&bench)->split[rank].wait_ns;
        }
        bench.lab->fault.stretch[1] = 0.5;
        stretch = bench.lab->measured_ns;
        lab_judge(bench.lab, &bench.judge);
        stretch = bench.lab->measured_ns - stretch;
        for (uint32_t rank = 0; rank < bench.lab->world; rank++) {
            const struct rank_split *split = &bench_past(&bench)->split[rank];

            if (rank == 1)
                assert_true(split_local_ns(split) > local[1] + stretch / 2);
            else
                about(split_local_ns(split), local[rank]);
            if (rank != 1 && config.pp == 1)
                assert_true(split->wait_ns > wait[rank] + stretch * 3 / 4);
        }
        bench_close(&bench);
    }
}

static void a_nested_phase_has_its_own_time(void **state)
{
    struct lab_config config = layout(1, 1, 2);
    struct bench bench;
    const struct rank_split *split;

    (void)state;
    config.with_gc = true;
    bench = bench_open(&config);
    bench.lab->fault.sleep_ns[1] = 30 * MS;
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_GC;
    lab_judge(bench.lab, &bench.judge);
    split = &bench_past(&bench)->split[1];
    about(split->host_ns[LOCKSTEP_PHASE_GC], 30 * MS);
    about(split->host_ns[LOCKSTEP_PHASE_FORWARD], 0);
    about(split->host_ns[LOCKSTEP_PHASE_DATA], config.data_ns);
    bench_close(&bench);
}

static void launched_work_that_does_not_run_is_queued(void **state)
{
    struct lab_config config = layout(1, 1, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.device_gap_ns[1] = 9 * MS;
    lab_judge(bench.lab, &bench.judge);
    about(bench_past(&bench)->split[1].queued_ns, 9 * MS);
    about(bench_past(&bench)->split[0].queued_ns, 0);
    bench_close(&bench);
}

static void a_checkpoint_is_the_hosts_time_in_that_phase(void **state)
{
    struct lab_config config = layout(1, 1, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.checkpoint_ns = 12 * MS;
    lab_judge(bench.lab, &bench.judge);
    about(bench_past(&bench)->split[1].host_ns[LOCKSTEP_PHASE_CHECKPOINT], 12 * MS);
    bench_close(&bench);
}

/* ---- a message between two ranks, by hand ---- */

struct pair {
    struct judge_state judge;
    struct job_step job_step;
    struct rank_split split[2];
    uint32_t merged; /* 0: one message; else so many collectives, split by the agent */
};

static void pair_rank(struct pair *pair, uint32_t rank, struct item_time time)
{
    const struct fact_ring ring = { .rank = rank, .world = 2, .node = "n" };
    const struct fact_comm comm = { .rank = rank, .id = 9, .size = 2, .index = rank, .name = "pp" };
    struct fact_shape shape = { .count = 1, .item = calloc(1, sizeof(*shape.item)) };
    struct fact_step *step = &pair->job_step.step_of[rank];

    assert_non_null(shape.item);
    shape.item[0] = (struct shape_item){ .kind = ITEM_P2P,
                                         .what = rank ? LOCKSTEP_OP_RECV : LOCKSTEP_OP_SEND,
                                         .stream = 1,
                                         .peer = 1 - rank,
                                         .count = 1,
                                         .comm = 9 };
    if (pair->merged) {
        shape.item[0].kind = ITEM_COLL;
        shape.item[0].what = LOCKSTEP_OP_ALL_REDUCE;
        shape.item[0].count = pair->merged;
    }
    shape_hash(&shape);
    *step = (struct fact_step){ .rank = rank, .shape = shape.hash, .count = 1 };
    step->flags = pair->merged ? STEP_SPLIT : 0;
    step->duration_ns = 20 * MS;
    step->time = malloc(sizeof(time));
    assert_non_null(step->time);
    step->time[0] = time;
    assert_int_equal(model_ring(&pair->judge.model, &ring), 0);
    assert_int_equal(model_comm(&pair->judge.model, &comm), 0);
    assert_int_equal(model_shape(&pair->judge.model, &shape), 0);
    pair->job_step.shape_of[rank] = model_shape_get(&pair->judge.model, step->shape);
    pair->job_step.have++;
}

static void pair_split(struct pair *pair, struct item_time send, struct item_time recv)
{
    assert_int_equal(judge_state_init(&pair->judge, "test"), 0);
    assert_int_equal(job_step_init(&pair->job_step, 2, 0, 0), 0);
    pair_rank(pair, 0, send);
    pair_rank(pair, 1, recv);
    assert_int_equal(
        split_step(pair->judge.splitter, &pair->judge.model, &pair->job_step, pair->split), 0);
    job_step_fini(&pair->job_step);
    judge_state_fini(&pair->judge);
}

static void a_receiver_waits_for_a_late_sender(void **state)
{
    struct pair pair = { 0 };

    (void)state;
    pair_split(&pair, (struct item_time){ 9 * MS, 9 * MS, 11 * MS, -1 },
               (struct item_time){ MS, MS, 11 * MS, -1 });
    assert_int_equal(pair.split[1].wait_ns, 8 * MS);
    assert_int_equal(pair.split[1].transfer_ns, 2 * MS);
    assert_int_equal(pair.split[0].wait_ns, 0);
    assert_int_equal(pair.split[0].transfer_ns, 2 * MS);
}

static void a_send_that_left_before_the_receiver_came_did_not_wait(void **state)
{
    struct pair pair = { 0 };

    (void)state;
    pair_split(&pair, (struct item_time){ MS, MS, 3 * MS, -1 },
               (struct item_time){ 9 * MS, 9 * MS, 11 * MS, -1 });
    assert_int_equal(pair.split[0].wait_ns, 0);
    assert_int_equal(pair.split[0].transfer_ns, 2 * MS);
    assert_int_equal(pair.split[1].wait_ns, 0);
}

static void a_send_that_stays_until_the_receiver_comes_waits(void **state)
{
    struct pair pair = { 0 };

    (void)state;
    pair_split(&pair, (struct item_time){ MS, MS, 11 * MS, -1 },
               (struct item_time){ 9 * MS, 9 * MS, 11 * MS, -1 });
    assert_int_equal(pair.split[0].wait_ns, 8 * MS);
    assert_int_equal(pair.split[0].transfer_ns, 2 * MS);
}

static void time_before_a_launch_is_the_hosts_own(void **state)
{
    struct pair pair = { 0 };

    (void)state;
    pair_split(&pair, (struct item_time){ 4 * MS, 5 * MS, 7 * MS, -1 },
               (struct item_time){ 4 * MS, 5 * MS, 7 * MS, -1 });
    assert_int_equal(pair.split[0].host_ns[0], 4 * MS + 13 * MS);
    assert_int_equal(pair.split[0].queued_ns, 1 * MS);
}

/* Both are last in turn: by the sums alone nobody would have waited. */
static void what_the_agent_says_of_merged_ops_is_taken(void **state)
{
    struct pair pair = { 0 };

    (void)state;
    pair.merged = 4;
    pair_split(&pair, (struct item_time){ MS, MS, 11 * MS, 6 * MS },
               (struct item_time){ MS, MS, 11 * MS, 4 * MS });
    assert_int_equal(pair.split[0].wait_ns, 6 * MS);
    assert_int_equal(pair.split[0].transfer_ns, 4 * MS);
    assert_int_equal(pair.split[1].wait_ns, 4 * MS);
    pair = (struct pair){ .merged = 4 };
    pair_split(&pair, (struct item_time){ 3 * MS, 3 * MS, 11 * MS, 5 * MS },
               (struct item_time){ MS, MS, 11 * MS, -1 });
    assert_int_equal(pair.split[0].wait_ns, 5 * MS);
    assert_int_equal(pair.split[1].wait_ns, 2 * MS); /* not known: as far as the sums tell */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_step_for_every_rank),
        cmocka_unit_test(a_rank_that_waits_has_not_worked_more),
        cmocka_unit_test(a_nested_phase_has_its_own_time),
        cmocka_unit_test(launched_work_that_does_not_run_is_queued),
        cmocka_unit_test(a_checkpoint_is_the_hosts_time_in_that_phase),
        cmocka_unit_test(a_receiver_waits_for_a_late_sender),
        cmocka_unit_test(a_send_that_left_before_the_receiver_came_did_not_wait),
        cmocka_unit_test(a_send_that_stays_until_the_receiver_comes_waits),
        cmocka_unit_test(time_before_a_launch_is_the_hosts_own),
        cmocka_unit_test(what_the_agent_says_of_merged_ops_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
