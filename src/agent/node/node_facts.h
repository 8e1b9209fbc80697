/* node_facts.h - what root observes on this node, on its way to the site's log.
 *
 * Findings and checks go to a spool of the daemon's own, STATE/node/node.lsf, and from there to the controller with the
 * node's token, STATE/node.token (mode 0600), which no process of a user ever gets.  Without a controller or a token
 * they wait in the spool, up to a limit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_FACTS_H
#define LOCKSTEP_AGENT_NODE_NODE_FACTS_H

#include <stdint.h>

#include "base/loop.h"
#include "base/net/client.h"
#include "core/err.h"
#include "wire/decision.h"
#include "wire/finding.h"

struct node_facts;

struct node_facts_settings {
    struct loop *loop;
    struct client *client; /* outlives it */
    const char *state, *node;
};

int node_facts_open(const struct node_facts_settings *settings, struct node_facts **ret,
                    struct err *err);
void node_facts_close(struct node_facts *facts); /* NULL is fine */

/* In the spool when it returns.  -EFBIG: the spool is full, nothing was written; -errno. */
int node_facts_finding(struct node_facts *facts, const struct finding *finding, struct err *err);
int node_facts_check(struct node_facts *facts, const struct check *check, struct err *err);
int node_facts_environment(struct node_facts *facts, const struct environment *environment,
                           struct err *err);

/* On disk when it returns: it is the journal of whoever carries out orders. */
int node_facts_outcome(struct node_facts *facts, const struct outcome *outcome, struct err *err);
/* Those in the spool, oldest first.  A spool that was begun again has none: the controller has them.  -errno. */
int node_facts_outcomes(const struct node_facts *facts,
                        void (*fn)(void *arg, const struct outcome *outcome), void *arg);

/* Now and then: a large spool that the controller has is begun again. */
void node_facts_turn(struct node_facts *facts);

#endif
