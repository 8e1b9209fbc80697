/* autopsy_case.h - what a person answers about the files of a dead job, and how good another answer is.
 *
 * A directory has a table `cases.tsv` with one line for each case: a log NAME.log, or a directory NAME of files.
 * test/recorded/logs/README.md describes the columns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_AUTOPSY_CASE_H
#define LOCKSTEP_LAB_BENCH_AUTOPSY_CASE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum autopsy_grade {
    GRADE_RIGHT,
    GRADE_VAGUE,  /* nothing is wrong, but words, ranks or layer are missing */
    GRADE_SILENT, /* no verdict, where a person has an answer */
    GRADE_WRONG,
    GRADE_COUNT
};

const char *autopsy_grade_name(enum autopsy_grade grade);

#define AUTOPSY_RANKS 64

struct autopsy_case {
    char name[64], category[32];
    char kind[96], layer[96], words[160]; /* lists, separated by commas; "*": any */
    uint32_t rank[AUTOPSY_RANKS];
    uint32_t ranks;
    bool ranks_optional; /* some of them or none */
    bool none;           /* no verdict is right; "none,hang": and so is one of these kinds */
};

struct autopsy_cases {
    struct autopsy_case *list;
    size_t count, room;
};

struct autopsy_ranks { /* over all cases in which ranks must be named, or no rank may be */
    uint64_t expected, named, right;
};

/* Reads DIRECTORY/cases.tsv; adds to `cases`.  -EPROTO: a line that does not fit the columns. */
int autopsy_cases_read(const char *directory, struct autopsy_cases *cases, struct err *err);
void autopsy_cases_fini(struct autopsy_cases *cases);
/* `answer`: what `lockstep why --json` printed; NULL: nothing.  `why` says what is wrong or missing. */
enum autopsy_grade autopsy_grade(const struct autopsy_case *at, struct json_object *answer,
                                 struct autopsy_ranks *ranks, char *why, size_t room);

#endif
