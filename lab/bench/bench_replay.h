/* bench_replay.h - how fast steps are replayed and judged, on one core.
 *
 * Every measurement is one row of the table in bench_replay.c and adds figures to a report;
 * a figure is a number, or one of several under a name ("step_ms" by number of GPUs).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_BENCH_REPLAY_H
#define LOCKSTEP_LAB_BENCH_BENCH_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define BENCH_FIGURES_MAX 64

struct bench_figure {
    const char *name;
    const char *key;  /* NULL: the name has one number only */
    const char *text; /* what it is, for people; NULL: as the one before */
    double value;
    double at_least, at_most; /* the bars; 0: none */
};

struct bench_report {
    struct bench_figure figure[BENCH_FIGURES_MAX];
    size_t count;
};

void bench_report_add(struct bench_report *report, const struct bench_figure *figure);
bool bench_figure_good(const struct bench_figure *figure); /* within its bars */

/* Runs every row.  `repeats` of each run are interleaved; the median counts. */
int bench_replay(uint32_t repeats, struct bench_report *report, struct err *err);

#endif
