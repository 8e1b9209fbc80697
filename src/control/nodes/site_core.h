/* site_core.h - what a site knows of its nodes: frames and a `now` in, states of nodes and decisions out.
 *
 * PURE: it reads no clock, file or socket; the same frames and ticks in the same order give the same output bytes.  Its
 * facts are those that a node's root daemon sent with the node's own token, the requests and budgets of the site's own
 * people, verdicts of runs that name nodes on which they are, and what the controller did.  Its output is one check for each node whose state
 * changed, with the stage "site" and the name "node", its life (node_lives.h), and decisions (site_orders.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_SITE_CORE_H
#define LOCKSTEP_CONTROL_NODES_SITE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/nodes/finding_counts.h"
#include "control/nodes/node_evidence.h"
#include "control/nodes/node_lives.h"
#include "control/nodes/node_owners.h"
#include "control/nodes/site_orders.h"
#include "core/buf.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/frame.h"

#define SITE_NODES 65536
#define SITE_NODE_CHECKS 64
#define SITE_FINDINGS 4096 /* newest of all nodes */
#define SITE_CHECK_STAGE "site"
#define SITE_CHECK_NAME "node"

struct site_node {
    char name[FACT_NAME], version[FACT_NAME]; /* version "": its daemon has sent no hello */
    int64_t newest_real_ns;                   /* of its newest fact, by its clock */
    uint8_t state;                            /* enum check_state */
    char why[200];
    int64_t since_real_ns; /* of this state */
    struct finding
        worst; /* newest of the most severe that no later check has answered; id "": none */
    struct check *check; /* newest of each device, stage and name */
    size_t checks, check_room;
    struct node_owners owners;
    struct node_life life; /* state 0: no tick has seen it */
    struct node_verdict verdict[NODE_VERDICTS];
    size_t verdicts;          /* that ever came: the newest is at (verdicts - 1) % NODE_VERDICTS */
    bool served;              /* a run was seen on it since it is new, or back */
    bool checked;             /* a check that tests something passed */
    int64_t whole_real_ns[4]; /* when each stage was last done as a whole: node_freshness.h */
    int64_t verify_real_ns;   /* when that was last ordered */
    bool verify_expired;      /* and its daemon did not answer */
    char blocked_id[DECISION_ID]; /* the cause for which it is not taken out ... */
    uint8_t block;                /* ... and the reason, as written: enum life_block */
    char asked_id[DECISION_ID];   /* what a person asked for last; "": nothing */
    char asked_who[FACT_NAME];
    uint8_t asked; /* enum request_kind; 0: it is decided */
    int64_t asked_argument;
    bool dirty; /* something came since the newest tick */
};

struct site_core;
typedef void site_core_emit(void *arg, uint16_t type, const struct buf *payload);

int site_core_create(struct site_core **ret); /* -ENOMEM */
void site_core_destroy(struct site_core *core);
size_t site_core_bytes(const struct site_core *core);

/* A fact of a node: finding, check, outcome, hello, or who owns what; other types have no effect.  -EPROTO: malformed; -E2BIG: a node
 * too many; -ENOMEM.
 */
int site_core_feed(struct site_core *core, const struct frame *frame);
/* The same of a fact that an earlier log had: its finding is not counted again. */
int site_core_carry(struct site_core *core, const struct frame *frame);
/* What the controller writes: requests and settings of the site's own people, verdicts of runs, outcomes of its own. */
void site_core_ask(struct site_core *core, const struct frame *frame);
/* -ENOMEM: some output is missing. */
int site_core_tick(struct site_core *core, const struct fact_tick *now, site_core_emit *emit,
                   void *arg);

/* Whether a tick at that time would say anything of nodes from which nothing came since the last one: results become old. */
bool site_core_is_due(const struct site_core *core, int64_t real_ns);

/* Findings are counted from 0, in the order in which they came; the newest SITE_FINDINGS are there. */
uint64_t site_core_findings(const struct site_core *core); /* all that ever came */
const struct finding *site_core_finding(const struct site_core *core,
                                        uint64_t ordinal); /* NULL: gone, or not there yet */

const struct finding_counts *site_core_counts(const struct site_core *core);
const struct site_orders *site_core_orders(const struct site_core *core);
const struct site_limits *site_core_limits(const struct site_core *core);
size_t site_core_nodes(const struct site_core *core);
const struct site_node *site_core_node(const struct site_core *core, size_t at);
const struct site_node *site_core_find(const struct site_core *core, const char *node); /* NULL */

/* The node that a frame is about; false: of this type none is, or it is malformed. */
bool site_core_node_of(const struct frame *frame, char ret[static FACT_NAME]);

#endif
