/* noise_cases.h - many small made-up jobs, each with one fault or none, and what the judges say about them.
 *
 * A second generator beside `bench verdicts`, built otherwise: no processes, but a plain simulation of steps; buckets of gradients
 * that overlap the backward pass; noise that lasts for steps, differs between ranks and has Pareto tails; faults that begin at any
 * step, at once, gradually, in some steps only, or on and off.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_NOISE_CASES_H
#define LOCKSTEP_LAB_BENCH_NOISE_CASES_H

#include <stdint.h>

#include "core/err.h"

enum noise_case_kind {
    NOISE_CASE_NONE,
    NOISE_CASE_DEVICE,
    NOISE_CASE_HOST,
    NOISE_CASE_BATCH,   /* of one rank */
    NOISE_CASE_BATCHES, /* of all */
    NOISE_CASE_FABRIC,
    NOISE_CASE_STARVED, /* a node without CPUs */
    NOISE_CASE_ALL,     /* devices */
    NOISE_CASE_KINDS
};

#define NOISE_CASE_BINS 10 /* of confidence */
#define NOISE_CASE_WRONG 24

struct noise_case_row {
    const char *name;
    uint32_t cases, found; /* found: the first verdict is of the right kind ... */
    uint32_t ranks, layer; /* ... names exactly the right ranks; and layer, too */
    uint32_t silent;
    uint32_t early; /* verdicts before the fault began, or without one */
    double steps;   /* from its begin to the verdict, sum */
};

struct noise_cases_result {
    struct noise_case_row row[NOISE_CASE_KINDS];
    uint32_t verdicts[NOISE_CASE_BINS], right[NOISE_CASE_BINS]; /* all verdicts, by confidence */
    double confidence[NOISE_CASE_BINS];                         /* sum */
    uint32_t wrongs;
    char wrong[NOISE_CASE_WRONG][480];
};

int noise_cases_run(uint64_t seed, uint32_t cases, struct noise_cases_result *ret, struct err *err);

#endif
