/* A spool that no controller takes: its oldest steps become few frames, each step is counted once, evidence stays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/send/sent.h"
#include "agent/send/shrink.h"
#include "core/clean.h"
#include "wire/facts.h"
#include "wire/spool.h"

#define RANKS 3
#define RANK_FROM 8 /* those of the second node */
#define MS INT64_C(1000000)
#define OPS 40 /* of a step with numbers */

static char path[64], to[80];
static uint64_t acked; /* frames below this number */

static int setup(void **state)
{
    int fd;

    (void)state;
    strcpy(path, "/tmp/lockstep-shrink-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(to, sizeof(to), "%s.new", path);
    acked = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(to);
    return unlink(path);
}

static uint64_t acknowledged(const void *arg, uint64_t boot)
{
    (void)arg;
    (void)boot;
    return acked;
}

static void put(struct spool_writer *writer, uint16_t type, struct buf *payload)
{
    assert_int_equal(spool_put(writer, type, payload, NULL), 0);
    buf_fini(payload);
}

static void make_shape(struct fact_shape *shape, struct shape_item *item)
{
    *item = (struct shape_item){ .kind = ITEM_SPAN, .what = 2, .count = 1 };
    *shape = (struct fact_shape){ .count = 1, .item = item };
    shape_hash(shape);
}

static void put_beat(struct spool_writer *writer, uint32_t rank, bool advanced, bool final)
{
    struct fact_beat beat = { .rank = rank, .state = 'S', .advanced = advanced, .final = final };
    struct buf payload = { 0 };

    fact_beat_put(&payload, &beat);
    put(writer, FRAME_BEAT, &payload);
}

/* Rank r works r + 1 ms in every step. */
static void put_steps(struct spool_writer *writer, uint64_t from, uint64_t count)
{
    struct shape_item item;
    struct fact_shape shape;
    struct item_time time = { .wait_ns = -1 };

    make_shape(&shape, &item);
    for (uint64_t step = from; step < from + count; step++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            struct fact_step fact = { .rank = RANK_FROM + i,
                                      .shape = shape.hash,
                                      .step = step,
                                      .begin_ns = (int64_t)step * 10 * MS,
                                      .duration_ns = 9 * MS,
                                      .count = 1,
                                      .time = &time };
            struct buf payload = { 0 };

            time.end_ns = (i + 1) * MS;
            fact_step_put(&payload, &fact, &shape);
            put(writer, FRAME_STEP, &payload);
        }
        if (step % 10 == 9)
            put_beat(writer, RANK_FROM, true, false);
    }
}

static struct spool_writer *begin(void)
{
    struct fact_hello hello = { .kind = SENDER_AGENT, .mono_ns = 1, .real_ns = 1000000001 };
    struct spool_writer *writer;
    struct shape_item item;
    struct fact_shape shape;
    struct buf payload = { 0 };

    assert_int_equal(spool_writer_open(path, "agent-n2", &writer, NULL), 0);
    fact_hello_put(&payload, &hello);
    put(writer, FRAME_HELLO, &payload);
    make_shape(&shape, &item);
    fact_shape_put(&payload, &shape);
    put(writer, FRAME_SHAPE, &payload);
    return writer;
}

struct tally {
    uint64_t frames, steps, merged, blocks, beats, finals, others, dropped;
    uint64_t of_rank[RANKS]; /* steps of each, single or merged */
    uint64_t first_single;
    int64_t mean_ns[RANKS];
    uint64_t last_number;
};

static void tally_merged(struct tally *tally, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };

    assert_int_equal(fact_merged_get(in, &merged), 0);
    tally->blocks++;
    tally->dropped += merged.dropped;
    for (uint32_t i = 0; i < merged.ranks; i++) {
        uint32_t rank = merged.rank_from + i - RANK_FROM;

        assert_true(rank < RANKS);
        tally->of_rank[rank] += merged.rank[i].steps;
        tally->merged += merged.rank[i].steps;
        tally->mean_ns[rank] = merged.rank[i].local_ns;
    }
}

/* Numbers rise, and those that are missing are counted. */
static struct tally count(const char *file)
{
    struct tally tally = { .first_single = UINT64_MAX };
    struct spool_reader *reader;
    struct fact_step step;
    struct fact_beat beat;
    struct frame frame;

    assert_int_equal(spool_reader_open(file, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) == 1) {
        struct reader in = reader_of(frame.payload, frame.payload_bytes);

        assert_true(tally.frames == 0 || frame.number > tally.last_number);
        tally.last_number = frame.number;
        tally.frames++;
        if (frame.type == FRAME_STEP) {
            assert_int_equal(fact_step_head_get(in, &step), 0);
            tally.of_rank[step.rank - RANK_FROM]++;
            tally.steps++;
            tally.first_single = step.step < tally.first_single ? step.step : tally.first_single;
        } else if (frame.type == FRAME_MERGED) {
            tally_merged(&tally, in);
        } else if (frame.type == FRAME_BEAT) {
            assert_int_equal(fact_beat_get(in, &beat), 0);
            tally.beats++;
            tally.finals += beat.final;
        } else {
            tally.others++;
        }
    }
    spool_reader_close(reader);
    return tally;
}

static int64_t shrink_to(uint64_t bytes, struct shrink_settings settings)
{
    struct shrink_counts counts;

    settings.bytes_max = bytes;
    settings.acknowledged = acknowledged;
    assert_int_equal(shrink_copy(path, to, &settings, &counts, NULL), 0);
    assert_int_equal(rename(to, path), 0);
    return (int64_t)(counts.merged + counts.bared);
}

static uint64_t file_bytes(void)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void the_oldest_steps_are_merged_and_each_is_told_once(void **state)
{
    struct spool_writer *writer = begin();
    struct tally before, after;
    uint64_t bytes;

    (void)state;
    put_steps(writer, 0, 500);
    spool_writer_close(writer);
    before = count(path);
    bytes = file_bytes();
    assert_true(shrink_to(bytes / 4, (struct shrink_settings){ 0 }) > 0);
    after = count(path);
    assert_true(file_bytes() < bytes / 3);
    assert_true(after.merged > 0 && after.steps > 0);
    assert_int_equal(after.steps + after.merged, before.steps);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(after.of_rank[i], 500);
        assert_true(llabs(after.mean_ns[i] - (i + 1) * MS) < MS / 100);
    }
    assert_true(after.first_single > 300); /* the newest are still single ones */
    assert_int_equal(after.others, before.others);
    assert_int_equal(after.frames + after.dropped, after.last_number + 1);
    assert_int_equal(after.last_number, before.last_number);
}

static void a_long_time_without_a_controller_takes_no_more_room(void **state)
{
    uint64_t most = 0;

    (void)state;
    spool_writer_close(begin());
    for (unsigned round = 0; round < 60; round++) {
        struct spool_writer *writer;
        struct tally now;

        assert_int_equal(spool_writer_open(path, "agent-n2", &writer, NULL), 0);
        put_steps(writer, round * 200, 200);
        spool_writer_close(writer);
        shrink_to(20000, (struct shrink_settings){ 0 });
        now = count(path);
        assert_int_equal(now.steps + now.merged, RANKS * 200 * (round + 1));
        assert_int_equal(now.frames + now.dropped, now.last_number + 1);
        most = file_bytes() > most ? file_bytes() : most;
    }
    assert_true(most < 27000);
}

static void what_may_have_arrived_is_not_merged(void **state)
{
    struct spool_writer *writer = begin();
    struct spool_reader *reader;
    struct frame frame;
    struct tally after;

    (void)state;
    put_steps(writer, 0, 100);
    spool_writer_close(writer);
    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(spool_next(reader, &frame, NULL), 1);
    spool_reader_close(reader);
    shrink_to(1000, (struct shrink_settings){ .any_sent = true, .sent_number = frame.number });
    after = count(path);
    assert_int_equal(after.first_single, 0);
    assert_true(after.merged > 100);
    assert_int_equal(after.steps + after.merged, RANKS * 100);
    /* It had them after all: now they go without a word. */
    acked = frame.number + 1;
    shrink_to(1000, (struct shrink_settings){ .any_sent = true, .sent_number = frame.number });
    assert_int_equal(count(path).merged, after.merged);
    assert_true(count(path).steps < 10);
}

/* The machine went down, and with it what was noted last: what the controller has is not known any more.  A merged
 * frame of steps some of which it has would have a number that it has not, and would be taken.
 */
static void after_the_machine_went_down_all_is_taken_for_sent(void **state)
{
    struct spool_writer *writer = begin();
    struct sent sent;
    char note[96] = "";
    uint64_t last;
    FILE *file;

    (void)state;
    put_steps(writer, 0, 100);
    spool_writer_close(writer);
    last = count(path).last_number;
    sent_open(&sent, path); /* there is no note */
    assert_true(sent.any);
    assert_int_equal(sent.number, last);
    sent_note(&sent, 50);
    sent_open(&sent, path);
    assert_int_equal(sent.number, 50); /* an agent that was killed, and the next one */
    file = fopen(sent.file, "r+");
    assert_non_null(fgets(note, sizeof(note), file));
    note[25] = note[25] == '0' ? '1' : '0';
    rewind(file);
    fputs(note, file);
    fclose(file);
    sent_open(&sent, path);
    assert_int_equal(sent.number, last);
    shrink_to(1000, (struct shrink_settings){ .any_sent = sent.any, .sent_number = sent.number });
    assert_int_equal(count(path).merged, 0);
    assert_int_equal(truncate(sent.file, 10), 0); /* nor is half a note believed */
    sent_open(&sent, path);
    assert_int_equal(sent.number, last);
    unlink(sent.file);
    acked = last + 1; /* the controller says what it has: now it goes */
    shrink_to(1000, (struct shrink_settings){ .any_sent = sent.any, .sent_number = sent.number });
    assert_true(count(path).steps < 10);
}

static void a_new_spool_was_never_sent(void **state)
{
    struct sent sent;

    (void)state;
    sent_open(&sent, path);
    assert_false(sent.any);
    sent_open(&sent, "/nowhere/agent-n1.lsf");
    assert_false(sent.any);
}

static void evidence_stays(void **state)
{
    struct fact_note note = { .text = "cuda error" };
    struct fact_exit ended = { .rank = RANK_FROM, .status = 9 };
    struct fact_stack stack = { .rank = RANK_FROM };
    struct fact_method method = { .comm = 1, .op = 1, .channels = 2, .text = "RING/SIMPLE" };
    struct spool_writer *writer = begin();
    struct buf payload = { 0 };
    struct tally after;

    (void)state;
    put_steps(writer, 0, 50);
    fact_note_put(&payload, &note);
    put(writer, FRAME_NOTE, &payload);
    fact_method_put(&payload, &method);
    put(writer, FRAME_METHOD, &payload);
    for (int i = 0; i < 3; i++) /* a moment without progress is none */
        put_beat(writer, RANK_FROM + 1, false, false);
    put_steps(writer, 50, 50);
    for (int i = 0; i < 100; i++) {
        put_beat(writer, RANK_FROM, false, false);
        put_beat(writer, RANK_FROM + 1, i % 5 == 0, false);
    }
    fact_stack_put(&payload, &stack);
    put(writer, FRAME_STACK, &payload);
    put_beat(writer, RANK_FROM, false, true);
    fact_exit_put(&payload, &ended);
    put(writer, FRAME_EXIT, &payload);
    spool_writer_close(writer);
    shrink_to(0, (struct shrink_settings){ 0 });
    after = count(path);
    assert_int_equal(after.others, 6); /* hello, shape, note, how, stack, exit */
    assert_int_equal(after.finals, 1);
    assert_int_equal(after.beats, 60 + 1);
    assert_int_equal(after.steps, RANKS); /* the last of each ring, to go on from */
    assert_int_equal(after.steps + after.merged, RANKS * 100);
    assert_int_equal(after.frames + after.dropped, after.last_number + 1);
}

/* Steps of many ops, each with a loss and a digest; from `odd` on the second rank's loss is no number. */
static void put_numbers(struct spool_writer *writer, uint64_t count, uint64_t odd)
{
    static struct shape_item item[OPS];
    static struct item_time time[OPS];
    struct fact_shape shape = { .count = OPS, .item = item };
    struct buf payload = { 0 };

    for (int i = 0; i < OPS; i++) {
        item[i] = (struct shape_item){ .kind = ITEM_SPAN, .what = 2, .count = 1 };
        time[i] = (struct item_time){ .end_ns = MS, .wait_ns = -1 };
    }
    shape_hash(&shape);
    fact_shape_put(&payload, &shape);
    put(writer, FRAME_SHAPE, &payload);
    for (uint64_t step = 0; step < count; step++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            struct fact_step fact = { .rank = RANK_FROM + i,
                                      .shape = shape.hash,
                                      .step = step,
                                      .begin_ns = (int64_t)step * 10 * MS,
                                      .duration_ns = 9 * MS,
                                      .metric_set = 1u << LOCKSTEP_METRIC_LOSS,
                                      .digest_parts = 16,
                                      .digest_part = step % 16,
                                      .digest = { step, i },
                                      .count = OPS,
                                      .time = time };

            fact.metric[LOCKSTEP_METRIC_LOSS] = i == 1 && step >= odd ? NAN : (double)step + i;
            fact_step_put(&payload, &fact, &shape);
            put(writer, FRAME_STEP, &payload);
        }
    }
}

struct numbers {
    uint64_t bare, whole, odd;
    uint64_t newest_bare, oldest_complete; /* steps */
};

/* What is said in each step that is still a single one is what was said in it. */
static struct numbers numbers_of(uint64_t odd)
{
    struct numbers ret = { .oldest_complete = UINT64_MAX };
    struct spool_reader *reader;
    struct frame frame;

    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) == 1) {
        struct fact_step step;
        double loss;

        if (frame.type != FRAME_STEP)
            continue;
        assert_int_equal(fact_step_head_get(reader_of(frame.payload, frame.payload_bytes), &step),
                         0);
        loss = step.metric[LOCKSTEP_METRIC_LOSS];
        if (step.rank == RANK_FROM + 1 && step.step >= odd) {
            assert_true(isnan(loss));
            ret.odd++;
        } else {
            assert_true(loss == (double)step.step + (step.rank - RANK_FROM));
        }
        assert_int_equal(step.digest_part, step.step % 16);
        assert_int_equal(step.digest[0], step.step);
        assert_int_equal(step.digest[1], step.rank - RANK_FROM);
        if (step.flags & STEP_BARE) {
            assert_true(llabs(step.own_ns - OPS * MS) < MS / 10);
            ret.bare++;
            ret.newest_bare = step.step > ret.newest_bare ? step.step : ret.newest_bare;
        } else {
            ret.whole++;
            ret.oldest_complete = step.step < ret.oldest_complete ? step.step : ret.oldest_complete;
        }
    }
    spool_reader_close(reader);
    return ret;
}

static void losses_and_digests_stay_when_the_ops_go(void **state)
{
    struct spool_writer *writer = begin();
    struct numbers now;
    uint64_t bytes;

    (void)state;
    put_numbers(writer, 200, UINT64_MAX);
    spool_writer_close(writer);
    bytes = file_bytes();
    assert_true(shrink_to(bytes * 6 / 10, (struct shrink_settings){ 0 }) > 0);
    assert_true(file_bytes() < bytes * 7 / 10);
    now = numbers_of(UINT64_MAX);
    assert_int_equal(now.bare + now.whole, RANKS * 200); /* every one is still told singly ... */
    assert_true(now.bare > 0 && now.whole > RANKS);
    assert_true(now.newest_bare <= now.oldest_complete); /* ... the newest with their ops */
    assert_int_equal(count(path).merged, 0);
}

static void too_many_numbers_are_merged_but_for_the_first_that_are_not_finite(void **state)
{
    struct spool_writer *writer = begin();
    struct tally after;
    struct numbers now;

    (void)state;
    put_numbers(writer, 400, 10);
    spool_writer_close(writer);
    for (int again = 0; again < 3; again++) { /* bare ones are read again */
        shrink_to(30000, (struct shrink_settings){ 0 });
        now = numbers_of(10);
        after = count(path);
        assert_true(now.odd >= 64);
        assert_true(after.merged > 0);
        assert_int_equal(after.steps + after.merged, RANKS * 400);
        assert_int_equal(after.frames + after.dropped, after.last_number + 1);
        assert_true(file_bytes() < 60000);
    }
}

static void what_fits_is_left_as_it_is(void **state)
{
    struct spool_writer *writer = begin();
    uint64_t bytes;

    (void)state;
    put_steps(writer, 0, 20);
    spool_writer_close(writer);
    bytes = file_bytes();
    assert_int_equal(shrink_to(bytes, (struct shrink_settings){ 0 }), 0);
    assert_int_equal(file_bytes(), bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_oldest_steps_are_merged_and_each_is_told_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_long_time_without_a_controller_takes_no_more_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_may_have_arrived_is_not_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(after_the_machine_went_down_all_is_taken_for_sent, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_new_spool_was_never_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(evidence_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_and_digests_stay_when_the_ops_go, setup, teardown),
        cmocka_unit_test_setup_teardown(
            too_many_numbers_are_merged_but_for_the_first_that_are_not_finite, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fits_is_left_as_it_is, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
