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
#include "judge/median.h"

#define LONGEST_NS INT64_C(1000000000000000000) /* 31 years: nobody computes longer */

struct piece { /* an op of the plan */
    int64_t step, start_ns, end_ns, traced_ns;
    uint64_t meet; /* 0: compute */
    uint32_t worker, kind, place;
    bool after; /* waits for the piece before it, though on another line */
};

struct lane_splitter {
    const struct lanes *lanes;
    struct whatif_plan *plan;
    struct lane_op *op; /* sorted */
    struct piece *piece;
    size_t pieces;
    struct map worker; /* rank to label */
};

static void lane_splitter_fini(struct lane_splitter *splitter)
{
    free(splitter->op);
    free(splitter->piece);
    map_fini(&splitter->worker);
}

static int whatif_by_step(const void *left, const void *right)
{
    const struct lane_op *a = left, *b = right;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int whatif_by_place(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;

    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->worker > b->worker) - (a->worker < b->worker);
}

static struct piece *piece_add(struct lane_splitter *splitter, const struct lane_op *op,
                               uint32_t worker, uint32_t place)
{
    struct piece *piece = &splitter->piece[splitter->pieces++];

    *piece = (struct piece){ .step = op->step,
                             .start_ns = op->start_ns,
                             .end_ns = op->start_ns,
                             .worker = worker,
                             .place = place };
    return piece;
}

/* The ops of one rank in one step: pieces compute, collective, compute ... compute, always in that order. */
static int lane_split_step(struct lane_splitter *splitter, const struct lane_op *op, size_t count,
                           uint32_t worker)
{
    CLEAN(map_fini) struct map ordinal = { 0 };
    uint32_t place = 0;
    struct piece *compute = piece_add(splitter, op, worker, place++);
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
            struct piece *piece = piece_add(splitter, &op[i], worker, place++);

            if (!n)
                return -ENOMEM;
            piece->kind = op[i].kind;
            piece->meet = hash64_u64(hash64_u64(op[i].group, (uint64_t)op[i].step), ++*n) | 1;
            piece->end_ns = last_end = op[i].start_ns + op[i].duration_ns;
            piece->after = true;
            compute = piece_add(splitter, &op[i], worker, place++);
            compute->start_ns = compute->end_ns = piece->end_ns;
            compute->after = true;
            begun = false;
        }
    }
    return 0;
}

static int lane_split_all(struct lane_splitter *splitter)
{
    size_t count = splitter->lanes->count;
    int result = 0;

    splitter->op = malloc(count * sizeof(*splitter->op));
    splitter->piece = calloc(3 * count, sizeof(*splitter->piece));
    if (!splitter->op || !splitter->piece)
        return -ENOMEM;
    memcpy(splitter->op, splitter->lanes->op, count * sizeof(*splitter->op));
    qsort(splitter->op, count, sizeof(*splitter->op), whatif_by_step);
    for (size_t i = 0, n; i < count && result == 0; i += n) {
        uint64_t *worker = map_put(&splitter->worker, splitter->op[i].rank, splitter->worker.used);

        for (n = 1; i + n < count && splitter->op[i + n].rank == splitter->op[i].rank &&
                    splitter->op[i + n].step == splitter->op[i].step;)
            n++;
        result =
            worker ? lane_split_step(splitter, splitter->op + i, n, (uint32_t)*worker) : -ENOMEM;
    }
    return result;
}

/* Every clock against that of the first rank; a rank that shares no collective with it keeps its own. */
static int lane_splitter_align(struct lane_splitter *splitter)
{
    CLEAN(map_fini) struct map end = { 0 };
    CLEAN(free_clean) int64_t *apart = malloc((splitter->pieces + 1) * sizeof(*apart));
    size_t workers = splitter->worker.used;

    if (!apart)
        return -ENOMEM;
    for (size_t i = 0; i < splitter->pieces; i++) {
        const struct piece *piece = &splitter->piece[i];

        if (piece->meet && piece->worker == 0 &&
            !map_put(&end, piece->meet, (uint64_t)piece->end_ns))
            return -ENOMEM;
    }
    for (uint32_t worker = 1; worker < workers; worker++) {
        size_t count = 0;

        for (size_t i = 0; i < splitter->pieces; i++) {
            const struct piece *piece = &splitter->piece[i];
            uint64_t *first =
                piece->meet && piece->worker == worker ? map_get(&end, piece->meet) : NULL;

            if (first)
                apart[count++] = piece->end_ns - (int64_t)*first;
        }
        qsort(apart, count, sizeof(*apart), order_i64);
        for (size_t i = 0; count && i < splitter->pieces; i++) {
            if (splitter->piece[i].worker == worker) {
                splitter->piece[i].start_ns -= apart[count / 2];
                splitter->piece[i].end_ns -= apart[count / 2];
            }
        }
    }
    return 0;
}

/* Of a collective the transfer alone counts. */
static int lane_splitter_transfers(struct lane_splitter *splitter)
{
    CLEAN(map_fini) struct map last = { 0 };

    for (size_t i = 0; i < splitter->pieces; i++) {
        const struct piece *piece = &splitter->piece[i];
        uint64_t *at = piece->meet ? map_put(&last, piece->meet, (uint64_t)piece->start_ns) : NULL;

        if (piece->meet && !at)
            return -ENOMEM;
        if (at && piece->start_ns > (int64_t)*at)
            *at = (uint64_t)piece->start_ns;
    }
    for (size_t i = 0; i < splitter->pieces; i++) {
        struct piece *piece = &splitter->piece[i];

        if (piece->meet)
            piece->traced_ns = MAX(piece->end_ns - (int64_t)*map_get(&last, piece->meet), 0);
    }
    return 0;
}

static void whatif_plan_op(struct lane_splitter *splitter, size_t index, size_t first,
                           struct map *meets, const uint32_t *before)
{
    struct whatif_plan *plan = splitter->plan;
    const struct piece *piece = &splitter->piece[index];
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

static int whatif_lanes_plan_step(struct lane_splitter *splitter, size_t first, size_t count,
                                  struct err *err)
{
    struct whatif_plan *plan = splitter->plan;
    struct whatif_plan_step *step = &plan->step[plan->steps++];
    CLEAN(map_fini) struct map meets = { 0 };
    CLEAN(free_clean) uint32_t *before = malloc(splitter->worker.used * sizeof(*before));
    int64_t start = INT64_MAX, end = INT64_MIN;

    if (!before)
        return err_nomem(err);
    memset(before, 0xff, splitter->worker.used * sizeof(*before));
    for (size_t i = first; i < first + count; i++) {
        whatif_plan_op(splitter, i, first, &meets, before);
        before[splitter->piece[i].worker] = (uint32_t)i;
        start = MIN(start, splitter->piece[i].start_ns);
        end = MAX(end, splitter->piece[i].end_ns);
    }
    *step = (struct whatif_plan_step){ .step = splitter->piece[first].step,
                                       .first = first,
                                       .count = count,
                                       .traced_ns = end - start };
    return whatif_plan_program(plan, step, err);
}

/* By place in the step. */
static int whatif_plan_ideal(struct lane_splitter *splitter)
{
    struct whatif_plan *plan = splitter->plan;
    CLEAN(free_clean) int64_t *value = malloc(splitter->pieces * sizeof(*value));
    uint32_t places = 0;

    if (!value)
        return -ENOMEM;
    for (size_t i = 0; i < splitter->pieces; i++)
        places = MAX(places, splitter->piece[i].place + 1);
    for (uint32_t place = 0; place < places; place++) {
        size_t count = 0;
        int64_t typical;

        for (size_t i = 0; i < splitter->pieces; i++) {
            if (splitter->piece[i].place == place)
                value[count++] = splitter->piece[i].traced_ns;
        }
        typical = whatif_typical_ns(value, count, place % 2 == 0);
        for (size_t i = 0; i < splitter->pieces; i++) {
            if (splitter->piece[i].place == place)
                plan->ideal_ns[i] = typical;
        }
    }
    return 0;
}

static int whatif_plan_labels(struct lane_splitter *splitter)
{
    struct whatif_plan *plan = splitter->plan;
    size_t workers = splitter->worker.used;

    plan->worker = calloc(workers, sizeof(*plan->worker));
    plan->kind = calloc(LANES_KINDS, sizeof(*plan->kind));
    if (!plan->worker || !plan->kind)
        return -ENOMEM;
    memcpy(plan->kind, splitter->lanes->kind, sizeof(splitter->lanes->kind));
    plan->labels[WHATIF_KIND] = LANES_KINDS;
    plan->labels[WHATIF_WORKER] = plan->labels[WHATIF_DP] = workers;
    plan->labels[WHATIF_STAGE] = 1;
    for (size_t i = 0; i < splitter->lanes->count; i++) {
        uint32_t worker = (uint32_t)*map_get(&splitter->worker, splitter->lanes->op[i].rank);

        plan->worker[worker] = (struct whatif_worker){ splitter->lanes->op[i].rank, 0, worker };
    }
    return 0;
}

static int whatif_plan_all(struct lane_splitter *splitter, struct err *err)
{
    int result = lane_split_all(splitter);

    if (result == 0)
        result = lane_splitter_align(splitter);
    if (result == 0)
        result = lane_splitter_transfers(splitter);
    if (result == 0)
        result = whatif_plan_room(splitter->plan, splitter->pieces);
    if (result == 0)
        result = whatif_plan_labels(splitter);
    if (result < 0)
        return err_nomem(err);
    qsort(splitter->piece, splitter->pieces, sizeof(*splitter->piece), whatif_by_place);
    for (size_t i = 0, n; i < splitter->pieces && result == 0; i += n) {
        for (n = 1;
             i + n < splitter->pieces && splitter->piece[i + n].step == splitter->piece[i].step;)
            n++;
        result = whatif_lanes_plan_step(splitter, i, n, err);
    }
    return result == 0 && whatif_plan_ideal(splitter) < 0 ? err_nomem(err) : result;
}

int whatif_plan_lanes(const struct lanes *lanes, struct whatif_plan *ret, struct err *err)
{
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(lane_splitter_fini) struct lane_splitter splitter = { .lanes = lanes, .plan = &plan };
    int result;

    if (!lanes->count || lanes->count >= REPLAY_NONE / 3)
        return err_set(err, -EINVAL, "%zu ops; a trace has some, and less than a billion",
                       lanes->count);
    result = whatif_plan_all(&splitter, err);
    if (result == -ENOMEM)
        return err_wrap(err, result, "%zu ops", lanes->count);
    if (result < 0)
        return result;
    *ret = plan;
    plan = (struct whatif_plan){ 0 };
    return 0;
}
