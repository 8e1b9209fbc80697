/* crash_scene.h - ranks that end, in the order of a test.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_TEST_CRASH_SCENE_H
#define LOCKSTEP_JUDGE_TEST_CRASH_SCENE_H

#include "judge/test/bench.h"

#include <signal.h>
#include <stdio.h>

#include "judge/crash/crash.h"
#include "judge/stuck/hang.h"

#define MS INT64_C(1000000)
#define CLOSED "RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:4711"

static inline struct bench four(void)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    lab_judge_many(bench.lab, &bench.judge, 10);
    return bench;
}

static inline const struct verdict *crash_of(const struct bench *bench)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_CRASH, 0);

    assert_int_equal(lab_open_count(&bench->judge, VERDICT_CRASH), 1);
    return &tracked->verdict;
}

/* On a busy machine: rank 2 raises, its interpreter is taken down, rank 0 notices and is the first to be gone. */
static inline void raises(struct bench *bench, uint32_t rank, int64_t ms, const char *text)
{
    struct fact_note note = { .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS };

    snprintf(note.text, sizeof(note.text), "%s", text);
    crash_note(&bench->judge, &note);
}

#endif
