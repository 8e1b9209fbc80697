/* numa_nodes.c - NUMA nodes as /sys/devices/system/node lists them.
 *
 * Memory is placed by touching it first from a CPU of the node, which needs no library and no privilege.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/gpu/numa_nodes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"
#include "sense/tree.h"

#define NODE_DIR "/sys/devices/system/node"
#define POLICY_DEFAULT 0 /* of set_mempolicy(2): where the thread runs */

bool numa_nodes_cpus(const char *text, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    while (isdigit((unsigned char)*text)) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last >= CPU_SETSIZE || first > last)
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, ret);
        text = end;
        if (*text != ',')
            break;
        text++;
        if (!isdigit((unsigned char)*text))
            return false;
    }
    return *text == '\0';
}

struct numa_list {
    const struct tree *tree;
    struct numa_nodes *nodes;
};

static void numa_nodes_add(void *user, const char *name)
{
    struct numa_list *list = user;
    struct numa_nodes *nodes = list->nodes;
    char text[4096], *end;
    cpu_set_t cpus, own;
    long number;

    if (strncmp(name, "node", 4) != 0 || !isdigit((unsigned char)name[4]))
        return;
    number = strtol(name + 4, &end, 10);
    if (*end || number > 4095 || nodes->count == NUMA_NODES_MAX ||
        tree_read(list->tree, text, sizeof(text), NODE_DIR "/%s/cpulist", name) <= 0 ||
        !numa_nodes_cpus(text, &cpus) || !CPU_COUNT(&cpus)) /* memory without CPUs */
        return;
    CPU_AND(&own, &cpus, &nodes->before);
    if (!CPU_COUNT(&own)) {
        nodes->left_out++;
        return;
    }
    nodes->node[nodes->count].number = (int)number;
    nodes->node[nodes->count++].cpus = own;
}

void numa_nodes_read(struct numa_nodes *nodes, const char *root)
{
    const struct tree tree = { .root = root };
    struct numa_list list = { .tree = &tree, .nodes = nodes };

    *nodes = (struct numa_nodes){ .count = 0 };
    if (sched_getaffinity(0, sizeof(nodes->before), &nodes->before) == 0)
        tree_list(&tree, NODE_DIR, numa_nodes_add, &list);
}

bool numa_nodes_enter(const struct numa_nodes *nodes, unsigned i)
{
    if (sched_setaffinity(0, sizeof(nodes->node[i].cpus), &nodes->node[i].cpus) < 0)
        return false;
    syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0); /* of numactl, if it started us */
    return true;
}

void numa_nodes_leave(const struct numa_nodes *nodes)
{
    sched_setaffinity(0, sizeof(nodes->before), &nodes->before);
}

int numa_nodes_of(const char *root, const char *pci)
{
    const struct tree tree = { .root = root };
    char name[32];
    int64_t number;

    snprintf(name, sizeof(name), "%s", pci);
    for (char *at = name; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return tree_number(&tree, &number, "/sys/bus/pci/devices/%s/numa_node", name) && number >= 0
               ? (int)number
               : -1;
}
