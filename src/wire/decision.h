/* decision.h - what is asked for, decided and done: requests, decisions, outcomes, and the places of a run.
 *
 * The core writes decisions at a tick, and a log replay must give the same bytes.  Requests and outcomes are facts: of a
 * person or a launcher who asks for something, and of whoever carried a decision out.  An executor carries out a
 * decision id at most once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_DECISION_H
#define LOCKSTEP_WIRE_DECISION_H

#include <stdint.h>

#include "core/buf.h"
#include "wire/facts.h"

enum action { /* numbers are wire format */
    ACTION_NONE = 0,
    ACTION_ALERT = 1,
    ACTION_CHECKPOINT = 2,
    ACTION_DEPTH = 3,           /* how much the probes record */
    ACTION_RESTART = 4,         /* the run, on the same places */
    ACTION_RESTART_WITHOUT = 5, /* the run, without the target */
    ACTION_SWAP = 6,            /* the target for a spare that the run has */
    ACTION_REPLACE = 7,         /* the target by another node of the site */
    ACTION_RESET_GPU = 8,
    ACTION_REBOOT = 9,
    ACTION_DRAIN = 10, /* give the node no further work */
    ACTION_REQUEUE = 11,
    ACTION_GIVE_UP = 12,
    ACTION_INSPECT = 13, /* run the checks of the part, or look at it */
    ACTION_REPAIR = 14,  /* the maker of the part must replace it */
    ACTION_START = 15,   /* an attempt, on the nodes that it names */
    ACTION_STOP = 16,    /* the ranks of an attempt, on all nodes */
    ACTION_END = 17,     /* the run, on all nodes; the argument is its exit status */
    ACTION_UNDRAIN = 18, /* give the node work again */
    ACTION_DOWN = 19,    /* tell the scheduler that the node is dead */
    ACTION_VERIFY = 20,  /* run the health checks of a stage on the node; argument: see below */
    ACTION_COUNT
};

/* The argument of ACTION_VERIFY and REQUEST_VERIFY: a stage from 1 (quick) to 4 (burn), and of an order whether the scheduler gives the
 * node no jobs.
 */
#define VERIFY_STAGE_OF(argument) ((argument)&15)
#define VERIFY_NODE_IS_OUT 16

enum target_kind {
    TARGET_RUN = 1,
    TARGET_NODES = 2,
    TARGET_RANKS = 3,
    TARGET_KIND_COUNT
};

enum decision_state {
    DECISION_DRY_RUN = 1,
    DECISION_ORDERED = 2,
    DECISION_SUPERSEDED = 3, /* another decision took its place */
    DECISION_EXPIRED = 4,    /* its deadline passed without an outcome */
    DECISION_STATE_COUNT
};

#define DECISION_ID 20
#define DECISION_RANKS 64
#define DECISION_NODES 16
#define DECISION_NO_STEP UINT64_MAX

/* Of ACTION_START only: which launcher starts which ranks.  A job on many nodes has several such decisions for one attempt. */
struct decision_start {
    char host[FACT_NAME]; /* MASTER_ADDR and MASTER_PORT */
    uint16_t port;
    uint32_t world;                 /* ranks of the attempt, on all nodes */
    uint32_t first[DECISION_NODES]; /* first rank of each node of the decision */
    uint32_t life[DECISION_NODES];  /* of its launcher: another one on that node is not meant */
    uint32_t spare, down;           /* places beside those */
    int64_t clock_ns;               /* of the run's clock: time of day minus monotonic */
    uint64_t resume;                /* step of the checkpoint to begin with; UINT64_MAX: none */
};

struct decision {
    char id[DECISION_ID];
    char of[DECISION_ID]; /* the verdict or request that it answers; "": none */
    uint8_t action, state, target;
    uint32_t attempt;
    uint32_t rank_count, node_count; /* all; the arrays hold the first ones */
    uint32_t rank[DECISION_RANKS];
    char node[DECISION_NODES][FACT_NAME];
    uint64_t step;    /* at whose end it applies; DECISION_NO_STEP: at once */
    int64_t argument; /* the depth, say */
    int64_t decided_real_ns, deadline_real_ns; /* deadline 0: none */
    double saves_gpu_seconds, costs_gpu_seconds;
    char why[200];
    struct decision_start start;
};

const char *action_name(unsigned action); /* "restart-without"; "unknown" out of range */
const char *target_kind_name(unsigned kind);
const char *decision_state_name(unsigned state);
unsigned action_of(const char *name); /* 0: no such name, or "none" */
unsigned target_kind_of(const char *name);

/* Sets the id: of `run` and all fields but the state, the estimates and the reason. */
void decision_identify(struct decision *decision, const char *run);
void decision_put(struct buf *out, const struct decision *decision);
int decision_get(struct reader in, struct decision *ret); /* -EPROTO */

/* ---- requests ---- */

enum request_kind {
    REQUEST_CHECKPOINT_NOW = 1,
    REQUEST_DEPTH = 2,
    REQUEST_RESTART_ON_HANG =
        3,               /* consent: a run that hangs may be restarted; argument 0 withdraws it */
    REQUEST_CANCEL = 4,  /* the request `of`; "": all that are open */
    REQUEST_INSPECT = 5, /* a look at the node that `text` names: in a site's log only */
    REQUEST_NODE_OUT =
        6, /* no further work for the node that `text` names; argument: enum node_out_when */
    REQUEST_NODE_IN = 7, /* work for it again */
    REQUEST_VERIFY = 8,  /* the checks of a stage on the node that `text` names */
    REQUEST_KIND_COUNT
};

enum node_out_when {         /* numbers are wire format */
    NODE_OUT_IDLE = 1,       /* its jobs run to their end */
    NODE_OUT_CHECKPOINT = 2, /* runs on it are asked to save first */
    NODE_OUT_NOW = 3,        /* whatever runs there */
};

struct request {
    int64_t mono_ns, real_ns; /* mono on the clock of its sender */
    char id[DECISION_ID];
    uint8_t kind;
    int64_t argument;
    char of[DECISION_ID]; /* "": none */
    char who[FACT_NAME];
    char text[160];
};

const char *request_kind_name(unsigned kind);
unsigned request_kind_of(const char *name);
void request_identify(struct request *request); /* of all but the text */
void request_put(struct buf *out, const struct request *request);
int request_get(struct reader in, struct request *ret); /* -EPROTO */

/* ---- outcomes ---- */

enum outcome_result {
    OUTCOME_DONE = 1,
    OUTCOME_PAST = 2, /* the step of the decision was over: nothing was done */
    OUTCOME_REFUSED = 3,
    OUTCOME_FAILED = 4,
    OUTCOME_NOT_EXECUTED = 5,
    OUTCOME_UNKNOWN = 6, /* it began, and nobody saw its end */
    OUTCOME_RESULT_COUNT
};

struct outcome {
    int64_t mono_ns; /* when it was written, on the clock of its sender */
    char decision[DECISION_ID];
    char part[FACT_NAME]; /* "rank 3", "node n1" or "launcher" */
    uint8_t result;
    int64_t began_real_ns, ended_real_ns; /* 0: not known */
    uint64_t step; /* at which it was done, or that the part has begun; DECISION_NO_STEP: none */
    char text[200];
};

const char *outcome_result_name(unsigned result);
unsigned outcome_result_of(const char *name);
void outcome_put(struct buf *out, const struct outcome *outcome);
int outcome_get(struct reader in, struct outcome *ret); /* -EPROTO */

/* ---- places ---- */

/* From this time on, by whoever allocates them: places for ranks that the run has, and how many of these run no rank. */
struct places {
    int64_t mono_ns, real_ns;
    uint32_t allocated, spare, down; /* spare and down are parts of allocated */
};

void places_put(struct buf *out, const struct places *places);
int places_get(struct reader in, struct places *ret); /* -EPROTO */

#endif
