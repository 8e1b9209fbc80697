/* test-index-catchup.c - a question waits for the index, and facts do not wait for the question.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/index_catchup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "control/site/site_private.h"
#include "core/clean.h"
#include "wire/spool.h"

#define FRAMES 20000
#define BOUND 50000 /* of one log, for one question */

struct place {
    char base[64];
    struct site site;
    struct site_run *old, *live; /* a long log that was not read, and a run that sends facts */
    int pipe[2];                 /* there is always something to read: facts that wait */
    uint64_t taken;              /* of the live run */
};

static void note_make(struct frame *ret, struct buf *payload, uint64_t number)
{
    struct fact_note note = { .step = number };

    snprintf(note.text, sizeof(note.text), "note %llu", (unsigned long long)number);
    fact_note_put(payload, &note);
    *ret = (struct frame){ .type = FRAME_NOTE,
                           .version = FRAME_VERSION,
                           .sender = 4711,
                           .boot = 1,
                           .number = number,
                           .payload = payload->data,
                           .payload_bytes = payload->size };
}

static void log_write(const struct site_run *run, uint64_t count)
{
    struct spool_writer *writer;

    assert_int_equal(spool_writer_open(run->dir.log.text, "control", &writer, NULL), 0);
    for (uint64_t i = 0; i < count; i++) {
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct frame frame;

        note_make(&frame, &payload, i);
        assert_int_equal(spool_put_frame(writer, &frame, NULL), 0);
    }
    spool_writer_close(writer);
}

/* As a body of facts is taken: by the loop, when it can be read. */
static void facts_come(void *arg, int fd, uint32_t events)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct place *place = arg;
    struct frame frame;

    (void)fd;
    (void)events;
    note_make(&frame, &payload, place->taken++);
    assert_int_equal(runlog_take(place->live->log, &frame, 1, NULL), 0);
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    struct site *site = &place->site;
    struct path index;

    log_quiet(1);
    strcpy(place->base, "/tmp/lockstep-catchup-XXXXXX");
    if (!mkdtemp(place->base) || pipe(place->pipe) < 0 || write(place->pipe[1], "x", 1) != 1)
        return -1;
    snprintf(site->state.text, sizeof(site->state.text), "%s", place->base);
    assert_int_equal(loop_create(&site->loop, NULL), 0);
    assert_int_equal(path_join(&index, place->base, "index.sqlite", NULL), 0);
    assert_int_equal(index_open(index.text, &site->index, NULL), 0);
    site->index_makings = index_makings(site->index);
    assert_int_equal(site_get(site, "old", true, &place->old, NULL), 0);
    assert_int_equal(site_get(site, "live", true, &place->live, NULL), 0);
    assert_int_equal(run_open(place->live, NULL), 0);
    assert_int_equal(loop_watch(site->loop, place->pipe[0], EPOLLIN, facts_come, place), 0);
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    struct site *site = &place->site;

    for (size_t i = 0; i < site->runs; i++)
        run_destroy(site->run[i]);
    free(site->run);
    map_fini(&site->run_by_name);
    index_close(site->index);
    loop_destroy(site->loop);
    close(place->pipe[0]);
    close(place->pipe[1]);
    tree_remove(place->base);
    free(place);
    return 0;
}

static void answer(void *arg)
{
    ++*(int *)arg;
}

static int frames_of(void *arg, const struct index_run *row)
{
    *(uint64_t *)arg = row->frames;
    return 0;
}

static uint64_t indexed(struct place *place, const char *run)
{
    struct index_query query = { .run = run, .limit = 1 };
    uint64_t frames = 0;

    assert_true(index_runs(place->site.index, &query, frames_of, &frames, NULL) >= 0);
    return frames;
}

static void facts_are_taken_while_a_question_waits(void **state)
{
    struct place *place = *state;
    int answered = 0;
    struct catchup question = { .run = "old", .done = answer, .arg = &answered };
    uint64_t turns = 0;

    log_write(place->old, FRAMES);
    place->old->index_stale = true;
    assert_false(catchup_ask(&place->site, &question));
    assert_int_equal(indexed(place, "old"), 0); /* who asks does not read */
    while (!answered) {
        uint64_t before = indexed(place, "old");

        assert_int_equal(loop_turn(place->site.loop, 0, NULL), 0);
        assert_int_equal(place->taken, ++turns); /* in every turn */
        assert_true(indexed(place, "old") - before <= CATCHUP_TURN_FRAMES);
    }
    assert_true(place->taken >= FRAMES / CATCHUP_TURN_FRAMES);
    assert_int_equal(answered, 1);
    assert_int_equal(indexed(place, "old"), FRAMES);
    assert_true(catchup_ask(&place->site, &question)); /* now at once */
}

static void a_question_about_all_runs_reads_them_all(void **state)
{
    struct place *place = *state;
    int answered = 0;
    struct catchup question = { .run = "", .done = answer, .arg = &answered };

    log_write(place->old, FRAMES / 10);
    place->old->index_stale = place->live->index_stale = true;
    assert_false(catchup_ask(&place->site, &question));
    while (!answered)
        assert_int_equal(loop_turn(place->site.loop, 0, NULL), 0);
    assert_int_equal(indexed(place, "old"), FRAMES / 10);
    assert_true(indexed(place, "live") > 0);
}

static void a_long_log_does_not_keep_a_question_for_ever(void **state)
{
    struct place *place = *state;
    int answered = 0;
    struct catchup question = { .run = "old", .done = answer, .arg = &answered };

    log_write(place->old, BOUND + 2 * CATCHUP_TURN_FRAMES);
    place->old->index_stale = true;
    assert_false(catchup_ask(&place->site, &question));
    while (!answered)
        assert_int_equal(loop_turn(place->site.loop, 0, NULL), 0);
    assert_int_equal(indexed(place, "old"), BOUND);
    assert_true(place->old->index_stale);
}

static void who_is_gone_is_not_answered(void **state)
{
    struct place *place = *state;
    int first = 0, second = 0;
    struct catchup gone = { .run = "old", .done = answer, .arg = &first };
    struct catchup stays = { .run = "old", .done = answer, .arg = &second };

    log_write(place->old, FRAMES / 10);
    place->old->index_stale = true;
    assert_false(catchup_ask(&place->site, &gone));
    assert_false(catchup_ask(&place->site, &stays));
    assert_int_equal(loop_turn(place->site.loop, 0, NULL), 0);
    catchup_drop(&place->site, &gone);
    while (!second)
        assert_int_equal(loop_turn(place->site.loop, 0, NULL), 0);
    assert_int_equal(first, 0);
    assert_null(place->site.asking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(facts_are_taken_while_a_question_waits, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_question_about_all_runs_reads_them_all, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_long_log_does_not_keep_a_question_for_ever, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(who_is_gone_is_not_answered, place_make, place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
