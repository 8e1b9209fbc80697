/* slow_links.h - from slow transfers to the part of the network that makes them slow.
 *
 * A transfer from one node to another crosses the adapter of the sender, the leaf switch, between leafs an uplink, the spine
 * and a second uplink, and the adapter of the receiver.  The culprit is the part that slow transfers share and that no
 * sound one crosses.  Parts are tried from the one that explains most; each further fault must explain what is left.  Transfers that
 * share a slow uplink do not share it evenly: one that is sound speaks for the uplink only if none beside it was slow.
 * Where the transfers cannot tell two parts apart, both are reported, and the confidence is low.
 *
 * Whoever measured decides which transfers are slow: `fabric test` by slow_links_compare(), from rates of equal transfers; a judge
 * of a running job by the past of each transfer.  Both locate with slow_links_locate().  A collective joins many nodes at once and is given
 * as their set: of what it crosses only the adapters of its nodes are considered.
 *
 * PURE.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_LINKS_SLOW_LINKS_H
#define LOCKSTEP_JUDGE_LINKS_SLOW_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOW_LINKS_NONE UINT32_MAX
#define SLOW_LINKS_NAMED 64 /* more faults at once are not told apart */

enum slow_links_state {
    LINK_UNKNOWN, /* says neither that it crosses the culprit nor that it does not */
    LINK_SOUND,
    LINK_SLOW,
};

struct slow_links_path { /* one direction of a pair, or a set of nodes */
    uint32_t from, to, rail;
    const uint32_t *node; /* the nodes of a set, each once; NULL: from and to */
    uint32_t nodes;
    double rate; /* more is better, in any unit; 0: nothing came through */
    uint32_t
        at; /* transfers with the same number shared the network at the same time; 0: not known */
    bool busy; /* others used the same adapter: a rate that is somewhat low says nothing */
    enum slow_links_state state;
};

struct slow_links_shape {
    uint32_t nodes, leafs, rails;
    const uint32_t *leaf; /* of each node; SLOW_LINKS_NONE: not known */
    uint32_t most;        /* parts to name; 0: SLOW_LINKS_NAMED */
};

enum slow_links_part {
    PART_NIC = 1,     /* of node a: everything that it sends and receives on this rail */
    PART_NIC_SENDS,   /* only what it sends */
    PART_NIC_GETS,    /* only what it receives */
    PART_NODE,        /* a on all rails */
    PART_UPLINK,      /* of leaf a: what leaves it and what comes into it */
    PART_UPLINK_UP,   /* only what leaves it */
    PART_UPLINK_DOWN, /* only what comes into it */
    PART_LEAF,        /* leaf a: also what stays inside */
    PART_SPINE,       /* everything between leafs */
    PART_RAIL,        /* everything on a rail, where other rails are sound */
    PART_LEAF_PAIR,   /* between leafs a and b, both ways */
    PART_LEAF_PATH,   /* from leaf a to leaf b */
    PART_PAIR,        /* between nodes a and b, both ways */
    PART_PATH,        /* from node a to node b */
    PARTS
};

struct slow_links_named {
    enum slow_links_part part;
    uint32_t a, b, rail;       /* SLOW_LINKS_NONE where the part has none */
    uint32_t slow, sound;      /* transfers over it */
    uint32_t alone;            /* slow ones that no part named before explains */
    double rate, expected;     /* median of the slow ones over it; of sound ones like them */
    enum slow_links_part also; /* a part that explains the same transfers; 0: none */
    uint32_t also_a;
    double confidence;
};

struct slow_links_result {
    struct slow_links_named named[SLOW_LINKS_NAMED];
    size_t count;
    uint32_t slow, sound, unknown; /* transfers */
    uint32_t unexplained;          /* slow ones beyond the last that could be named */
};

/* Sets the states by comparison: inside leafs and between leafs, all rails together.  The rate that the fastest tenth reaches is
 * taken for what the network can do; a transfer is slow below `slow_share` of it and sound above `sound_share`.
 * `expected`: at least this rate is expected of each; 0: not known.  `between`: what is expected between leafs where that is
 * known from elsewhere, 0: compare.
 */
struct slow_links_limits {
    double slow_share, sound_share, busy_share; /* busy: slow only below this */
    double expected, between;
};
#define SLOW_LINKS_LIMITS                                                                          \
    ((struct slow_links_limits){ .slow_share = 0.75, .sound_share = 0.8, .busy_share = 0.5 })

int slow_links_compare(const struct slow_links_shape *shape, const struct slow_links_limits *limits,
                       struct slow_links_path *path, size_t count);
/* What the fastest tenth of these reaches; 0: there are none. */
double slow_links_reference(const struct slow_links_shape *shape,
                            const struct slow_links_path *path, size_t count, bool between);
/* -ENOMEM; -EINVAL: a path with a node or rail that the shape does not have. */
int slow_links_locate(const struct slow_links_shape *shape, const struct slow_links_path *path,
                      size_t count, struct slow_links_result *ret);

#endif
