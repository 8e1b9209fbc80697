/* bench_replay.h - how fast steps are replayed and judged, on one core.
 *
 * Every measurement is one row of the table in bench_replay.c and adds figures to a report;
 * a figure is a number, or one of several under a name ("step_ms" by number of GPUs).
 */
#ifndef LOCKSTEP_LAB_BENCH_REPLAY_H
#define LOCKSTEP_LAB_BENCH_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define BENCH_FIGURES_MAX 64

struct bench_figure {
    char name[40];
    char key[16]; /* "": the name has one number only */
    double value;
    char text[80]; /* what it is, for people */
};

struct bench_report {
    struct bench_figure figure[BENCH_FIGURES_MAX];
    size_t count;
};

void bench_report_add(struct bench_report *report, const char *name, const char *key, double value,
                      const char *text);

/* Runs every row.  `repeats` of each run are interleaved; the median counts. */
int bench_replay(uint32_t repeats, struct bench_report *report, struct err *err);

#endif
