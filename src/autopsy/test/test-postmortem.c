/* test-postmortem.c - small jobs by hand: which ranks are named, which are not, and the text of the verdict.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autopsy/postmortem.h"

#define OPS 16

struct stage { /* four ranks: groups {0,1} {2,3} {0,2} {1,3} and all */
    struct dump_op op[4][OPS];
    struct dump_rank rank[4];
    struct dump_group group[5];
    struct dump_what what[3];
    struct dumps dumps;
    int64_t now;
};

static uint32_t members[5][4] = { { 0, 1 }, { 2, 3 }, { 0, 2 }, { 1, 3 }, { 0, 1, 2, 3 } };

enum {
    TP0,
    TP1,
    DP0,
    DP1,
    ALL
};

static void stage_init(struct stage *stage)
{
    memset(stage, 0, sizeof(*stage));
    for (uint32_t g = 0; g < 5; g++)
        stage->group[g] =
            (struct dump_group){ .member = members[g], .members = g == ALL ? 4 : 2, .given = true };
    for (uint32_t r = 0; r < 4; r++)
        stage->rank[r] = (struct dump_rank){
            .rank = r, .left = DUMP_EMPTY, .op = stage->op[r], .complete = true
        };
    stage->what[0] =
        (struct dump_what){ .name = "all_reduce", .dtype = "Float", .in_count = 8, .out_count = 8 };
    stage->what[1] =
        (struct dump_what){ .name = "all_reduce", .dtype = "Float", .in_count = 9, .out_count = 9 };
    stage->what[2] =
        (struct dump_what){ .name = "broadcast", .dtype = "Float", .in_count = 8, .out_count = 8 };
    stage->dumps = (struct dumps){ .rank = stage->rank,
                                   .group = stage->group,
                                   .what = stage->what,
                                   .ranks = 4,
                                   .groups = 5,
                                   .whats = 3 };
    stage->now = 1000000;
}

static void enters(struct stage *stage, uint32_t rank, uint32_t group, int64_t seq, unsigned state)
{
    struct dump_rank *of = &stage->rank[rank];

    of->left = DUMP_READ;
    of->op[of->ops++] = (struct dump_op){ .seq = seq,
                                          .created_ns = stage->now++,
                                          .group = group,
                                          .peer = DUMP_NONE,
                                          .state = (uint8_t)state };
}

static void all_enter(struct stage *stage, uint32_t group, int64_t seq, unsigned state)
{
    for (uint32_t m = 0; m < stage->group[group].members; m++)
        enters(stage, members[group][m], group, seq, state);
}

static struct findings judge_by(struct stage *stage, const struct thresholds *limits)
{
    struct findings findings = { .limits = limits };

    assert_int_equal(postmortem_dumps(&stage->dumps, "job", &findings), 0);
    return findings;
}

static struct findings judge(struct stage *stage)
{
    return judge_by(stage, NULL);
}

static void a_victim_in_another_group_is_not_named(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, TP0, 1, DUMP_COMPLETED);
    all_enter(&stage, TP1, 1, DUMP_COMPLETED);
    enters(&stage, 0, TP0, 2, DUMP_SCHEDULED); /* 1 never comes: 0 waits */
    all_enter(&stage, TP1, 2, DUMP_COMPLETED);
    enters(&stage, 2, DP0, 1, DUMP_SCHEDULED); /* for 0, which waits for 1 */
    enters(&stage, 3, DP1, 1, DUMP_SCHEDULED); /* for 1 */
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_HANG);
    assert_int_equal(found.verdict[0].rank_count, 1);
    assert_int_equal(found.verdict[0].rank[0], 1);
    assert_true(found.verdict[0].because_count > 0);
    findings_fini(&found);
}

static void nobody_is_named_in_a_job_that_is_well(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, TP0, 1, DUMP_COMPLETED);
    all_enter(&stage, TP1, 1, DUMP_COMPLETED);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    found = judge(&stage);
    assert_int_equal(found.count, 0);
    assert_true(found.well);
    findings_fini(&found);
}

static void without_states_an_even_job_cannot_be_told(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_SCHEDULED);
    all_enter(&stage, ALL, 2, DUMP_SCHEDULED);
    found = judge(&stage);
    assert_int_equal(found.count, 0);
    assert_false(found.well);
    findings_fini(&found);
}

static void all_in_and_nothing_moves_names_no_rank(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    all_enter(&stage, ALL, 2, DUMP_STARTED);
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_HANG);
    assert_int_equal(found.verdict[0].rank_count, 0);
    assert_true(found.verdict[0].confidence < 0.5);
    findings_fini(&found);
}

static void the_device_that_never_started_is_named(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    for (uint32_t r = 0; r < 4; r++)
        enters(&stage, r, ALL, 2, r == 2 ? DUMP_SCHEDULED : DUMP_STARTED);
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].rank_count, 1);
    assert_int_equal(found.verdict[0].rank[0], 2);
    findings_fini(&found);
}

static void a_size_that_differs_is_a_desync_of_the_minority(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    all_enter(&stage, ALL, 2, DUMP_STARTED);
    stage.op[3][1].what = 1;
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_DESYNC);
    assert_string_equal(found.verdict[0].cause, "different sizes");
    assert_int_equal(found.verdict[0].rank_count, 1);
    assert_int_equal(found.verdict[0].rank[0], 3);
    assert_int_equal(found.verdict[0].because_count, 2); /* both sides */
    findings_fini(&found);
}

static void the_same_ops_in_another_order_are_called_so(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_SCHEDULED);
    all_enter(&stage, ALL, 2, DUMP_SCHEDULED);
    for (uint32_t r = 0; r < 4; r++)
        stage.op[r][r != 1].what = 2;
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.verdict[0].cause, "collectives in a different order");
    assert_int_equal(found.verdict[0].rank[0], 1);
    findings_fini(&found);
}

static void opposite_orders_of_two_groups_are_a_desync(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    all_enter(&stage, TP0, 1, DUMP_COMPLETED);
    enters(&stage, 0, TP0, 2, DUMP_SCHEDULED);
    enters(&stage, 1, ALL, 2, DUMP_SCHEDULED);
    enters(&stage, 2, ALL, 2, DUMP_SCHEDULED);
    enters(&stage, 3, ALL, 2, DUMP_SCHEDULED);
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_DESYNC);
    assert_int_equal(found.verdict[0].rank_count, 2);
    findings_fini(&found);
}

/* As NCCL's recorder leaves it: hosts go on, so all have entered both; devices do one after the other. */
static void devices_that_began_with_different_groups_are_a_desync(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    all_enter(&stage, TP0, 1, DUMP_COMPLETED);
    enters(&stage, 0, TP0, 2, DUMP_STARTED);
    enters(&stage, 0, ALL, 2, DUMP_SCHEDULED);
    enters(&stage, 1, ALL, 2, DUMP_STARTED);
    enters(&stage, 1, TP0, 2, DUMP_SCHEDULED);
    enters(&stage, 2, ALL, 2, DUMP_STARTED);
    enters(&stage, 3, ALL, 2, DUMP_STARTED);
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_DESYNC);
    assert_int_equal(found.verdict[0].rank_count,
                     2); /* of two that are in both, one on each side */
    assert_int_equal(found.verdict[0].rank[0], 0);
    assert_int_equal(found.verdict[0].rank[1], 1);
    findings_fini(&found);
}

static void a_status_that_lags_behind_the_ops_makes_no_hang(void **state)
{
    struct stage stage;
    struct findings found;
    struct dump_status status = { .group = ALL, .enqueued = 2, .started = 1, .completed = -1 };

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    all_enter(&stage, ALL, 2, DUMP_COMPLETED);
    for (uint32_t r = 0; r < 4; r++) {
        stage.rank[r].status = &status;
        stage.rank[r].statuses = 1;
    }
    found = judge(&stage);
    assert_int_equal(found.count, 0);
    assert_true(found.well);
    findings_fini(&found);
}

static bool is_named(const struct findings *found, uint32_t rank)
{
    for (size_t i = 0; i < found->count; i++) {
        for (uint32_t k = 0; k < found->verdict[i].rank_count; k++) {
            if (found->verdict[i].rank[k] == rank)
                return true;
        }
    }
    return false;
}

static void name_groups(struct stage *stage)
{
    for (uint32_t g = 0; g < 5; g++)
        strcpy(stage->group[g].about, g <= TP1 ? "tensor" : g <= DP1 ? "data" : "world");
}

/* 0 never comes to its second tensor-parallel op.  2 waits for it in the data-parallel one, as 3 does for 1: but 3
 * went on from there.
 */
static void one_that_did_less_than_its_neighbour_is_named(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    name_groups(&stage);
    all_enter(&stage, TP0, 1, DUMP_COMPLETED);
    all_enter(&stage, TP1, 1, DUMP_COMPLETED);
    enters(&stage, 1, TP0, 2, DUMP_SCHEDULED);
    enters(&stage, 2, DP0, 1, DUMP_SCHEDULED);
    enters(&stage, 3, DP1, 1, DUMP_SCHEDULED);
    enters(&stage, 3, TP1, 2, DUMP_SCHEDULED);
    found = judge(&stage);
    assert_true(is_named(&found, 0) && is_named(&found, 2));
    assert_false(is_named(&found, 1) || is_named(&found, 3));
    findings_fini(&found);
    enters(&stage, 2, TP1, 2, DUMP_SCHEDULED); /* had it done as much, it would be a victim */
    found = judge(&stage);
    assert_true(is_named(&found, 0));
    assert_false(is_named(&found, 2));
    findings_fini(&found);
}

/* No state is known: what all have entered is over, and 0, which is in nothing else, stopped as 3 did. */
static void without_states_who_is_in_nothing_is_named_beside_another(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, TP0, 1, DUMP_SCHEDULED);
    all_enter(&stage, TP1, 1, DUMP_SCHEDULED);
    enters(&stage, 1, DP1, 1, DUMP_SCHEDULED);
    enters(&stage, 2, TP1, 2, DUMP_SCHEDULED);
    found = judge(&stage);
    assert_true(is_named(&found, 0) && is_named(&found, 3));
    assert_false(is_named(&found, 1) || is_named(&found, 2));
    findings_fini(&found);
}

/* 3 left nothing.  That others wait for 0 alone explains the hang, so 3 is told apart, with less confidence. */
static void who_left_nothing_is_a_candidate_beside_a_culprit(void **state)
{
    struct stage stage;
    struct findings found;
    struct thresholds limits;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    enters(&stage, 1, ALL, 2, DUMP_SCHEDULED);
    enters(&stage, 2, ALL, 2, DUMP_SCHEDULED);
    stage.rank[3].ops = 0;
    stage.rank[3].left = DUMP_NOTHING;
    found = judge(&stage);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.verdict[0].rank_count, 1);
    assert_int_equal(found.verdict[0].rank[0], 0);
    assert_int_equal(found.verdict[1].rank_count, 1);
    assert_int_equal(found.verdict[1].rank[0], 3);
    assert_true(found.verdict[1].confidence < found.verdict[0].confidence);
    assert_true(found.verdict[1].because_count > 0);
    findings_fini(&found);
    thresholds_default(&limits); /* one of four is too many where it is said so */
    limits.dumps_unseen_share = 0.2;
    found = judge_by(&stage, &limits);
    assert_int_equal(found.count, 1);
    findings_fini(&found);
}

/* A day, or a year and a day, from the job is its time; a month is not; who tells no time is believed. */
static void lines_of_kernels_count_when_they_are_of_its_time(void **state)
{
    static const struct {
        int64_t off_days;
        bool dated, counts;
    } cases[] = { { 0, true, true },    { -1, true, true },   { 1, true, true },
                  { -366, true, true }, { -30, true, false }, { 30, true, false },
                  { 0, false, true } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct stage stage;
        struct findings found;
        struct log_event event = { .kind = LOG_EVENT_XID,
                                   .layer = LAYER_PCIE,
                                   .rank = LOG_EVENT_NO_RANK,
                                   .node = "n1",
                                   .cause = "GPU has fallen off the bus" };
        struct logs logs = { .event = &event, .events = 1 };

        stage_init(&stage);
        stage.now = INT64_C(1790000000000000000);
        if (cases[i].dated)
            event.real_ns = stage.now + cases[i].off_days * 86400 * INT64_C(1000000000);
        all_enter(&stage, TP0, 1, DUMP_COMPLETED);
        enters(&stage, 0, TP0, 2, DUMP_SCHEDULED);
        found = judge(&stage);
        assert_int_equal(found.count, 1);
        assert_int_equal(postmortem_logs(&logs, "job", &found), 0);
        assert_int_equal(found.count, 1);
        if (found.verdict[0].layer != (cases[i].counts ? LAYER_PCIE : LAYER_UNKNOWN))
            fail_msg("case %zu: layer %u", i, found.verdict[0].layer);
        findings_fini(&found);
    }
}

static void expect_rank(struct stage *stage, uint32_t rank)
{
    struct findings found = judge(stage);

    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].kind, VERDICT_HANG);
    assert_int_equal(found.verdict[0].rank_count, 1);
    assert_int_equal(found.verdict[0].rank[0], rank);
    findings_fini(&found);
}

static void a_device_that_stopped_is_named_whatever_its_host_enqueued(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    for (uint32_t r = 0; r < 4; r++) {
        enters(&stage, r, ALL, 2, r == 2 ? DUMP_SCHEDULED : DUMP_COMPLETED);
        enters(&stage, r, ALL, 3, DUMP_SCHEDULED);
    }
    expect_rank(&stage, 2);
}

static void one_that_waits_for_a_transfer_is_not_named_but_its_silent_neighbour(void **state)
{
    struct stage stage;

    (void)state;
    stage_init(&stage);
    stage.rank[1].left = DUMP_NOTHING;
    for (uint32_t r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        enters(&stage, r, ALL, 1, DUMP_COMPLETED);
        enters(&stage, r, ALL, 2, r == 2 ? DUMP_SCHEDULED : DUMP_COMPLETED);
        if (r != 2)
            enters(&stage, r, ALL, 3, DUMP_SCHEDULED);
    }
    expect_rank(&stage, 1);
}

static void with_half_of_the_dumps_nobody_is_named_for_a_missing_one(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    stage.rank[2].left = stage.rank[3].left = DUMP_NOTHING;
    for (uint32_t r = 0; r < 2; r++) {
        enters(&stage, r, ALL, 1, DUMP_COMPLETED);
        enters(&stage, r, ALL, 2, DUMP_SCHEDULED);
    }
    found = judge(&stage);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.verdict[0].rank_count, 0);
    assert_non_null(strstr(found.verdict[0].because[0].what, "2-3"));
    findings_fini(&found);
}

static void a_dump_that_was_cut_off_names_nobody_beside_a_missing_one(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    stage.rank[2].left = DUMP_TRUNCATED;
    stage.rank[3].left = DUMP_TRUNCATED;
    for (uint32_t r = 0; r < 2; r++) {
        enters(&stage, r, ALL, 1, DUMP_COMPLETED);
        enters(&stage, r, ALL, 2, DUMP_SCHEDULED);
    }
    found = judge(&stage);
    for (size_t i = 0; i < found.count; i++)
        assert_int_equal(found.verdict[i].rank_count, 0);
    findings_fini(&found);
}

static void dumps_of_a_job_at_work_name_nobody(void **state)
{
    struct stage stage;
    struct findings found;

    (void)state;
    stage_init(&stage);
    stage.now = INT64_C(1790000000000000000);
    all_enter(&stage, ALL, 1, DUMP_COMPLETED);
    for (uint32_t r = 0; r < 3; r++)
        enters(&stage, r, ALL, 2, DUMP_SCHEDULED);
    for (uint32_t r = 0; r < 4; r++)
        stage.rank[r].written_ns = stage.now + 300000000; /* on demand, 0.3 s later */
    found = judge(&stage);
    assert_int_equal(found.count, 0);
    findings_fini(&found);
    for (uint32_t r = 0; r < 4; r++)
        stage.rank[r].written_ns = stage.now + INT64_C(600000000000); /* after a timeout */
    expect_rank(&stage, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_victim_in_another_group_is_not_named),
        cmocka_unit_test(nobody_is_named_in_a_job_that_is_well),
        cmocka_unit_test(without_states_an_even_job_cannot_be_told),
        cmocka_unit_test(all_in_and_nothing_moves_names_no_rank),
        cmocka_unit_test(the_device_that_never_started_is_named),
        cmocka_unit_test(a_size_that_differs_is_a_desync_of_the_minority),
        cmocka_unit_test(the_same_ops_in_another_order_are_called_so),
        cmocka_unit_test(opposite_orders_of_two_groups_are_a_desync),
        cmocka_unit_test(devices_that_began_with_different_groups_are_a_desync),
        cmocka_unit_test(one_that_did_less_than_its_neighbour_is_named),
        cmocka_unit_test(without_states_who_is_in_nothing_is_named_beside_another),
        cmocka_unit_test(who_left_nothing_is_a_candidate_beside_a_culprit),
        cmocka_unit_test(a_status_that_lags_behind_the_ops_makes_no_hang),
        cmocka_unit_test(lines_of_kernels_count_when_they_are_of_its_time),
        cmocka_unit_test(a_device_that_stopped_is_named_whatever_its_host_enqueued),
        cmocka_unit_test(one_that_waits_for_a_transfer_is_not_named_but_its_silent_neighbour),
        cmocka_unit_test(with_half_of_the_dumps_nobody_is_named_for_a_missing_one),
        cmocka_unit_test(a_dump_that_was_cut_off_names_nobody_beside_a_missing_one),
        cmocka_unit_test(dumps_of_a_job_at_work_name_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
