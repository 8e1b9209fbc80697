/* shrink_plan.c - selects the frames of a spool to drop, and how they are merged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/send/shrink_private.h"
#include "core/clean.h"
#include "core/hash.h"

#define BLOCK_STEPS 64        /* at first ... */
#define BLOCK_STEPS_MAX 32768 /* ... and when there are too many: a rank counts them in 16 bits */
#define BLOCK_BYTES (FRAME_HEADER_BYTES + 60)
#define RANK_BYTES 6
#define RANKS_MAX 65536 /* of a node: more would not be a frame */
#define STILL_BEATS 8   /* a rank without progress for so many: somebody may ask why */
#define STILL_FIRST 60  /* so many of them say it */
#define ODD_FIRST 64    /* steps of a ring with a number that is not finite: so many always stay */

void shrink_fini(struct shrink *shrink)
{
    for (uint32_t i = 0; i < shrink->blocks; i++)
        fact_merged_fini(&shrink->block[i].merged);
    for (size_t i = 0; i < shrink->shape_count; i++)
        fact_shape_fini(&shrink->shapes[i]);
    free(shrink->block);
    free(shrink->shapes);
    free(shrink->item);
    map_fini(&shrink->shape);
}

static void shrink_map_clean(struct map *map)
{
    map_fini(map);
}

static bool shrink_has_steps(const struct shrink_item *item)
{
    return item->type == FRAME_STEP || (item->type == FRAME_MERGED && !item->mark);
}

/* The beats from `first` on, of one ring, in which nothing advanced. */
struct still {
    uint64_t ring;
    size_t first, count;
};

/* A rank that stood still for long: its beats are what a hang is told from. */
static void still_keep(struct shrink *shrink, const struct still *still)
{
    size_t kept = 0;

    for (size_t i = still->first; still->count >= STILL_BEATS && i < shrink->items; i++) {
        struct shrink_item *item = &shrink->item[i];

        if (item->type != FRAME_BEAT || item->ring != still->ring)
            continue;
        if (!item->still || kept++ == STILL_FIRST)
            return;
        item->fate = SHRINK_STAYS;
    }
}

static int still_find(struct shrink *shrink)
{
    CLEAN(shrink_map_clean) struct map rings = { 0 };
    CLEAN(free_clean) struct still *still = NULL;
    size_t count = 0, room = 0;

    for (size_t i = 0; i < shrink->items; i++) {
        struct shrink_item *item = &shrink->item[i];
        uint64_t *at;

        if (item->type != FRAME_BEAT)
            continue;
        at = map_put(&rings, item->ring, count);
        if (!at)
            return -ENOMEM;
        if (*at == count) {
            if (!ARRAY_FIT(still, room, count + 1))
                return -ENOMEM;
            still[count++] = (struct still){ .ring = item->ring };
        }
        if (!item->still) {
            still_keep(shrink, &still[*at]);
            still[*at].count = 0;
        } else if (still[*at].count++ == 0) {
            still[*at].first = i;
        }
    }
    for (size_t i = 0; i < count; i++)
        still_keep(shrink, &still[i]);
    return 0;
}

/* The next agent goes on from the last step of each ring. */
static int shrink_last_steps_stay(struct shrink *shrink)
{
    CLEAN(shrink_map_clean) struct map last = { 0 };

    for (size_t i = shrink->items; i > 0; i--) {
        struct shrink_item *item = &shrink->item[i - 1];
        uint64_t *seen;

        if (item->type != FRAME_STEP)
            continue;
        seen = map_put(&last, item->ring, 0);
        if (!seen)
            return -ENOMEM;
        if (!*seen)
            item->fate = SHRINK_STAYS;
        *seen = 1;
    }
    return 0;
}

/* The first pass: of steps with numbers only the ops go.  Returns how many bytes are left of what may go. */
static uint64_t shrink_choose_ops(struct shrink *shrink)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < shrink->items; i++) {
        shrink->item[i].may_go = shrink->item[i].fate == SHRINK_GOES;
        if (shrink->item[i].may_go)
            bytes += shrink->item[i].bytes;
    }
    for (size_t i = 0; i < shrink->items; i++) {
        struct shrink_item *item = &shrink->item[i];

        if (!item->may_go)
            continue;
        if (bytes <= shrink->settings->bytes_max) {
            item->fate = SHRINK_STAYS;
        } else if (item->numbers) {
            item->fate = item->bare_bytes < item->bytes ? SHRINK_BARE : SHRINK_STAYS;
            bytes -= item->fate == SHRINK_BARE ? item->bytes - item->bare_bytes : 0;
        } else {
            bytes -= item->bytes;
        }
    }
    return bytes;
}

/* The second: the numbers alone are too many. */
static int shrink_choose_numbers(struct shrink *shrink, uint64_t bytes)
{
    CLEAN(shrink_map_clean) struct map odd = { 0 };

    for (size_t i = 0; i < shrink->items && bytes > shrink->settings->bytes_max; i++) {
        struct shrink_item *item = &shrink->item[i];
        uint64_t *seen;

        if (!item->may_go || !item->numbers)
            continue;
        if (item->odd) {
            seen = map_put(&odd, item->ring, 0);
            if (!seen)
                return -ENOMEM;
            if ((*seen)++ < ODD_FIRST)
                continue;
        }
        bytes -= item->fate == SHRINK_BARE ? item->bare_bytes : item->bytes;
        item->fate = SHRINK_GOES;
    }
    return 0;
}

/* All may go but what must stay; of that so much goes, oldest first, that the rest fits. */
static int shrink_choose(struct shrink *shrink)
{
    uint64_t bytes = shrink_choose_ops(shrink);

    return bytes > shrink->settings->bytes_max ? shrink_choose_numbers(shrink, bytes) : 0;
}

static void shrink_first_fates(struct shrink *shrink)
{
    uint32_t rank_from = UINT32_MAX;

    for (size_t i = 0; i < shrink->items; i++) {
        if (shrink_has_steps(&shrink->item[i]))
            rank_from = MIN(rank_from, shrink->item[i].rank);
    }
    for (size_t i = 0; i < shrink->items; i++) {
        struct shrink_item *item = &shrink->item[i];

        item->fate = item->acknowledged ? SHRINK_KNOWN : SHRINK_GOES;
        if (item->place + 1 == shrink->frames ||
            (!item->acknowledged && item->place < shrink->sent_end) ||
            (shrink_has_steps(item) &&
             (item->rank_end - rank_from >= RANKS_MAX || item->rank_end == UINT32_MAX)))
            item->fate = SHRINK_STAYS;
    }
}

static uint64_t shrink_block_bytes(const struct shrink *shrink, uint32_t blocks)
{
    uint32_t rank_from = UINT32_MAX, rank_end = 0;

    for (size_t i = 0; i < shrink->items; i++) {
        if (shrink->item[i].fate == SHRINK_GOES && shrink_has_steps(&shrink->item[i])) {
            rank_from = MIN(rank_from, shrink->item[i].rank);
            rank_end = MAX(rank_end, shrink->item[i].rank_end);
        }
    }
    return blocks * (BLOCK_BYTES + RANK_BYTES * (uint64_t)(rank_end - rank_from + 1));
}

/* Gives each step that goes its block; returns how many there are, or -ENOMEM. */
static int64_t shrink_assign_blocks(struct shrink *shrink, uint64_t block_steps)
{
    CLEAN(shrink_map_clean) struct map blocks = { 0 };
    uint32_t count = 0;

    for (size_t i = 0; i < shrink->items; i++) {
        struct shrink_item *item = &shrink->item[i];
        uint64_t *at;

        if (item->fate != SHRINK_GOES || !shrink_has_steps(item))
            continue;
        at = map_put(&blocks, hash64_u64(item->attempt, item->step / block_steps), count);
        if (!at)
            return -ENOMEM;
        count += *at == count;
        item->block = (uint32_t)*at;
    }
    return count;
}

/* Each block is written in the place of the last frame that goes into it.  Beats that go after all of them
 * leave a merged frame of no steps, which counts them.
 */
static int shrink_close_blocks(struct shrink *shrink)
{
    CLEAN(free_clean) bool *closed = calloc(shrink->blocks + 1, sizeof(*closed));
    bool any = false;

    if (!closed)
        return -ENOMEM;
    for (size_t i = shrink->items; i > 0; i--) {
        struct shrink_item *item = &shrink->item[i - 1];

        if (item->fate != SHRINK_GOES)
            continue;
        if (item->block == SHRINK_NONE) {
            item->closes = !any;
        } else {
            item->closes = !closed[item->block];
            closed[item->block] = true;
        }
        any = true;
    }
    return 0;
}

int shrink_plan(struct shrink *shrink)
{
    int64_t blocks = 0;
    uint64_t block_steps = BLOCK_STEPS;

    shrink_first_fates(shrink);
    if (shrink_last_steps_stay(shrink) < 0 || still_find(shrink) < 0)
        return -ENOMEM;
    if (shrink_choose(shrink) < 0)
        return -ENOMEM;
    do
        blocks = shrink_assign_blocks(shrink, block_steps);
    while (blocks > 1 &&
           shrink_block_bytes(shrink, (uint32_t)blocks) > shrink->settings->bytes_max / 4 &&
           (block_steps *= 2) <= BLOCK_STEPS_MAX);
    if (blocks < 0)
        return -ENOMEM;
    shrink->blocks = (uint32_t)blocks;
    shrink->block = calloc(shrink->blocks + 1, sizeof(*shrink->block));
    return shrink->block ? shrink_close_blocks(shrink) : -ENOMEM;
}

/* ---- folding ---- */

/* Room for this rank between those that are there. */
static int shrink_block_reach(struct fact_merged *merged, uint32_t rank)
{
    uint32_t from = merged->ranks ? MIN(merged->rank_from, rank) : rank;
    uint32_t end = merged->ranks ? MAX(merged->rank_from + merged->ranks, rank + 1) : rank + 1;
    struct merged_rank *grown;

    if (merged->ranks && from == merged->rank_from && end - from == merged->ranks)
        return 0;
    grown = calloc(end - from, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    for (uint32_t i = 0; i < merged->ranks; i++)
        grown[merged->rank_from - from + i] = merged->rank[i];
    free(merged->rank);
    merged->rank = grown;
    merged->rank_from = from;
    merged->ranks = end - from;
    return 0;
}

int shrink_fold(struct shrink_block *block, const struct fact_merged *span,
                const struct shrink_part *part, uint32_t parts)
{
    struct fact_merged *merged = &block->merged;
    bool first = merged->ranks == 0;

    for (uint32_t i = 0; i < parts; i++) {
        struct merged_rank *rank;
        int64_t most_ns;
        uint32_t steps;

        if (shrink_block_reach(merged, part[i].rank) < 0)
            return -ENOMEM;
        rank = &merged->rank[part[i].rank - merged->rank_from];
        most_ns = MAX(rank->local_ns + rank->excess_ns, part[i].most_ns);
        steps = rank->steps + part[i].steps;
        rank->local_ns +=
            (int64_t)((double)(part[i].local_ns - rank->local_ns) * part[i].steps / steps);
        rank->steps = (uint16_t)MIN(steps, UINT16_MAX);
        rank->excess_ns = most_ns - rank->local_ns;
    }
    merged->attempt = span->attempt;
    merged->step_from = first ? span->step_from : MIN(merged->step_from, span->step_from);
    merged->step_to = first ? span->step_to : MAX(merged->step_to, span->step_to);
    merged->steps = (uint32_t)MIN(merged->step_to - merged->step_from + 1, UINT32_MAX);
    merged->duration_ns = MAX(merged->duration_ns, span->duration_ns);
    if (first || (span->begin_real_ns && span->begin_real_ns < merged->begin_real_ns))
        merged->begin_real_ns = span->begin_real_ns;
    return 0;
}
