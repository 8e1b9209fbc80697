/* numa_nodes.h - the parts of a machine's memory, each near some CPUs, and which of them a device is attached to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_GPU_NUMA_NODES_H
#define LOCKSTEP_VERIFY_GPU_NUMA_NODES_H

#include <sched.h>
#include <stdbool.h>

#define NUMA_NODES_MAX 16

struct numa_nodes {           /* those with CPUs that this process may use */
    unsigned count, left_out; /* left_out: have CPUs, but none that it may use */
    struct {
        int number;
        cpu_set_t cpus;
    } node[NUMA_NODES_MAX];
    cpu_set_t before; /* CPUs that this thread had */
};

/* `root` stands before /sys.  Without the folder there is none. */
void numa_nodes_read(struct numa_nodes *nodes, const char *root);
/* From now on this thread runs there, and memory that it touches first is there.  False: the system refused. */
bool numa_nodes_enter(const struct numa_nodes *nodes, unsigned i);
void numa_nodes_leave(const struct numa_nodes *nodes);
/* Of a PCI device; -1: not known. */
int numa_nodes_of(const char *root, const char *pci);
/* "0-3,8" as in cpulist files.  False: this is no such list. */
bool numa_nodes_cpus(const char *text, cpu_set_t *ret);

#endif
