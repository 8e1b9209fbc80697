/* test-name-rank.c - numbers in names of files that are ranks, and numbers that are not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clean.h"
#include "read/name_rank.h"

static void a_word_makes_a_number_a_rank(void **state)
{
    static const struct {
        const char *path;
        uint32_t rank;
        bool local;
    } rows[] = {
        { "rank_3.log", 3, false },
        { "rank3_pid1003.pkl", 3, false },
        { "logs/node7/rank12.err.gz", 12, false },
        { "nccl_trace_rank_3.json", 3, false },
        { "_dump_3", 3, false },
        { "dump-3-of-8.json", 3, false },
        { "worker-5.out", 5, false },
        { "gpu2/stderr.log", 2, false },
        { "r7.txt", 7, false },
        { "local_rank_4.log", 4, true },
        { "node3.log", NAME_NO_RANK, false },
        { "slurm-4711.out", NAME_NO_RANK, false },
        { "server7.log", NAME_NO_RANK, false },
        { "3/stderr.log", NAME_NO_RANK, false },
        { "train.log.1", NAME_NO_RANK, false },
        { "frank3/train.log", NAME_NO_RANK, false },
        { "t.5r7Qab/train.log", NAME_NO_RANK, false },
        { "gpu8x80g/train.log", NAME_NO_RANK, false },
        { "localrank3.log", 3, true },
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct name_rank got = name_rank(rows[i].path);

        if (got.rank != rows[i].rank || got.local != rows[i].local)
            fail_msg("%s: rank %u", rows[i].path, got.rank);
    }
    (void)state;
}

static void by_siblings(const char *const *path, size_t count, struct name_rank *rank)
{
    for (size_t i = 0; i < count; i++)
        rank[i] = name_rank(path[i]);
    assert_int_equal(name_ranks(path, count, rank), 0);
}

static void siblings_that_count_from_zero_are_ranks(void **state)
{
    static const char *const counting[] = { "a/0/stderr.log", "a/1/stderr.log", "a/2/stderr.log" };
    static const char *const gap[] = { "out.1", "out.3" };
    static const char *const nodes[] = { "node0.log", "node1.log" };
    static const char *const rotated[] = { "train.log", "train.log.0", "train.log.1" };
    struct name_rank rank[3];

    by_siblings(counting, 3, rank);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(rank[i].rank, i);
    by_siblings(gap, 2, rank);
    assert_int_equal(rank[0].rank, NAME_NO_RANK);
    by_siblings(nodes, 2, rank);
    assert_int_equal(rank[0].rank, NAME_NO_RANK);
    by_siblings(rotated, 3, rank);
    assert_int_equal(rank[1].rank, NAME_NO_RANK);
    (void)state;
}

static void the_same_rank_of_two_nodes_is_none(void **state)
{
    static const char *const nodes[] = { "n1/rank_0.log", "n1/rank_1.log", "n2/rank_0.log" };
    static const char *const attempts[] = { "attempt_0/0/stderr.log", "attempt_1/0/stderr.log",
                                            "attempt_0/1/stderr.log", "attempt_1/1/stderr.log" };
    static const char *const streams[] = { "rank_0.out", "rank_0.err" };
    struct name_rank rank[4];

    by_siblings(nodes, 3, rank);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rank[i].rank, NAME_NO_RANK);
    by_siblings(attempts, 4, rank);
    assert_int_equal(rank[1].rank, 0);
    assert_int_equal(rank[2].rank, 1);
    by_siblings(streams, 2, rank);
    assert_int_equal(rank[0].rank, 0);
    assert_int_equal(rank[1].rank, 0);
    (void)state;
}

static void parts_of_a_rotated_log_are_one(void **state)
{
    size_t bytes;

    assert_int_equal(name_part("train.log.2.gz", &bytes), 2);
    assert_int_equal(bytes, 9);
    assert_int_equal(name_part("train.log.12", &bytes), 12);
    assert_int_equal(name_part("train.log", &bytes), 0);
    assert_int_equal(bytes, 9);
    assert_int_equal(name_part("rank.3", &bytes), 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_makes_a_number_a_rank),
        cmocka_unit_test(siblings_that_count_from_zero_are_ranks),
        cmocka_unit_test(the_same_rank_of_two_nodes_is_none),
        cmocka_unit_test(parts_of_a_rotated_log_are_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
