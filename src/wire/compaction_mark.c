/* compaction_mark.c - the marks in a log that was compacted while its run was active.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "wire/facts.h"

#define ORIGIN_BYTES 32

void fact_compaction_put(struct buf *out, const struct fact_compaction *fact)
{
    buf_put_u8(out, fact->kind);
    buf_put_u32(out, fact->count);
    for (uint32_t i = 0; i < fact->count; i++) {
        buf_put_u64(out, fact->origin[i].sender);
        buf_put_u64(out, fact->origin[i].boot);
        buf_put_u64(out, fact->origin[i].next);
        buf_put_u64(out, fact->origin[i].dropped);
    }
}

void fact_compaction_fini(struct fact_compaction *fact)
{
    free(fact->origin);
    fact->origin = NULL;
    fact->count = 0;
}

int fact_compaction_get(struct reader in, struct fact_compaction *ret)
{
    struct fact_compaction fact = { .kind = reader_get_u8(&in) };

    fact.count = reader_get_u32(&in);
    if (in.bad || fact.kind < COMPACTION_BEGIN || fact.kind > COMPACTION_TELL ||
        fact.count > reader_left(&in) / ORIGIN_BYTES)
        return -EPROTO;
    fact.origin = calloc(MAX(1, fact.count), sizeof(*fact.origin));
    if (!fact.origin)
        return -ENOMEM;
    for (uint32_t i = 0; i < fact.count; i++) {
        fact.origin[i].sender = reader_get_u64(&in);
        fact.origin[i].boot = reader_get_u64(&in);
        fact.origin[i].next = reader_get_u64(&in);
        fact.origin[i].dropped = reader_get_u64(&in);
    }
    *ret = fact;
    return 0;
}
