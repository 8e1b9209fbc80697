/* whatif_lanes.c - profiler traces of ranks as programs: compute up to a collective, the collective, compute ...
 *
 * A rank's compute between the starts of two collectives is one op.  A collective follows the compute before
 * it; the compute after it waits for it only where it was seen to start after its end (else it overlaps).
 * Collectives of one group meet by their order.  Clocks are aligned by their ends, the median over all of
 * them: members leave a collective together, but for what the transport adds.  Ideal is what the same
 * op, by its place in the step, takes on all ranks and steps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "judge/compare/whatif.h"
#include "judge/compare/whatif_private.h"

#define LONGEST_NS INT64_C(1000000000000000000) /* 31 years: nobody computes longer */

struct piece { /* an op of the plan */
    int64_t step, start_ns, end_ns, traced_ns;
    uint64_t meet; /* 0: compute */
    uint32_t worker, kind, place;
    bool after; /* waits for the piece before it, though on another line */
};

struct cutter {
    const struct lanes *lanes;
    struct whatif_plan *plan;
    struct lane_op *op; /* sorted */
    struct piece *piece;
    size_t pieces;
    struct map worker; /* rank to label */
};

static void cutter_fini(struct cutter *cutter)
{
    free(cutter->op);
    free(cutter->piece);
    map_fini(&cutter->worker);
}

static int by_step(const void *left, const void *right)
{
    const struct lane_op *a = left, *b = right;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int by_place(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->worker > b->worker) - (a->worker < b->worker);
}

static struct piece *piece_add(struct cutter *cutter, const struct lane_op *op, uint32_t worker,
                               uint32_t place)
{
    struct piece *piece = &cutter->piece[cutter->pieces++];

    *piece = (struct piece){ .step = op->step,
                             .start_ns = op->start_ns,
                             .end_ns = op->start_ns,
                             .worker = worker,
                             .place = place };
    return piece;
}

/* The ops of one rank in one step: pieces compute, collective, compute ... compute, always in that order. */
static int cut_step(struct cutter *cutter, const struct lane_op *op, size_t count, uint32_t worker)
{
    CLEAN(map_fini) struct map ordinal = { 0 };
    uint32_t place = 0;
    struct piece *compute = piece_add(cutter, op, worker, place++);
    bool begun = false;
    int64_t last_end = op->start_ns;

    for (size_t i = 0; i < count; i++) {
        if (op[i].kind == LANES_COMPUTE) {
            if (!begun) {
                compute->start_ns = op[i].start_ns;
                compute->after = place > 1 && op[i].start_ns >= last_end;
            }
            begun = true;
            compute->traced_ns = MIN(compute->traced_ns + op[i].duration_ns, LONGEST_NS);
            compute->end_ns = op[i].start_ns + op[i].duration_ns;
        } else {
            uint64_t *n = map_put(&ordinal, op[i].group, 0);
            struct piece *piece = piece_add(cutter, &op[i], worker, place++);

            if (!n)
                return -ENOMEM;
            piece->kind = op[i].kind;
            piece->meet = hash64_u64(hash64_u64(op[i].group, (uint64_t)op[i].step), ++*n) | 1;
            piece->end_ns = last_end = op[i].start_ns + op[i].duration_ns;
            piece->after = true;
            compute = piece_add(cutter, &op[i], worker, place++);
            compute->start_ns = compute->end_ns = piece->end_ns;
            compute->after = true;
            begun = false;
        }
    }
    return 0;
}

static int cut_all(struct cutter *cutter)
{
    size_t count = cutter->lanes->count;
    int result = 0;

    cutter->op = malloc(count * sizeof(*cutter->op));
    cutter->piece = calloc(3 * count, sizeof(*cutter->piece));
    if (!cutter->op || !cutter->piece)
        return -ENOMEM;
    memcpy(cutter->op, cutter->lanes->op, count * sizeof(*cutter->op));
    qsort(cutter->op, count, sizeof(*cutter->op), by_step);
    for (size_t i = 0, n; i < count && result == 0; i += n) {
        uint64_t *worker = map_put(&cutter->worker, cutter->op[i].rank, cutter->worker.used);

        for (n = 1; i + n < count && cutter->op[i + n].rank == cutter->op[i].rank &&
                    cutter->op[i + n].step == cutter->op[i].step;)
            n++;
        result = worker ? cut_step(cutter, cutter->op + i, n, (uint32_t)*worker) : -ENOMEM;
    }
    return result;
}

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* Every clock against that of the first rank; a rank that shares no collective with it keeps its own. */
static int cutter_align(struct cutter *cutter)
{
    CLEAN(map_fini) struct map end = { 0 };
    CLEAN(free_clean) int64_t *apart = malloc((cutter->pieces + 1) * sizeof(*apart));
    size_t workers = cutter->worker.used;

    if (!apart)
        return -ENOMEM;
    for (size_t i = 0; i < cutter->pieces; i++) {
        const struct piece *piece = &cutter->piece[i];

        if (piece->meet && piece->worker == 0 &&
            !map_put(&end, piece->meet, (uint64_t)piece->end_ns))
            return -ENOMEM;
    }
    for (uint32_t worker = 1; worker < workers; worker++) {
        size_t count = 0;

        for (size_t i = 0; i < cutter->pieces; i++) {
            const struct piece *piece = &cutter->piece[i];
            uint64_t *first =
                piece->meet && piece->worker == worker ? map_get(&end, piece->meet) : NULL;

            if (first)
                apart[count++] = piece->end_ns - (int64_t)*first;
        }
        qsort(apart, count, sizeof(*apart), by_value);
        for (size_t i = 0; count && i < cutter->pieces; i++) {
            if (cutter->piece[i].worker == worker) {
                cutter->piece[i].start_ns -= apart[count / 2];
                cutter->piece[i].end_ns -= apart[count / 2];
            }
        }
    }
    return 0;
}

/* Of a collective the transfer alone counts. */
static int cutter_transfers(struct cutter *cutter)
{
    CLEAN(map_fini) struct map last = { 0 };

    for (size_t i = 0; i < cutter->pieces; i++) {
        const struct piece *piece = &cutter->piece[i];
        uint64_t *at = piece->meet ? map_put(&last, piece->meet, (uint64_t)piece->start_ns) : NULL;

        if (piece->meet && !at)
            return -ENOMEM;
        if (at && piece->start_ns > (int64_t)*at)
            *at = (uint64_t)piece->start_ns;
    }
    for (size_t i = 0; i < cutter->pieces; i++) {
        struct piece *piece = &cutter->piece[i];

        if (piece->meet)
            piece->traced_ns = MAX(piece->end_ns - (int64_t)*map_get(&last, piece->meet), 0);
    }
    return 0;
}

static void plan_op(struct cutter *cutter, size_t index, size_t first, struct map *meets,
                    const uint32_t *before)
{
    struct whatif_plan *plan = cutter->plan;
    const struct piece *piece = &cutter->piece[index];
    uint64_t *meet = piece->meet ? map_put(meets, piece->meet, meets->used) : NULL;

    plan->op[index] = (struct replay_op){ .line = 2 * piece->worker + (piece->meet != 0),
                                          .meet = meet ? (uint32_t)*meet : REPLAY_NONE,
                                          .dep = { REPLAY_NONE, REPLAY_NONE },
                                          .role = REPLAY_BOTH };
    if (piece->after && before[piece->worker] != REPLAY_NONE)
        plan->op[index].dep[0] = before[piece->worker] - (uint32_t)first;
    plan->traced_ns[index] = piece->traced_ns;
    plan->label[WHATIF_KIND][index] = piece->kind;
    plan->label[WHATIF_WORKER][index] = plan->label[WHATIF_DP][index] = piece->worker;
}

static int plan_step(struct cutter *cutter, size_t first, size_t count, struct err *err)
{
    struct whatif_plan *plan = cutter->plan;
    struct whatif_plan_step *step = &plan->step[plan->steps++];
    CLEAN(map_fini) struct map meets = { 0 };
    CLEAN(free_clean) uint32_t *before = malloc(cutter->worker.used * sizeof(*before));
    int64_t start = INT64_MAX, end = INT64_MIN;

    if (!before)
        return err_nomem(err);
    memset(before, 0xff, cutter->worker.used * sizeof(*before));
    for (size_t i = first; i < first + count; i++) {
        plan_op(cutter, i, first, &meets, before);
        before[cutter->piece[i].worker] = (uint32_t)i;
        start = MIN(start, cutter->piece[i].start_ns);
        end = MAX(end, cutter->piece[i].end_ns);
    }
    *step = (struct whatif_plan_step){
        .step = cutter->piece[first].step, .first = first, .count = count, .traced_ns = end - start
    };
    return whatif_plan_program(plan, step, err);
}

/* By place in the step. */
static int plan_ideal(struct cutter *cutter)
{
    struct whatif_plan *plan = cutter->plan;
    CLEAN(free_clean) int64_t *value = malloc(cutter->pieces * sizeof(*value));
    uint32_t places = 0;

    if (!value)
        return -ENOMEM;
    for (size_t i = 0; i < cutter->pieces; i++)
        places = MAX(places, cutter->piece[i].place + 1);
    for (uint32_t place = 0; place < places; place++) {
        size_t count = 0;
        int64_t typical;

        for (size_t i = 0; i < cutter->pieces; i++) {
            if (cutter->piece[i].place == place)
                value[count++] = cutter->piece[i].traced_ns;
        }
        typical = whatif_typical_ns(value, count, place % 2 == 0);
        for (size_t i = 0; i < cutter->pieces; i++) {
            if (cutter->piece[i].place == place)
                plan->ideal_ns[i] = typical;
        }
    }
    return 0;
}

static int plan_labels(struct cutter *cutter)
{
    struct whatif_plan *plan = cutter->plan;
    size_t workers = cutter->worker.used;

    plan->worker = calloc(workers, sizeof(*plan->worker));
    plan->kind = calloc(LANES_KINDS, sizeof(*plan->kind));
    if (!plan->worker || !plan->kind)
        return -ENOMEM;
    memcpy(plan->kind, cutter->lanes->kind, sizeof(cutter->lanes->kind));
    plan->labels[WHATIF_KIND] = LANES_KINDS;
    plan->labels[WHATIF_WORKER] = plan->labels[WHATIF_DP] = workers;
    plan->labels[WHATIF_STAGE] = 1;
    for (size_t i = 0; i < cutter->lanes->count; i++) {
        uint32_t worker = (uint32_t)*map_get(&cutter->worker, cutter->lanes->op[i].rank);

        plan->worker[worker] = (struct whatif_worker){ cutter->lanes->op[i].rank, 0, worker };
    }
    return 0;
}

static int plan_all(struct cutter *cutter, struct err *err)
{
    int result = cut_all(cutter);

    if (result == 0)
        result = cutter_align(cutter);
    if (result == 0)
        result = cutter_transfers(cutter);
    if (result == 0)
        result = whatif_plan_room(cutter->plan, cutter->pieces);
    if (result == 0)
        result = plan_labels(cutter);
    if (result < 0)
        return result;
    qsort(cutter->piece, cutter->pieces, sizeof(*cutter->piece), by_place);
    for (size_t i = 0, n; i < cutter->pieces && result == 0; i += n) {
        for (n = 1; i + n < cutter->pieces && cutter->piece[i + n].step == cutter->piece[i].step;)
            n++;
        result = plan_step(cutter, i, n, err);
    }
    return result == 0 ? plan_ideal(cutter) : result;
}

int whatif_plan_lanes(const struct lanes *lanes, struct whatif_plan *ret, struct err *err)
{
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(cutter_fini) struct cutter cutter = { .lanes = lanes, .plan = &plan };
    int result;

    if (!lanes->count || lanes->count >= REPLAY_NONE / 3)
        return err_set(err, -EINVAL, "%zu ops; a trace has some, and less than a billion",
                       lanes->count);
    result = plan_all(&cutter, err);
    if (result == -ENOMEM)
        return err_set(err, result, "no memory for %zu ops", lanes->count);
    if (result < 0)
        return result;
    *ret = plan;
    plan = (struct whatif_plan){ 0 };
    return 0;
}
