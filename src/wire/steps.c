/* steps.c - encodes and decodes shapes, and steps as differences along their shape.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "lockstep/probe.h"
#include "wire/facts.h"

#define ITEM_BYTES 28 /* of a shape's item on the wire */

void fact_shape_put(struct buf *out, const struct fact_shape *fact)
{
    bool typed = false;

    buf_put_u64(out, fact->hash);
    buf_put_u64(out, fact->class);
    buf_put_u32(out, fact->count);
    for (uint32_t i = 0; i < fact->count; i++) {
        const struct shape_item *item = &fact->item[i];

        buf_put_u8(out, item->kind);
        buf_put_u8(out, item->what);
        buf_put_u16(out, item->stream);
        buf_put_u32(out, item->peer);
        buf_put_u32(out, item->count);
        buf_put_u64(out, item->comm);
        buf_put_u64(out, item->bytes);
        typed |= item->dtype != 0;
    }
    for (uint32_t i = 0; typed && i < fact->count; i++)
        buf_put_u8(out, fact->item[i].dtype);
}

int fact_shape_get(struct reader in, struct fact_shape *ret)
{
    CLEAN(fact_shape_fini) struct fact_shape fact = { .hash = reader_get_u64(&in) };

    fact.class = reader_get_u64(&in);
    fact.count = reader_get_u32(&in);
    if (in.bad || fact.hash == 0 || fact.count > FACT_ITEMS_MAX ||
        reader_left(&in) < (size_t)fact.count * ITEM_BYTES)
        return -EPROTO;
    fact.item = calloc(fact.count + 1, sizeof(*fact.item));
    if (!fact.item)
        return -ENOMEM;
    for (uint32_t i = 0; i < fact.count; i++) {
        struct shape_item *item = &fact.item[i];

        item->kind = reader_get_u8(&in);
        item->what = reader_get_u8(&in);
        item->stream = reader_get_u16(&in);
        item->peer = reader_get_u32(&in);
        item->count = reader_get_u32(&in);
        item->comm = reader_get_u64(&in);
        item->bytes = reader_get_u64(&in);
        if (item->kind < ITEM_PHASE || item->kind >= ITEM_KIND_COUNT || item->count == 0)
            return -EPROTO;
    }
    if (reader_left(&in)) { /* of a writer that knows of it */
        for (uint32_t i = 0; i < fact.count; i++)
            fact.item[i].dtype = reader_get_u8(&in);
        if (in.bad)
            return -EPROTO;
    }
    *ret = fact;
    fact.item = NULL;
    return 0;
}

void fact_shape_fini(struct fact_shape *fact)
{
    free(fact->item);
    fact->item = NULL;
    fact->count = 0;
}

#define WAIT_UNKNOWN UINT16_MAX

bool item_has_wait(const struct shape_item *item)
{
    return item->count > 1 && (item->kind == ITEM_COLL || item->kind == ITEM_P2P);
}

static void step_wait_put(struct buf *out, int64_t wait_ns)
{
    uint16_t wait = half_from_ns(wait_ns);

    buf_put_u16(out, wait_ns < 0 ? WAIT_UNKNOWN : MIN(wait, WAIT_UNKNOWN - 1));
}

static int64_t step_wait_get(struct reader *in)
{
    uint16_t wait = reader_get_u16(in);

    return wait == WAIT_UNKNOWN ? -1 : half_to_ns(wait);
}

/* Each time is put as the difference to what the reader has decoded so far, so that rounding
 * does not add up along the step.
 */
static void step_times_put(struct buf *out, const struct fact_step *fact,
                           const struct fact_shape *shape)
{
    int64_t at = 0;

    for (uint32_t i = 0; i < fact->count; i++) {
        const struct item_time *time = &fact->time[i];
        uint16_t queue = half_from_ns(time->enqueue_ns - at);

        at += half_to_ns(queue);
        buf_put_u16(out, queue);
        if (shape->item[i].kind == ITEM_PHASE) {
            buf_put_u16(out, half_from_ns(time->end_ns - at));
        } else {
            uint16_t wait = half_from_ns(time->start_ns - at);

            buf_put_u16(out, wait);
            buf_put_u16(out, half_from_ns(time->end_ns - at - half_to_ns(wait)));
        }
        if (fact->flags & STEP_SPLIT && item_has_wait(&shape->item[i]))
            step_wait_put(out, time->wait_ns);
    }
}

#define YEAR_NS INT64_C(31557600000000000)

/* Times inside all ops together stay below a year, so that no sum over a step can overflow. */
static void step_times_get(struct reader *in, const struct fact_shape *shape, bool split,
                           struct item_time *time)
{
    int64_t at = 0, inside = 0;
    struct reader copy = *in; /* in registers: it is read tens of millions of times a second */

    for (uint32_t i = 0; i < shape->count && !copy.bad; i++) {
        int64_t start = at += half_to_ns(reader_get_u16(&copy)), end;

        if (shape->item[i].kind != ITEM_PHASE)
            start += half_to_ns(reader_get_u16(&copy));
        end = start + half_to_ns(reader_get_u16(&copy));
        time[i] = (struct item_time){ at, start, end, -1 };
        if (split && item_has_wait(&shape->item[i]))
            time[i].wait_ns = step_wait_get(&copy);
        inside += end - at;
        if (at > YEAR_NS || inside > YEAR_NS)
            copy.bad = true;
    }
    *in = copy;
}

void fact_step_put(struct buf *out, const struct fact_step *fact, const struct fact_shape *shape)
{
    buf_put_u64(out, fact->shape); /* first, for fact_step_shape() */
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u32(out, fact->ring);
    buf_put_u64(out, fact->step);
    buf_put_u64(out, (uint64_t)fact->begin_ns);
    buf_put_u64(out, (uint64_t)fact->duration_ns);
    buf_put_u64(out, (uint64_t)fact->tail_ns);
    buf_put_u32(out, fact->flags);
    buf_put_u64(out, (uint64_t)fact->cpu_ns);
    buf_put_u64(out, (uint64_t)fact->run_delay_ns);
    buf_put_u64(out, (uint64_t)fact->throttled_ns);
    buf_put_u64(out, (uint64_t)fact->major_faults);
    buf_put_u32(out, fact->metric_set);
    for (int i = 0; i < FACT_METRICS; i++) {
        if (fact->metric_set & 1u << i)
            buf_put_f64(out, fact->metric[i]);
    }
    buf_put_u32(out, fact->digest_parts);
    if (fact->digest_parts) {
        buf_put_u32(out, fact->digest_part);
        buf_put_u64(out, fact->digest[0]);
        buf_put_u64(out, fact->digest[1]);
    }
    if (fact->flags & STEP_BARE) {
        buf_put_u32(out, 0);
        buf_put_u64(out, (uint64_t)fact->own_ns);
        return;
    }
    buf_put_u32(out, fact->count);
    step_times_put(out, fact, shape);
}

uint64_t fact_step_shape(struct reader in)
{
    return reader_get_u64(&in);
}

static void step_head_get(struct reader *in, struct fact_step *fact)
{
    fact->shape = reader_get_u64(in);
    fact->rank = reader_get_u32(in);
    fact->attempt = reader_get_u32(in);
    fact->ring = reader_get_u32(in);
    fact->step = reader_get_u64(in);
    fact->begin_ns = (int64_t)reader_get_u64(in);
    fact->duration_ns = (int64_t)reader_get_u64(in);
    fact->tail_ns = (int64_t)reader_get_u64(in);
    fact->flags = reader_get_u32(in);
    fact->cpu_ns = (int64_t)reader_get_u64(in);
    fact->run_delay_ns = (int64_t)reader_get_u64(in);
    fact->throttled_ns = (int64_t)reader_get_u64(in);
    fact->major_faults = (int64_t)reader_get_u64(in);
    fact->metric_set = reader_get_u32(in);
    for (int i = 0; i < FACT_METRICS; i++) {
        if (fact->metric_set & 1u << i)
            fact->metric[i] = reader_get_f64(in);
    }
    fact->digest_parts = reader_get_u32(in);
    if (fact->digest_parts) {
        fact->digest_part = reader_get_u32(in);
        fact->digest[0] = reader_get_u64(in);
        fact->digest[1] = reader_get_u64(in);
    }
    fact->count = reader_get_u32(in);
    if (fact->flags & STEP_BARE) {
        fact->own_ns = (int64_t)reader_get_u64(in);
        in->bad |= fact->count != 0;
    }
}

static bool step_in_range(const struct fact_step *fact)
{
    const int64_t span[] = { fact->duration_ns,  fact->tail_ns,      fact->cpu_ns,
                             fact->run_delay_ns, fact->throttled_ns, fact->own_ns };

    for (size_t i = 0; i < COUNT(span); i++) {
        if (span[i] < 0 || span[i] >= YEAR_NS)
            return false;
    }
    return fact->metric_set >> FACT_METRICS == 0 && fact->begin_ns > -10 * YEAR_NS &&
           fact->begin_ns < 10 * YEAR_NS;
}

int fact_step_head_get(struct reader in, struct fact_step *ret)
{
    struct fact_step fact = { 0 };

    step_head_get(&in, &fact);
    if (in.bad || !step_in_range(&fact))
        return -EPROTO;
    *ret = fact;
    return 0;
}

int fact_step_get(struct reader in, const struct fact_shape *shape, struct fact_step *ret)
{
    struct fact_step fact = { 0 };
    bool bare;

    step_head_get(&in, &fact);
    bare = fact.flags & STEP_BARE;
    if (in.bad || fact.shape != shape->hash || (!bare && fact.count != shape->count) ||
        !step_in_range(&fact))
        return -EPROTO;
    fact.time = malloc((fact.count + 1) * sizeof(*fact.time));
    if (!fact.time)
        return -ENOMEM;
    fact.time[fact.count] = (struct item_time){ 0 };
    if (!bare)
        step_times_get(&in, shape, fact.flags & STEP_SPLIT, fact.time);
    if (in.bad) {
        free(fact.time);
        return -EPROTO;
    }
    *ret = fact;
    return 0;
}

void fact_step_fini(struct fact_step *fact)
{
    free(fact->time);
    fact->time = NULL;
    fact->count = 0;
}

static bool step_item_is_shared(const struct shape_item *item)
{
    return item->kind == ITEM_COLL || item->kind == ITEM_P2P;
}

int64_t fact_step_local_ns(const struct fact_step *step, const struct fact_shape *shape)
{
    int64_t spans_ns = 0, shared_ns = 0;

    if (step->flags & STEP_BARE)
        return step->own_ns;
    for (uint32_t i = 0; i < step->count && i < shape->count; i++) {
        int64_t length_ns = step->time[i].end_ns - step->time[i].start_ns;

        if (shape->item[i].kind == ITEM_SPAN)
            spans_ns += length_ns;
        else if (step_item_is_shared(&shape->item[i]))
            shared_ns += length_ns;
    }
    if (spans_ns > 0 && !(step->flags & STEP_HOST_VIEW))
        return spans_ns;
    return MAX(0, step->duration_ns - shared_ns);
}

/* ---- what a step is made of: hashing, and merging until a step fits its bound. ---- */

#define STEP_HEAD_BYTES 224 /* fixed fields of a step and its metrics, rounded up */
#define STEP_ITEM_BYTES 6
#define STEP_WAIT_BYTES 2 /* of a merged op, if the step is split: that the merging cannot know */

static uint64_t step_item_key(const struct shape_item *item) /* ops that may merge have the same */
{
    uint64_t key = hash64_u64(item->kind, item->what);

    key = hash64_u64(key, item->stream);
    key = hash64_u64(key, item->peer);
    return hash64_u64(key, item->comm);
}

/* One try with 2^shift ops a merged item.  Returns the count, or SIZE_MAX without memory. */
static size_t step_merge_by(const struct shape_item *item, size_t count, unsigned shift,
                            struct shape_item *merged, uint32_t *group)
{
    CLEAN(map_fini) struct map open = { 0 }; /* key → merged item that still has room */
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t *at = map_put(&open, step_item_key(&item[i]), SIZE_MAX);

        if (!at)
            return SIZE_MAX;
        if (*at == SIZE_MAX || merged[*at].count >= UINT32_C(1) << shift) {
            *at = used++;
            merged[*at] = item[i];
            merged[*at].count = 0;
            merged[*at].bytes = 0;
        }
        if (merged[*at].dtype != item[i].dtype) /* a type must not change what is merged */
            merged[*at].dtype = LOCKSTEP_DTYPE_MIXED;
        merged[*at].count += item[i].count;
        merged[*at].bytes += item[i].bytes;
        group[i] = (uint32_t)*at;
    }
    return used;
}

static bool step_fits(const struct shape_item *item, size_t count)
{
    size_t bytes = STEP_HEAD_BYTES + count * STEP_ITEM_BYTES;

    for (size_t i = 0; i < count && bytes <= FACT_STEP_BYTES_MAX; i++)
        bytes += item_has_wait(&item[i]) ? STEP_WAIT_BYTES : 0;
    return bytes <= FACT_STEP_BYTES_MAX;
}

size_t shape_merge(const struct shape_item *item, size_t count, struct shape_item *merged,
                   uint32_t *group)
{
    size_t used;

    for (unsigned shift = 0; shift < 20; shift++) {
        used = step_merge_by(item, count, shift, merged, group);
        if (used == SIZE_MAX)
            return 0;
        if (step_fits(merged, used))
            break;
    }
    for (size_t i = 0; i < used; i++)
        merged[i].bytes = bytes_round(merged[i].bytes);
    return used;
}

void shape_hash(struct fact_shape *shape)
{
    uint64_t hash = hash64_u64(1, shape->count), class = hash;

    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_item *item = &shape->item[i];
        uint64_t work = (uint64_t)item->kind << 48 | (uint64_t)item->what << 32 | item->stream;

        work = hash64_u64(work, (uint64_t)item->count << 1);
        class = hash64_u64(class, work);
        /* Bytes are in the hash but not in the class: ranks that do the same work on
         * sequences of different lengths are peers.
         */
        hash = hash64_u64(hash, hash64_u64(work, item->bytes));
        hash = hash64_u64(hash, hash64_u64(item->comm, item->peer));
        if (item->dtype) /* shapes that do not tell keep the hash that they always had */
            hash = hash64_u64(hash, item->dtype);
    }
    shape->hash = hash ? hash : 1; /* 0 says "malformed" elsewhere */
    shape->class = class;
}

/* ---- times in 16 bits, sizes to an eighth of an octave. ---- */

#define HALF_UNIT_NS 125
#define HALF_FRACTION 2048
#define HALF_EXPONENT_MAX 31

uint16_t half_from_ns(int64_t ns)
{
    uint64_t units, exponent = 1;

    if (ns <= 0)
        return 0;
    units = ((uint64_t)ns + HALF_UNIT_NS / 2) / HALF_UNIT_NS;
    if (units < HALF_FRACTION)
        return (uint16_t)units;
    while (units >> (exponent - 1) >= 2 * HALF_FRACTION)
        exponent++;
    if (exponent > 1) { /* to the nearest: may carry into the next exponent */
        units += UINT64_C(1) << (exponent - 2);
        if (units >> (exponent - 1) >= 2 * HALF_FRACTION)
            exponent++;
    }
    if (exponent > HALF_EXPONENT_MAX)
        return UINT16_MAX;
    return (uint16_t)(exponent << 11 | ((units >> (exponent - 1)) - HALF_FRACTION));
}

uint64_t bytes_round(uint64_t bytes)
{
    unsigned shift = 0;

    if (bytes > UINT64_MAX / 2)
        return UINT64_C(1) << 63;
    while (bytes >> shift >= 16)
        shift++;
    if (shift == 0)
        return bytes;
    return (bytes + (UINT64_C(1) << (shift - 1))) >> shift << shift;
}

/* ---- steps of all ranks that were merged into one frame. ---- */

#define RANK_BYTES 6
#define YEAR_NS INT64_C(31557600000000000)

void fact_merged_put(struct buf *out, const struct fact_merged *fact)
{
    buf_put_u32(out, fact->attempt);
    buf_put_u64(out, fact->step_from);
    buf_put_u64(out, fact->step_to);
    buf_put_u32(out, fact->steps);
    buf_put_u64(out, fact->dropped);
    buf_put_u64(out, (uint64_t)fact->begin_real_ns);
    buf_put_u64(out, (uint64_t)fact->duration_ns);
    buf_put_u64(out, (uint64_t)fact->median_ns);
    buf_put_u32(out, fact->ranks);
    for (uint32_t i = 0; i < fact->ranks; i++) {
        buf_put_u16(out, fact->rank[i].steps);
        buf_put_u16(out, half_from_ns(fact->rank[i].local_ns));
        buf_put_u16(out, half_from_ns(fact->rank[i].excess_ns));
    }
    if (fact->rank_from) /* came later: readers of then ignore it */
        buf_put_u32(out, fact->rank_from);
}

void fact_merged_fini(struct fact_merged *fact)
{
    free(fact->rank);
    fact->rank = NULL;
}

static bool step_merged_is_good(const struct fact_merged *fact)
{
    return fact->step_from <= fact->step_to && fact->duration_ns >= 0 &&
           fact->duration_ns < YEAR_NS && fact->median_ns >= 0 && fact->median_ns < YEAR_NS &&
           fact->begin_real_ns > -150 * YEAR_NS && fact->begin_real_ns < 150 * YEAR_NS;
}

int fact_merged_get(struct reader in, struct fact_merged *ret)
{
    struct fact_merged fact = { .attempt = reader_get_u32(&in) };

    fact.step_from = reader_get_u64(&in);
    fact.step_to = reader_get_u64(&in);
    fact.steps = reader_get_u32(&in);
    fact.dropped = reader_get_u64(&in);
    fact.begin_real_ns = (int64_t)reader_get_u64(&in);
    fact.duration_ns = (int64_t)reader_get_u64(&in);
    fact.median_ns = (int64_t)reader_get_u64(&in);
    fact.ranks = reader_get_u32(&in);
    if (in.bad || !step_merged_is_good(&fact) || fact.ranks > reader_left(&in) / RANK_BYTES)
        return -EPROTO;
    fact.rank = calloc(MAX(1, fact.ranks), sizeof(*fact.rank));
    if (!fact.rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < fact.ranks; i++) {
        fact.rank[i].steps = reader_get_u16(&in);
        fact.rank[i].local_ns = half_to_ns(reader_get_u16(&in));
        fact.rank[i].excess_ns = half_to_ns(reader_get_u16(&in));
    }
    if (reader_left(&in) >= sizeof(uint32_t))
        fact.rank_from = reader_get_u32(&in);
    *ret = fact;
    return 0;
}
