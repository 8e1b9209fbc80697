/* host_list.h - lists of hosts as Slurm writes them, and which switch they are connected to.
 *
 *     gpu[001-128,200],login1:9000
 *     SwitchName=leaf1 Nodes=gpu[001-032]
 *     SwitchName=spine Switches=leaf[1-4]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_HOST_LIST_H
#define LOCKSTEP_VERIFY_FABRIC_HOST_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define HOST_LIST_MAX 65536
#define HOST_NAME 256

struct host_names {
    char (*host)[HOST_NAME]; /* as written, with a port where there is one */
    uint32_t count, room;
};

/* Appends.  -EINVAL with a sentence; -E2BIG: more than HOST_LIST_MAX. */
int host_list_parse(const char *text, size_t size, struct host_names *list, struct err *err);
void host_list_fini(struct host_names *list);

struct topology_switch {
    char name[64];
    struct host_names nodes;    /* of a leaf */
    struct host_names switches; /* below it */
};

struct topology {
    struct topology_switch *list;
    size_t count, room;
    size_t hosts; /* in the lists of all switches, at most HOST_LIST_MAX */
};

/* The text of a topology.conf.  Unknown keys are ignored, comments begin with '#'. */
int topology_parse(const char *text, size_t size, struct topology *ret, struct err *err);
int topology_read(const char *path, struct topology *ret, struct err *err);
void topology_fini(struct topology *topology);
const char *topology_leaf(const struct topology *topology, const char *host); /* NULL: none */
/* The one switch above all leafs; "spine" where there is none, or more than one. */
const char *topology_spine(const struct topology *topology);

#endif
