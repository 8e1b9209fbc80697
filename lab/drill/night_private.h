/* night_private.h - what the files of a night say: read by night_evidence.c, judged by night.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_DRILL_NIGHT_PRIVATE_H
#define LOCKSTEP_LAB_DRILL_NIGHT_PRIVATE_H

#include <json-c/json.h>

#include "core/err.h"
#include "lab/drill/drill_json.h"
#include "lab/drill/night.h"

struct
    night { /* times are seconds of the day's clock; strings of JSON live as long as their documents */
    const struct night_plan *plan;
    /* What was done to it. */
    char slurm[64], run[64], victim[64], failure[160], kernel[240], result[32];
    double begins_s, fails_s, ends_s; /* 0: it did not come to that */
    int64_t flipped;                  /* step of the newest point when the job stopped; -1: none */
    char flipped_file[64];
    int64_t flipped_at;
    /* What lockstep says. */
    struct json_object *why, *steps, *reference, *decisions, *incident, *points;
    struct json_object *swap, *start; /* decisions; NULL: there was none */
    struct json_object *verdict; /* that the swap answers, as it was found first on the victim */
    double verdict_s, swap_s;
    uint32_t attempts;
    int64_t last_step, resumed; /* the last of the first attempt; the first of the last; -1: none */
    double new_step_s;          /* end of that one; 0: none */
    /* What the job printed. */
    char refused[240];
    int64_t restored; /* -1: nothing was */
};

int night_evidence_read(const char *directory, const struct night_plan *plan, struct night *ret,
                        struct err *err);
void night_fini(struct night *night);

/* The lines of a file, each without its end, until `take` says no. */
void night_lines(const char *directory, const char *name, bool (*take)(void *arg, char *line),
                 void *arg);

#endif
