/* policy.h - facts and verdicts in, decisions out.
 *
 * The caller passes on what it learns, then calls policy_tick() once at each tick.  The same calls in the same order give the
 * same decisions.
 *
 * After a compaction a new policy reads a log whose ticks are partly gone.  Until it decides itself it follows the
 * decisions in the log (policy_follow(), policy_follow_log()).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_POLICY_POLICY_H
#define LOCKSTEP_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/member.h"
#include "wire/policy_table.h"
#include "wire/verdict.h"

#define POLICY_OPEN_REQUESTS                                                                       \
    16 /* requests that are open at the same time; further ones are ignored */

struct policy;

int policy_create(const char *run, struct policy **ret); /* -ENOMEM */
void policy_destroy(struct policy *policy);              /* NULL is fine */
size_t policy_bytes(const struct policy *policy);

/* ---- facts ---- */
void policy_request(struct policy *policy, const struct request *request);
void policy_outcome(struct policy *policy, const struct outcome *outcome);
void policy_attempt(struct policy *policy, uint32_t attempt, int64_t real_ns); /* it begins */
void policy_steps_again(struct policy *policy); /* workers restarted: step numbers may go back */
/* Some rank has begun this step.  One of another attempt than the newest is ignored. */
void policy_step(struct policy *policy, uint32_t attempt, uint64_t step);
void policy_verdict(struct policy *policy, const struct verdict *verdict); /* new or changed */
void policy_attempt_ended(struct policy *policy, uint32_t attempt);        /* in whichever way */
void policy_attempt_failed(struct policy *policy, uint32_t attempt, int64_t real_ns);
/* The table of actions: without one only requests and consents are decided.  -ENOMEM. */
int policy_take_table(struct policy *policy, const struct policy_table *table);
void policy_take_means(struct policy *policy, const struct policy_means *means);
/* Of a job with one launcher on each node.  -ENOMEM; -E2BIG: there are too many. */
int policy_member(struct policy *policy, const struct member *member);
void policy_finding(struct policy *policy, const struct finding *finding);

/* ---- decisions ---- */
struct policy_view { /* what the core knows at a tick */
    int64_t mono_ns, real_ns;
    uint32_t ranks;              /* of the run, now */
    uint32_t nodes;              /* that it runs on */
    const struct ledger *ledger; /* what it has cost so far; NULL: not known */
    bool last;                   /* the run is over */
    bool
        deaf; /* facts came since the last tick that are not in the log: who was not heard of may live */
};
typedef void policy_emit(void *arg, const struct decision *decision);
void policy_tick(struct policy *policy, const struct policy_view *view, policy_emit *emit,
                 void *arg);

void policy_follow(struct policy *policy, bool follow); /* true: policy_tick() decides nothing */
void policy_follow_log(struct policy *policy, const struct decision *decision); /* from the log */

size_t policy_members(const struct policy *policy); /* launchers of one run; 0: at most one */
/* Nodes of the newest attempt whose launcher is lost: how many were written. */
struct policy_lost {
    char node[FACT_NAME];
    uint32_t life;        /* of the launcher */
    bool ended;           /* it has ended for certain */
    int64_t last_real_ns; /* when it wrote what was heard of it last */
};
size_t policy_lost(const struct policy *policy, struct policy_lost *ret, size_t room);
/* How long after the loss of a node it is known, at most; 0: there is one launcher at most. */
int64_t policy_loss_ns(const struct policy *policy);
/* The life sockets of launchers that are there: how many were written. */
size_t policy_lives(const struct policy *policy, struct member *ret, size_t room);
/* What became of a request is not known yet. */
bool policy_is_open(const struct policy *policy, const char *request_id);
/* An open one of this kind; "": none. */
const char *policy_open_request(const struct policy *policy, unsigned kind);

#endif
