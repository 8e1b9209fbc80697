/* bench.h - a judge state and a made-up job before it; what all tests of the judges begin with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_TEST_BENCH_H
#define LOCKSTEP_JUDGE_TEST_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "judge/ledger.h"
#include "judge/test/lab_step.h"

struct bench {
    struct lab *lab;
    struct judge_state judge;
};

static inline struct bench bench_open(const struct lab_config *config)
{
    struct bench bench = { .lab = lab_create(config) };

    assert_int_equal(judge_state_init(&bench.judge, "test"), 0);
    ledger_run(bench.judge.book, bench.lab->world, 0);
    lab_introduce(bench.lab, &bench.judge);
    return bench;
}

static inline void bench_close(struct bench *bench)
{
    lab_destroy(bench->lab);
    judge_state_fini(&bench->judge);
}

static inline const struct past_step *bench_past(const struct bench *bench)
{
    return history_back(&bench->judge.history, 0);
}

static inline struct lab_config layout(uint32_t tp, uint32_t pp, uint32_t dp)
{
    struct lab_config config = lab_plain;

    config.tp = tp;
    config.pp = pp;
    config.dp = dp;
    config.micros = pp > 1 ? 2 * pp : 2;
    config.block_ns = lab_plain.block_ns * 2 / config.micros;
    return config;
}

#endif
