/* core_decisions.c - the core and its policy: requests and outcomes in, decisions out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/core_private.h"
#include "core/clean.h"
#include "judge/crash/crash.h"
#include "judge/ledger.h"
#include "wire/decision.h"

void core_follow(struct core *core, bool follow)
{
    policy_follow(core->policy, follow);
}

void core_follow_log(struct core *core, const struct decision *decision)
{
    policy_follow_log(core->policy, decision);
}

const struct policy *core_policy(const struct core *core)
{
    return core->policy;
}

int core_feed_request(struct core *core, struct reader in)
{
    struct request request;
    int result = request_get(in, &request);

    if (result == 0)
        policy_request(core->policy, &request);
    return result;
}

int core_feed_policy(struct core *core, struct reader in)
{
    struct policy_table table;
    int result = policy_table_get(in, &table);

    return result < 0 ? result : policy_take_table(core->policy, &table);
}

int core_feed_means(struct core *core, struct reader in)
{
    struct policy_means means;
    int result = policy_means_get(in, &means);

    if (result == 0)
        policy_take_means(core->policy, &means);
    return result;
}

int core_feed_member(struct core *core, struct reader in)
{
    struct member member;
    int result = member_get(in, &member);

    return result < 0 ? result : policy_member(core->policy, &member);
}

void core_take_finding(struct core *core, const struct frame *frame)
{
    struct finding finding;

    /* Whatever a program can cause or write justifies no action. */
    if (finding_get(reader_of(frame->payload, frame->payload_bytes), &finding) == 0 &&
        !finding_is_of_program(&finding))
        policy_finding(core->policy, &finding);
}

void core_take_outcome(struct core *core, const struct frame *frame)
{
    struct outcome outcome;

    if (outcome_get(reader_of(frame->payload, frame->payload_bytes), &outcome) == 0)
        policy_outcome(core->policy, &outcome);
}

struct core_output {
    core_emit *emit;
    void *arg;
};

static void core_emit_decision(void *arg, const struct decision *decision)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    const struct core_output *out = arg;

    decision_put(&payload, decision);
    out->emit(out->arg, FRAME_DECISION, &payload);
}

/* What ended the attempt, as far as nobody else can say. */
static void core_take_losses(struct core *core)
{
    struct policy_lost lost[VERDICT_NODES];
    size_t count = policy_lost(core->policy, lost, COUNT(lost));

    for (size_t i = 0; i < count; i++)
        crash_node_lost(&core->judge, lost[i].node, lost[i].last_real_ns, lost[i].ended);
}

void core_emit_decisions(struct core *core, const struct fact_tick *now, bool last, core_emit *emit,
                         void *arg)
{
    uint32_t world = core->judge.model.world, missing = MAX(core->unseen, core->away);
    struct ledger ledger;
    const struct policy_view view = { .mono_ns = now->mono_ns,
                                      .real_ns = now->real_ns,
                                      .ranks = world - MIN(missing, world),
                                      .nodes = core->judge.model.nodes,
                                      .ledger = &ledger,
                                      .last = last,
                                      .deaf = now->flags & TICK_DEAF };

    ledger_read(core->judge.book, &ledger);
    policy_tick(core->policy, &view, core_emit_decision, &(struct core_output){ emit, arg });
    core_take_losses(core);
}
