/* test-core-memory.c - a run may last for months: what its core remembers does not grow with it.
 *
 * A job of two ranks, as small as a job can be, on a virtual clock.  A rank becomes slow now and then, so that verdicts are opened
 * and closed; the job restarts, with other communicators each time.  What is allocated and what is resident are
 * compared after a tenth of the steps and at the end, with restarts the highest values of both halves: one byte a step
 * would be 1.8 MB, 40 bytes a verdict too many.
 * LOCKSTEP_STEPS is another number of steps (make test-long).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/core.h"
#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"
#include "wire/facts.h"
#include "wire/frame.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* which have an allocator of their own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define RANKS 2u
#define PERIOD_NS (100 * NS_PER_MS)
#define STEPS_IN_ALL (SANITIZED ? UINT64_C(50000) : UINT64_C(2000000))
#define STEPS_WITH_RESTARTS (SANITIZED ? UINT64_C(5000) : UINT64_C(1000000))
#define SLOW_EVERY 1000 /* steps */
#define GROWTH_MOST (64u << 10)
#define SAMPLES 64 /* in each half of a job with restarts */
#define RISE_MOST                                                                                  \
    (256u << 10) /* between two of them it grows, and they meet its highest value by chance */

struct job {
    struct core *core;
    int64_t now_ns;
    uint64_t step, restarted;
    uint32_t attempt, slow; /* rank 1 is slow in so many of the next steps */
    uint64_t comm;
    struct shape_item item[2];
    struct fact_shape shape;
    uint64_t verdicts, ledgers;
};

static void take_output(void *arg, uint16_t type, const struct buf *payload)
{
    struct job *job = arg;

    (void)payload;
    job->verdicts += type == FRAME_VERDICT;
    job->ledgers += type == FRAME_LEDGER;
}

/* Frees the payload. */
static void feed(struct job *job, uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };
    struct err err = { "" };

    if (core_feed(job->core, &frame, &err) < 0)
        fail_msg("step %llu: %s", (unsigned long long)job->step, err.text);
    buf_fini(payload);
}

static void tick(struct job *job)
{
    const struct fact_tick now = { .mono_ns = job->now_ns,
                                   .real_ns = job->now_ns + 1700000000 * NS_PER_S };

    core_tick(job->core, &now, 0, take_output, job);
}

static void run_event(struct job *job, unsigned event, int status)
{
    const struct fact_run fact = { .event = (uint8_t)event,
                                   .attempt = job->attempt,
                                   .ranks = RANKS,
                                   .culprit = -1,
                                   .status = status,
                                   .mono_ns = job->now_ns,
                                   .real_ns = job->now_ns + 1700000000 * NS_PER_S };
    struct buf payload = { 0 };

    fact_run_put(&payload, &fact);
    feed(job, FRAME_RUN, &payload);
}

static void put_shape(struct job *job)
{
    struct buf payload = { 0 };

    job->item[0] = (struct shape_item){
        .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_FORWARD, .stream = 1, .count = 1
    };
    job->item[1] = (struct shape_item){ .kind = ITEM_COLL,
                                        .what = LOCKSTEP_OP_ALL_REDUCE,
                                        .stream = 2,
                                        .count = 1,
                                        .comm = job->comm,
                                        .bytes = 1u << 20 };
    job->shape = (struct fact_shape){ .count = COUNT(job->item), .item = job->item };
    shape_hash(&job->shape);
    fact_shape_put(&payload, &job->shape);
    feed(job, FRAME_SHAPE, &payload);
}

/* The ranks open their rings and make their communicator. */
static void attempt_begin(struct job *job)
{
    struct buf payload = { 0 };

    job->comm++;
    run_event(job, RUN_ATTEMPT_BEGIN, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct fact_ring ring = { .rank = rank,
                                        .world = RANKS,
                                        .attempt = job->attempt,
                                        .ring = job->attempt,
                                        .node = "n0",
                                        .open_ns = job->now_ns };
        const struct fact_comm comm = { .rank = rank,
                                        .attempt = job->attempt,
                                        .id = job->comm,
                                        .size = RANKS,
                                        .index = rank,
                                        .kind = LOCKSTEP_COMM_DP,
                                        .name = "dp" };

        fact_ring_put(&payload, &ring);
        feed(job, FRAME_RING, &payload);
        fact_comm_put(&payload, &comm);
        feed(job, FRAME_COMM, &payload);
    }
    put_shape(job);
}

static void restart(struct job *job)
{
    run_event(job, RUN_ATTEMPT_END, 1);
    job->now_ns += NS_PER_S;
    tick(job);
    job->attempt++;
    job->step -= 10; /* the newest checkpoint */
    attempt_begin(job);
}

static void put_beat(struct job *job, uint32_t rank)
{
    const struct fact_beat fact = { .rank = rank,
                                    .attempt = job->attempt,
                                    .ring = job->attempt,
                                    .mono_ns = job->now_ns,
                                    .state = 'R',
                                    .step = job->step,
                                    .advanced = true };
    struct buf payload = { 0 };

    fact_beat_put(&payload, &fact);
    feed(job, FRAME_BEAT, &payload);
}

static void next_step(struct job *job)
{
    int64_t slower_ns = job->slow ? 30 * NS_PER_MS : 0, work_ns = 80 * NS_PER_MS;
    int64_t meet_ns = work_ns + slower_ns, end_ns = meet_ns + 10 * NS_PER_MS;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        int64_t own_ns = work_ns + (rank == 1 ? slower_ns : 0);
        struct item_time time[] = {
            { .enqueue_ns = 1000, .start_ns = 2000, .end_ns = own_ns },
            { .enqueue_ns = 3000, .start_ns = own_ns, .end_ns = end_ns, .wait_ns = -1 },
        };
        const struct fact_step fact = { .rank = rank,
                                        .attempt = job->attempt,
                                        .ring = job->attempt,
                                        .step = job->step,
                                        .shape = job->shape.hash,
                                        .begin_ns = job->now_ns,
                                        .duration_ns = PERIOD_NS - NS_PER_MS + slower_ns,
                                        .tail_ns = NS_PER_MS,
                                        .count = COUNT(time),
                                        .time = time };
        struct buf payload = { 0 };

        fact_step_put(&payload, &fact, &job->shape);
        feed(job, FRAME_STEP, &payload);
    }
    job->slow -= job->slow > 0;
    job->now_ns += PERIOD_NS + slower_ns;
    job->step++;
}

/* Runs on to that step. */
static void run_to(struct job *job, uint64_t last, uint64_t restart_every)
{
    while (job->step < last) {
        next_step(job);
        if (job->step % 10 == 0)
            tick(job);
        if (job->step % 100 == 0) {
            for (uint32_t rank = 0; rank < RANKS; rank++)
                put_beat(job, rank);
        }
        if (job->step % SLOW_EVERY == 0)
            job->slow = 100;
        if (restart_every && job->step >= job->restarted + restart_every) {
            job->restarted = job->step;
            restart(job);
        }
    }
}

struct memory {
    size_t allocated, resident;
};

static struct memory memory_now(void)
{
    struct mallinfo2 info = mallinfo2();
    CLEAN(file_clean) FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    size_t kb = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        sscanf(line, "RssAnon: %zu", &kb); /* not the pages of the program itself */
    assert_true(kb > 0);
    return (struct memory){ info.uordblks + info.hblkhd, kb << 10 };
}

/* What former attempts used is dropped from time to time, so memory rises and falls: its highest value is compared. */
static struct memory memory_highest(struct job *job, uint64_t last, uint64_t restart_every)
{
    struct memory highest = { 0 };
    uint64_t first = job->step;

    for (uint64_t k = 1; k <= SAMPLES; k++) {
        struct memory now;

        run_to(job, first + (last - first) * k / SAMPLES, restart_every);
        now = memory_now();
        highest.allocated = now.allocated > highest.allocated ? now.allocated : highest.allocated;
        highest.resident = now.resident > highest.resident ? now.resident : highest.resident;
    }
    return highest;
}

static void memory_is_flat(const struct memory *before, const struct memory *after, size_t most)
{
    if (SANITIZED)
        return;
    if (after->allocated > before->allocated + most || after->resident > before->resident + most)
        fail_msg("allocated %zu, then %zu; resident %zu, then %zu", before->allocated,
                 after->allocated, before->resident, after->resident);
}

static int setup(void **state)
{
    struct job *job = test_calloc(1, sizeof(*job));

    assert_int_equal(core_create("months", &job->core), 0);
    job->now_ns = 1000 * NS_PER_S;
    job->comm = 0x1000;
    run_event(job, RUN_BEGIN, 0);
    attempt_begin(job);
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;

    core_destroy(job->core);
    test_free(job);
    return 0;
}

static void its_memory_does_not_grow_with_the_steps_of_a_run(void **state)
{
    struct job *job = *state;
    const char *given = getenv("LOCKSTEP_STEPS");
    uint64_t steps = given ? strtoull(given, NULL, 10) : STEPS_IN_ALL;
    struct core_counts counts;
    struct memory tenth, end;

    run_to(job, steps / 10, 0);
    tenth = memory_now();
    run_to(job, steps, 0);
    end = memory_now();
    core_counts(job->core, &counts);
    assert_true(counts.steps_complete + 10 >= steps);     /* all were judged */
    assert_true(job->verdicts + 2 >= steps / SLOW_EVERY); /* and said something */
    memory_is_flat(&tenth, &end, GROWTH_MOST);
}

static void its_memory_does_not_grow_with_restarts_and_communicators(void **state)
{
    struct job *job = *state;
    uint64_t steps = STEPS_WITH_RESTARTS;
    struct core_counts counts;
    struct memory first, second;

    first = memory_highest(job, steps / 2, 30);
    second = memory_highest(job, steps, 30);
    core_counts(job->core, &counts);
    assert_true(job->attempt >= steps / 40);
    assert_true(counts.steps_complete >=
                steps / 2); /* all attempts were judged, also the last ones */
    memory_is_flat(&first, &second, RISE_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_memory_does_not_grow_with_the_steps_of_a_run, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(its_memory_does_not_grow_with_restarts_and_communicators,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
