/* replay.c - runs a compiled program forwards for the ends, backwards for the slack.
 *
 * The loops read each time once from where it was put and know no ranks, streams or
 * collectives; all that is in the order of the nodes (replay_program.h).  They are plain C
 * without vector instructions: a program that does not fit the cache is bound by memory.  Tried
 * and dropped: fetching the durations of the next block early, and blocks whose ops are
 * further apart than one (no faster than a list; the pages are what costs).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/replay/replay.h"

#include <string.h>

#include "core/clean.h"
#include "judge/replay/replay_program.h"

#define AHEAD 24 /* nodes of a list whose durations are fetched early */

/* Two times per slot: its end; how late it might end (for slack only). */
size_t replay_scratch_bytes(const struct replay *replay)
{
    return (2 * replay->slot_count * sizeof(int64_t) + 63) / 64 * 64;
}

static inline int64_t replay_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void replay_run_list(const struct replay_node *node, size_t count, const int64_t *duration,
                            const int64_t *end, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        int64_t start = replay_later(end[node[i].a], end[node[i].b]);

        if (i + AHEAD < count && node[i + AHEAD].op != REPLAY_NONE)
            __builtin_prefetch(&duration[node[i + AHEAD].op]);
        out[i] = node[i].op == REPLAY_NONE ? start : start + duration[node[i].op];
    }
}

static void replay_run_beside(const int64_t *a, const int64_t *b, size_t count,
                              const int64_t *duration, int64_t *restrict out)
{
    if (duration) {
        for (size_t i = 0; i < count; i++)
            out[i] = replay_later(a[i], b[i]) + duration[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = replay_later(a[i], b[i]);
    }
}

static void replay_run_shared(const int64_t *a, int64_t b, size_t count, const int64_t *duration,
                              int64_t *restrict out)
{
    if (duration) {
        for (size_t i = 0; i < count; i++)
            out[i] = replay_later(a[i], b) + duration[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = replay_later(a[i], b);
    }
}

static void replay_run_fanout(int64_t start, size_t count, const int64_t *duration,
                              int64_t *restrict out)
{
    if (duration) {
        for (size_t i = 0; i < count; i++)
            out[i] = start + duration[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = start;
    }
}

/* Four at a time: one chain of maxima would wait for itself. */
static int64_t replay_span_latest(const struct replay_span *span, const int64_t *end,
                                  int64_t latest)
{
    int64_t four[4] = { latest, latest, latest, latest };
    ptrdiff_t at = (ptrdiff_t)span->first, step = (int32_t)span->step;
    uint32_t i = 0;

    for (; i + 4 <= span->count; i += 4, at += 4 * step) {
        four[0] = replay_later(four[0], end[at]);
        four[1] = replay_later(four[1], end[at + step]);
        four[2] = replay_later(four[2], end[at + 2 * step]);
        four[3] = replay_later(four[3], end[at + 3 * step]);
    }
    for (; i < span->count; i++, at += step)
        four[0] = replay_later(four[0], end[at]);
    return replay_later(replay_later(four[0], four[1]), replay_later(four[2], four[3]));
}

static void replay_run_meets(const struct replay *replay, size_t meet, size_t count,
                             const int64_t *end, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        int64_t latest = 0;

        for (size_t k = replay->meet[meet + i]; k < replay->meet[meet + i + 1]; k++)
            latest = replay_span_latest(&replay->span[k], end, latest);
        out[i] = latest;
    }
}

/* Like meets of its own for each i, but it reads neighbours: the members of a data-parallel group are
 * often a power of two apart, and the cache dislikes that.
 */
static void replay_run_column(const struct replay *replay, size_t meet, size_t count,
                              const int64_t *end, int64_t *restrict out)
{
    memset(out, 0, count * sizeof(*out));
    for (size_t k = replay->meet[meet]; k < replay->meet[meet + 1]; k++) {
        ptrdiff_t at = (ptrdiff_t)replay->span[k].first, step = (int32_t)replay->span[k].step;

        for (uint32_t j = 0; j < replay->span[k].count; j++, at += step) {
            for (size_t i = 0; i < count; i++)
                out[i] = replay_later(out[i], end[at + (ptrdiff_t)i]);
        }
    }
}

/* All kinds but lists, meets and columns. */
static void replay_run_block(const struct replay_block *block, const int64_t *duration,
                             const int64_t *end, int64_t *out)
{
    const int64_t *a = end + block->a, *b = end + block->b;

    if (block->kind == REPLAY_BESIDE)
        replay_run_beside(a, b, block->count, duration, out);
    else if (block->kind == REPLAY_SHARED)
        replay_run_shared(a, *b, block->count, duration, out);
    else
        replay_run_fanout(replay_later(*a, *b), block->count, duration, out);
}

static void replay_run_all(const struct replay *replay, const int64_t *duration, int64_t *end)
{
    size_t slot = 1;

    end[0] = 0;
    for (size_t i = 0; i < replay->run.count; i++) {
        const struct replay_block *k = &replay->run.block[i];

        if (k->kind == REPLAY_LIST)
            replay_run_list(replay->run.node + k->a, k->count, duration, end, end + slot);
        else if (k->kind == REPLAY_MEETS)
            replay_run_meets(replay, k->a, k->count, end, end + slot);
        else if (k->kind == REPLAY_COLUMN)
            replay_run_column(replay, k->a, k->count, end, end + slot);
        else
            replay_run_block(k, k->op == REPLAY_NONE ? NULL : duration + k->op, end, end + slot);
        slot += k->count;
    }
}

static void replay_copy_ends(const struct replay *replay, const int64_t *end, int64_t *end_ns)
{
    size_t slot = 1;

    for (size_t i = 0; i < replay->run.count; i++) {
        const struct replay_block *k = &replay->run.block[i];

        if (k->kind == REPLAY_LIST) {
            for (size_t j = 0; j < k->count; j++) {
                if (replay->run.node[k->a + j].op != REPLAY_NONE)
                    end_ns[replay->run.node[k->a + j].op] = end[slot + j];
            }
        } else if (k->op != REPLAY_NONE) {
            memcpy(end_ns + k->op, end + slot, k->count * sizeof(*end));
        }
        slot += k->count;
    }
}

/* Who does not wait for peers starts on arrival. */
static void replay_copy_arrivals(const struct replay *replay, const int64_t *duration,
                                 const int64_t *end, int64_t *arrive_ns)
{
    replay_copy_ends(replay, end, arrive_ns);
    for (size_t i = 0; i < replay->op_count; i++)
        arrive_ns[i] -= duration[i];
    for (size_t i = 0; i < replay->arrive.count; i++) {
        const struct replay_block *k = &replay->arrive.block[i];
        const struct replay_node *node = replay->arrive.node + k->a;

        if (k->kind != REPLAY_LIST) {
            replay_run_block(k, NULL, end, arrive_ns + k->op);
            continue;
        }
        for (size_t j = 0; j < k->count; j++)
            arrive_ns[node[j].op] = replay_later(end[node[j].a], end[node[j].b]);
    }
}

static int64_t replay_run_step(const struct replay *replay, const int64_t *end)
{
    int64_t step = 0;

    for (size_t i = 0; i < replay->last_count; i++)
        step = replay_later(step, end[replay->last[i]]);
    return step;
}

int64_t replay_run(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                   int64_t *end_ns, int64_t *arrive_ns)
{
    int64_t *end = scratch;

    replay_run_all(replay, duration_ns, end);
    if (end_ns)
        replay_copy_ends(replay, end, end_ns);
    if (arrive_ns)
        replay_copy_arrivals(replay, duration_ns, end, arrive_ns);
    return replay_run_step(replay, end);
}

static inline void replay_lower(int64_t *time, int64_t limit)
{
    *time = *time < limit ? *time : limit; /* always written: a branch would often be wrong */
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static void replay_slack_list(const struct replay_node *node, size_t count, const int64_t *duration,
                              const int64_t *end, int64_t *late, size_t slot, int64_t *slack)
{
    for (size_t i = count; i-- > 0;) {
        int64_t start = late[slot + i];

        if (i >= AHEAD && node[i - AHEAD].op != REPLAY_NONE)
            __builtin_prefetch(&duration[node[i - AHEAD].op]);
        if (node[i].op != REPLAY_NONE) {
            slack[node[i].op] = start - end[slot + i];
            start -= duration[node[i].op];
        }
        replay_lower(&late[node[i].a], start);
        replay_lower(&late[node[i].b], start);
    }
}

static void replay_lower_all(int64_t *time, size_t step, const int64_t *limit, size_t count)
{
    if (step) {
        for (size_t i = 0; i < count; i++)
            replay_lower(&time[i], limit[i]);
    } else {
        int64_t lowest = *time;

        for (size_t i = 0; i < count; i++)
            replay_lower(&lowest, limit[i]);
        *time = lowest;
    }
}

static void replay_slack_meets(const struct replay *replay, size_t meet, size_t count, size_t slot,
                               int64_t *late)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = replay->meet[meet + i]; k < replay->meet[meet + i + 1]; k++) {
            const struct replay_span *span = &replay->span[k];
            ptrdiff_t step = (int32_t)span->step;

            for (ptrdiff_t j = 0; j < (ptrdiff_t)span->count; j++)
                replay_lower(&late[(ptrdiff_t)span->first + j * step], late[slot + i]);
        }
    }
}

static void replay_slack_column(const struct replay *replay, size_t meet, size_t count, size_t slot,
                                int64_t *late)
{
    for (size_t k = replay->meet[meet]; k < replay->meet[meet + 1]; k++) {
        ptrdiff_t at = (ptrdiff_t)replay->span[k].first, step = (int32_t)replay->span[k].step;

        for (uint32_t j = 0; j < replay->span[k].count; j++, at += step)
            replay_lower_all(late + at, 1, late + slot, count);
    }
}

/* First from "may end" to "must start", in place: nobody looks at these slots again. */
static void replay_slack_block(const struct replay_block *block, const int64_t *duration,
                               const int64_t *end, int64_t *late, size_t slot, int64_t *slack)
{
    int64_t *restrict start = late + slot;

    if (block->op != REPLAY_NONE) {
        for (size_t i = 0; i < block->count; i++) {
            slack[block->op + i] = start[i] - end[slot + i];
            start[i] -= duration[block->op + i];
        }
    }
    replay_lower_all(late + block->a, block->kind != REPLAY_FANOUT, start, block->count);
    replay_lower_all(late + block->b, block->kind == REPLAY_BESIDE, start, block->count);
}

void replay_slack(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                  int64_t *slack_ns)
{
    const int64_t *end = scratch;
    int64_t *late = (int64_t *)scratch + replay->slot_count;
    int64_t step = replay_run_step(replay, end);
    size_t slot = replay->slot_count;

    for (size_t i = 0; i < replay->slot_count; i++)
        late[i] = step;
    for (size_t i = replay->run.count; i-- > 0;) {
        const struct replay_block *k = &replay->run.block[i];

        slot -= k->count;
        if (k->kind == REPLAY_LIST)
            replay_slack_list(replay->run.node + k->a, k->count, duration_ns, end, late, slot,
                              slack_ns);
        else if (k->kind == REPLAY_MEETS)
            replay_slack_meets(replay, k->a, k->count, slot, late);
        else if (k->kind == REPLAY_COLUMN)
            replay_slack_column(replay, k->a, k->count, slot, late);
        else
            replay_slack_block(k, duration_ns, end, late, slot, slack_ns);
    }
}
