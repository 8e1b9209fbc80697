/* policy_private.h - shared by the rules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_POLICY_POLICY_PRIVATE_H
#define LOCKSTEP_POLICY_POLICY_PRIVATE_H

#include "policy/policy.h"

/* ---- progress.c: steps ahead of time ---- */

#define PROGRESS_WINDOWS 3

struct progress {
    bool any;                         /* a step of this attempt is known */
    uint64_t newest;                  /* that some rank has begun */
    uint64_t seen;                    /* the same at the newest tick at which it grew ... */
    int64_t seen_ns;                  /* ... which was then; 0: none */
    uint64_t from;                    /* where the window that is measured began ... */
    int64_t from_ns;                  /* ... and when; 0: not yet */
    int64_t window[PROGRESS_WINDOWS]; /* ns of a step, newest first; 0: not measured */
    int64_t delay_ns;                 /* from a decision until its order is carried out */
};

void progress_attempt(struct progress *progress); /* another one begins: its steps are its own */
void progress_step(struct progress *progress, uint64_t step);
void progress_delay(struct progress *progress, int64_t delay_ns); /* observed */
void progress_tick(struct progress *progress, int64_t now_ns);
/* A step that no rank has begun when an order of now arrives; the margin doubles with each renewal.  False: not known
 * yet.  *ret_ns: how long it takes until then, about.
 */
bool progress_target(const struct progress *progress, int64_t now_ns, unsigned renewals,
                     uint64_t *ret, int64_t *ret_ns);

/* ---- causes.c: verdicts that may call for an action ---- */

#define POLICY_CAUSES 64
#define POLICY_OBSERVED 32

enum decision_block { /* why an action is not ordered */
    BLOCK_NOT_YET,    /* nothing was written of it */
    BLOCK_NONE,
    BLOCK_SWITCH,
    BLOCK_UNABLE,
    BLOCK_CONSENT,
    BLOCK_PAYS_NOT,
    BLOCK_COOL_DOWN,
    BLOCK_BUDGET,
    BLOCK_BREAKER,
};

struct cause { /* the part of a verdict that the table needs */
    char id[DECISION_ID];
    uint8_t kind, layer;
    bool open;
    bool handled;  /* an action was ordered in this attempt */
    uint8_t block; /* enum decision_block: that was written last in this attempt */
    double confidence, seconds_per_step;
    int64_t since_real_ns, decided_real_ns, acted_real_ns;
    uint64_t since_step;
    uint32_t orders; /* of actions that stop the job, because of it */
    uint32_t rank_count, node_count;
    uint32_t rank[DECISION_RANKS];
    char node[DECISION_NODES][FACT_NAME];
    char text[96];
};

struct observed { /* the newest findings that are worse than information */
    char node[FACT_NAME];
    uint8_t severity;
    int64_t real_ns;
};

void causes_verdict(struct policy *policy, const struct verdict *verdict);
void causes_attempt(struct policy *policy);
struct cause *causes_find(struct policy *policy, const char *id);
/* Of its kind or of what its nodes reported, whichever is worse; as the table says. */
unsigned cause_severity(const struct policy *policy, const struct cause *cause);
/* Something was decided, or written, about what ended this attempt. */
bool causes_are_settled(const struct policy *policy);
bool causes_suspect(const struct policy *policy, const char *node);    /* an error was seen there */
void cause_fill(const struct cause *cause, struct decision *decision); /* ranks, nodes, of */

/* ---- limits.c: how often, and whether it helps ---- */

#define POLICY_HISTORY 64

struct limits_entry { /* an action that was ordered and stops the job */
    int64_t real_ns;
    uint32_t nodes; /* that it takes from the run */
};

struct limits_used {
    struct limits_entry entry[POLICY_HISTORY]; /* a ring */
    uint32_t count;
    uint32_t nodes_taken;
    uint32_t unhelpful;  /* in a row */
    uint64_t acted_step; /* newest step when the last one was ordered */
    int64_t acted_real_ns;
};

void limits_order(struct policy *policy, const struct decision *decision);
void limits_tick(struct policy *policy, bool faults); /* faults: some that call for an action */
/* BLOCK_NONE, or what forbids this action now, with the sentence. */
enum decision_block limits_check(const struct policy *policy, const struct cause *cause,
                                 const struct decision *decision, char *ret, size_t room);

/* ---- payback.c: what an action costs and saves, by the ledger ---- */

struct payback {
    double saves, costs; /* GPU-seconds */
    double after_s;      /* until both are equal */
};
void payback_tick(struct policy *policy); /* notes checkpoints */
struct payback payback_of(const struct policy *policy, const struct cause *cause);

bool action_stops_job(unsigned action);
bool action_takes_nodes(unsigned action);

/* ---- crash_loop.c ---- */

#define POLICY_FAILURES 16

struct failure {
    uint32_t attempt;
    uint64_t step;        /* newest that some rank had begun; DECISION_NO_STEP: none */
    char node[FACT_NAME]; /* of the rank that failed first; "": not known */
};

struct crash_loop {
    bool pending; /* an attempt has failed, and its last steps may still be reported */
    int64_t pending_real_ns;
    uint64_t best;                           /* newest step of all attempts, plus 1; 0: none */
    uint32_t stuck;                          /* failures in a row that did not get beyond it */
    struct failure failure[POLICY_FAILURES]; /* newest last */
    uint32_t failures;
    bool given_up; /* written */
    uint32_t
        swapped; /* attempt after which a spare took the place of the node, plus 1; 0: none did */
};

void crash_loop_failed(struct policy *policy, int64_t real_ns);
void crash_loop_settle(struct policy *policy); /* the next attempt begins */
void crash_loop_verdict(struct policy *policy, const struct verdict *verdict);
void crash_loop_tick(struct policy *policy);
void crash_loop_follow_log(struct policy *policy, const struct decision *decision);

/* ---- departures.c: nodes that the run leaves on purpose ---- */

#define POLICY_DEPARTURES 16

struct departure {
    char of[DECISION_ID]; /* the verdict or request */
    char node[FACT_NAME];
    bool save;         /* the ranks save first ... */
    bool asked;        /* ... and were asked to, under the same id */
    char unsaved[120]; /* why they did not; "": nothing is known */
    char why[112];
};

void departures_add(struct policy *policy, const char *of, const char *node, bool save,
                    const char *why);
void departures_unsaved(struct policy *policy, const char *of, const char *why);
void departures_request(struct policy *policy, const struct request *request);
void departures_tick(struct policy *policy);
void departures_follow_log(struct policy *policy, const struct decision *decision);

/* ---- the state ---- */

struct open_request { /* a request that is not over */
    struct request request;
    bool ordered;             /* `decision` is out */
    bool past;                /* a part was past its step */
    bool new;                 /* since no tick */
    struct decision decision; /* the newest */
    unsigned renewals;
    uint32_t least_attempt; /* not ordered before this one begins */
    uint32_t answers;       /* ranks that have done it */
    int64_t since_real_ns;
    char failed[160]; /* why it cannot be done; "": it may */
    bool cancelled;   /* `failed` says by whom */
};

/* A decision that was given up while its ranks may still do it: they were asked for that step.  Until they are past it no
 * other one of its kind is given, which would replace the request in some rings and not in others.
 */
struct unsettled {
    bool any;
    uint32_t attempt;
    uint64_t step;
};

struct policy {
    char run[64];
    bool follows;
    bool may_restart; /* consent */
    uint32_t attempt;
    int64_t attempt_real_ns;
    struct progress progress;
    struct open_request open[POLICY_OPEN_REQUESTS];
    size_t open_count;
    struct unsettled unsettled[2]; /* checkpoint, depth */
    struct departure departure[POLICY_DEPARTURES];
    size_t departures;
    struct verdict hang;        /* that asks for a restart; id "": none */
    struct verdict stuck;       /* a hang or desync of this attempt that is open; id "": none */
    bool restarted;             /* in this attempt */
    struct policy_table *table; /* NULL: none */
    struct policy_means means;  /* mode 0: none came */
    struct cause *cause;
    size_t causes, cause_room;
    struct observed observed[POLICY_OBSERVED]; /* a ring */
    uint32_t observed_count;
    struct limits_used used;
    struct crash_loop crash_loop;
    struct policy_crew *crew;   /* NULL: there is one launcher, or none */
    double checkpoint_seconds;  /* in the ledger, when the newest one was noticed */
    int64_t checkpoint_real_ns; /* then; 0: none in this attempt */
    /* During a tick. */
    const struct policy_view *view;
    policy_emit *emit;
    void *emit_arg;
};

/* enum policy_mode, and POLICY_OFF where the kill switch is on for one of several launchers; 0: not known yet. */
unsigned policy_mode(const struct policy *policy);
/* Fills in id and times, and gives it out. */
void policy_decide(struct policy *policy, struct decision *decision, int64_t deadline_ns);
/* The same, where the attempt is filled in. */
void policy_decide_of_attempt(struct policy *policy, struct decision *decision,
                              int64_t deadline_ns);
/* Gives out a decision again, with another state and the reason. */
void policy_change(struct policy *policy, struct decision *decision, enum decision_state state,
                   const char *why);

/* ---- the rules ---- */
void restart_hang_verdict(struct policy *policy, const struct verdict *verdict);
void restart_hang_tick(struct policy *policy);
void restart_hang_follow_log(struct policy *policy, const struct decision *decision);

void table_verdict(struct policy *policy, const struct verdict *verdict);
void table_tick(struct policy *policy);
void table_follow_log(struct policy *policy, const struct decision *decision);

void at_step_request(struct policy *policy, const struct request *request);
void at_step_verdict(struct policy *policy, const struct verdict *verdict);
void at_step_outcome(struct policy *policy, const struct outcome *outcome);
void at_step_tick(struct policy *policy);
void at_step_follow_log(struct policy *policy, const struct decision *decision);

/* ---- crew.c: one launcher on each node ---- */

#define CREW_HANG_STATUS 124 /* as timeout(1) has it */

struct policy_crew;
void crew_destroy(struct policy_crew *crew); /* NULL is fine */
size_t crew_bytes(const struct policy_crew *crew);
void crew_tick(struct policy *policy);
void crew_decided(struct policy *policy, const struct decision *decision); /* by another rule */
void crew_attempt_ended(struct policy *policy, uint32_t attempt); /* its end was reported */
void crew_follow_log(struct policy *policy, const struct decision *decision);
uint32_t crew_spares(const struct policy *policy);
bool crew_is_off(const struct policy *policy); /* a launcher sees the kill switch */
bool crew_has_node(const struct policy *policy, const char *node); /* with ranks of this attempt */
bool crew_may_shrink(const struct policy *policy); /* the run may go on with a node less */

struct rule { /* NULL: it does not need that */
    const char *name;
    void (*request)(struct policy *policy, const struct request *request);
    void (*verdict)(struct policy *policy, const struct verdict *verdict);
    void (*outcome)(struct policy *policy, const struct outcome *outcome);
    void (*tick)(struct policy *policy);
    void (*follow_log)(struct policy *policy, const struct decision *decision);
};
extern const struct rule policy_rules[]; /* ends with a name NULL */

#endif
