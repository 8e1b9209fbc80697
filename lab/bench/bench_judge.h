/* bench_judge.h - one window of a large job through the judges, and the bytes of a large step.
 *
 * Rows of `bench replay` (bench_replay.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_BENCH_JUDGE_H
#define LOCKSTEP_LAB_BENCH_BENCH_JUDGE_H

#include "lab/bench/bench_replay.h"

/* 16,384 ranks × 200 collectives through judge_state_step(): the first step, which builds the program,
 * and the step in which a straggler is named.
 */
int bench_judge(uint32_t repeats, struct bench_report *report, struct err *err);

/* A rank's step of 5,000 ops as a frame. */
int bench_step_bytes(uint32_t repeats, struct bench_report *report, struct err *err);

#endif
