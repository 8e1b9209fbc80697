/* node_orders.h - orders for this node: its root daemon carries them out, each at most once.
 *
 * They come from the site's controller as the answer to a long poll with the node's token, and only the site's administrator
 * can cause one.  The outcomes in the daemon's spool, STATE/node/node.lsf, are its journal.  An order is an id and an
 * action of a fixed list: nothing in it is a path, a program or a name that root would use.
 *
 *   inspect   reads all sensors of the node and sends their checks (inspection.h)
 *   verify    runs the health checks of a stage while nobody uses the node (node_verify.h)
 *   reset-gpu, reboot    with --repair, and only of a node that we drained (node_repair.h)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_ORDERS_H
#define LOCKSTEP_AGENT_NODE_NODE_ORDERS_H

#include <sys/types.h>

#include "agent/node/node_facts.h"
#include "agent/node/node_repair.h"
#include "agent/node/node_verify.h"

struct node_orders;

struct node_orders_settings {
    struct loop *loop;
    struct client *client;
    struct node_facts *facts;
    const char *state, *node;
    const char *kmsg;                          /* of a test; NULL: this node's */
    bool sense;                                /* sensors may be read */
    const struct node_verify_settings *verify; /* NULL: checks are refused */
    /* Whether a run is on this node, and which; NULL: that is not known. */
    bool (*is_used)(void *arg, char *why, size_t room);
    void *arg;
    uint32_t repair; /* bits of enum action: what this node's administrator allowed */
};

int node_orders_open(const struct node_orders_settings *settings, struct node_orders **ret,
                     struct err *err);
/* NULL is fine.  The client must be closed before the loop goes on. */
void node_orders_close(struct node_orders *orders);
void node_orders_step(struct node_orders *orders, int64_t now_ns);
void node_orders_reaped(struct node_orders *orders, pid_t pid,
                        int status); /* a process has ended */
void node_orders_checked(struct node_orders *orders, const struct check *check); /* of a report */

#endif
