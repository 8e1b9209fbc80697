/* crew.h - shared by the two files of the crew: a job with one launcher on each node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_POLICY_CREW_H
#define LOCKSTEP_POLICY_CREW_H

#include "policy/policy_private.h"
#include "wire/member.h"

#define CREW_MEMBERS_MAX 1024
#define CREW_NO_SLOT UINT32_MAX

enum crew_phase {
    CREW_GATHERS, /* waits for launchers */
    CREW_RUNS,
    CREW_STOPS, /* waits until no node has ranks of the attempt */
    CREW_IS_OVER,
};

struct crew_member {
    struct member last;
    /* Another launcher that says it is on this node; life 0: none.  Either the last one has ended, and is lost soon, or two
     * have one name, and the later one is refused.
     */
    struct member rival;
    int64_t rival_ns; /* since then, by the crew's clock */
    uint32_t former;  /* life before this one; 0: none */
    uint32_t refused; /* life of the newest rival that was; 0: none */
    int64_t heard_ns;
    bool reported; /* since the last tick */
    bool lost;     /* not heard of for its whole lease, or ended */
    bool ended; /* launcher and ranks are gone for certain: what still comes from them is older */
    bool gone;  /* the launcher that had ranks of this attempt is not this one */
    bool out;   /* gets no ranks any more */
    bool kept;  /* it had ranks in the attempt before, too */
    uint32_t slot; /* number of the node in the attempt; CREW_NO_SLOT: not in it */
};

struct policy_crew {
    struct crew_member *member; /* in the order in which they joined */
    size_t count, room;
    enum crew_phase phase;
    bool begun; /* some attempt was started */
    uint32_t attempt, restarts;
    uint32_t
        fruitless; /* attempts in a row that got no further than those before; the first does not count */
    uint64_t best;  /* newest step of all attempts, plus 1; 0: none */
    uint32_t nodes; /* of the attempt */
    /* Time that passed while the controller ran, so that its own absence is nobody's silence. */
    int64_t clock_ns, tick_ns;
    int64_t since_ns; /* the phase, by that clock */
    int64_t ended_ns; /* nobody has had ranks of the attempt since; 0: somebody has */
    bool wanted;      /* a decision of another rule wants the attempt to stop */
    bool final;       /* there is no further attempt */
    bool requeues;  /* here: the scheduler shall start the job again, without nodes that are out */
    bool end_known; /* somebody has reported the end of the attempt */
    int32_t status; /* of the attempt that stops */
    char why[160];
    struct decision *order; /* the newest, until others take their place */
    size_t orders, order_room;
};

/* ---- crew_members.c: who has joined ---- */

struct crew_member *crew_find(const struct policy_crew *crew, const char *node); /* NULL: nobody */
/* The rival is the launcher of its node from now on: the one before, and its ranks, have ended. */
void crew_replace(struct crew_member *member);
/* At a tick: who was heard of. */
void crew_listen(struct policy_crew *crew, const struct policy_view *view);
/* Rivals of launchers that live are told to end. */
void crew_refuse_rivals(struct policy *policy);
bool crew_is_refusal(const struct decision *decision);
void crew_follow_refusal(struct policy_crew *crew, const struct decision *decision);

/* ---- crew_plan.c: who starts which ranks ---- */

bool crew_is_fit(const struct policy_crew *crew,
                 const struct crew_member *member); /* for an attempt */
uint32_t crew_fit_count(const struct policy_crew *crew);
/* Gives a slot to that many launchers.  Those that had one in the last attempt come first, and keep it if they can. */
void crew_assign(struct policy_crew *crew, uint32_t nodes);
struct crew_member *crew_slot(const struct policy_crew *crew, uint32_t slot); /* NULL: nobody */
/* START decisions for the assignment: returns how many follow at or after `slot`, in *ret. */
uint32_t crew_start_fill(const struct policy_crew *crew, uint32_t slot, int64_t clock_ns,
                         struct decision *ret);

#endif
