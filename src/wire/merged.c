/* merged.c - steps of all ranks that were merged into one frame. */
#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "wire/facts.h"

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
        buf_put_u16(out, fact->rank[i].told);
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

static bool merged_is_good(const struct fact_merged *fact)
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
    if (in.bad || !merged_is_good(&fact) || fact.ranks > reader_left(&in) / RANK_BYTES)
        return -EPROTO;
    fact.rank = calloc(MAX(1, fact.ranks), sizeof(*fact.rank));
    if (!fact.rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < fact.ranks; i++) {
        fact.rank[i].told = reader_get_u16(&in);
        fact.rank[i].local_ns = half_to_ns(reader_get_u16(&in));
        fact.rank[i].excess_ns = half_to_ns(reader_get_u16(&in));
    }
    if (reader_left(&in) >= sizeof(uint32_t))
        fact.rank_from = reader_get_u32(&in);
    *ret = fact;
    return 0;
}
