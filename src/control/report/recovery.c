/* recovery.c - from exits, verdicts, orders, attempts and first steps to the parts of a restart.
 *
 * detect: from the fault to the verdict; a process that ended is seen at once.  decide: to the begin of the order, if there was
 * one.  stop: until no rank is left.  start: until the next attempt begins, with its back-off.  init: until the last rank begins
 * its first step; this includes loading a checkpoint.  first step: until the last rank has ended it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/recovery.h"

#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/member.h"
#include "wire/verdict.h"

void recovery_fini(struct recovery *recovery)
{
    map_fini(&recovery->clock);
    map_fini(&recovery->node);
    map_fini(&recovery->first);
}

/* The launchers of several nodes have one name. */
static uint64_t recovery_key(const struct frame *frame)
{
    return hash64_u64(frame->sender, frame->boot);
}

/* 0: the clock of the sender is not known. */
static int64_t recovery_real_ns(const struct recovery *recovery, uint64_t sender, int64_t mono_ns)
{
    const uint64_t *clock = map_get(&recovery->clock, sender);

    return clock ? mono_ns + (int64_t)*clock : 0;
}

static void recovery_exit(struct recovery *recovery, uint64_t sender, const struct fact_exit *exit)
{
    if (exit->attempt != recovery->attempt || exit->status == 0 || exit->ended_by_launcher ||
        recovery->fault_ns)
        return;
    recovery->fault_ns = recovery->detect_ns = recovery->decide_ns =
        recovery_real_ns(recovery, sender, exit->mono_ns);
}

static void recovery_verdict(struct recovery *recovery, const struct verdict *verdict)
{
    if ((verdict->kind != VERDICT_HANG && verdict->kind != VERDICT_DESYNC) || recovery->fault_ns ||
        verdict->since_real_ns < recovery->begin_ns)
        return;
    recovery->fault_ns = verdict->since_real_ns;
    recovery->detect_ns = recovery->decide_ns = verdict->decided_real_ns;
}

static void recovery_begin(struct recovery *recovery, const struct fact_run *run)
{
    if (run->attempt == 0 || run->attempt <= recovery->attempt) {
        recovery->begin_ns = run->real_ns;
        return;
    }
    if (recovery->parts)
        recovery->parts->start_s += (double)(run->real_ns - recovery->begin_ns) / 1e9;
    recovery->attempt = run->attempt;
    recovery->begin_ns = run->real_ns;
    recovery->fault_ns = recovery->detect_ns = recovery->decide_ns = 0;
    recovery->step_begin_ns = recovery->step_end_ns = 0;
    map_fini(&recovery->first);
}

void recovery_ended(struct recovery *recovery, int64_t real_ns, struct run_summary_parts *ret)
{
    int64_t fault_ns = recovery->fault_ns ? recovery->fault_ns : real_ns;
    int64_t detect_ns = recovery->fault_ns ? recovery->detect_ns : real_ns;
    int64_t decide_ns = recovery->fault_ns ? recovery->decide_ns : real_ns;

    *ret = (struct run_summary_parts){ .detect_s = (double)(detect_ns - fault_ns) / 1e9,
                                       .decide_s = (double)(decide_ns - detect_ns) / 1e9,
                                       .stop_s = (double)MAX(real_ns - decide_ns, 0) / 1e9 };
    recovery->parts = ret;
    recovery->begin_ns = real_ns;
}

/* A rank may be seen to step while others still start: the last one counts. */
static int recovery_step(struct recovery *recovery, uint64_t sender, const struct fact_step *step)
{
    struct run_summary_parts *parts = recovery->parts;
    int64_t begin_ns = recovery_real_ns(recovery, sender, step->begin_ns);

    if (!parts || step->attempt != recovery->attempt || map_get(&recovery->first, step->rank))
        return 0;
    if (!map_put(&recovery->first, step->rank, 1))
        return -ENOMEM;
    recovery->step_begin_ns = MAX(recovery->step_begin_ns, begin_ns);
    recovery->step_end_ns = MAX(recovery->step_end_ns, begin_ns + step->duration_ns);
    parts->init_s = (double)MAX(recovery->step_begin_ns - recovery->begin_ns, 0) / 1e9;
    parts->first_step_s = (double)(recovery->step_end_ns - recovery->step_begin_ns) / 1e9;
    parts->known = true;
    return 0;
}

static void recovery_outcome(struct recovery *recovery, const struct outcome *outcome)
{
    if (!outcome->ended_real_ns && outcome->began_real_ns > recovery->detect_ns &&
        recovery->detect_ns > recovery->fault_ns)
        recovery->decide_ns = outcome->began_real_ns;
}

static uint64_t recovery_node_key(const char *node)
{
    return hash64(0, node, strlen(node));
}

/* Several nodes: those of the attempt. */
static int recovery_start(struct recovery *recovery, const struct decision *decision)
{
    if (decision->start.first[0] == 0)
        map_fini(&recovery->node);
    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++) {
        if (!map_put(&recovery->node, recovery_node_key(decision->node[i]), 0))
            return -ENOMEM;
    }
    return 0;
}

static void recovery_member(struct recovery *recovery, const struct member *member)
{
    uint64_t *last = map_get(&recovery->node, recovery_node_key(member->node));

    if (last)
        *last = (uint64_t)member->real_ns;
}

/* The last sign of life of the node that is silent for the longest time; 0: not known. */
static int64_t recovery_silent_ns(const struct recovery *recovery)
{
    int64_t oldest_ns = 0;

    for (size_t i = 0; i < recovery->node.size; i++) {
        const struct map_slot *slot = &recovery->node.slot[i];
        int64_t last_ns = (int64_t)slot->value;

        if (slot->used && last_ns && (!oldest_ns || last_ns < oldest_ns))
            oldest_ns = last_ns;
    }
    return oldest_ns;
}

/* From then on all nodes stop.  If no rank has failed, a node was lost. */
static void recovery_stop(struct recovery *recovery, const struct decision *decision)
{
    if (decision->attempt != recovery->attempt)
        return;
    if (!recovery->fault_ns) {
        recovery->fault_ns = recovery_silent_ns(recovery);
        recovery->detect_ns = recovery->decide_ns =
            recovery->fault_ns ? MAX(decision->decided_real_ns, recovery->fault_ns) : 0;
    } else if (recovery->decide_ns == recovery->detect_ns) {
        recovery->decide_ns = MAX(decision->decided_real_ns, recovery->detect_ns);
    }
}

static int recovery_decision(struct recovery *recovery, const struct decision *decision)
{
    if (decision->state != DECISION_ORDERED)
        return 0;
    if (decision->action == ACTION_START)
        return recovery_start(recovery, decision);
    if (decision->action == ACTION_STOP)
        recovery_stop(recovery, decision);
    return 0;
}

int recovery_frame(struct recovery *recovery, const struct frame *frame, bool own)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct verdict verdict;
    struct outcome outcome;
    struct fact_hello hello;
    struct fact_exit exit;
    struct fact_step step;
    struct fact_run run;
    struct decision decision;
    struct member member;

    if (own && frame->type == FRAME_DECISION && decision_get(in, &decision) == 0)
        return recovery_decision(recovery, &decision);
    if (own && frame->type == FRAME_VERDICT && verdict_get(in, &verdict) == 0)
        recovery_verdict(recovery, &verdict);
    if (own)
        return 0;
    switch (frame->type) {
    case FRAME_HELLO:
        return fact_hello_get(in, &hello) < 0 || map_put(&recovery->clock, recovery_key(frame),
                                                         (uint64_t)(hello.real_ns - hello.mono_ns))
                   ? 0
                   : -ENOMEM;
    case FRAME_EXIT:
        if (fact_exit_get(in, &exit) == 0)
            recovery_exit(recovery, recovery_key(frame), &exit);
        return 0;
    case FRAME_MEMBER:
        if (member_get(in, &member) == 0)
            recovery_member(recovery, &member);
        return 0;
    case FRAME_OUTCOME:
        if (outcome_get(in, &outcome) == 0)
            recovery_outcome(recovery, &outcome);
        return 0;
    case FRAME_RUN:
        if (fact_run_get(in, &run) == 0 && run.event == RUN_ATTEMPT_BEGIN)
            recovery_begin(recovery, &run);
        return 0;
    case FRAME_STEP:
        return fact_step_head_get(in, &step) < 0
                   ? 0
                   : recovery_step(recovery, recovery_key(frame), &step);
    default:
        return 0;
    }
}
