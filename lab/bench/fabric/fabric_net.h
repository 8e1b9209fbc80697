/* fabric_net.h - a network of leafs and a spine: bridges in one namespace, each node in another, rates by tbf.
 *
 * The namespaces have no names: they are there as long as a process is in them or has them open, so nothing is left however the
 * bench ends.  Every link has the same rate for each node that it carries, so nothing is oversubscribed.  Needs root, `ip` and `tc`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_FABRIC_NET_H
#define LOCKSTEP_LAB_BENCH_FABRIC_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/words.h"

#define FABRIC_NET_NODES 32
#define FABRIC_NET_LEAFS 16
#define FABRIC_NET_PREFIX "169.254.77." /* node K has K + 1 there */

struct fabric_net {
    uint32_t nodes, leafs, each; /* each: nodes of a leaf */
    int fabric, tester, node[FABRIC_NET_NODES];
    /* Mbit/s of each direction: from a node, to it; from a leaf to the spine, and back. */
    double sends[FABRIC_NET_NODES], gets[FABRIC_NET_NODES];
    double up[FABRIC_NET_LEAFS], down[FABRIC_NET_LEAFS];
};

/* Rates are as `net` has them; nodes, leafs and each are set. */
int fabric_net_open(struct fabric_net *net, struct err *err);
void fabric_net_close(struct fabric_net *net);
/* From now on these two cannot reach each other. */
int fabric_net_cut(const struct fabric_net *net, uint32_t a, uint32_t b, struct err *err);

/* Starts the sibling `program` in a namespace, with `out_fd` as standard output (-1: nowhere).  It dies with us. */
int fabric_net_start(int space, const char *program, const struct words *words, int out_fd,
                     pid_t *ret, struct err *err);
/* A process that sends from one node to another at this rate until it is killed. */
pid_t fabric_net_foreign(const struct fabric_net *net, uint32_t from, uint32_t to, double mbit);

#endif
