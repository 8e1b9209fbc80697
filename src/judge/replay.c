/* replay.c - runs a compiled program forwards for the ends, backwards for the slack.
 *
 * The loops read each time once from where it was put and know no ranks, streams or
 * collectives; all that is in the order of the nodes (replay_program.h).  They are plain C:
 * memory is the limit, not arithmetic, and wider vectors do not change the result.
 */
#include "judge/replay.h"

#include <string.h>

#include "core/clean.h"
#include "judge/replay_program.h"

#define AHEAD 24 /* nodes of a list whose durations are fetched early */

size_t replay_count(const struct replay *replay)
{
    return replay->op_count;
}

/* Two times per slot: its end; how late it might end (for slack only). */
size_t replay_scratch_bytes(const struct replay *replay)
{
    return (2 * replay->slot_count * sizeof(int64_t) + 63) / 64 * 64;
}

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void run_list(const struct replay_node *node, size_t count, const int64_t *duration,
                     const int64_t *end, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        int64_t start = later(end[node[i].a], end[node[i].b]);

        if (i + AHEAD < count && node[i + AHEAD].op != REPLAY_NONE)
            __builtin_prefetch(&duration[node[i + AHEAD].op]);
        out[i] = node[i].op == REPLAY_NONE ? start : start + duration[node[i].op];
    }
}

static void run_beside(const int64_t *a, const int64_t *b, size_t count, const int64_t *duration,
                       int64_t *restrict out)
{
    if (duration) {
        for (size_t i = 0; i < count; i++)
            out[i] = later(a[i], b[i]) + duration[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = later(a[i], b[i]);
    }
}

static void run_shared(const int64_t *a, int64_t b, size_t count, const int64_t *duration,
                       int64_t *restrict out)
{
    if (duration) {
        for (size_t i = 0; i < count; i++)
            out[i] = later(a[i], b) + duration[i];
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = later(a[i], b);
    }
}

static void run_fanout(int64_t start, size_t count, const int64_t *duration, int64_t *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = duration ? start + duration[i] : start;
}

static void run_blocks(const struct replay *replay, const int64_t *duration, int64_t *end)
{
    size_t slot = 1;

    end[0] = 0;
    for (size_t i = 0; i < replay->block_count; i++) {
        const struct replay_block *k = &replay->block[i];
        const int64_t *d = k->op == REPLAY_NONE ? NULL : duration + k->op;

        switch ((enum replay_kind)k->kind) {
        case REPLAY_LIST:
            run_list(replay->node + k->a, k->count, duration, end, end + slot);
            break;
        case REPLAY_BESIDE:
            run_beside(end + k->a, end + k->b, k->count, d, end + slot);
            break;
        case REPLAY_SHARED:
            run_shared(end + k->a, end[k->b], k->count, d, end + slot);
            break;
        case REPLAY_FANOUT:
            run_fanout(later(end[k->a], end[k->b]), k->count, d, end + slot);
            break;
        }
        slot += k->count;
    }
}

static void run_copy_ends(const struct replay *replay, const int64_t *end, int64_t *end_ns)
{
    size_t slot = 1;

    for (size_t i = 0; i < replay->block_count; i++) {
        const struct replay_block *k = &replay->block[i];

        if (k->kind == REPLAY_LIST) {
            for (size_t j = 0; j < k->count; j++) {
                if (replay->node[k->a + j].op != REPLAY_NONE)
                    end_ns[replay->node[k->a + j].op] = end[slot + j];
            }
        } else if (k->op != REPLAY_NONE) {
            memcpy(end_ns + k->op, end + slot, k->count * sizeof(*end));
        }
        slot += k->count;
    }
}

/* Who does not wait for peers starts on arrival; the others' arrivals are in slots. */
static void run_copy_arrivals(const struct replay *replay, const int64_t *duration,
                              const int64_t *end, int64_t *arrive_ns)
{
    run_copy_ends(replay, end, arrive_ns);
    for (size_t i = 0; i < replay->op_count; i++)
        arrive_ns[i] -= duration[i];
    for (size_t i = 0; i < replay->arrival_count; i++)
        arrive_ns[replay->arrival[i].op] = end[replay->arrival[i].slot];
}

static int64_t run_step(const struct replay *replay, const int64_t *end)
{
    int64_t step = 0;

    for (size_t i = 0; i < replay->last_count; i++)
        step = later(step, end[replay->last[i]]);
    return step;
}

int64_t replay_run(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                   int64_t *end_ns, int64_t *arrive_ns)
{
    int64_t *end = scratch;

    run_blocks(replay, duration_ns, end);
    if (end_ns)
        run_copy_ends(replay, end, end_ns);
    if (arrive_ns)
        run_copy_arrivals(replay, duration_ns, end, arrive_ns);
    return run_step(replay, end);
}

static inline void lower(int64_t *time, int64_t limit)
{
    *time = *time < limit ? *time : limit;
}

static void slack_list(const struct replay_node *node, size_t count, const int64_t *duration,
                       const int64_t *end, int64_t *late, size_t slot, int64_t *slack)
{
    for (size_t i = count; i-- > 0;) {
        int64_t start = late[slot + i];

        if (node[i].op != REPLAY_NONE) {
            slack[node[i].op] = start - end[slot + i];
            start -= duration[node[i].op];
        }
        lower(&late[node[i].a], start);
        lower(&late[node[i].b], start);
    }
}

/* First from "might end" to "must start" in place: nobody looks at these slots again. */
static void slack_block(const struct replay_block *block, const int64_t *duration,
                        const int64_t *end, int64_t *late, size_t slot, int64_t *slack)
{
    int64_t *start = late + slot;
    size_t step_a = block->kind != REPLAY_FANOUT, step_b = block->kind == REPLAY_BESIDE;

    if (block->op != REPLAY_NONE) {
        for (size_t i = 0; i < block->count; i++) {
            slack[block->op + i] = start[i] - end[slot + i];
            start[i] -= duration[block->op + i];
        }
    }
    for (size_t i = 0; i < block->count; i++)
        lower(&late[block->a + i * step_a], start[i]);
    for (size_t i = 0; i < block->count; i++)
        lower(&late[block->b + i * step_b], start[i]);
}

void replay_slack(const struct replay *replay, const int64_t *duration_ns, void *scratch,
                  int64_t *slack_ns)
{
    const int64_t *end = scratch;
    int64_t *late = (int64_t *)scratch + replay->slot_count;
    int64_t step = run_step(replay, end);
    size_t slot = replay->slot_count;

    for (size_t i = 0; i < replay->slot_count; i++)
        late[i] = step;
    for (size_t i = replay->block_count; i-- > 0;) {
        const struct replay_block *k = &replay->block[i];

        slot -= k->count;
        if (k->kind == REPLAY_LIST)
            slack_list(replay->node + k->a, k->count, duration_ns, end, late, slot, slack_ns);
        else
            slack_block(k, duration_ns, end, late, slot, slack_ns);
    }
}
