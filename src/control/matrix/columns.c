/* columns.c - waits for the ranks of a step, within limits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/matrix/columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/map.h"
#include "judge/step/model.h"
#include "lockstep/probe.h"

#define WAITING_MAX 64           /* columns that wait for ranks ... */
#define WAITING_RANKS (1u << 20) /* ... and ranks in all of them: a huge world stays bounded */
#define WORLD_ROOM 1024          /* ranks, before more have spoken */
#define PATIENCE_STEPS 4         /* so many newer whole ones: the missing ranks will not come */

struct waiting {
    struct column column;
    struct log_mark at; /* of its first frame */
};

struct columns {
    column_call *call;
    void *arg;
    uint32_t ranks;
    uint32_t claimed;
    struct map seen;
    uint32_t attempt;                    /* the newest */
    uint64_t done;                       /* steps of it below this have been given out */
    struct waiting waiting[WAITING_MAX]; /* by step, oldest first; all of the newest attempt */
    uint32_t count;
    int64_t *sorted; /* room for the median */
};

int columns_create(column_call *call, void *arg, struct columns **ret)
{
    struct columns *columns = calloc(1, sizeof(*columns));

    if (!columns)
        return -ENOMEM;
    columns->call = call;
    columns->arg = arg;
    *ret = columns;
    return 0;
}

static void waiting_fini(struct waiting *waiting)
{
    free(waiting->column.local_ns);
    free(waiting->column.shape);
    free(waiting->column.offset);
}

void columns_destroy(struct columns *columns)
{
    if (!columns)
        return;
    for (uint32_t i = 0; i < columns->count; i++)
        waiting_fini(&columns->waiting[i]);
    map_fini(&columns->seen);
    free(columns->sorted);
    free(columns);
}

void columns_resume(struct columns *columns, uint32_t attempt, uint64_t steps_done)
{
    columns->attempt = attempt;
    columns->done = steps_done;
}

void columns_done(const struct columns *columns, uint32_t *attempt, uint64_t *steps_done)
{
    *attempt = columns->attempt;
    *steps_done = columns->done;
}

struct log_mark columns_position(const struct columns *columns, const struct log_mark *at)
{
    struct log_mark first = *at;

    for (uint32_t i = 0; i < columns->count; i++) {
        if (columns->waiting[i].at.offset < first.offset)
            first = columns->waiting[i].at;
    }
    return first;
}

static int columns_compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void column_measure(struct column *column, int64_t *sorted)
{
    uint32_t have = 0;

    for (uint32_t rank = 0; rank < column->ranks; rank++) {
        if (column->local_ns[rank] >= 0)
            sorted[have++] = column->local_ns[rank];
    }
    qsort(sorted, have, sizeof(*sorted), columns_compare_ns);
    column->median_ns = have ? sorted[(have - 1) / 2] : 0;
    column->excess_ns = 0;
    column->worst = 0;
    for (uint32_t rank = 0; rank < column->ranks; rank++) {
        if (column->local_ns[rank] - column->median_ns > column->excess_ns) {
            column->excess_ns = column->local_ns[rank] - column->median_ns;
            column->worst = rank;
        }
    }
}

static int columns_give_first(struct columns *columns)
{
    struct column *column = &columns->waiting[0].column;
    int result;

    column_measure(column, columns->sorted);
    result = columns->call(columns->arg, column);
    if (result < 0)
        return result;
    columns->done = column->step + 1;
    waiting_fini(&columns->waiting[0]);
    columns->count--;
    memmove(columns->waiting, columns->waiting + 1, columns->count * sizeof(*columns->waiting));
    return 0;
}

int columns_flush(struct columns *columns)
{
    int result = 0;

    while (columns->count && result == 0)
        result = columns_give_first(columns);
    return result;
}

static uint32_t columns_waiting_max(const struct columns *columns)
{
    return MAX(8, MIN(WAITING_MAX, WAITING_RANKS / columns->ranks));
}

static bool waiting_grow(struct waiting *waiting, uint32_t ranks)
{
    struct column *column = &waiting->column;
    size_t room[3] = { column->ranks, column->ranks, column->ranks };

    if (!ARRAY_FIT_ZERO(column->local_ns, room[0], ranks) ||
        !ARRAY_FIT_ZERO(column->shape, room[1], ranks) ||
        !ARRAY_FIT_ZERO(column->offset, room[2], ranks))
        return false;
    for (uint32_t rank = column->ranks; rank < ranks; rank++)
        column->local_ns[rank] = -1;
    column->ranks = ranks;
    return true;
}

/* Columns that wait grow with the world, and go on waiting for its ranks.  Fewer may wait then. */
static int columns_fit(struct columns *columns)
{
    uint32_t ranks = model_room(columns->claimed, (uint32_t)columns->seen.used, WORLD_ROOM);
    int64_t *sorted;
    int result = 0;

    if (ranks <= columns->ranks)
        return 0;
    sorted = realloc(columns->sorted, ranks * sizeof(*sorted));
    if (!sorted)
        return -ENOMEM;
    columns->sorted = sorted;
    columns->ranks = ranks;
    while (columns->count > columns_waiting_max(columns) && result == 0)
        result = columns_give_first(columns);
    for (uint32_t i = 0; i < columns->count && result == 0; i++)
        result = waiting_grow(&columns->waiting[i], ranks) ? 0 : -ENOMEM;
    return result;
}

int columns_world(struct columns *columns, uint32_t ranks)
{
    if (ranks > COLUMN_RANKS_MAX)
        return -E2BIG;
    columns->claimed = MAX(columns->claimed, ranks);
    return columns_fit(columns);
}

int columns_feed(struct columns *columns, uint32_t rank)
{
    if (rank >= COLUMN_RANKS_MAX)
        return -E2BIG;
    if (!map_put(&columns->seen, rank, 1))
        return -ENOMEM;
    columns->claimed = MAX(columns->claimed, rank + 1);
    return columns_fit(columns);
}

static int waiting_init(struct waiting *waiting, const struct columns *columns, uint64_t step,
                        const struct log_mark *at)
{
    struct column *column = &waiting->column;

    *waiting = (struct waiting){
        .at = *at, .column = { .attempt = columns->attempt, .step = step, .ranks = columns->ranks }
    };
    column->local_ns = malloc(columns->ranks * sizeof(*column->local_ns));
    column->shape = calloc(columns->ranks, sizeof(*column->shape));
    column->offset = calloc(columns->ranks, sizeof(*column->offset));
    if (!column->local_ns || !column->shape || !column->offset) {
        waiting_fini(waiting);
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < columns->ranks; rank++)
        column->local_ns[rank] = -1;
    return 0;
}

/* The column of a step, made where it belongs.  1 with *ret set; 0: too late for it; -errno. */
static int waiting_get(struct columns *columns, uint64_t step, const struct log_mark *mark,
                       struct waiting **ret)
{
    uint32_t at = columns->count;
    int result;

    if (step < columns->done)
        return 0;
    while (at > 0 && columns->waiting[at - 1].column.step > step)
        at--;
    if (at > 0 && columns->waiting[at - 1].column.step == step) {
        *ret = &columns->waiting[at - 1];
        return 1;
    }
    if (columns->count >= columns_waiting_max(columns)) {
        if (at == 0)
            return 0;
        result = columns_give_first(columns);
        if (result < 0)
            return result;
        at--;
    }
    memmove(columns->waiting + at + 1, columns->waiting + at,
            (columns->count - at) * sizeof(*columns->waiting));
    result = waiting_init(&columns->waiting[at], columns, step, mark);
    if (result < 0) {
        memmove(columns->waiting + at, columns->waiting + at + 1,
                (columns->count - at) * sizeof(*columns->waiting));
        return result;
    }
    columns->count++;
    *ret = &columns->waiting[at];
    return 1;
}

static bool columns_is_complete(const struct columns *columns, uint32_t at)
{
    return columns->waiting[at].column.have >= columns->ranks;
}

static bool columns_first_is_ready(const struct columns *columns)
{
    uint32_t newer = 0;

    if (columns->count == 0)
        return false;
    for (uint32_t i = 1; i < columns->count; i++)
        newer += columns_is_complete(columns, i);
    return columns_is_complete(columns, 0) || newer >= PATIENCE_STEPS;
}

static void column_mean_add(struct column_mean *mean, const struct fact_step *step,
                            enum lockstep_metric metric)
{
    if (!(step->metric_set >> metric & 1))
        return;
    mean->sum += step->metric[metric];
    mean->count++;
}

double column_mean(const struct column_mean *mean)
{
    return mean->count ? mean->sum / mean->count : (double)NAN;
}

int columns_step(struct columns *columns, const struct fact_step *step, int64_t local_ns,
                 int64_t real_ns, const struct log_mark *at)
{
    struct waiting *waiting;
    struct column *column;
    int result = columns_feed(columns, step->rank);

    if (result < 0)
        return result;
    if (step->attempt < columns->attempt || step->rank >= columns->ranks)
        return 0;
    if (step->attempt > columns->attempt) {
        result = columns_flush(columns);
        if (result < 0)
            return result;
        columns->attempt = step->attempt;
        columns->done = 0;
    }
    result = waiting_get(columns, step->step, at, &waiting);
    if (result <= 0)
        return result;
    column = &waiting->column;
    if (column->local_ns[step->rank] >= 0)
        return 0; /* it came twice */
    column->local_ns[step->rank] = MAX(0, local_ns);
    column->shape[step->rank] = step->shape;
    column->offset[step->rank] = at->offset;
    column->have++;
    column_mean_add(&column->loss, step, LOCKSTEP_METRIC_LOSS);
    column_mean_add(&column->tokens, step, LOCKSTEP_METRIC_TOKENS);
    column->duration_ns = MAX(column->duration_ns, step->duration_ns);
    if (real_ns && (!column->begin_real_ns || real_ns < column->begin_real_ns))
        column->begin_real_ns = real_ns;
    while (result >= 0 && columns_first_is_ready(columns))
        result = columns_give_first(columns);
    return MIN(result, 0);
}
