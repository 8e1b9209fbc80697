/* member.c - the encoding of a launcher's state.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/member.h"

#include <errno.h>

#include "core/clean.h"
#include "wire/field.h"

#define MEMBER_RANKS_MAX 65536
#define MEMBER_QUORUM_MAX 1024
#define MEMBER_ATTEMPT_MAX (UINT32_C(1) << 30)    /* there is always a next one */
#define MEMBER_STEP_MAX ((uint64_t)INT64_MAX / 2) /* orders have it as a signed number */

void member_put(struct buf *out, const struct member *member)
{
    field_put_i64(out, member->mono_ns); /* first, for fact_when() */
    field_put_i64(out, member->real_ns);
    buf_put_str(out, member->node);
    buf_put_str(out, member->host);
    buf_put_u32(out, member->port);
    buf_put_u32(out, member->life);
    buf_put_u8(out, member->state);
    field_put_bool(out, member->news);
    buf_put_u32(out, member->attempt);
    buf_put_u32(out, (uint32_t)member->culprit);
    buf_put_u32(out, (uint32_t)member->status);
    buf_put_u32(out, member->ranks);
    buf_put_u32(out, member->nodes_min);
    buf_put_u32(out, member->nodes_max);
    buf_put_u32(out, member->max_restarts);
    buf_put_u64(out, member->resume);
    field_put_i64(out, member->lease_ns);
    field_put_i64(out, member->join_ns);
    field_put_i64(out, member->backoff_ns);
    if (member->quorum || member->life_port || member->off)
        buf_put_u32(out, member->quorum);
    if (member->life_port || member->off) {
        buf_put_str(out, member->life_host);
        buf_put_u32(out, member->life_port);
    }
    if (member->off)
        field_put_bool(out, member->off);
}

static uint32_t member_get_within(struct reader *in, uint32_t least, uint32_t most)
{
    uint32_t value = reader_get_u32(in);

    if (value < least || value > most)
        in->bad = true;
    return value;
}

static bool member_is_sound(const struct member *member)
{
    return member->node[0] && member->host[0] && member->life &&
           member->nodes_min <= member->nodes_max && member->lease_ns >= MEMBER_LEASE_MIN_NS &&
           member->join_ns >= 0 && member->backoff_ns >= 0 &&
           (member->resume <= MEMBER_STEP_MAX || member->resume == UINT64_MAX);
}

int member_get(struct reader in, struct member *ret)
{
    struct member member = { .mono_ns = field_get_mono(&in) };

    member.real_ns = field_get_real(&in);
    reader_get_str(&in, member.node, sizeof(member.node));
    reader_get_str(&in, member.host, sizeof(member.host));
    member.port = (uint16_t)member_get_within(&in, 1, UINT16_MAX);
    member.life = reader_get_u32(&in);
    member.state = field_get_enum(&in, MEMBER_IDLE, MEMBER_STATE_COUNT);
    member.news = field_get_bool(&in);
    member.attempt = member_get_within(&in, 0, MEMBER_ATTEMPT_MAX);
    member.culprit = (int32_t)reader_get_u32(&in);
    member.status = (int32_t)reader_get_u32(&in);
    member.ranks = member_get_within(&in, 1, MEMBER_RANKS_MAX);
    member.nodes_min = member_get_within(&in, 1, MEMBER_NODES_MAX);
    member.nodes_max = member_get_within(&in, 1, MEMBER_NODES_MAX);
    member.max_restarts = reader_get_u32(&in);
    member.resume = reader_get_u64(&in);
    member.lease_ns = field_get_mono(&in);
    member.join_ns = field_get_mono(&in);
    member.backoff_ns = field_get_mono(&in);
    if (reader_left(&in)) /* earlier ones have none */
        member.quorum = member_get_within(&in, 0, MEMBER_QUORUM_MAX);
    if (reader_left(&in)) {
        reader_get_str(&in, member.life_host, sizeof(member.life_host));
        member.life_port = (uint16_t)member_get_within(&in, 0, UINT16_MAX);
    }
    if (reader_left(&in))
        member.off = field_get_bool(&in);
    if (in.bad || !member_is_sound(&member))
        return -EPROTO;
    *ret = member;
    return 0;
}
