/* node_freshness.h - which node is put to the test next: those that are out must pass, the others not be forgotten.
 *
 * PURE, a part of the site's core.  A node that is out by our doing is checked until the stage that failed has passed twice.  Where a
 * site asks for it, a node whose last whole check is too old, and a node that something speaks against, are checked as well.  It is an order
 * for the node's own daemon, which carries it out only while no job is there; so few at a time that a fault of the checks themselves
 * cannot take a site away.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_NODE_FRESHNESS_H
#define LOCKSTEP_CONTROL_NODES_NODE_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/nodes/node_lives.h"

struct check;

/* Facts: what has been checked, and what was ordered. */
void node_freshness_check(struct site_node *node, const struct check *check);
void node_freshness_ordered(struct site_node *node, const struct decision *decision);

bool node_freshness_is_due(const struct site_core *core, int64_t real_ns);
/* At most one order. */
void node_freshness_tick(struct lives_view *view);

#endif
