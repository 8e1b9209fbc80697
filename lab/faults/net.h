/* net.h - a network of its own for each pretended node, and a link to each that can be slow or cut.
 *
 * Every node is a network namespace with one device, and all hang on a router in another one: what two nodes
 * say to each other goes over both their links.  The namespaces have no names: they are there as long as
 * a process is in them or has them open, so nothing is left however the demo ends.
 *
 * Made with `ip` and `tc` (iproute2).  Needs root.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_NET_H
#define LOCKSTEP_LAB_FAULTS_NET_H

#include <stdint.h>

#include "core/err.h"

#define NET_NODES 64
#define NET_MASTER "169.254.100.2" /* the address of node 0 */

struct net {
    uint32_t nodes; /* 0: there is none */
    int router, node[NET_NODES];
};

/* In `dir`, which is made, "nK" leads to node K's namespace for as long as this process lives. */
int net_begin(uint32_t nodes, const char *dir, struct net *ret, struct err *err);
void net_end(struct net *net);
int net_enter(const char *dir, uint32_t node, struct err *err); /* the calling thread */

/* A new namespace; close it.  And commands for `ip` or `tc` in one, a line each, at most a pipe full. */
int net_space_make(int *ret, struct err *err);
int net_space_batch(int space, const char *program, const char *text, struct err *err);

int net_limit(const struct net *net, uint32_t node, double bytes_per_s, struct err *err);
int net_link_down(const struct net *net, uint32_t node, struct err *err);
void net_heal(const struct net *net, uint32_t node); /* of both */

#endif
