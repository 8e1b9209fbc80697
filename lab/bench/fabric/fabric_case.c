/* fabric_case.c - draws networks and faults from a seed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/fabric/fabric_case.h"

#include <stdio.h>
#include <string.h>

#include "core/clean.h"

#define NODE_MBIT 20.0
#define JITTER 0.1

const char *const fabric_fault_names[FABRIC_FAULTS] = {
    "nic", "uplink", "pair", "nic-one-way", "uplink-one-way", "two", "healthy",
};

/* With three leafs or more an uplink can be told from the spine; with two nodes in each, from an adapter. */
static const struct case_size {
    uint32_t leafs, each;
} case_sizes[] = { { 4, 2 }, { 3, 3 }, { 4, 3 }, { 3, 4 }, { 5, 2 }, { 4, 4 }, { 6, 4 }, { 8, 4 } };

static void case_expect(struct fabric_case *one, const char *kind, const char *name)
{
    snprintf(one->expected[one->expects++], sizeof(one->expected[0]), "%s %s", kind, name);
}

static double case_jitter(struct rand *rand, double rate)
{
    return rate * (1 - JITTER + 2 * JITTER * rand_unit(rand));
}

static void case_network(struct rand *rand, uint32_t most, struct fabric_net *net)
{
    struct case_size size;

    do
        size = case_sizes[rand_below(rand, COUNT(case_sizes))];
    while (size.leafs * size.each > MAX(most, 8));
    net->leafs = size.leafs;
    net->each = size.each;
    net->nodes = size.leafs * size.each;
    for (uint32_t n = 0; n < net->nodes; n++) {
        net->sends[n] = case_jitter(rand, NODE_MBIT);
        net->gets[n] = case_jitter(rand, NODE_MBIT);
    }
    /* Uplinks carry all nodes of their leaf and the traffic of the test itself. */
    for (uint32_t l = 0; l < net->leafs; l++) {
        net->up[l] = case_jitter(rand, NODE_MBIT * size.each * 1.2);
        net->down[l] = case_jitter(rand, NODE_MBIT * size.each * 1.2);
    }
}

static double case_share(struct rand *rand)
{
    return 0.2 + 0.3 * rand_unit(rand);
}

static void case_nic(struct rand *rand, struct fabric_case *one, uint32_t node, bool sends,
                     bool gets)
{
    char name[96], host[32];
    double share = case_share(rand);

    snprintf(host, sizeof(host), "%s%u", FABRIC_NET_PREFIX, node + 1);
    if (sends)
        one->net.sends[node] *= share;
    if (gets)
        one->net.gets[node] *= share;
    if (sends && gets)
        snprintf(name, sizeof(name), "%s", host);
    else if (sends)
        snprintf(name, sizeof(name), "%s to leaf%u", host, node / one->net.each);
    else
        snprintf(name, sizeof(name), "leaf%u to %s", node / one->net.each, host);
    case_expect(one, sends && gets ? "nic" : "link", name);
}

static void case_uplink(struct rand *rand, struct fabric_case *one, uint32_t leaf, bool up,
                        bool down)
{
    char name[96];
    double share = case_share(rand);

    if (up)
        one->net.up[leaf] *= share;
    if (down)
        one->net.down[leaf] *= share;
    if (up && down)
        snprintf(name, sizeof(name), "leaf%u - spine", leaf);
    else if (up)
        snprintf(name, sizeof(name), "leaf%u to spine", leaf);
    else
        snprintf(name, sizeof(name), "spine to leaf%u", leaf);
    case_expect(one, "link", name);
}

static void case_pair(struct rand *rand, struct fabric_case *one)
{
    uint32_t a = rand_below(rand, one->net.nodes);
    uint32_t b = (a + 1 + rand_below(rand, one->net.nodes - 1)) % one->net.nodes;
    char name[96];

    one->cut = true;
    one->cut_a = MIN(a, b);
    one->cut_b = MAX(a, b);
    snprintf(name, sizeof(name), "%s%u - %s%u", FABRIC_NET_PREFIX, one->cut_a + 1,
             FABRIC_NET_PREFIX, one->cut_b + 1);
    case_expect(one, "link", name);
}

static void case_two(struct rand *rand, struct fabric_case *one, uint32_t number)
{
    uint32_t first = rand_below(rand, one->net.nodes);
    uint32_t second = (first + 1 + rand_below(rand, one->net.nodes - 1)) % one->net.nodes;

    /* Both nodes of a leaf of two would look like the leaf. */
    if (one->net.each == 2 && second / 2 == first / 2)
        second = (second + 2) % one->net.nodes;
    case_nic(rand, one, first, true, true);
    if (number % 2)
        case_nic(rand, one, second, true, true);
    else
        case_uplink(rand, one, rand_below(rand, one->net.leafs), true, true);
}

void fabric_case_draw(struct rand *rand, enum fabric_fault fault, uint32_t number, uint32_t most,
                      struct fabric_case *ret)
{
    bool up = number % 2;

    memset(ret, 0, sizeof(*ret));
    ret->fault = fault;
    case_network(rand, most, &ret->net);
    if (fault == FAULT_NIC)
        case_nic(rand, ret, rand_below(rand, ret->net.nodes), true, true);
    else if (fault == FAULT_UPLINK)
        case_uplink(rand, ret, rand_below(rand, ret->net.leafs), true, true);
    else if (fault == FAULT_PAIR)
        case_pair(rand, ret);
    else if (fault == FAULT_NIC_ONE_WAY)
        case_nic(rand, ret, rand_below(rand, ret->net.nodes), up, !up);
    else if (fault == FAULT_UPLINK_ONE_WAY)
        case_uplink(rand, ret, rand_below(rand, ret->net.leafs), up, !up);
    else if (fault == FAULT_TWO)
        case_two(rand, ret, number);
    if (fault == FAULT_HEALTHY && number % 2 == 0) {
        ret->foreign = true;
        ret->foreign_from = rand_below(rand, ret->net.nodes);
        ret->foreign_to =
            (ret->foreign_from + 1 + rand_below(rand, ret->net.nodes - 1)) % ret->net.nodes;
        ret->foreign_mbit = NODE_MBIT * (0.2 + 0.3 * rand_unit(rand));
    }
}
