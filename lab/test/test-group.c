/* test-group.c - the all-reduce against a plain sum, over socket pairs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>

#include "core/clean.h"
#include "lab/trainer/group.h"

#define COUNT_F32 20011 /* odd, and more than a socket's buffer holds at once */

struct member {
    struct group group;
    enum group_op op;
    void *data;
    size_t count;
    int64_t latest_ns;
    int result;
    struct err err;
    pthread_t thread;
};

static void group_make(struct member *member, uint32_t size)
{
    uint32_t rank[16];

    for (uint32_t i = 0; i < size; i++)
        rank[i] = 100 + i;
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(group_init(&member[i].group, "dp0", 1, rank, size, i), 0);
    for (uint32_t i = 0; i < size; i++)
        for (uint32_t j = i + 1; j < size; j++) {
            int pair[2];

            assert_int_equal(group_talks(size, i, j), group_talks(size, j, i));
            if (!group_talks(size, i, j))
                continue;
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            assert_int_equal(socket_prepare(pair[0]), 0);
            assert_int_equal(socket_prepare(pair[1]), 0);
            member[i].group.fd[j] = pair[0];
            member[j].group.fd[i] = pair[1];
        }
}

static void *member_main(void *argument)
{
    struct member *member = argument;

    member->result = group_reduce(&member->group, member->op, member->data, member->count,
                                  &member->latest_ns, &member->err);
    return NULL;
}

static void members_run(struct member *member, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(pthread_create(&member[i].thread, NULL, member_main, &member[i]), 0);
    for (uint32_t i = 0; i < size; i++)
        pthread_join(member[i].thread, NULL);
}

static void sums_floats(uint32_t size)
{
    struct member *member = calloc(size, sizeof(*member));
    double *plain = calloc(COUNT_F32, sizeof(*plain));

    group_make(member, size);
    for (uint32_t i = 0; i < size; i++) {
        float *value = calloc(COUNT_F32, sizeof(*value));

        for (size_t j = 0; j < COUNT_F32; j++) {
            value[j] = (float)((i * 37 + j * 11) % 101) / 7.0f;
            plain[j] += (double)value[j];
        }
        member[i].op = GROUP_SUM_F32;
        member[i].data = value;
        member[i].count = COUNT_F32;
        member[i].latest_ns = 1000 + (i == size / 2 ? 500 : i);
    }
    members_run(member, size);
    for (uint32_t i = 0; i < size; i++) {
        const float *value = member[i].data;

        assert_int_equal(member[i].result, 0);
        assert_int_equal(member[i].latest_ns, 1500); /* all know who came last */
        for (size_t j = 0; j < COUNT_F32; j++)
            assert_true(fabs((double)value[j] - plain[j]) < 1e-3);
        /* The same bits everywhere, or replicas would drift apart. */
        assert_memory_equal(value, member[0].data, COUNT_F32 * sizeof(float));
    }
    for (uint32_t i = 0; i < size; i++) {
        free(member[i].data);
        group_fini(&member[i].group);
    }
    free(plain);
    free(member);
}

static void equals_a_plain_sum_at_every_size(void **state)
{
    static const uint32_t size[] = { 1, 2, 3, 4, 5, 6, 7, 8, 11, 16 };

    (void)state;
    for (size_t i = 0; i < COUNT(size); i++)
        sums_floats(size[i]);
}

static void finds_the_least_of_all(void **state)
{
    struct member member[5] = { 0 };
    uint64_t value[5][2];

    (void)state;
    group_make(member, 5);
    for (uint32_t i = 0; i < 5; i++) {
        value[i][0] = 40 + (i + 2) % 5;
        value[i][1] = ~value[i][0];
        member[i].op = GROUP_MIN_U64;
        member[i].data = value[i];
        member[i].count = 2;
    }
    members_run(member, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(member[i].result, 0);
        assert_int_equal(value[i][0], 40);
        assert_int_equal(~value[i][1], 44);
        group_fini(&member[i].group);
    }
}

static void names_the_rank_that_is_lost(void **state)
{
    struct member member[3] = { 0 };
    double value[3] = { 1, 2, 3 };

    (void)state;
    group_make(member, 3);
    for (uint32_t i = 0; i < 3; i++) {
        member[i].op = GROUP_SUM_F64;
        member[i].data = &value[i];
        member[i].count = 1;
        member[i].group.done = 17;
    }
    group_fini(&member[2].group); /* as a process that dies */
    assert_int_equal(pthread_create(&member[0].thread, NULL, member_main, &member[0]), 0);
    assert_int_equal(pthread_create(&member[1].thread, NULL, member_main, &member[1]), 0);
    pthread_join(member[0].thread, NULL);
    assert_int_equal(member[0].result, -ECONNRESET);
    assert_string_equal(member[0].err.text,
                        "lost rank 102 in all-reduce 17 of dp0: Connection reset by peer");
    group_fini(&member[0].group); /* the next one loses this one: an echo */
    pthread_join(member[1].thread, NULL);
    assert_int_equal(member[1].result, -ECONNRESET);
    group_fini(&member[1].group);
}

static void does_not_wait_for_ever(void **state)
{
    struct member member[2] = { 0 };
    double value = 1;

    (void)state;
    group_make(member, 2);
    member[0].op = GROUP_SUM_F64;
    member[0].data = &value;
    member[0].count = 1;
    member[0].group.wait.timeout_ms = 20;
    member_main(&member[0]);
    assert_int_equal(member[0].result, -ETIMEDOUT);
    group_fini(&member[0].group);
    group_fini(&member[1].group);
}

static void sees_that_the_other_is_in_another_reduction(void **state)
{
    struct member member[2] = { 0 };
    double value[2] = { 1, 2 };

    (void)state;
    group_make(member, 2);
    for (uint32_t i = 0; i < 2; i++) {
        member[i].op = GROUP_SUM_F64;
        member[i].data = &value[i];
        member[i].count = 1;
        member[i].group.done = 4 + i;
    }
    members_run(member, 2);
    assert_int_equal(member[0].result, -EPROTO);
    assert_string_equal(member[0].err.text,
                        "rank 101 is in all-reduce 5 (8 bytes) of dp0, this rank is "
                        "in 4 (8 bytes)");
    group_fini(&member[0].group);
    group_fini(&member[1].group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_plain_sum_at_every_size),
        cmocka_unit_test(finds_the_least_of_all),
        cmocka_unit_test(names_the_rank_that_is_lost),
        cmocka_unit_test(does_not_wait_for_ever),
        cmocka_unit_test(sees_that_the_other_is_in_another_reduction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
