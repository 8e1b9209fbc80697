/* fabric_words.c - names of parts: nodes and switches as the site calls them.
 *
 * An adapter and the cable behind it cannot be told apart from outside; both directions slow is called the adapter, one direction
 * the link.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/fabric_words.h"

#include <stdio.h>
#include <string.h>

const char *fabric_words_kind(enum slow_links_part part)
{
    switch (part) {
    case PART_NIC:
        return "nic";
    case PART_NODE:
        return "node";
    case PART_RAIL:
        return "rail";
    case PART_LEAF:
    case PART_SPINE:
        return "switch";
    default:
        return "link";
    }
}

static const char *fabric_words_leaf(const struct fabric_names *names, uint32_t node)
{
    uint32_t leaf = names->shape->leaf ? names->shape->leaf[node] : SLOW_LINKS_NONE;

    return leaf == SLOW_LINKS_NONE ? "its switch" : names->leaf(names->ctx, leaf);
}

static void fabric_words_part(const struct fabric_names *names, enum slow_links_part part,
                              uint32_t a, uint32_t b, char *out, size_t room)
{
    switch (part) {
    case PART_NIC:
    case PART_NODE:
        snprintf(out, room, "%s", names->node(names->ctx, a));
        return;
    case PART_NIC_SENDS:
        snprintf(out, room, "%s to %s", names->node(names->ctx, a), fabric_words_leaf(names, a));
        return;
    case PART_NIC_GETS:
        snprintf(out, room, "%s to %s", fabric_words_leaf(names, a), names->node(names->ctx, a));
        return;
    case PART_UPLINK:
        snprintf(out, room, "%s - %s", names->leaf(names->ctx, a), names->spine);
        return;
    case PART_UPLINK_UP:
        snprintf(out, room, "%s to %s", names->leaf(names->ctx, a), names->spine);
        return;
    case PART_UPLINK_DOWN:
        snprintf(out, room, "%s to %s", names->spine, names->leaf(names->ctx, a));
        return;
    case PART_LEAF:
        snprintf(out, room, "%s", names->leaf(names->ctx, a));
        return;
    case PART_SPINE:
        snprintf(out, room, "%s", names->spine);
        return;
    case PART_LEAF_PAIR:
    case PART_LEAF_PATH:
        snprintf(out, room, "%s %s %s", names->leaf(names->ctx, a),
                 part == PART_LEAF_PAIR ? "-" : "to", names->leaf(names->ctx, b));
        return;
    case PART_PAIR:
    case PART_PATH:
        snprintf(out, room, "%s %s %s", names->node(names->ctx, a), part == PART_PAIR ? "-" : "to",
                 names->node(names->ctx, b));
        return;
    default:
        snprintf(out, room, "all");
    }
}

void fabric_words_name(const struct fabric_names *names, const struct slow_links_named *named,
                       char *out, size_t room)
{
    size_t size;

    if (named->part == PART_RAIL) {
        snprintf(out, room, "rail %u", named->rail);
        return;
    }
    fabric_words_part(names, named->part, named->a, named->b, out, room);
    size = strlen(out);
    if (names->rails > 1 && named->rail != SLOW_LINKS_NONE)
        snprintf(out + size, room - size, " rail %u", named->rail);
}

void fabric_words_because(const struct fabric_names *names, const struct slow_links_named *named,
                          char *out, size_t room)
{
    char also[600] = "";
    size_t size;

    if (named->rate > 0)
        snprintf(out, room, "%u of %u transfers over it are slow: median %.3g Gbit/s, ",
                 named->slow, named->slow + named->sound, named->rate);
    else
        snprintf(out, room, "%u of %u transfers over it fail; ", named->slow,
                 named->slow + named->sound);
    size = strlen(out);
    if (named->expected > 0)
        snprintf(out + size, room - size, "%.3g Gbit/s elsewhere", named->expected);
    else
        snprintf(out + size, room - size, "nothing like them was sound");
    size = strlen(out);
    if (named->alone < named->slow) {
        snprintf(out + size, room - size, "; %u of them cross no other named part", named->alone);
        size = strlen(out);
    }
    if (!named->also)
        return;
    fabric_words_part(names, named->also, named->also_a, SLOW_LINKS_NONE, also, sizeof(also));
    snprintf(out + size, room - size,
             "; it may as well be %s %.200s: the same transfers cross both",
             fabric_words_kind(named->also), also);
}
