/* method.c - how a communication library moves a collective. */
#include <errno.h>

#include "wire/facts.h"

#define MONO_NS_MAX (10 * INT64_C(31557600000000000))

void fact_method_put(struct buf *out, const struct fact_method *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u64(out, fact->step);
    buf_put_u64(out, (uint64_t)fact->mono_ns);
    buf_put_u64(out, fact->comm);
    buf_put_u8(out, fact->op);
    buf_put_u64(out, fact->bytes);
    buf_put_u32(out, fact->channels);
    buf_put_str(out, fact->text);
}

int fact_method_get(struct reader in, struct fact_method *ret)
{
    struct fact_method fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.step = reader_get_u64(&in);
    fact.mono_ns = (int64_t)reader_get_u64(&in);
    fact.comm = reader_get_u64(&in);
    fact.op = reader_get_u8(&in);
    fact.bytes = reader_get_u64(&in);
    fact.channels = reader_get_u32(&in);
    reader_get_str(&in, fact.text, sizeof(fact.text));
    if (in.bad || fact.mono_ns > MONO_NS_MAX || fact.mono_ns < -MONO_NS_MAX || fact.comm == 0 ||
        fact.op == 0 || fact.op >= LOCKSTEP_OP_SEND || fact.channels > FACT_CHANNELS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}
