/* score_store.h - results that outlive the score, so that one which was interrupted goes on.
 *
 * DIR/results.jsonl has a line per case that was run: the build of this program, the command of the case, the result.
 * A line of another build, or of a case that is not drawn any more, is not used.  Below DIR/runs are the runs whose
 * answer was not right.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_STORE_H
#define LOCKSTEP_LAB_SCORE_SCORE_STORE_H

#include <limits.h>
#include <stdio.h>

#include "lab/score/score.h"

#define SCORE_COMMAND 700

struct score_record {
    uint64_t build;
    char command[SCORE_COMMAND];
    struct score_result result;
};

struct score_store {
    char dir[PATH_MAX - 64], path[PATH_MAX];
    FILE *file; /* locked: one score at a time */
    uint64_t build;
    struct score_record *record;
    uint32_t count, room;
    uint32_t foreign; /* lines that were not used: of another build, or broken */
    bool torn;        /* the last line has no end */
};

/* Makes the directory where it is missing, and reads what is there. */
int score_store_open(const char *dir, struct score_store *ret, struct err *err);
void score_store_close(struct score_store *store);
/* NULL: it has not been run yet. */
const struct score_result *score_store_find(const struct score_store *store,
                                            const struct score_case *at);
int score_store_add(struct score_store *store, const struct score_case *at,
                    const struct score_result *result, struct err *err);

/* A line without its end; room for it is the caller's to free.  NULL: no memory. */
char *score_record_write(const struct score_record *record);
/* -EINVAL: not a whole record. */
int score_record_read(const char *line, struct score_record *ret);

#endif
