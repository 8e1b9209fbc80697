/* agent_orders.h - carries out orders for the ranks of a node, where no launcher does.
 *
 * The outcomes in the agent's spool are its journal: an agent that was killed carries out no order twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_AGENT_ORDERS_H
#define LOCKSTEP_AGENT_AGENT_ORDERS_H

#include <stdint.h>

#include "agent/outbox.h"
#include "agent/resume.h"
#include "base/loop.h"
#include "base/net/client.h"

struct agent_orders;

struct agent_orders_settings {
    struct loop *loop;
    struct client *client;
    struct outbox *outbox;
    const struct resume *resume; /* what the spool says that was done */
    const char *run, *node;
    const struct token *token; /* the run's, "" until it is known; or, with a file: */
    const char *token_file;    /* "": none */
};

int agent_orders_create(const struct agent_orders_settings *settings, struct agent_orders **ret);
/* NULL is fine.  The client must be closed before the loop goes on. */
void agent_orders_destroy(struct agent_orders *orders);
/* At each tick, with the newest attempt of the rings. */
void agent_orders_tick(struct agent_orders *orders, int rings_fd, uint32_t attempt, int64_t now_ns);

#endif
