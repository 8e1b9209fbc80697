/* test-rank-requests.c - a request to every rank, with ranks that answer, are past, have ended or are hostile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "act/orders/rank_requests.h"
#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/test/ring_make.h"

#define RANKS 3

struct scene {
    char path[64];
    int dir;
    int ring[RANKS];
};

static const struct ring_request save_at_10 = { .id = 7,
                                                .step = 10,
                                                .kind = RING_REQUEST_CHECKPOINT };

static int ring_at(const struct scene *scene, uint32_t rank, uint32_t number, uint32_t attempt)
{
    struct ring_header header;
    struct ring_make make;
    char name[64];
    int fd;

    snprintf(name, sizeof(name), RING_NAME_FORMAT, rank, number);
    fd = openat(scene->dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    make_begin(&make, fd, 1, 8);
    make_header(&header, 1, 8);
    header.rank = rank;
    header.world = RANKS;
    header.attempt = attempt;
    make_seal(&header);
    make_write(fd, &header, sizeof(header), 0);
    return fd;
}

static void step_set(int fd, uint64_t step)
{
    make_write(fd, &step, sizeof(step), offsetof(struct ring_header, step));
}

static void answer_set(int fd, uint64_t id, uint64_t step, uint32_t answer)
{
    struct ring_answer_place place = { .seq = 2, .id = id, .step = step, .answer = answer };

    make_write(fd, &place, sizeof(place), offsetof(struct ring_header, answer));
}

static uint64_t asked_id(int fd)
{
    struct ring_request_place place;

    assert_int_equal(pread(fd, &place, sizeof(place), offsetof(struct ring_header, request)),
                     sizeof(place));
    return place.seq ? place.id : 0;
}

static int scene_make(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    strcpy(scene->path, "/tmp/lockstep-requests.XXXXXX");
    if (!mkdtemp(scene->path))
        return -1;
    scene->dir = open(scene->path, O_RDONLY | O_DIRECTORY);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        scene->ring[rank] = ring_at(scene, rank, 0, 1);
        step_set(scene->ring[rank], 3);
    }
    *state = scene;
    return 0;
}

static int scene_remove(void **state)
{
    struct scene *scene = *state;
    char command[96];

    for (uint32_t rank = 0; rank < RANKS; rank++)
        close(scene->ring[rank]);
    close(scene->dir);
    snprintf(command, sizeof(command), "rm -rf %s", scene->path);
    free(scene);
    return system(command);
}

static const struct rank_request *of_rank(const struct rank_requests *requests, uint32_t rank)
{
    for (size_t i = 0; i < rank_requests_count(requests); i++) {
        if (rank_requests_get(requests, i)->rank == rank)
            return rank_requests_get(requests, i);
    }
    fail_msg("rank %u was not asked", rank);
    return NULL;
}

static void requests_clean(struct rank_requests **requests)
{
    rank_requests_destroy(*requests);
}

static void each_rank_is_asked_and_its_answer_read(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;

    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    assert_int_equal(rank_requests_count(requests), RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(asked_id(scene->ring[rank]), 7);
    answer_set(scene->ring[0], 7, 10, LOCKSTEP_ANSWER_DONE);
    answer_set(scene->ring[1], 6, 4, LOCKSTEP_ANSWER_DONE); /* of an earlier request */
    answer_set(scene->ring[2], 7, 12, LOCKSTEP_ANSWER_PAST);
    rank_requests_look(requests);
    assert_int_equal(of_rank(requests, 0)->state, RANK_REQUEST_DONE);
    assert_int_equal(of_rank(requests, 0)->step, 10);
    assert_int_equal(of_rank(requests, 1)->state, RANK_REQUEST_WAITS);
    assert_int_equal(of_rank(requests, 2)->state, RANK_REQUEST_PAST);
    assert_int_equal(of_rank(requests, 2)->step, 12);
    assert_false(rank_requests_are_over(requests));
    answer_set(scene->ring[1], 7, 10, LOCKSTEP_ANSWER_REFUSED);
    rank_requests_look(requests);
    assert_int_equal(of_rank(requests, 1)->state, RANK_REQUEST_REFUSED);
    assert_true(rank_requests_are_over(requests));
}

static void if_one_rank_is_past_none_is_asked(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;

    step_set(scene->ring[1], 9); /* it may begin step 10 while we write */
    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    assert_true(rank_requests_are_over(requests));
    assert_int_equal(of_rank(requests, 0)->state, RANK_REQUEST_NOT_ASKED);
    assert_int_equal(of_rank(requests, 1)->state, RANK_REQUEST_PAST);
    assert_int_equal(of_rank(requests, 1)->step, 9);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(asked_id(scene->ring[rank]), 0);
}

static void a_rank_before_its_first_step_is_asked(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;

    step_set(scene->ring[0], RING_NO_STEP);
    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    assert_int_equal(asked_id(scene->ring[0]), 7);
}

static void a_ring_that_is_closed_without_an_answer_is_not_waited_for(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;
    uint32_t closed = 1;

    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        make_write(scene->ring[rank], &closed, sizeof(closed),
                   offsetof(struct ring_header, closed));
    answer_set(scene->ring[2], 7, 10, LOCKSTEP_ANSWER_DONE);
    rank_requests_look(requests);
    assert_true(rank_requests_are_over(requests));
    assert_int_equal(of_rank(requests, 0)->state, RANK_REQUEST_ENDED);
    assert_int_equal(of_rank(requests, 2)->state, RANK_REQUEST_DONE);
}

static void rings_of_other_attempts_and_older_ones_are_left_alone(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;
    int former = ring_at(scene, 0, 1, 0), newer = ring_at(scene, 1, 1, 1);

    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    assert_int_equal(rank_requests_count(requests), RANKS);
    assert_int_equal(asked_id(former), 0);
    assert_int_equal(asked_id(scene->ring[1]), 0);
    assert_int_equal(asked_id(newer), 7);
    close(former);
    close(newer);
}

static void nothing_of_a_hostile_directory_is_written(void **state)
{
    struct scene *scene = *state;
    CLEAN(requests_clean) struct rank_requests *requests = NULL;

    assert_int_equal(ftruncate(scene->ring[0], 5000), 0);
    assert_int_equal(symlinkat("rank-1.0.ring", scene->dir, "rank-7.0.ring"), 0);
    assert_int_equal(mkfifoat(scene->dir, "rank-8.0.ring", 0600), 0);
    assert_int_equal(rank_requests_begin(scene->dir, 1, &save_at_10, &requests, NULL), 0);
    assert_int_equal(rank_requests_count(requests), 2);
    assert_int_equal(ftruncate(scene->ring[1], 0), 0); /* while its answer is awaited */
    rank_requests_look(requests);
    assert_int_equal(of_rank(requests, 1)->state, RANK_REQUEST_ENDED);
    assert_int_equal(of_rank(requests, 2)->state, RANK_REQUEST_WAITS);
}

static void without_rings_it_says_so(void **state)
{
    struct scene *scene = *state;
    struct rank_requests *requests = NULL;
    struct err err = { "" };

    assert_int_equal(rank_requests_begin(scene->dir, 2, &save_at_10, &requests, &err), -ENOENT);
    assert_null(requests);
    assert_string_equal(err.text, "no rank has opened a ring in attempt 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_make, scene_remove)
        SCENE(each_rank_is_asked_and_its_answer_read),
        SCENE(if_one_rank_is_past_none_is_asked),
        SCENE(a_rank_before_its_first_step_is_asked),
        SCENE(a_ring_that_is_closed_without_an_answer_is_not_waited_for),
        SCENE(rings_of_other_attempts_and_older_ones_are_left_alone),
        SCENE(nothing_of_a_hostile_directory_is_written),
        SCENE(without_rings_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
