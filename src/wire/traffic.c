/* agent_traffic.c - what an agent says about its own sending. */
#include <errno.h>

#include "wire/facts.h"

#define MONO_NS_MAX (10 * INT64_C(31557600000000000))

void fact_traffic_put(struct buf *out, const struct fact_traffic *fact)
{
    buf_put_u64(out, (uint64_t)fact->mono_ns);
    buf_put_u64(out, (uint64_t)fact->since_ns);
    buf_put_u64(out, fact->bodies);
    buf_put_u64(out, fact->frames);
    buf_put_u64(out, fact->steps);
    buf_put_u64(out, fact->bytes);
    buf_put_u64(out, fact->wire_bytes);
    buf_put_u64(out, fact->failures);
    buf_put_u64(out, fact->refused);
    buf_put_u64(out, fact->backlog_bytes);
    buf_put_u64(out, fact->spool_bytes);
}

int fact_traffic_get(struct reader in, struct fact_traffic *ret)
{
    struct fact_traffic fact = { .mono_ns = (int64_t)reader_get_u64(&in) };

    fact.since_ns = (int64_t)reader_get_u64(&in);
    fact.bodies = reader_get_u64(&in);
    fact.frames = reader_get_u64(&in);
    fact.steps = reader_get_u64(&in);
    fact.bytes = reader_get_u64(&in);
    fact.wire_bytes = reader_get_u64(&in);
    fact.failures = reader_get_u64(&in);
    fact.refused = reader_get_u64(&in);
    fact.backlog_bytes = reader_get_u64(&in);
    fact.spool_bytes = reader_get_u64(&in);
    if (in.bad || fact.mono_ns > MONO_NS_MAX || fact.mono_ns < -MONO_NS_MAX ||
        fact.since_ns > fact.mono_ns || fact.since_ns < -MONO_NS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}
