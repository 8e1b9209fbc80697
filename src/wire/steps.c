/* steps.c - shapes, and steps as differences along their shape. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
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

static void wait_put(struct buf *out, int64_t wait_ns)
{
    uint16_t wait = half_from_ns(wait_ns);

    buf_put_u16(out, wait_ns < 0 ? WAIT_UNKNOWN : MIN(wait, WAIT_UNKNOWN - 1));
}

static int64_t wait_get(struct reader *in)
{
    uint16_t wait = reader_get_u16(in);

    return wait == WAIT_UNKNOWN ? -1 : half_to_ns(wait);
}

/* Each time is put as the difference to what the reader has decoded so far, so that rounding
 * does not add up along the step.
 */
static void times_put(struct buf *out, const struct fact_step *fact, const struct fact_shape *shape)
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
            wait_put(out, time->wait_ns);
    }
}

#define YEAR_NS INT64_C(31557600000000000)

/* Times inside all ops together stay below a year, so that no sum over a step can overflow. */
static void times_get(struct reader *in, const struct fact_shape *shape, bool split,
                      struct item_time *time)
{
    int64_t at = 0, inside = 0;
    struct reader cut = *in; /* in registers: it is read tens of millions of times a second */

    for (uint32_t i = 0; i < shape->count && !cut.bad; i++) {
        int64_t start = at += half_to_ns(reader_get_u16(&cut)), end;

        if (shape->item[i].kind != ITEM_PHASE)
            start += half_to_ns(reader_get_u16(&cut));
        end = start + half_to_ns(reader_get_u16(&cut));
        time[i] = (struct item_time){ at, start, end, -1 };
        if (split && item_has_wait(&shape->item[i]))
            time[i].wait_ns = wait_get(&cut);
        inside += end - at;
        if (at > YEAR_NS || inside > YEAR_NS)
            cut.bad = true;
    }
    *in = cut;
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
    times_put(out, fact, shape);
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
        times_get(&in, shape, fact.flags & STEP_SPLIT, fact.time);
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

static bool item_is_shared(const struct shape_item *item)
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
        else if (item_is_shared(&shape->item[i]))
            shared_ns += length_ns;
    }
    if (spans_ns > 0 && !(step->flags & STEP_HOST_VIEW))
        return spans_ns;
    return MAX(0, step->duration_ns - shared_ns);
}
