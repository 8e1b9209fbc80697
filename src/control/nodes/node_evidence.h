/* node_evidence.h - what speaks against a node, and how well it is proven.
 *
 * Only what the node's root daemon sent with the node's own token proves something: a failed check, or a finding about hardware,
 * drivers, the fabric or storage.  A verdict of a run names the fault better, but rests on what a user's processes wrote; it is evidence
 * only where such a finding on the same node fits it in layer and time.  PURE, a part of the site's core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_NODE_EVIDENCE_H
#define LOCKSTEP_CONTROL_NODES_NODE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/node_life.h"
#include "wire/verdict.h"

struct site_core;
struct site_node;

#define NODE_CHECK_VALID_NS                                                                        \
    (24 * 3600 * INT64_C(1000000000)) /* a result that is older says nothing */
#define NODE_VERDICTS 4               /* newest of a node that are kept */
#define NODE_LOST "lost"              /* cause of a node fault: its launcher is silent */

struct node_verdict { /* the part of a run's verdict that matters here */
    char id[DECISION_ID];
    uint8_t kind, layer;
    char cause[FACT_NAME], run[FACT_NAME];
    double confidence;
    int64_t since_real_ns, news_real_ns;
    bool open;
};

struct node_evidence {
    bool any;    /* something speaks against the node */
    bool proven; /* by root's side */
    bool strong; /* enough to take the node out: proven, and it does not work */
    bool
        dead; /* nothing answers: the controller tries once more before it says so to the scheduler */
    char kind[32], cause[FACT_NAME], id[DECISION_ID];
    char stage[FACT_NAME], check[FACT_NAME]; /* of a check that failed; "": none */
    char why[200];
};

void node_evidence_of(const struct site_core *core, const struct site_node *node, int64_t now_ns,
                      struct node_evidence *ret);
/* "lockstep: KIND CAUSE ID", each one word: what the scheduler shows. */
void node_evidence_reason(const struct node_evidence *evidence, char ret[static NODE_REASON]);

#endif
