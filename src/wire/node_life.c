/* node_life.c - names and encoding of the life of a node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/node_life.h"

#include <errno.h>

#include "core/clean.h"
#include "wire/field.h"

static const char *const life_names[NODE_LIFE_COUNT] = {
    [NODE_NEW] = "new",         [NODE_CHECKED] = "checked", [NODE_IN_SERVICE] = "in-service",
    [NODE_SUSPECT] = "suspect", [NODE_OUT] = "out",         [NODE_VERIFIED] = "verified",
    [NODE_BACK] = "back",
};

const char *node_life_name(unsigned state)
{
    return field_name(life_names, COUNT(life_names), state);
}

void node_life_put(struct buf *out, const struct node_life *life)
{
    field_put_i64(out, life->since_real_ns);
    buf_put_str(out, life->node);
    buf_put_u8(out, life->state);
    buf_put_u8(out, life->before);
    field_put_bool(out, life->by_person);
    field_put_bool(out, life->lemon);
    field_put_bool(out, life->refault);
    buf_put_str(out, life->why);
    buf_put_str(out, life->reason);
    buf_put_str(out, life->cause);
    buf_put_str(out, life->stage);
    buf_put_u32(out, life->passes);
    field_put_i64(out, life->pass_real_ns);
    field_put_i64(out, life->back_real_ns);
    buf_put_u32(out, life->namings);
    for (uint32_t i = 0; i < life->namings && i < NODE_NAMINGS; i++)
        field_put_i64(out, life->naming_real_ns[i]);
}

int node_life_get(struct reader in, struct node_life *ret)
{
    struct node_life life = { .since_real_ns = field_get_real(&in) };

    reader_get_str(&in, life.node, sizeof(life.node));
    life.state = field_get_enum(&in, NODE_NEW, NODE_LIFE_COUNT);
    life.before = field_get_enum(&in, 0, NODE_LIFE_COUNT);
    life.by_person = field_get_bool(&in);
    life.lemon = field_get_bool(&in);
    life.refault = field_get_bool(&in);
    reader_get_str(&in, life.why, sizeof(life.why));
    reader_get_str(&in, life.reason, sizeof(life.reason));
    reader_get_str(&in, life.cause, sizeof(life.cause));
    reader_get_str(&in, life.stage, sizeof(life.stage));
    life.passes = reader_get_u32(&in);
    life.pass_real_ns = field_get_real(&in);
    life.back_real_ns = field_get_real(&in);
    life.namings = reader_get_u32(&in);
    for (uint32_t i = 0; i < life.namings && i < NODE_NAMINGS; i++)
        life.naming_real_ns[i] = field_get_real(&in);
    if (in.bad || !life.node[0])
        return -EPROTO;
    *ret = life;
    return 0;
}
