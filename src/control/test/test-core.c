/* test-core.c - frames in, verdicts out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/core.h"
#include "control/test/lab_frames.h"
#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "wire/verdict.h"

/* ---- all that a core says ---- */

struct output_queue {
    struct buf bytes; /* everything, in order */
    struct verdict verdict[16];
    uint32_t verdicts;
    struct ledger ledger;
};

static void take_output(void *arg, uint16_t type, const struct buf *payload)
{
    struct output_queue *out = arg;
    struct verdict verdict;

    buf_put_u16(&out->bytes, type);
    buf_put(&out->bytes, payload->data, payload->size);
    if (type == FRAME_LEDGER)
        assert_int_equal(ledger_get(reader_of(payload->data, payload->size), &out->ledger), 0);
    if (type != FRAME_VERDICT)
        return;
    assert_int_equal(verdict_get(reader_of(payload->data, payload->size), &verdict), 0);
    for (uint32_t i = 0; i < out->verdicts; i++) {
        if (strcmp(out->verdict[i].id, verdict.id) == 0) {
            out->verdict[i] = verdict;
            return;
        }
    }
    assert_true(out->verdicts < COUNT(out->verdict));
    out->verdict[out->verdicts++] = verdict;
}

static int feed(struct core *core, const struct lab_frame *frame)
{
    const struct frame fact = { .type = frame->type,
                                .version = FRAME_VERSION,
                                .payload = frame->payload,
                                .payload_bytes = frame->bytes };

    return core_feed(core, &fact, NULL);
}

static void tick(struct core *core, int64_t ms, bool last, struct output_queue *out)
{
    const struct fact_tick now = { .mono_ns = ms * NS_PER_MS,
                                   .real_ns = ms * NS_PER_MS + 1700000000 * NS_PER_S };

    core_tick(core, &now, last, take_output, out);
}

/* Feeds all with a tick after every `batch` frames. */
static void play(const struct lab_frames *frames, size_t batch, struct output_queue *out,
                 struct core_counts *counts)
{
    struct core *core;
    int64_t ms = 1000;

    *out = (struct output_queue){ 0 };
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < frames->count; i++) {
        feed(core, &frames->frame[i]);
        if (i % batch == batch - 1)
            tick(core, ms += 50, false, out);
    }
    tick(core, ms + 50, true, out);
    core_counts(core, counts);
    core_destroy(core);
}

static struct lab_config on_nodes(void)
{
    struct lab_config config = lab_plain;

    config.dp = 8;
    config.per_node = 2;
    return config;
}

/* Healthy, a slow rank, a killed one, a restart. */
static void record(struct lab_frames *frames, bool skew)
{
    struct lab_config config = on_nodes();
    struct lab *lab = lab_create(&config);
    int64_t now;

    for (uint32_t node = 0; skew && node < lab->nodes; node++)
        lab->fault.skew_ns[node] = node * INT64_C(777777777);
    lab_frames_begin(frames, lab);
    for (int i = 0; i < 40; i++) {
        lab->fault.stretch[5] = i >= 15 ? 0.3 : 0;
        lab_step(lab);
        lab_frames_step(frames, lab);
    }
    now = lab->rank[0].begin_ns + lab->rank[0].duration_ns;
    lab_frames_exit(frames, lab, 3, now, 9, false);
    lab_frames_exit(frames, lab, 4, now + 90000000, 256, false);
    lab_frames_run(frames, lab, RUN_ATTEMPT_END, now + 100000000, 1);
    lab_restart(lab, 30, 2 * NS_PER_S);
    lab_frames_begin(frames, lab);
    for (int i = 0; i < 20; i++) {
        lab_step(lab);
        lab_frames_step(frames, lab);
    }
    now = lab->rank[0].begin_ns + lab->rank[0].duration_ns;
    lab_frames_run(frames, lab, RUN_ATTEMPT_END, now, 0);
    lab_frames_run(frames, lab, RUN_END, now, 0);
    lab_destroy(lab);
}

static const struct verdict *verdict_of(const struct output_queue *out, unsigned kind)
{
    for (uint32_t i = 0; i < out->verdicts; i++) {
        if (out->verdict[i].kind == kind)
            return &out->verdict[i];
    }
    return NULL;
}

static void a_run_with_a_slow_and_a_killed_rank_is_explained(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct core_counts counts;
    struct output_queue out;
    double sum = 0;

    (void)state;
    record(&frames, false);
    play(&frames, 8, &out, &counts);
    assert_int_equal(counts.malformed, 0);
    assert_int_equal(counts.steps_complete, 60);
    assert_int_equal(counts.steps_partial, 0);
    assert_int_equal(out.verdicts, 2);
    assert_int_equal(verdict_of(&out, VERDICT_STRAGGLER)->rank[0], 5);
    assert_int_equal(verdict_of(&out, VERDICT_CRASH)->rank[0], 3);
    assert_true(verdict_of(&out, VERDICT_CRASH)->until_real_ns > 0);
    for (int i = 0; i < LEDGER_BUCKETS; i++)
        sum += out.ledger.gpu_seconds[i];
    assert_true(sum > 0.999999 * 8 * out.ledger.wall_seconds);
    assert_true(sum < 1.000001 * 8 * out.ledger.wall_seconds);
    assert_true(out.ledger.gpu_seconds[LEDGER_RESTART] > 8 * 1.5);
    assert_true(out.ledger.gpu_seconds[LEDGER_LOST] > 0.5);
    buf_fini(&out.bytes);
}

/* Another order in which each sender's frames keep theirs, and nobody runs ahead of a marker that
 * the launcher's attempts are.
 */
static int set(struct core *core, const char *name, double value)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_setting fact = { .value = value, .who = "test" };
    struct lab_frame frame = { .type = FRAME_SETTING };

    snprintf(fact.name, sizeof(fact.name), "%s", name);
    fact_setting_put(&payload, &fact);
    frame.payload = payload.data;
    frame.bytes = (uint32_t)payload.size;
    return feed(core, &frame);
}

static bool has_straggler(const char *name, double value)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct output_queue out = { 0 };
    struct core *core;
    bool found = false;

    record(&frames, false);
    assert_int_equal(core_create("test", &core), 0);
    if (name)
        assert_int_equal(set(core, name, value), 0);
    for (size_t i = 0; i < frames.count; i++) {
        feed(core, &frames.frame[i]);
        if (i % 8 == 7)
            tick(core, 1000 + 50 * (int64_t)(i / 8), false, &out);
    }
    for (uint32_t i = 0; i < out.verdicts; i++)
        found |= out.verdict[i].kind == VERDICT_STRAGGLER;
    core_destroy(core);
    buf_fini(&out.bytes);
    return found;
}

static void the_cost_of_an_open_verdict_is_that_of_now(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct output_queue out = { 0 };
    double written = -1, most = -1;
    struct core *core;

    (void)state;
    record(&frames, false);
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < frames.count; i++) {
        const struct verdict *straggler = verdict_of(&out, VERDICT_STRAGGLER);

        feed(core, &frames.frame[i]);
        if (i % 8 == 7)
            tick(core, 1000 + 50 * (int64_t)(i / 8), false, &out);
        if (straggler && written < 0)
            written = straggler->gpu_seconds;
        if (straggler)
            most = MAX(most, core_verdict_cost(core, straggler->id));
    }
    assert_true(written > 0);
    assert_true(most > 2 * written);
    assert_true(core_verdict_cost(core, "st-none") < 0);
    core_destroy(core);
    buf_fini(&out.bytes);
}

static void a_setting_changes_what_is_worth_a_word(void **state)
{
    struct core_counts counts;
    struct core *core;

    (void)state;
    assert_true(has_straggler(NULL, 0));
    assert_false(has_straggler("verdict.least-cost", 0.9));
    assert_false(has_straggler("verdict.least-time", 60000));
    assert_int_equal(core_create("test", &core), 0);
    assert_int_equal(set(core, "verdict.least-cost", 0.25), 0);
    assert_true(core_thresholds(core)->verdict_least_cost == 0.25);
    assert_true(set(core, "verdict.least-cost", 1.25) < 0);
    assert_true(set(core, "no.such", 1) < 0);
    assert_true(core_thresholds(core)->verdict_least_cost == 0.25);
    core_counts(core, &counts);
    assert_int_equal(counts.malformed, 2);
    core_destroy(core);
}

static void shuffle(const struct lab_frames *from, struct rand *rand, struct lab_frames *to)
{
    CLEAN(free_clean) bool *taken = calloc(from->count, sizeof(*taken));

    assert_non_null(taken);
    to->frame = calloc(from->count, sizeof(*to->frame));
    assert_non_null(to->frame);
    for (size_t begin = 0, end; begin < from->count; begin = end) {
        for (end = begin + 1; end < from->count && from->frame[end].type != FRAME_RUN;)
            end++;
        while (to->count < end) {
            size_t at = begin + rand_below(rand, (uint32_t)(end - begin)), first = begin;

            while (taken[at])
                at = at + 1 < end ? at + 1 : begin;
            if (from->frame[begin].type == FRAME_RUN && !taken[begin])
                at = begin;
            /* The oldest of this sender that is left. */
            while (taken[first] || from->frame[first].sender != from->frame[at].sender)
                first++;
            taken[first] = true;
            to->frame[to->count++] = from->frame[first];
        }
    }
}

static void any_interleaving_of_senders_gives_the_same_verdicts(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct rand rand = { 5 };
    struct core_counts counts;
    struct output_queue plain;

    (void)state;
    record(&frames, true);
    play(&frames, 8, &plain, &counts);
    assert_int_equal(plain.verdicts, 2);
    for (int try = 0; try < 8; try++) {
        struct lab_frames other = { 0 };
        struct output_queue out;

        shuffle(&frames, &rand, &other);
        play(&other, 1 + rand_below(&rand, 40), &out, &counts);
        assert_int_equal(counts.steps_complete, 60);
        assert_int_equal(out.verdicts, 2);
        for (uint32_t i = 0; i < 2; i++) {
            const struct verdict *expected = verdict_of(&plain, out.verdict[i].kind);

            assert_non_null(expected);
            assert_string_equal(out.verdict[i].id, expected->id);
            assert_int_equal(out.verdict[i].since_step, expected->since_step);
            assert_int_equal(out.verdict[i].decided_step, expected->decided_step);
            assert_true(out.verdict[i].gpu_seconds > 0.9 * expected->gpu_seconds);
            assert_true(out.verdict[i].gpu_seconds < 1.1 * expected->gpu_seconds);
        }
        free(other.frame); /* the payloads are the first one's */
        buf_fini(&out.bytes);
    }
    buf_fini(&plain.bytes);
}

static void the_same_frames_and_ticks_give_the_same_bytes(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct core_counts counts;
    struct output_queue first, second;

    (void)state;
    record(&frames, true);
    play(&frames, 7, &first, &counts);
    play(&frames, 7, &second, &counts);
    assert_int_equal(first.bytes.size, second.bytes.size);
    assert_memory_equal(first.bytes.data, second.bytes.data, first.bytes.size);
    buf_fini(&first.bytes);
    buf_fini(&second.bytes);
}

static void frames_that_come_twice_change_nothing(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct core_counts counts;
    struct output_queue out;
    struct core *core;

    (void)state;
    record(&frames, false);
    out = (struct output_queue){ 0 };
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < frames.count; i++) {
        feed(core, &frames.frame[i]);
        if (frames.frame[i].type == FRAME_STEP)
            feed(core, &frames.frame[i]);
        tick(core, 1000 + (int64_t)i, false, &out);
    }
    core_counts(core, &counts);
    assert_int_equal(counts.steps_complete, 60);
    assert_int_equal(counts.malformed, 0);
    core_destroy(core);
    buf_fini(&out.bytes);
}

static void steps_of_a_missing_rank_are_partial_and_block_nothing(void **state)
{
    struct lab_config config = on_nodes();
    struct lab *lab = lab_create(&config);
    struct core_counts counts;
    struct output_queue out = { 0 };
    struct core *core;
    int64_t ms = 1000;
    CLEAN(lab_frames_fini) struct lab_frames begin = { 0 };

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    lab_frames_begin(&begin, lab);
    for (size_t i = 0; i < begin.count; i++)
        assert_int_equal(feed(core, &begin.frame[i]), 0);
    for (int step = 0; step < 60; step++) {
        CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };

        lab->fault.stretch[2] = step >= 15 ? 0.3 : 0;
        lab_step(lab);
        lab_frames_step(&frames, lab);
        for (size_t i = 0; i < frames.count; i++) {
            if (!(step % 10 == 3 && i == 6)) /* rank 6 loses every tenth step */
                feed(core, &frames.frame[i]);
        }
        tick(core, ms += 100, false, &out);
    }
    core_counts(core, &counts);
    assert_int_equal(counts.steps_partial, 6);
    assert_int_equal(counts.steps_complete, 54);
    assert_int_equal(out.verdicts, 1);
    assert_int_equal(out.verdict[0].rank[0], 2);
    core_destroy(core);
    buf_fini(&out.bytes);
    lab_destroy(lab);
}

static void a_rank_that_never_comes_holds_up_no_memory(void **state)
{
    struct lab_config config = on_nodes();
    struct lab *lab = lab_create(&config);
    struct core_counts counts;
    struct output_queue out = { 0 };
    struct core *core;
    int64_t ms = 1000;
    CLEAN(lab_frames_fini) struct lab_frames begin = { 0 };

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    lab_frames_begin(&begin, lab);
    for (size_t i = 0; i < begin.count; i++)
        feed(core, &begin.frame[i]);
    for (int step = 0; step < 400; step++) {
        CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };

        lab_step(lab);
        lab_frames_step(&frames, lab);
        for (size_t i = 0; i + 1 < frames.count; i++)
            feed(core, &frames.frame[i]);
        tick(core, ms += 100, false, &out);
    }
    core_counts(core, &counts);
    assert_int_equal(counts.steps_complete, 0);
    assert_true(counts.steps_partial >= 400 - 120); /* ten seconds of patience are 100 steps */
    assert_int_equal(out.verdicts, 0);
    core_destroy(core);
    buf_fini(&out.bytes);
    lab_destroy(lab);
}

/* Whether a frame speaks of the last rank: its ring or its place in a communicator. */
static bool is_of_last_rank(const struct lab_frame *frame, const struct lab *lab)
{
    struct reader in = reader_of(frame->payload, frame->bytes);

    return (frame->type == FRAME_RING || frame->type == FRAME_COMM) &&
           reader_get_u32(&in) == lab->world - 1;
}

static void ranks_are_judged_although_one_was_never_seen(void **state)
{
    struct lab_config config = on_nodes();
    struct lab *lab = lab_create(&config);
    struct core_counts counts;
    struct output_queue out = { 0 };
    struct core *core;
    int64_t ms = 1000;
    CLEAN(lab_frames_fini) struct lab_frames begin = { 0 };

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    lab_frames_begin(&begin, lab);
    for (size_t i = 0; i < begin.count; i++) {
        if (!is_of_last_rank(&begin.frame[i], lab))
            feed(core, &begin.frame[i]);
    }
    for (int step = 0; step < 200; step++) {
        CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };

        lab->fault.stretch[2] = step >= 150 ? 0.3 : 0;
        lab_step(lab);
        lab_frames_step(&frames, lab);
        for (size_t i = 0; i + 1 < frames.count; i++) /* the last is the last rank's */
            feed(core, &frames.frame[i]);
        tick(core, ms += 100, false, &out);
    }
    core_counts(core, &counts);
    assert_true(counts.steps_complete > 150);
    assert_int_equal(out.verdicts, 1);
    assert_int_equal(out.verdict[0].rank_count, 1);
    assert_int_equal(out.verdict[0].rank[0], 2);
    core_destroy(core);
    buf_fini(&out.bytes);
    lab_destroy(lab);
}

/* The last beat of each rank's process: it has ended, and nobody complains. */
static void all_end(struct core *core, const struct lab *lab, int64_t ms)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        const struct fact_beat beat = {
            .rank = rank, .mono_ns = ms * NS_PER_MS, .state = 'X', .final = true
        };
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct lab_frame frame = { .type = FRAME_BEAT };

        fact_beat_put(&payload, &beat);
        frame.payload = payload.data;
        frame.bytes = payload.size;
        assert_int_equal(feed(core, &frame), 0);
    }
}

/* Rings, communicators and shapes of other workers in the same attempt. */
static void all_begin(struct core *core, const struct lab *lab, uint32_t number)
{
    CLEAN(lab_frames_fini) struct lab_frames begin = { 0 };

    lab_frames_begin(&begin, lab);
    for (size_t i = 0; i < begin.count; i++) {
        struct lab_frame frame = begin.frame[i];
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct fact_ring ring;

        if (frame.type == FRAME_RUN && number > 0)
            continue;
        if (frame.type == FRAME_RING) {
            assert_int_equal(fact_ring_get(reader_of(frame.payload, frame.bytes), &ring), 0);
            ring.ring = number;
            ring.open_ns = lab->rank[0].begin_ns - 100 * NS_PER_MS;
            fact_ring_put(&payload, &ring);
            frame.payload = payload.data;
            frame.bytes = payload.size;
        }
        assert_int_equal(feed(core, &frame), 0);
    }
}

static void train(struct core *core, struct lab *lab, uint32_t ring, int steps, int64_t *ms,
                  struct output_queue *out)
{
    for (int i = 0; i < steps; i++) {
        lab_step(lab);
        for (uint32_t rank = 0; rank < lab->world; rank++) {
            struct lab_frame frame = { .type = FRAME_STEP };
            CLEAN(buf_fini) struct buf payload = { 0 };
            struct fact_step fact;

            lab_fact(lab, rank, &fact);
            fact.ring = ring;
            fact_step_put(&payload, &fact, &lab->rank[rank].shape);
            frame.payload = payload.data;
            frame.bytes = payload.size;
            assert_int_equal(feed(core, &frame), 0);
        }
        *ms = MAX(*ms, (lab->rank[0].begin_ns + lab->rank[0].duration_ns) / NS_PER_MS + 1);
        tick(core, *ms, false, out);
    }
}

/* As an elastic launcher does it when two ranks are taken away: workers end and begin again in one attempt. */
static void workers_that_begin_anew_in_a_smaller_world_are_judged(void **state)
{
    struct lab_config config = on_nodes(), fewer = on_nodes();
    struct lab *lab = lab_create(&config), *less;
    struct core_counts counts;
    struct output_queue out = { 0 };
    struct ledger ledger;
    struct core *core;
    int64_t ms = 1000;

    (void)state;
    fewer.dp = 6;
    fewer.seed = config.seed + 1;
    less = lab_create(&fewer);
    assert_int_equal(core_create("test", &core), 0);
    all_begin(core, lab, 0);
    train(core, lab, 0, 30, &ms, &out);
    all_end(core, lab, ms);
    tick(core, ms += 1000, false, &out);
    less->step = lab->step;
    for (uint32_t rank = 0; rank < less->world; rank++)
        less->rank[rank].begin_ns = lab->rank[0].begin_ns + 20 * NS_PER_S;
    all_begin(core, less, 1);
    train(core, less, 1, 40, &ms, &out);
    assert_int_equal(out.verdicts, 0);
    core_counts(core, &counts);
    assert_int_equal(counts.steps_complete, 70);
    core_ledger(core, &ledger);
    assert_true(ledger.gpu_seconds[LEDGER_RESTART] > 6 * 15);
    assert_true(ledger.gpu_seconds[LEDGER_UNATTRIBUTED] < 6);
    less->fault.stretch[2] = 0.4; /* and a fault is found again */
    train(core, less, 1, 20, &ms, &out);
    assert_int_equal(out.verdicts, 1);
    assert_int_equal(out.verdict[0].rank_count, 1);
    assert_int_equal(out.verdict[0].rank[0], 2);
    tick(core, ms, true, &out);
    core_ledger(core, &ledger);
    assert_true(ledger.gpu_seconds[LEDGER_SPARE] > 2 * 15); /* the two that were taken away */
    core_destroy(core);
    buf_fini(&out.bytes);
    lab_destroy(lab);
    lab_destroy(less);
}

static bool begins_again(const struct lab_frame *frame)
{
    struct fact_run fact;

    return frame->type == FRAME_RUN &&
           fact_run_get(reader_of(frame->payload, frame->bytes), &fact) == 0 &&
           fact.event == RUN_ATTEMPT_BEGIN && fact.attempt == 1;
}

/* A launcher that restarts at once is faster than the agents, whose last frames of the attempt before come after its word. */
static void steps_that_come_after_a_restart_count(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct core_counts counts;
    struct output_queue out;
    struct lab_frame late[16]; /* the last two steps */
    size_t again = 0, count = 0;

    (void)state;
    record(&frames, false);
    while (!begins_again(&frames.frame[again]))
        assert_true(++again < frames.count);
    for (size_t i = again; i-- > 0 && count < COUNT(late);) {
        if (frames.frame[i].type != FRAME_STEP)
            continue;
        late[count++] = frames.frame[i];
        memmove(&frames.frame[i], &frames.frame[i + 1], (again - i) * sizeof(frames.frame[0]));
        frames.frame[again] = late[count - 1];
        again--;
    }
    assert_true(begins_again(&frames.frame[again]));
    play(&frames, 8, &out, &counts);
    assert_int_equal(counts.malformed, 0);
    assert_int_equal(counts.steps_complete, 60);
    assert_int_equal(counts.steps_partial, 0);
    assert_int_equal(out.ledger.steps, 60);
    assert_int_equal(verdict_of(&out, VERDICT_CRASH)->rank[0], 3);
    buf_fini(&out.bytes);
}

static int64_t run_mono_ns(const struct lab_frame *frame)
{
    struct fact_run fact;

    assert_int_equal(fact_run_get(reader_of(frame->payload, frame->bytes), &fact), 0);
    return fact.mono_ns;
}

/* Its rank ends before it has done anything, and the launcher of another node, which reports the attempts, is heard of later. */
static void an_exit_that_comes_before_its_attempt_is_explained(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct output_queue out = { 0 };
    struct lab_frame frame = { .type = FRAME_EXIT };
    struct fact_exit ended = { .rank = 5, .attempt = 1, .status = 256, .text = "exited with 1" };
    struct core *core;
    bool named = false;
    size_t again = 0;

    (void)state;
    record(&frames, false);
    while (!begins_again(&frames.frame[again]))
        assert_true(++again < frames.count);
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < again; i++)
        feed(core, &frames.frame[i]);
    tick(core, 1000, false, &out);
    ended.mono_ns = run_mono_ns(&frames.frame[again]) + NS_PER_MS;
    fact_exit_put(&payload, &ended);
    frame.payload = payload.data;
    frame.bytes = (uint32_t)payload.size;
    feed(core, &frame);
    feed(core, &frames.frame[again]);
    tick(core, 1050, true, &out);
    for (uint32_t i = 0; i < out.verdicts; i++)
        named |= out.verdict[i].kind == VERDICT_CRASH && out.verdict[i].rank[0] == 5;
    assert_true(named);
    core_destroy(core);
    buf_fini(&out.bytes);
}

static void malformed_frames_are_counted_and_change_nothing(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct core_counts counts;
    struct output_queue out = { 0 };
    struct core *core;
    uint64_t bad = 0;

    (void)state;
    record(&frames, false);
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < frames.count; i++) {
        struct lab_frame cut = frames.frame[i];

        cut.bytes = cut.bytes / 2;
        bad += feed(core, &cut) < 0;
        assert_int_equal(feed(core, &frames.frame[i]), 0);
        tick(core, 1000 + (int64_t)i, false, &out);
    }
    tick(core, 1000 + (int64_t)frames.count, true, &out);
    core_counts(core, &counts);
    assert_int_equal(bad, frames.count);
    assert_int_equal(counts.malformed, bad);
    assert_int_equal(counts.steps_complete, 60);
    assert_int_equal(out.verdicts, 2);
    core_destroy(core);
    buf_fini(&out.bytes);
}

static void a_ring_of_a_rank_that_cannot_be_is_refused(void **state)
{
    static const uint32_t wrong[][2] = { { UINT32_MAX, 0 }, { 5, UINT32_MAX }, { 1u << 30, 0 } };
    struct core *core;

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const struct fact_ring ring = { .rank = wrong[i][0], .world = wrong[i][1], .node = "n" };
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct lab_frame frame = { .type = FRAME_RING };

        fact_ring_put(&payload, &ring);
        frame.payload = payload.data;
        frame.bytes = payload.size;
        assert_true(feed(core, &frame) < 0);
    }
    core_destroy(core);
}

/* Bent payloads reach everything behind the checksums. */
static void hostile_payloads_never_break_it(void **state)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct rand rand = { 11 };

    (void)state;
    record(&frames, true);
    for (int try = 0; try < 60; try++) {
        struct output_queue out = { 0 };
        struct core *core;

        assert_int_equal(core_create("test", &core), 0);
        for (size_t i = 0; i < frames.count; i++) {
            const struct lab_frame *frame = &frames.frame[i];
            CLEAN(free_clean) unsigned char *bent = malloc(frame->bytes + 1);
            struct lab_frame hostile = *frame;

            assert_non_null(bent);
            memcpy(bent, frame->payload, frame->bytes);
            for (uint32_t k = rand_below(&rand, 8); k > 4 && frame->bytes; k--)
                bent[rand_below(&rand, (uint32_t)frame->bytes)] ^=
                    (unsigned char)(1u << rand_below(&rand, 8));
            hostile.payload = bent;
            if (rand_below(&rand, 50) == 0)
                hostile.type = (uint16_t)rand_below(&rand, FRAME_TYPE_COUNT + 2);
            if (rand_below(&rand, 30))
                feed(core, &hostile);
            if (rand_below(&rand, 8) == 0)
                tick(core, 1000 + 10 * (int64_t)i, false, &out);
            if (out.verdicts > COUNT(out.verdict) - 2)
                out.verdicts = 0;
        }
        tick(core, 100000, true, &out);
        core_destroy(core);
        buf_fini(&out.bytes);
    }
}

static void memory_does_not_grow_with_the_run(void **state)
{
    struct lab_config config = lab_plain;
    CLEAN(lab_frames_fini) struct lab_frames begin = { 0 };
    struct output_queue out = { 0 };
    struct core_counts counts;
    struct core *core;
    struct lab *lab;
    size_t before = 0, after;

    (void)state;
    config.dp = 8;
    config.blocks = 1;
    config.micros = 1;
    config.buckets = 1;
    lab = lab_create(&config);
    assert_int_equal(core_create("test", &core), 0);
    lab_frames_begin(&begin, lab);
    for (size_t i = 0; i < begin.count; i++)
        feed(core, &begin.frame[i]);
    for (int step = 0; step < 50000; step++) {
        struct lab_frames frames = { 0 };

        lab_step(lab);
        lab_frames_step(&frames, lab);
        for (size_t i = 0; i < frames.count; i++)
            feed(core, &frames.frame[i]);
        lab_frames_fini(&frames);
        tick(core, 1000 + step, false, &out);
        buf_fini(&out.bytes);
        if (step == 1000)
            before = mallinfo2().uordblks;
    }
    after = mallinfo2().uordblks;
    core_counts(core, &counts);
    assert_int_equal(counts.steps_complete, 50000);
    assert_true(after <= before + 65536);
    core_destroy(core);
    lab_destroy(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_a_slow_and_a_killed_rank_is_explained),
        cmocka_unit_test(steps_that_come_after_a_restart_count),
        cmocka_unit_test(the_cost_of_an_open_verdict_is_that_of_now),
        cmocka_unit_test(a_setting_changes_what_is_worth_a_word),
        cmocka_unit_test(any_interleaving_of_senders_gives_the_same_verdicts),
        cmocka_unit_test(the_same_frames_and_ticks_give_the_same_bytes),
        cmocka_unit_test(frames_that_come_twice_change_nothing),
        cmocka_unit_test(steps_of_a_missing_rank_are_partial_and_block_nothing),
        cmocka_unit_test(a_rank_that_never_comes_holds_up_no_memory),
        cmocka_unit_test(ranks_are_judged_although_one_was_never_seen),
        cmocka_unit_test(workers_that_begin_anew_in_a_smaller_world_are_judged),
        cmocka_unit_test(an_exit_that_comes_before_its_attempt_is_explained),
        cmocka_unit_test(malformed_frames_are_counted_and_change_nothing),
        cmocka_unit_test(a_ring_of_a_rank_that_cannot_be_is_refused),
        cmocka_unit_test(hostile_payloads_never_break_it),
        cmocka_unit_test(memory_does_not_grow_with_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
