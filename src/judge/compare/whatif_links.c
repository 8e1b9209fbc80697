/* whatif_links.c - which op waits for which in pipeline- and data-parallel training.
 *
 * A worker has one compute line, one line of data-parallel communication, and four of pipeline
 * communication (forward and backward, send and receive); each runs its ops in order.  Between them:
 *
 *  - a receive comes before the compute that it feeds, and is posted after the compute before that;
 *    a send comes after the compute that it carries away;
 *  - the first backward receive is posted after the second-last forward before the first backward;
 *  - the last all-gather of a chunk's parameters comes before the chunk's first forward;
 *  - after the last compute: garbage collection, all-reduce of layer norms, of the embedding (first and
 *    last stage meet), reduce-scatter of the gradients, clip (all workers meet), optimizer.  Where
 *    reduce-scatters overlap with backward (then there is a separate all-reduce), each chunk's first
 *    follows the chunk's last backward instead, and the layer norms follow the last.
 *
 * Profilers of interleaved schedules also record sends and receives that never happened: before the first
 * and after the last compute of a step, and beyond the model's first and last chunk.  Those stand alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "judge/compare/whatif_private.h"

#define CLOCK_EPS_NS 50000 /* within it two times of one worker are the same */

static void whatif_op_after(struct whatif_builder *builder, const struct whatif_work *work,
                            const struct whatif_work *before)
{
    uint32_t *dep = builder->plan->op[work->op].dep;

    /* Indices are within a step; whoever calls knows that both are of the same. */
    dep[dep[0] != REPLAY_NONE] = (uint32_t)before->op;
}

/* One meet for all that name it by the same four numbers. */
static int whatif_op_meets(struct whatif_builder *builder, const struct whatif_work *work,
                           unsigned what, uint32_t a, uint32_t b, uint32_t n)
{
    uint64_t key = (uint64_t)what << 60 | (uint64_t)(a & 0xfffff) << 40 |
                   (uint64_t)(b & 0xfffff) << 20 | (n & 0xfffff);
    uint64_t *number = map_put(&builder->meet, key, builder->meet.used);
    struct replay_op *op = &builder->plan->op[work->op];

    if (!number)
        return -ENOMEM;
    op->meet = (uint32_t)*number;
    op->role = REPLAY_BOTH;
    return 0;
}

struct link_kinds { /* of one worker in one step, by kind, in the order of their lines */
    struct whatif_work **list[OPTRACE_KIND_COUNT];
    size_t count[OPTRACE_KIND_COUNT];
};

static void kinds_of(struct whatif_builder *builder, struct whatif_work *work, size_t count,
                     struct link_kinds *kinds)
{
    struct whatif_work **next = builder->of_kind;

    memset(kinds, 0, sizeof(*kinds));
    for (size_t i = 0; i < count; i++)
        kinds->count[work[i].row->kind]++;
    for (unsigned k = 0; k < OPTRACE_KIND_COUNT; k++) {
        kinds->list[k] = next;
        next += kinds->count[k];
        kinds->count[k] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned kind = work[i].row->kind;

        kinds->list[kind][kinds->count[kind]++] = &work[i];
    }
}

struct span { /* of the computes of one direction */
    int64_t first_end, last_start;
};

static struct span span_of(struct whatif_work *const *compute, size_t count)
{
    struct span span = { INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < count; i++) {
        span.first_end = MIN(span.first_end, work_end(compute[i]));
        span.last_start = MAX(span.last_start, compute[i]->row->start_ns);
    }
    return span;
}

/* A send before anything was computed, a receive after the last compute began: never happened. */
static bool whatif_pipe_is_idle(const struct whatif_work *pipe, bool sends, const struct span *span)
{
    return sends ? work_end(pipe) + CLOCK_EPS_NS < span->first_end
                 : pipe->row->start_ns - CLOCK_EPS_NS > span->last_start;
}

/* Beyond the model's first and last chunk there is nobody to talk to. */
static bool whatif_pipe_leaves_model(const struct whatif_builder *builder,
                                     const struct whatif_work *compute, int direction)
{
    const struct optrace_row *row = compute->row;
    int64_t chunk = row->gchunk;

    if (chunk < 0)
        chunk = (int64_t)MAX(row->chunk, 0) * builder->stages + row->stage;
    chunk += direction;
    return chunk < 0 || chunk >= (int64_t)builder->chunks * builder->stages;
}

/* One of the four pipeline lines of a worker: which compute each op feeds or carries away, and whom it
 * meets.
 */
static int link_pipe(struct whatif_builder *builder, const struct link_kinds *kinds, unsigned kind)
{
    bool sends = kind == OPTRACE_FORWARD_SEND || kind == OPTRACE_BACKWARD_SEND;
    bool forward = kind == OPTRACE_FORWARD_SEND || kind == OPTRACE_FORWARD_RECV;
    unsigned of = forward ? OPTRACE_FORWARD : OPTRACE_BACKWARD;
    struct whatif_work *const *compute = kinds->list[of], *const *pipe = kinds->list[kind];
    size_t computes = kinds->count[of], pipes = kinds->count[kind], at = 0, busy = 0;
    int to = forward == sends ? 1 : -1; /* the peer's stage */
    struct span span = span_of(compute, computes);
    uint32_t number = 0;

    for (size_t i = 0; computes && i < pipes; i++)
        busy += !whatif_pipe_is_idle(pipe[i], sends, &span);
    if (!sends && busy && busy + 1 == computes)
        at = 1; /* the first chunk's first receive was not even recorded */
    for (size_t i = 0; i < pipes && at < computes; i++) {
        uint32_t stages = builder->stages, stage = pipe[i]->row->stage;
        int result;

        if (whatif_pipe_is_idle(pipe[i], sends, &span))
            continue;
        if (sends)
            whatif_op_after(builder, pipe[i], compute[at]);
        else
            whatif_op_after(builder, compute[at], pipe[i]);
        if (!sends && at)
            whatif_op_after(builder, pipe[i], compute[at - 1]);
        if (whatif_pipe_leaves_model(builder, compute[at++], to))
            continue;
        if (!sends)
            stage = (stage + stages + (uint32_t)to) % stages; /* a pair is named by its sender */
        result =
            whatif_op_meets(builder, pipe[i], forward ? 1 : 2, pipe[i]->row->dp, stage, number++);
        if (result < 0)
            return result;
    }
    return 0;
}

/* The compute line holds forwards and backwards in the order of their start, first of all its ops. */
static void link_first_backward(struct whatif_builder *builder, const struct whatif_work *line,
                                size_t count, const struct link_kinds *kinds)
{
    size_t first = 0;

    if (!kinds->count[OPTRACE_BACKWARD_RECV] || !kinds->count[OPTRACE_BACKWARD])
        return;
    while (first < count && line[first].row->kind != OPTRACE_BACKWARD)
        first++;
    if (first < count && first >= 2)
        whatif_op_after(builder, kinds->list[OPTRACE_BACKWARD_RECV][0], &line[first - 2]);
}

static const struct whatif_work *kinds_of_chunk(const struct link_kinds *kinds, unsigned kind,
                                                int32_t chunk, bool last)
{
    const struct whatif_work *found = NULL;

    for (size_t i = 0; i < kinds->count[kind]; i++) {
        if (kinds->list[kind][i]->row->chunk == chunk && (last || !found))
            found = kinds->list[kind][i];
    }
    return found;
}

static void link_data(struct whatif_builder *builder, const struct link_kinds *kinds)
{
    size_t params = kinds->count[OPTRACE_PARAMS], grads = kinds->count[OPTRACE_GRADS];
    struct whatif_work *const *grad = kinds->list[OPTRACE_GRADS];

    for (size_t i = 0; i < params; i++) {
        const struct whatif_work *op = kinds->list[OPTRACE_PARAMS][i];
        const struct whatif_work *forward =
            kinds_of_chunk(kinds, OPTRACE_FORWARD, op->row->chunk, false);

        if (forward && kinds_of_chunk(kinds, OPTRACE_PARAMS, op->row->chunk, true) == op)
            whatif_op_after(builder, forward, op);
    }
    for (size_t i = 0; builder->overlap && i < grads; i++) {
        const struct whatif_work *last =
            kinds_of_chunk(kinds, OPTRACE_BACKWARD, grad[i]->row->chunk, true);

        if (last && kinds_of_chunk(kinds, OPTRACE_GRADS, grad[i]->row->chunk, false) == grad[i])
            whatif_op_after(builder, grad[i], last);
    }
    if (!builder->overlap && grads && params) /* the data line goes on there */
        whatif_op_after(builder, grad[0], kinds->list[OPTRACE_PARAMS][params - 1]);
    if (builder->overlap && grads && kinds->count[OPTRACE_LAYERNORM])
        whatif_op_after(builder, kinds->list[OPTRACE_LAYERNORM][0], grad[grads - 1]);
}

static int link_collectives(struct whatif_builder *builder, struct whatif_work *work, size_t count)
{
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++) {
        const struct optrace_row *row = work[i].row;

        if (row->kind == OPTRACE_PARAMS || row->kind == OPTRACE_GRADS ||
            row->kind == OPTRACE_SEPARATE)
            result = whatif_op_meets(builder, &work[i], 3, row->kind, row->stage, row->seq);
        else if (row->kind == OPTRACE_EMBEDDING)
            result = whatif_op_meets(builder, &work[i], 4, row->dp, 0, row->seq);
        else if (row->kind == OPTRACE_CLIP)
            result = whatif_op_meets(builder, &work[i], 5, 0, 0, row->seq);
    }
    return result;
}

int whatif_link_worker(struct whatif_builder *builder, struct whatif_work *work, size_t count)
{
    struct link_kinds kinds;
    int result;

    kinds_of(builder, work, count, &kinds);
    result = link_collectives(builder, work, count);
    for (unsigned kind = OPTRACE_FORWARD_SEND; kind <= OPTRACE_BACKWARD_RECV && result == 0; kind++)
        result = link_pipe(builder, &kinds, kind);
    link_first_backward(builder, work, count, &kinds);
    link_data(builder, &kinds);
    return result;
}
