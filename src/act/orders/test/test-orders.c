/* test-orders.c - an order is begun once, and its end is reported, also by a process that takes over.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "act/orders/orders.h"
#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/test/ring_make.h"

#define REAL_NS INT64_C(1700000000000000000)

struct journal {
    struct outcome outcome[32];
    size_t count;
    int fail; /* -errno of the next writes; 0: they succeed */
};

static int journal_put(void *arg, const struct outcome *outcome)
{
    struct journal *journal = arg;

    if (journal->fail)
        return journal->fail;
    assert_true(journal->count < COUNT(journal->outcome));
    journal->outcome[journal->count++] = *outcome;
    return 0;
}

static struct orders *make(struct journal *journal)
{
    struct orders *orders = NULL;

    assert_int_equal(orders_create("launcher", journal_put, journal, &orders), 0);
    return orders;
}

/* Another process reads what the first one wrote. */
static struct orders *make_again(struct journal *journal)
{
    struct orders *orders = make(journal);

    for (size_t i = 0; i < journal->count; i++)
        assert_int_equal(orders_replay(orders, &journal->outcome[i]), 0);
    return orders;
}

static struct decision order_at(uint64_t step)
{
    return (struct decision){ .id = "d-1",
                              .action = ACTION_CHECKPOINT,
                              .attempt = 1,
                              .step = step,
                              .deadline_real_ns = REAL_NS + 1000 };
}

static const struct orders_now now = {
    .mono_ns = 5, .real_ns = REAL_NS, .attempt = 1, .rings_fd = -1
};

static void an_order_is_begun_once_also_after_a_kill(void **state)
{
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    const struct decision order = order_at(10);

    (void)state;
    assert_int_equal(orders_begin(orders, &order, &now), 1);
    assert_int_equal(journal.count, 1);
    assert_int_equal(journal.outcome[0].result, OUTCOME_UNKNOWN);
    assert_int_equal(journal.outcome[0].ended_real_ns, 0);
    assert_int_equal(orders_begin(orders, &order, &now), 0);
    orders_destroy(orders); /* killed */
    orders = make_again(&journal);
    assert_int_equal(orders_begin(orders, &order, &now), 0);
    assert_int_equal(journal.count, 1);
    assert_int_equal(orders_resume(orders, &now), 0);
    assert_int_equal(journal.count, 2);
    assert_int_equal(journal.outcome[1].result, OUTCOME_UNKNOWN);
    assert_true(journal.outcome[1].ended_real_ns > 0);
    assert_int_equal(orders_resume(orders, &now), 0);
    assert_int_equal(journal.count, 2);
    orders_destroy(orders);
    orders = make_again(&journal);
    assert_int_equal(orders_resume(orders, &now), 0);
    assert_int_equal(orders_begin(orders, &order, &now), 0);
    assert_int_equal(journal.count, 2);
    orders_destroy(orders);
}

static void what_cannot_be_written_down_is_not_begun(void **state)
{
    struct journal journal = { .fail = -ENOSPC };
    struct orders *orders = make(&journal);
    const struct decision order = order_at(10);

    (void)state;
    assert_int_equal(orders_begin(orders, &order, &now), -ENOSPC);
    journal.fail = 0;
    assert_int_equal(orders_begin(orders, &order, &now), 1); /* tried again */
    orders_destroy(orders);
}

static void an_order_for_another_attempt_or_too_late_is_not_carried_out(void **state)
{
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    struct decision order = order_at(10);

    (void)state;
    order.attempt = 0;
    assert_int_equal(orders_begin(orders, &order, &now), 0);
    assert_int_equal(journal.outcome[0].result, OUTCOME_NOT_EXECUTED);
    assert_non_null(strstr(journal.outcome[0].text, "attempt 0"));
    order = order_at(10);
    strcpy(order.id, "d-2");
    order.deadline_real_ns = REAL_NS - 1;
    assert_int_equal(orders_begin(orders, &order, &now), 0);
    assert_int_equal(journal.outcome[1].result, OUTCOME_NOT_EXECUTED);
    assert_int_equal(journal.count, 2);
    orders_destroy(orders);
}

/* ---- with a ring ---- */

struct scene {
    char path[64];
    int dir, ring;
};

static int scene_make(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    struct ring_header header;
    struct ring_make ring;

    strcpy(scene->path, "/tmp/lockstep-orders.XXXXXX");
    if (!mkdtemp(scene->path))
        return -1;
    scene->dir = open(scene->path, O_RDONLY | O_DIRECTORY);
    scene->ring = openat(scene->dir, "rank-0.0.ring", O_RDWR | O_CREAT, 0600);
    make_begin(&ring, scene->ring, 1, 8);
    make_header(&header, 1, 8);
    header.rank = 0;
    header.world = 1;
    header.step = 3;
    make_seal(&header);
    make_write(scene->ring, &header, sizeof(header), 0);
    *state = scene;
    return 0;
}

static int scene_remove(void **state)
{
    struct scene *scene = *state;

    unlinkat(scene->dir, "rank-0.0.ring", 0);
    close(scene->ring);
    close(scene->dir);
    rmdir(scene->path);
    free(scene);
    return 0;
}

static uint64_t asked_id(const struct scene *scene)
{
    struct ring_request_place place;

    assert_int_equal(
        pread(scene->ring, &place, sizeof(place), offsetof(struct ring_header, request)),
        sizeof(place));
    return place.id;
}

static void rank_answers(const struct scene *scene, uint64_t step, uint32_t answer)
{
    struct ring_answer_place place = {
        .seq = 2, .id = asked_id(scene), .step = step, .answer = answer
    };

    make_write(scene->ring, &place, sizeof(place), offsetof(struct ring_header, answer));
}

static void the_answer_of_a_rank_is_reported_and_then_the_whole(void **state)
{
    struct scene *scene = *state;
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    struct orders_now here = now;
    const struct decision order = order_at(10);

    here.rings_fd = scene->dir;
    here.ranks = 1;
    assert_int_equal(orders_ask_ranks(orders, &order, &here), 1);
    assert_true(orders_wait(orders));
    assert_int_equal(orders_look(orders, &here), 0);
    rank_answers(scene, 10, LOCKSTEP_ANSWER_DONE);
    assert_int_equal(orders_look(orders, &here), 1);
    assert_false(orders_wait(orders));
    assert_int_equal(journal.count, 3);
    assert_string_equal(journal.outcome[1].part, "rank 0");
    assert_int_equal(journal.outcome[1].result, OUTCOME_DONE);
    assert_int_equal(journal.outcome[1].step, 10);
    assert_string_equal(journal.outcome[2].part, "launcher");
    assert_int_equal(journal.outcome[2].result, OUTCOME_DONE);
    orders_destroy(orders);
}

static void a_process_that_takes_over_reports_what_the_ranks_did(void **state)
{
    struct scene *scene = *state;
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    struct orders_now here = now;
    const struct decision order = order_at(10);
    uint64_t id;

    here.rings_fd = scene->dir;
    assert_int_equal(orders_ask_ranks(orders, &order, &here), 1);
    id = asked_id(scene);
    orders_destroy(orders); /* killed; meanwhile the rank saves, and goes on */
    rank_answers(scene, 10, LOCKSTEP_ANSWER_DONE);
    make_write(scene->ring, &(uint64_t){ 20 }, 8, offsetof(struct ring_header, step));
    orders = make_again(&journal);
    assert_int_equal(orders_ask_ranks(orders, &order, &here), 1);
    assert_int_equal(asked_id(scene), id);
    assert_int_equal(orders_look(orders, &here), 1);
    assert_int_equal(journal.count, 3); /* begun once */
    assert_int_equal(journal.outcome[1].result, OUTCOME_DONE);
    assert_int_equal(journal.outcome[2].result, OUTCOME_DONE);
    assert_int_equal(orders_resume(orders, &here), 0);
    assert_int_equal(journal.count, 3);
    orders_destroy(orders);
}

static void ranks_that_end_first_leave_it_not_executed(void **state)
{
    struct scene *scene = *state;
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    struct orders_now here = now;
    const struct decision order = order_at(10);

    here.rings_fd = scene->dir;
    assert_int_equal(orders_ask_ranks(orders, &order, &here), 1);
    assert_int_equal(orders_ranks_ended(orders, &here), 0);
    assert_int_equal(journal.outcome[1].result, OUTCOME_UNKNOWN);
    assert_int_equal(journal.outcome[2].result, OUTCOME_NOT_EXECUTED);
    orders_destroy(orders);
}

static void a_rank_that_does_not_answer_is_waited_for_until_the_deadline(void **state)
{
    struct scene *scene = *state;
    struct journal journal = { .count = 0 };
    struct orders *orders = make(&journal);
    struct orders_now here = now;
    const struct decision order = order_at(10);

    here.rings_fd = scene->dir;
    assert_int_equal(orders_ask_ranks(orders, &order, &here), 1);
    here.real_ns += 1000;
    assert_int_equal(orders_look(orders, &here), 0);
    here.real_ns += 1;
    assert_int_equal(orders_look(orders, &here), 1);
    assert_int_equal(journal.outcome[1].result, OUTCOME_UNKNOWN);
    assert_string_equal(journal.outcome[1].text, "no answer");
    assert_int_equal(journal.outcome[2].result, OUTCOME_UNKNOWN);
    orders_destroy(orders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_make, scene_remove)
        cmocka_unit_test(an_order_is_begun_once_also_after_a_kill),
        cmocka_unit_test(what_cannot_be_written_down_is_not_begun),
        cmocka_unit_test(an_order_for_another_attempt_or_too_late_is_not_carried_out),
        SCENE(the_answer_of_a_rank_is_reported_and_then_the_whole),
        SCENE(a_process_that_takes_over_reports_what_the_ranks_did),
        SCENE(ranks_that_end_first_leave_it_not_executed),
        SCENE(a_rank_that_does_not_answer_is_waited_for_until_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
