/* test-live-run.c - what lockstep top knows of a log that is there already, and of one that grows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "control/log/runlog.h"
#include "control/log/spools.h"
#include "control/report/live_run.h"
#include "control/test/runlog_whole.h"
#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"

#define RANKS 4096u
#define STEPS 8u
#define SLICE_NS NS_PER_MS /* far less than reading the log takes */

struct place {
    char base[64];
    struct rundir dir;
    struct runlog *log;
    struct seen seen;
    uint64_t number;
};

static void place_write(struct place *place, uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = 77,
                                 .boot = 1,
                                 .number = place->number++,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    assert_int_equal(runlog_take(place->log, &frame, 1, NULL), 0);
    buf_fini(payload);
}

static void place_step(struct place *place, uint32_t attempt, uint32_t rank, uint64_t step)
{
    struct fact_shape shape = { .hash = 1 };
    struct fact_step fact = { .shape = 1,
                              .attempt = attempt,
                              .rank = rank,
                              .step = step,
                              .begin_ns = (int64_t)step * NS_PER_S,
                              .duration_ns = NS_PER_MS,
                              .metric_set = 1u << LOCKSTEP_METRIC_LOSS };
    struct buf payload = { 0 };

    fact.metric[LOCKSTEP_METRIC_LOSS] = rank;
    fact_step_put(&payload, &fact, &shape);
    place_write(place, FRAME_STEP, &payload);
}

static void place_attempt(struct place *place, uint32_t attempt, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct fact_ring ring = { .rank = rank, .world = ranks, .attempt = attempt, .node = "n" };
        struct buf payload = { 0 };

        fact_ring_put(&payload, &ring);
        place_write(place, FRAME_RING, &payload);
    }
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    struct buf payload = { 0 };
    char run[96];

    log_quiet(1);
    strcpy(place->base, "/tmp/lockstep-live-XXXXXX");
    if (!mkdtemp(place->base))
        return -1;
    snprintf(run, sizeof(run), "%s/r1", place->base);
    if (mkdir(run, 0700) < 0 || rundir_open(&place->dir, run, NULL) < 0 ||
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &place->seen },
                          &place->log) < 0)
        return -1;
    fact_shape_put(&payload, &(struct fact_shape){ .hash = 1 });
    place_write(place, FRAME_SHAPE, &payload);
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;

    runlog_close(place->log);
    seen_fini(&place->seen);
    tree_remove(place->base);
    free(place);
    return 0;
}

static unsigned live_read_all(struct live_run *live)
{
    unsigned slices = 1;
    int result;

    while ((result = live_run_read(live, SLICE_NS, NULL)) > 0)
        slices++;
    assert_int_equal(result, 0);
    return slices;
}

/* A large job whose log takes many slices to read: its newest steps are all shown. */
static void a_log_that_is_there_already_is_shown_step_by_step(void **state)
{
    struct place *place = *state;
    struct live_run *live;

    place_attempt(place, 0, RANKS);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < RANKS; rank++)
            place_step(place, 0, rank, step);
    }
    assert_int_equal(runlog_tick(place->log, 0, NULL), 0);
    assert_int_equal(live_run_open(place->dir.path.text, &live, NULL), 0);
    assert_true(live_read_all(live) > 2);
    assert_int_equal(live->stride, 1);
    for (uint64_t back = 0; back < STEPS; back++) {
        const struct live_step *step = live_run_step(live, back);

        assert_non_null(step);
        assert_int_equal(step->step, STEPS - back);
        assert_int_equal(step->ranks, RANKS);
        assert_true(step->loss == (RANKS - 1) / 2.0); /* the mean of the ranks */
    }
    live_run_close(live);
}

/* Who looks on while more comes than a slice can read sees every second, fourth ... step. */
static void a_log_that_grows_too_fast_is_shown_in_strides(void **state)
{
    struct place *place = *state;
    struct live_run *live;

    place_attempt(place, 0, RANKS);
    assert_int_equal(runlog_tick(place->log, 0, NULL), 0);
    assert_int_equal(live_run_open(place->dir.path.text, &live, NULL), 0);
    live_read_all(live);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < RANKS; rank++)
            place_step(place, 0, rank, step);
    }
    assert_int_equal(runlog_tick(place->log, 0, NULL), 0);
    assert_true(live_read_all(live) > 2);
    assert_true(live->stride > 1);
    live_run_close(live);
}

static void a_step_that_is_done_again_is_that_of_its_attempt(void **state)
{
    struct place *place = *state;
    struct live_run *live;

    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        place_attempt(place, attempt, 4);
        for (uint32_t rank = 0; rank < 4; rank++)
            place_step(place, attempt, rank, 5);
    }
    assert_int_equal(runlog_tick(place->log, 0, NULL), 0);
    assert_int_equal(live_run_open(place->dir.path.text, &live, NULL), 0);
    live_read_all(live);
    assert_non_null(live_run_step(live, 0));
    assert_int_equal(live_run_step(live, 0)->ranks, 4);
    assert_int_equal(live_run_step(live, 0)->attempt, 1);
    live_run_close(live);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)
    const struct CMUnitTest tests[] = {
        TEST(a_log_that_is_there_already_is_shown_step_by_step),
        TEST(a_log_that_grows_too_fast_is_shown_in_strides),
        TEST(a_step_that_is_done_again_is_that_of_its_attempt),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
