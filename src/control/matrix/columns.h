/* columns.h - collects steps of single ranks into columns: one step of all ranks.
 *
 * A column is emitted when every rank has sent its step, or when enough newer columns are complete, so that the
 * missing ranks will not send it; always in order: by attempt, then by step.  A reader that resumes a log at
 * columns_position() gets the columns that were not emitted, and none twice (columns_resume()).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_MATRIX_COLUMNS_H
#define LOCKSTEP_CONTROL_MATRIX_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/facts.h"

#define COLUMN_RANKS_MAX 262144

struct column_mean { /* of the ranks that reported one */
    double sum;
    uint32_t count;
};

struct column {
    uint32_t attempt;
    uint64_t step;
    uint32_t ranks, have; /* ranks: the world; have: ranks that sent it */
    int64_t *local_ns;    /* by rank: its own work in this step; -1: not known */
    uint64_t *shape;      /* by rank */
    uint64_t *offset;     /* by rank: where the log has its step; NULL: not known */
    struct column_mean loss, tokens;
    int64_t begin_real_ns; /* the first rank's; 0: not known */
    int64_t duration_ns;   /* the longest */
    /* Set when it is given out: */
    int64_t median_ns, excess_ns; /* of the ranks that sent it; excess: of the worst */
    uint32_t worst;
};

/* NAN: no rank reported one. */
double column_mean(const struct column_mean *mean);

typedef int column_call(void *arg, const struct column *column); /* 0, or -errno: stop */

struct log_mark { /* a place in a log, and what was counted up to it */
    uint64_t offset, frames, damaged;
};

struct columns;
int columns_create(column_call *call, void *arg, struct columns **ret);
void columns_destroy(struct columns *columns); /* NULL is fine */
/* Columns up to this one were given out in an earlier life. */
void columns_resume(struct columns *columns, uint32_t attempt, uint64_t steps_done);
/* So many ranks are told of, and one of them is heard.  There are columns for ranks as far as those who were heard make
 * the number likely (model_room()); steps of others are left out.  Both only grow.  -E2BIG, -ENOMEM.
 */
int columns_world(struct columns *columns, uint32_t ranks);
int columns_feed(struct columns *columns, uint32_t rank);

/* `at`: where its frame begins in the log.  `real_ns`: when it began, 0: unknown. */
int columns_step(struct columns *columns, const struct fact_step *step, int64_t local_ns,
                 int64_t real_ns, const struct log_mark *at);
int columns_flush(struct columns *columns); /* nothing more will come: gives out all */

/* From where a later reader must begin, if this one has read up to `at`. */
struct log_mark columns_position(const struct columns *columns, const struct log_mark *at);
void columns_done(const struct columns *columns, uint32_t *attempt, uint64_t *steps_done);

#endif
