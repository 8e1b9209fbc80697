/* test-replay.c - the replay against sentences, and against a slow obvious reference.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "judge/replay/replay.h"

#define NONE REPLAY_NONE
#define OPS_MAX 4096

/* A program with its durations and what came out. */
struct bench {
    struct replay_op op[OPS_MAX];
    int64_t duration[OPS_MAX], end[OPS_MAX], arrive[OPS_MAX], slack[OPS_MAX];
    size_t count;
    int64_t step;
};

/* Adds an op; line order is the order of these calls. */
static uint32_t put(struct bench *b, uint32_t line, int64_t duration, uint32_t dep)
{
    assert_true(b->count < OPS_MAX);
    b->op[b->count] = (struct replay_op){ .line = line, .meet = NONE, .dep = { dep, NONE } };
    b->duration[b->count] = duration;
    return (uint32_t)b->count++;
}

static uint32_t put_meet(struct bench *b, uint32_t line, int64_t duration, uint32_t meet,
                         enum replay_role role)
{
    uint32_t i = put(b, line, duration, NONE);

    b->op[i].meet = meet;
    b->op[i].role = (uint8_t)role;
    return i;
}

static struct bench *bench_new(void)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    return b;
}

static void bench_run(struct bench *b)
{
    struct replay *replay = NULL;
    struct err err = { "" };
    void *scratch;

    if (replay_create(b->op, b->count, &replay, &err) != 0)
        fail_msg("%s", err.text);
    scratch = aligned_alloc(64, replay_scratch_bytes(replay));
    assert_non_null(scratch);
    memset(scratch, 0x5a, replay_scratch_bytes(replay));
    b->step = replay_run(replay, b->duration, scratch, b->end, b->arrive);
    replay_slack(replay, b->duration, scratch, b->slack);
    assert_int_equal(replay_run(replay, b->duration, scratch, NULL, NULL), b->step);
    free(scratch);
    replay_destroy(replay);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When op i arrives, straight from the words of replay.h. */
static int64_t slow_arrive(const struct bench *b, const int64_t *end, size_t i)
{
    int64_t at = 0;

    for (size_t j = i; j-- > 0;) {
        if (b->op[j].line == b->op[i].line) {
            at = later(at, end[j]);
            break;
        }
    }
    for (int k = 0; k < 2; k++) {
        if (b->op[i].dep[k] != NONE)
            at = later(at, end[b->op[i].dep[k]]);
    }
    return at;
}

static int64_t slow_start(const struct bench *b, const int64_t *arrive, size_t i)
{
    int64_t at = arrive[i];

    if (b->op[i].meet == NONE || !(b->op[i].role & REPLAY_WAITS))
        return at;
    for (size_t j = 0; j < b->count; j++) {
        if (b->op[j].meet == b->op[i].meet && (b->op[j].role & REPLAY_GIVES))
            at = later(at, arrive[j]);
    }
    return at;
}

/* Again and again over all ops until nothing moves.  What moves for longer than there are
 * ops (and each takes time) goes round in a circle: false.
 */
static bool slow_run(const struct bench *b, int64_t *end, int64_t *arrive)
{
    memset(end, 0, sizeof(*end) * b->count);
    for (size_t round = 0; round <= 2 * b->count + 2; round++) {
        bool moved = false;

        for (size_t i = 0; i < b->count; i++)
            arrive[i] = slow_arrive(b, end, i);
        for (size_t i = 0; i < b->count; i++) {
            int64_t at = slow_start(b, arrive, i) + b->duration[i];

            moved = moved || at != end[i];
            end[i] = at;
        }
        if (!moved)
            return true;
    }
    return false;
}

static int64_t slow_step(const struct bench *b)
{
    static int64_t end[OPS_MAX], arrive[OPS_MAX];
    int64_t step = 0;

    assert_true(slow_run(b, end, arrive));
    for (size_t i = 0; i < b->count; i++)
        step = later(step, end[i]);
    return step;
}

static void an_empty_program_takes_no_time(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    bench_run(b);
    assert_int_equal(b->step, 0);
    free(b);
}

static void ops_of_a_line_run_one_after_the_other(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    put(b, 7, 10, NONE);
    put(b, 9, 3, NONE);
    put(b, 7, 20, NONE);
    bench_run(b);
    assert_int_equal(b->end[0], 10);
    assert_int_equal(b->end[1], 3);
    assert_int_equal(b->end[2], 30);
    assert_int_equal(b->arrive[2], 10);
    assert_int_equal(b->step, 30);
    free(b);
}

static void a_dependency_may_come_later_in_the_list(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    put(b, 0, 5, 1);
    put(b, 1, 10, NONE);
    bench_run(b);
    assert_int_equal(b->end[0], 15);
    assert_int_equal(b->slack[1], 0);
    free(b);
}

static void an_op_waits_for_its_line_and_both_dependencies(void **state)
{
    for (int latest = 0; latest < 3; latest++) {
        struct bench *b = bench_new();
        uint32_t i;

        (void)state;
        put(b, 0, latest == 0 ? 50 : 10, NONE);
        put(b, 1, latest == 1 ? 50 : 10, NONE);
        put(b, 2, latest == 2 ? 50 : 10, NONE);
        i = put(b, 0, 1, 1);
        b->op[i].dep[1] = 2;
        bench_run(b);
        assert_int_equal(b->arrive[i], 50);
        assert_int_equal(b->end[i], 51);
        assert_int_equal(b->slack[latest], 0);
        assert_int_equal(b->slack[(latest + 1) % 3], 40);
        free(b);
    }
}

static void a_collective_starts_with_its_last_member(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        put(b, rank, rank == 2 ? 90 : 30, NONE);
    for (uint32_t rank = 0; rank < 4; rank++)
        put_meet(b, rank, 5, 1000000007, REPLAY_BOTH);
    bench_run(b);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(b->end[4 + rank], 95);
        assert_int_equal(b->arrive[4 + rank], rank == 2 ? 90 : 30);
        assert_int_equal(b->slack[rank], rank == 2 ? 0 : 60);
    }
    free(b);
}

static void who_only_gives_does_not_wait(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    put(b, 0, 10, NONE);
    put(b, 1, 80, NONE);
    put_meet(b, 0, 5, 0, REPLAY_GIVES); /* the root of a broadcast */
    put_meet(b, 1, 5, 0, REPLAY_WAITS);
    bench_run(b);
    assert_int_equal(b->end[2], 15);
    assert_int_equal(b->end[3], 85);
    free(b);
}

static void who_only_waits_does_not_hold_the_others(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    put(b, 0, 10, NONE);
    put(b, 1, 40, NONE);
    put(b, 2, 80, NONE);
    put_meet(b, 0, 5, 0, REPLAY_BOTH);
    put_meet(b, 1, 5, 0, REPLAY_BOTH);
    put_meet(b, 2, 5, 0, REPLAY_WAITS);
    bench_run(b);
    assert_int_equal(b->end[3], 45);
    assert_int_equal(b->end[4], 45);
    assert_int_equal(b->end[5], 85);
    free(b);
}

static void a_meet_with_one_member_or_no_giver_holds_nobody(void **state)
{
    struct bench *b = bench_new();

    (void)state;
    put_meet(b, 0, 10, 5, REPLAY_BOTH);
    put_meet(b, 1, 20, 6, REPLAY_WAITS);
    put_meet(b, 2, 30, NONE - 1, REPLAY_WAITS);
    put_meet(b, 3, 40, NONE - 1, REPLAY_WAITS);
    bench_run(b);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b->end[i], 10 * (i + 1));
        assert_int_equal(b->arrive[i], 0);
    }
    free(b);
}

static int create_error(const struct bench *b, struct err *err)
{
    struct replay *replay = NULL;
    int r = replay_create(b->op, b->count, &replay, err);

    replay_destroy(replay);
    return r;
}

static void a_circle_is_refused_and_names_an_op_and_its_line(void **state)
{
    struct bench *b = bench_new();
    struct err err = { "" };

    (void)state;
    put(b, 0, 1, NONE);
    put(b, 31, 1, 2);
    put(b, 32, 1, 1);
    assert_int_equal(create_error(b, &err), -ELOOP);
    assert_non_null(strstr(err.text, "line 31"));
    assert_non_null(strstr(err.text, "line 32"));
    b->op[2].dep[0] = 2;
    assert_int_equal(create_error(b, &err), -ELOOP);
    assert_string_equal(err.text, "op 2 on line 32 waits for itself");
    assert_int_equal(create_error(b, NULL), -ELOOP);
    free(b);
}

static void two_collectives_in_opposite_order_are_a_circle(void **state)
{
    struct bench *b = bench_new();
    struct err err = { "" };

    (void)state;
    put_meet(b, 0, 1, 1, REPLAY_BOTH);
    put_meet(b, 0, 1, 2, REPLAY_BOTH);
    put_meet(b, 1, 1, 2, REPLAY_BOTH);
    put_meet(b, 1, 1, 1, REPLAY_BOTH);
    assert_int_equal(create_error(b, &err), -ELOOP);
    free(b);
}

static void bad_input_gets_a_sentence(void **state)
{
    struct bench *b = bench_new();
    struct err err = { "" };

    (void)state;
    put(b, 0, 1, 1);
    assert_int_equal(create_error(b, &err), -EINVAL);
    assert_string_equal(err.text, "op 0 depends on op 1, but there are only 1");
    b->op[0].dep[0] = NONE;
    b->op[0].meet = 3;
    assert_int_equal(create_error(b, &err), -EINVAL);
    assert_string_equal(err.text, "op 0 has no role 0 in meet 3");
    b->op[0].role = 4;
    assert_int_equal(create_error(b, &err), -EINVAL);
    b->count = (size_t)UINT32_MAX; /* refused before any of them is looked at */
    assert_int_equal(create_error(b, &err), -EINVAL);
    free(b);
}

/* One line of a million ops with as many meets of one: no recursion, no square. */
static void a_very_long_line_is_no_trouble(void **state)
{
    enum {
        LONG = 1000000
    };
    struct replay_op *op = calloc(LONG, sizeof(*op));
    int64_t *duration = calloc(LONG, sizeof(*duration));
    int64_t *slack = calloc(LONG, sizeof(*slack));
    struct replay *replay = NULL;
    void *scratch;

    (void)state;
    assert_true(op && duration && slack);
    for (uint32_t i = 0; i < LONG; i++) {
        op[i] = (struct replay_op){ .line = 4000000000u, .meet = i * 4000u, .role = REPLAY_BOTH };
        op[i].dep[0] = i ? i - 1 : NONE;
        op[i].dep[1] = NONE;
        op[i].meet = op[i].meet == NONE ? 1 : op[i].meet;
        duration[i] = 3;
    }
    assert_int_equal(replay_create(op, LONG, &replay, NULL), 0);
    scratch = aligned_alloc(64, replay_scratch_bytes(replay));
    assert_non_null(scratch);
    assert_int_equal(replay_run(replay, duration, scratch, NULL, NULL), 3 * LONG);
    replay_slack(replay, duration, scratch, slack);
    for (size_t i = 0; i < LONG; i++)
        assert_true(slack[i] == 0);
    replay_destroy(replay);
    free(scratch);
    free(op);
    free(duration);
    free(slack);
}

/* A random program in the order of time: single ops and meets of random lines and roles,
 * dependencies on what came before.
 */
static void random_time(struct bench *b, struct rand *rand, uint32_t lines, uint32_t events)
{
    for (uint32_t e = 0; e < events; e++) {
        uint32_t members = rand_below(rand, 3) ? 1 : 1 + rand_below(rand, lines);
        uint32_t from = rand_below(rand, lines), before = (uint32_t)b->count;

        for (uint32_t m = 0; m < members; m++) {
            uint32_t i = put(b, (from + m) % lines, rand_below(rand, 100), NONE);

            for (int k = 0; k < 2; k++) {
                if (before > 0 && rand_below(rand, 2))
                    b->op[i].dep[k] = rand_below(rand, before);
            }
            if (members > 1 || rand_below(rand, 4) == 0)
                b->op[i].meet = e;
            b->op[i].role = (uint8_t)(1 + rand_below(rand, 3));
            if (rand_below(rand, 2) && m == 0)
                b->op[i].role = REPLAY_BOTH;
        }
    }
}

/* `copies` ranks that do the same, copy beside copy; some ops meet across the copies. */
static void random_copies(struct bench *b, const struct bench *one, struct rand *rand,
                          uint32_t copies)
{
    for (uint32_t i = 0; i < one->count; i++) {
        bool across = rand_below(rand, 4) == 0;

        for (uint32_t c = 0; c < copies; c++) {
            struct replay_op op = one->op[i];

            op.line = op.line * copies + c;
            for (int k = 0; k < 2; k++)
                op.dep[k] = op.dep[k] == NONE ? NONE : op.dep[k] * copies + c;
            if (across) {
                op.meet = 1000000 + i;
                op.role = REPLAY_BOTH;
            } else if (op.meet != NONE) {
                op.meet = op.meet * copies + c;
            }
            b->op[b->count] = op;
            b->duration[b->count++] = rand_below(rand, 100);
        }
    }
}

/* Other numbers for lines and meets, far apart: times an odd number is one to one. */
static void random_numbers(struct bench *b, struct rand *rand)
{
    uint32_t odd = (uint32_t)rand_u64(rand) | 1;

    for (size_t i = 0; i < b->count; i++) {
        b->op[i].line *= odd;
        if (b->op[i].meet != NONE && b->op[i].meet * odd != NONE)
            b->op[i].meet *= odd;
    }
}

/* Deals the ops anew without changing the order on any line. */
static void random_deal(struct bench *b, struct rand *rand)
{
    static uint32_t place[OPS_MAX], owner[OPS_MAX];
    struct bench *was = bench_new();

    *was = *b;
    for (uint32_t i = 0; i < b->count; i++)
        owner[i] = i;
    for (uint32_t i = (uint32_t)b->count; i > 1; i--) {
        uint32_t j = rand_below(rand, i), t = owner[j];

        owner[j] = owner[i - 1];
        owner[i - 1] = t;
    }
    /* owner[p] says whose line gets place p; the ops of that line come in their order */
    for (uint32_t i = 0; i < b->count; i++)
        place[i] = NONE;
    for (uint32_t p = 0; p < b->count; p++) {
        for (uint32_t i = 0; i < b->count; i++) {
            if (place[i] == NONE && was->op[i].line == was->op[owner[p]].line) {
                place[i] = p;
                break;
            }
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        struct replay_op op = was->op[i];

        for (int k = 0; k < 2; k++)
            op.dep[k] = op.dep[k] == NONE ? NONE : place[op.dep[k]];
        b->op[place[i]] = op;
        b->duration[place[i]] = was->duration[i];
    }
    free(was);
}

static void compare(struct bench *b, uint64_t seed)
{
    static int64_t end[OPS_MAX], arrive[OPS_MAX];

    assert_true(slow_run(b, end, arrive));
    bench_run(b);
    for (size_t i = 0; i < b->count; i++) {
        if (b->end[i] != end[i] || b->arrive[i] != arrive[i])
            fail_msg("seed %llu: op %zu arrives %lld ends %lld, not %lld and %lld",
                     (unsigned long long)seed, i, (long long)b->arrive[i], (long long)b->end[i],
                     (long long)arrive[i], (long long)end[i]);
    }
    assert_int_equal(b->step, slow_step(b));
}

static void random_programs_end_as_the_slow_reference_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct rand rand = { .state = seed };
        struct bench *b = bench_new();

        random_time(b, &rand, 1 + rand_below(&rand, 8), 1 + rand_below(&rand, 20));
        if (rand_below(&rand, 2))
            random_deal(b, &rand);
        if (rand_below(&rand, 4) == 0)
            random_numbers(b, &rand);
        compare(b, seed);
        free(b);
    }
}

static void programs_of_equal_ranks_end_as_the_slow_reference_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct rand rand = { .state = seed };
        struct bench *one = bench_new();
        struct bench *b = bench_new();

        random_time(one, &rand, 1 + rand_below(&rand, 3), 1 + rand_below(&rand, 6));
        random_copies(b, one, &rand, 2 + rand_below(&rand, 24));
        if (rand_below(&rand, 4) == 0)
            random_deal(b, &rand);
        if (rand_below(&rand, 4) == 0)
            random_numbers(b, &rand);
        compare(b, seed);
        free(one);
        free(b);
    }
}

static void slack_is_how_much_an_op_can_grow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct rand rand = { .state = seed };
        struct bench *one = bench_new();
        struct bench *b = bench_new();

        random_time(one, &rand, 1 + rand_below(&rand, 3), 1 + rand_below(&rand, 5));
        random_copies(b, one, &rand, seed % 2 ? 1 : 10);
        bench_run(b);
        for (int n = 0; n < 20; n++) {
            size_t i = rand_below(&rand, (uint32_t)b->count);
            int64_t was = b->duration[i];

            b->duration[i] = was + b->slack[i];
            assert_int_equal(slow_step(b), b->step);
            b->duration[i]++;
            assert_int_equal(slow_step(b), b->step + 1);
            b->duration[i] = was;
        }
        free(one);
        free(b);
    }
}

static void circles_are_found_exactly_when_there_are_any(void **state)
{
    static int64_t end[OPS_MAX], arrive[OPS_MAX];
    int circles = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct rand rand = { .state = seed };
        struct bench *b = bench_new();
        struct err err = { "" };
        bool fine;
        int r;

        random_time(b, &rand, 1 + rand_below(&rand, 6), 1 + rand_below(&rand, 12));
        for (size_t i = 0; i < b->count; i++)
            b->duration[i] = 1; /* a circle must move the reference for ever */
        for (uint32_t n = rand_below(&rand, 3); n > 0; n--)
            b->op[rand_below(&rand, (uint32_t)b->count)].dep[1] =
                rand_below(&rand, (uint32_t)b->count);
        fine = slow_run(b, end, arrive);
        r = create_error(b, &err);
        assert_int_equal(r, fine ? 0 : -ELOOP);
        assert_true(fine || strstr(err.text, "waits for itself"));
        circles += !fine;
        free(b);
    }
    assert_true(circles > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_program_takes_no_time),
        cmocka_unit_test(ops_of_a_line_run_one_after_the_other),
        cmocka_unit_test(a_dependency_may_come_later_in_the_list),
        cmocka_unit_test(an_op_waits_for_its_line_and_both_dependencies),
        cmocka_unit_test(a_collective_starts_with_its_last_member),
        cmocka_unit_test(who_only_gives_does_not_wait),
        cmocka_unit_test(who_only_waits_does_not_hold_the_others),
        cmocka_unit_test(a_meet_with_one_member_or_no_giver_holds_nobody),
        cmocka_unit_test(a_circle_is_refused_and_names_an_op_and_its_line),
        cmocka_unit_test(two_collectives_in_opposite_order_are_a_circle),
        cmocka_unit_test(bad_input_gets_a_sentence),
        cmocka_unit_test(a_very_long_line_is_no_trouble),
        cmocka_unit_test(random_programs_end_as_the_slow_reference_says),
        cmocka_unit_test(programs_of_equal_ranks_end_as_the_slow_reference_says),
        cmocka_unit_test(slack_is_how_much_an_op_can_grow),
        cmocka_unit_test(circles_are_found_exactly_when_there_are_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
