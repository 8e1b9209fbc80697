/* crew.c - a job with one launcher on each node: when an attempt starts, stops and ends on all of them.
 *
 * Launchers report what their ranks do (wire/member.h); the orders are START, STOP and END.  Between two attempts there is a
 * moment in which no launcher has ranks: the next one starts only when each launcher of the last one has reported that, or was
 * silent for its whole lease.  A launcher ends its ranks when its reports were not acknowledged for a part of that lease,
 * so that no two attempts run at the same time, wherever the connection is cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "policy/crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

#define CREW_BEGIN_NS (60 * NS_PER_S) /* until a launcher that was told to start has started */
#define CREW_BACKOFF_MAX_NS (60 * NS_PER_S)
#define CREW_VERDICT_NS (2 * NS_PER_S)
#define CREW_REPORT_NS (3 * NS_PER_S)
#define CREW_MINORITY_LEASES 4
#define CREW_STUCK_NS (3 * 60 * NS_PER_S) /* until ranks that cannot be ended are left behind */

void crew_destroy(struct policy_crew *crew)
{
    if (!crew)
        return;
    free(crew->member);
    free(crew->order);
    free(crew);
}

size_t crew_bytes(const struct policy_crew *crew)
{
    return crew ? sizeof(*crew) + crew->room * sizeof(*crew->member) +
                      crew->order_room * sizeof(*crew->order)
                : 0;
}

/* ---- orders ---- */

static void crew_phase_set(struct policy_crew *crew, enum crew_phase phase)
{
    crew->phase = phase;
    crew->since_ns = crew->clock_ns;
}

static void crew_order_keep(struct policy_crew *crew, const struct decision *decision)
{
    if (ARRAY_FIT(crew->order, crew->order_room, crew->orders + 1))
        crew->order[crew->orders++] = *decision;
}

/* Who comes late must not obey them.  They keep their reasons, which people read. */
static void crew_orders_supersede(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;

    for (size_t i = 0; i < crew->orders; i++) {
        char why[sizeof(crew->order[i].why)];

        memcpy(why, crew->order[i].why, sizeof(why));
        policy_change(policy, &crew->order[i], DECISION_SUPERSEDED, why);
    }
    crew->orders = 0;
}

static void crew_order(struct policy *policy, struct decision *decision)
{
    policy_decide_of_attempt(policy, decision, 0);
    crew_order_keep(policy->crew, decision);
}

/* Who reports the end of the attempt or the run: the first node, or the first that is still there.  One that leaves waits a
 * moment for that.
 */
static const struct crew_member *crew_reporter(const struct policy_crew *crew)
{
    for (uint32_t slot = 0; slot < crew->nodes; slot++) {
        const struct crew_member *member = crew_slot(crew, slot);

        if (member && !member->lost && !member->gone && member->last.state != MEMBER_LEFT)
            return member;
    }
    for (size_t i = 0; i < crew->count; i++) {
        if (!crew->member[i].lost && crew->member[i].last.state != MEMBER_LEFT)
            return &crew->member[i];
    }
    for (size_t i = 0; i < crew->count; i++) {
        if (!crew->member[i].lost)
            return &crew->member[i];
    }
    return NULL;
}

static struct decision crew_decision(const struct policy_crew *crew, enum action action)
{
    struct decision decision = { .action = (uint8_t)action,
                                 .target = TARGET_RUN,
                                 .attempt = crew->attempt,
                                 .step = DECISION_NO_STEP,
                                 .argument = crew->status };
    const struct crew_member *reporter = crew_reporter(crew);

    if (reporter)
        memcpy(decision.node[decision.node_count++], reporter->last.node, sizeof(decision.node[0]));
    snprintf(decision.why, sizeof(decision.why), "%s", crew->why);
    return decision;
}

/* Nodes that are lost, behind the reporter.  If the run has failed, those that got no ranks any more, too: a scheduler may start the
 * job again without them.
 */
static void crew_name_missing(const struct policy_crew *crew, struct decision *decision)
{
    for (size_t i = 0; decision->node_count && i < crew->count; i++) {
        const struct crew_member *member = &crew->member[i];

        if ((member->lost || (member->out && crew->status)) &&
            decision->node_count < DECISION_NODES)
            memcpy(decision->node[decision->node_count++], member->last.node,
                   sizeof(decision->node[0]));
    }
}

/* A node of the attempt is: that is why it ended. */
static bool crew_lost_one(const struct policy_crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (crew->member[i].slot != CREW_NO_SLOT && crew->member[i].lost)
            return true;
    }
    return false;
}

/* Nodes are named at the end, so that a scheduler can start the job again without them. */
static bool crew_leaves_some(const struct policy_crew *crew)
{
    return crew->requeues || crew_lost_one(crew);
}

/* `missing`: lost nodes are named, because too few are left, or because the run ended well without them. */
static void crew_end(struct policy *policy, bool missing)
{
    struct policy_crew *crew = policy->crew;
    struct decision decision = crew_decision(crew, ACTION_END);

    if (missing)
        crew_name_missing(crew, &decision);
    crew_orders_supersede(policy);
    crew_order(policy, &decision);
    crew_phase_set(crew, CREW_IS_OVER);
}

/* ---- an attempt starts ---- */

/* Larger than any that a launcher has seen: one may have run before the controller knew of it. */
static uint32_t crew_next_attempt(const struct policy_crew *crew)
{
    uint32_t next = crew->begun ? crew->attempt + 1 : 0;

    for (size_t i = 0; i < crew->count; i++) {
        const struct member *last = &crew->member[i].last;

        next = MAX(next, last->attempt + (last->state != MEMBER_IDLE));
    }
    return next;
}

static void crew_start(struct policy *policy, uint32_t nodes)
{
    struct policy_crew *crew = policy->crew;
    uint32_t filled, max = crew->member[0].last.nodes_max;

    crew->restarts += crew->begun;
    crew->attempt = crew_next_attempt(crew);
    crew->begun = true;
    crew->wanted = crew->end_known = false;
    crew->ended_ns = 0;
    crew_assign(crew, nodes);
    crew_orders_supersede(policy);
    for (uint32_t slot = 0; slot < nodes; slot += filled) {
        struct decision decision;

        filled =
            crew_start_fill(crew, slot, policy->view->real_ns - policy->view->mono_ns, &decision);
        if (!filled)
            break;
        snprintf(decision.why, sizeof(decision.why), "%u of %u nodes, %u ranks%s%.110s", nodes, max,
                 decision.start.world, crew->why[0] ? "; after: " : "", crew->why);
        crew_order(policy, &decision);
    }
    crew_phase_set(crew, CREW_RUNS);
}

/* Most failures do not repeat: a restart is put off only after attempts that got no further than those before. */
static int64_t crew_pause_ns(const struct policy_crew *crew)
{
    int64_t pause_ns = crew->fruitless ? crew->member[0].last.backoff_ns : 0;

    for (uint32_t i = 1; i < crew->fruitless && pause_ns < CREW_BACKOFF_MAX_NS; i++)
        pause_ns *= 2;
    return MIN(pause_ns, MAX(CREW_BACKOFF_MAX_NS, crew->member[0].last.backoff_ns));
}

/* An attempt is over: did it get further than all before it? */
static void crew_count_fruit(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;
    uint64_t newest = policy->progress.any ? policy->progress.newest + 1 : 0;

    crew->fruitless = newest > crew->best || !crew->restarts ? 0 : crew->fruitless + 1;
    crew->best = MAX(crew->best, newest);
}

/* The last that was there has left.  Those that are lost may come back, and that alone ends nothing. */
static bool crew_is_deserted(const struct policy_crew *crew)
{
    bool left = false;

    for (size_t i = 0; i < crew->count; i++) {
        const struct crew_member *member = &crew->member[i];

        if (member->last.state != MEMBER_LEFT && !member->lost)
            return false;
        left |= member->last.state == MEMBER_LEFT;
    }
    return left;
}

/* Under another controller, say: then nobody waits for launchers that would have come long ago. */
static bool crew_has_run(const struct policy_crew *crew)
{
    bool run = crew->begun;

    for (size_t i = 0; i < crew->count; i++)
        run |= crew->member[i].last.state != MEMBER_IDLE;
    return run;
}

/* Launchers that another controller may have, and that start without us. */
static bool crew_is_minority(const struct policy_crew *crew, uint32_t fit)
{
    const struct member *first = &crew->member[0].last;

    return fit < first->quorum && crew_has_run(crew) &&
           crew->clock_ns - crew->since_ns >= CREW_MINORITY_LEASES * first->lease_ns;
}

static void crew_give_up(struct policy *policy, uint32_t fit, uint32_t needed)
{
    struct policy_crew *crew = policy->crew;
    char before[80];

    snprintf(before, sizeof(before), "%.79s", crew->why);
    snprintf(crew->why, sizeof(crew->why), "%u node%s left, at least %u needed%s%s", fit,
             fit == 1 ? " is" : "s are", needed, before[0] ? "; after: " : "", before);
    crew->status = crew->status ? crew->status : 1;
    crew_end(policy, true);
}

/* Launchers that know that nobody comes once the run has begun wait less then. */
static int64_t crew_join_ns(const struct policy_crew *crew)
{
    int64_t join_ns = crew->member[0].last.join_ns;

    for (size_t i = 1; crew->begun && i < crew->count; i++)
        join_ns = MIN(join_ns, crew->member[i].last.join_ns);
    return join_ns;
}

/* Hardware of a node has failed, and a spare could take its place: the verdict about what ended the attempt comes in a moment. */
static bool crew_waits_for_verdict(const struct policy *policy)
{
    const struct policy_crew *crew = policy->crew;
    bool suspect = false,
         elsewhere = crew_spares(policy) || policy->means.actions >> ACTION_REQUEUE & 1;

    if (!crew->begun || policy_mode(policy) != POLICY_ACT || !elsewhere ||
        crew->clock_ns - crew->since_ns >= CREW_VERDICT_NS || causes_are_settled(policy))
        return false;
    for (size_t i = 0; i < crew->count; i++)
        suspect |= crew->member[i].slot != CREW_NO_SLOT && !crew->member[i].out &&
                   causes_suspect(policy, crew->member[i].last.node);
    return suspect;
}

static void crew_gather(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;
    const struct member *first = &crew->member[0].last;
    uint32_t fit = crew_fit_count(crew);
    int64_t since_ns = crew->clock_ns - crew->since_ns;
    bool waited = since_ns >= crew_join_ns(crew),
         soon = crew->begun || (crew_has_run(crew) && since_ns >= 2 * first->lease_ns);

    if (crew_is_deserted(crew)) {
        if (!crew->why[0])
            snprintf(crew->why, sizeof(crew->why), "all launchers left before %u nodes had joined",
                     first->nodes_max);
        crew->status = crew->status ? crew->status : 1;
        crew_end(policy, false);
        return;
    }
    if (crew->begun && crew->clock_ns - crew->since_ns < crew_pause_ns(crew))
        return;
    if (crew_waits_for_verdict(policy))
        return;
    if (fit >= first->nodes_max && fit >= first->quorum)
        crew_start(policy, first->nodes_max);
    else if (fit >= first->nodes_min && fit >= first->quorum && (soon || waited))
        crew_start(policy, MIN(fit, first->nodes_max));
    else if (waited || crew_is_minority(crew, fit))
        crew_give_up(policy, fit, MAX(first->nodes_min, first->quorum));
}

/* ---- an attempt stops ---- */

static bool crew_forbids_restart(const struct policy *policy, int32_t status)
{
    const struct policy_table *table = policy->table;

    for (uint32_t i = 0; table && i < table->exit_count; i++) {
        if (table->exit[i] == status)
            return true;
    }
    return false;
}

static void crew_stop(struct policy *policy, int32_t culprit)
{
    struct policy_crew *crew = policy->crew;
    struct decision decision;

    if (crew->restarts >= crew->member[0].last.max_restarts ||
        crew_forbids_restart(policy, crew->status))
        crew->final = true;
    decision = crew_decision(crew, ACTION_STOP);
    if (culprit >= 0)
        decision.rank[decision.rank_count++] = (uint32_t)culprit;
    crew_orders_supersede(policy);
    crew_order(policy, &decision);
    crew_phase_set(crew, CREW_STOPS);
}

static void crew_say_lost(struct policy_crew *crew, const struct crew_member *member)
{
    if (member->ended)
        snprintf(crew->why, sizeof(crew->why), "node %s is lost: its launcher and ranks have ended",
                 member->last.node);
    else
        snprintf(crew->why, sizeof(crew->why), "node %s is lost: no sign of life for %.3g s",
                 member->last.node, (double)member->last.lease_ns / 1e9);
}

/* Why the attempt cannot go on because of this launcher; false: it can. */
static bool crew_broke(struct policy_crew *crew, struct crew_member *member)
{
    const struct member *last = &member->last;
    bool ours = last->attempt == crew->attempt;
    char *why = crew->why;
    size_t room = sizeof(crew->why);

    crew->status = 1;
    if (member->lost) {
        crew_say_lost(crew, member);
    } else if (member->gone) {
        snprintf(why, room, "the launcher on node %s was started again", last->node);
    } else if (last->state == MEMBER_LEFT) {
        snprintf(why, room, "the launcher on node %s ended", last->node);
        crew->status = last->status ? last->status : 1;
    } else if (ours && (last->state == MEMBER_FAILING || last->state == MEMBER_FAILED)) {
        snprintf(why, room, "rank %d on node %s ended with status %d", last->culprit, last->node,
                 last->status);
        crew->status = last->status ? last->status : 1;
    } else if (ours && last->state == MEMBER_STOPPED) {
        snprintf(why, room, "node %s ended its ranks: it had no contact to the controller",
                 last->node);
    } else if (!ours && crew->clock_ns - crew->since_ns > CREW_BEGIN_NS) {
        snprintf(why, room, "node %s did not start its ranks", last->node);
        member->out = true;
    } else {
        return false;
    }
    return true;
}

static void crew_run(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;
    uint32_t done = 0;

    if (crew->wanted) {
        crew_stop(policy, -1);
        return;
    }
    for (uint32_t slot = 0; slot < crew->nodes; slot++) {
        struct crew_member *member = crew_slot(crew, slot);
        int32_t status = crew->status;

        if (member && crew_broke(crew, member)) {
            crew_stop(policy, member->last.attempt == crew->attempt ? member->last.culprit : -1);
            return;
        }
        crew->status = status;
        done +=
            member && member->last.attempt == crew->attempt && member->last.state == MEMBER_DONE;
    }
    if (done < crew->nodes)
        return;
    crew->status = 0;
    snprintf(crew->why, sizeof(crew->why), "all ranks ended successfully");
    crew_end(policy, true);
}

void crew_attempt_ended(struct policy *policy, uint32_t attempt)
{
    struct policy_crew *crew = policy->crew;

    if (crew && crew->begun && attempt == crew->attempt)
        crew->end_known = true;
}

/* Who was to report the end of the attempt is lost: another one does. */
static void crew_stop_again(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;
    const struct crew_member *reporter = crew_reporter(crew);
    struct decision decision;

    if (crew->end_known || crew->orders != 1 || !reporter ||
        strcmp(crew->order[0].node[0], reporter->last.node) == 0)
        return;
    decision = crew_decision(crew, ACTION_STOP);
    crew_orders_supersede(policy);
    crew_order(policy, &decision);
}

/* The attempt is over, and nobody has said so yet. */
static bool crew_waits_for_report(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;

    if (crew->end_known || !crew_reporter(crew))
        return false;
    if (!crew->ended_ns)
        crew->ended_ns = crew->clock_ns;
    crew_stop_again(policy);
    return crew->clock_ns - crew->ended_ns < CREW_REPORT_NS;
}

/* Some ranks of the attempt, or of an earlier one, may still be there. */
static bool crew_has_ranks(const struct policy_crew *crew, const struct crew_member *member)
{
    const struct member *last = &member->last;

    return !member->lost && !member->gone && !member->out && last->state != MEMBER_LEFT &&
           (member_has_ranks(last->state) ||
            (member->slot != CREW_NO_SLOT && last->attempt < crew->attempt));
}

/* A launcher, or its keeper, ends its ranks a little before its lease is over.  Ending takes a moment. */
static bool crew_may_have_ranks(const struct policy_crew *crew, const struct crew_member *member)
{
    return member->lost && !member->ended && member->slot != CREW_NO_SLOT &&
           member_has_ranks(member->last.state) &&
           crew->clock_ns - member->heard_ns <= member->last.lease_ns / 10 * 11;
}

static void crew_wait_stopped(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;
    bool ending = false;

    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->member[i];

        if (member->slot != CREW_NO_SLOT && member->lost) /* what others died of */
            crew_say_lost(crew, member);
        ending |= crew_may_have_ranks(crew, member);
        if (!crew_has_ranks(crew, member))
            continue;
        if (crew->clock_ns - crew->since_ns <= CREW_STUCK_NS)
            return;
        member->out = true;
    }
    if (crew_waits_for_report(policy) || ending)
        return;
    if (crew->final) {
        crew_end(policy, crew_leaves_some(crew));
    } else {
        crew_count_fruit(policy);
        crew_phase_set(crew, CREW_GATHERS);
    }
}

/* ---- the rule ---- */

void crew_tick(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;

    if (!crew || !crew->count || crew->phase == CREW_IS_OVER || policy->view->last)
        return;
    crew_listen(crew, policy->view);
    crew_refuse_rivals(policy);
    if (crew->phase == CREW_RUNS)
        crew_run(policy);
    if (crew->phase == CREW_STOPS)
        crew_wait_stopped(policy);
    if (crew->phase == CREW_GATHERS && crew->final)
        crew_end(policy, crew_leaves_some(crew));
    else if (crew->phase == CREW_GATHERS)
        crew_gather(policy);
}

/* A crash is judged when its attempt is over, so the node may run the next one already. */
static bool crew_take_nodes(struct policy_crew *crew, const struct decision *decision)
{
    bool used = false;

    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++) {
        struct crew_member *member = crew_find(crew, decision->node[i]);

        if (!member)
            continue;
        used |= member->slot != CREW_NO_SLOT;
        member->out = true;
    }
    return used;
}

void crew_decided(struct policy *policy, const struct decision *decision)
{
    struct policy_crew *crew = policy->crew;
    bool requeues = decision->action == ACTION_REQUEUE, stops;
    bool nodes = requeues || decision->action == ACTION_SWAP ||
                 decision->action == ACTION_RESTART_WITHOUT,
         gives_up = requeues || decision->action == ACTION_GIVE_UP;

    if (!crew || decision->state != DECISION_ORDERED || crew->phase == CREW_IS_OVER)
        return;
    stops = (nodes || decision->action == ACTION_RESTART) && crew->phase == CREW_RUNS &&
            decision->attempt == crew->attempt;
    if (nodes)
        stops |= crew_take_nodes(crew, decision) && crew->phase == CREW_RUNS;
    if (!gives_up && !stops)
        return;
    crew->final |= gives_up;
    crew->requeues |= requeues;
    crew->wanted |= crew->phase == CREW_RUNS;
    crew->status = crew->status && gives_up ? crew->status : CREW_HANG_STATUS;
    snprintf(crew->why, sizeof(crew->why), "%.140s", decision->why);
}

uint32_t crew_spares(const struct policy *policy)
{
    const struct policy_crew *crew = policy->crew;
    uint32_t count = 0;

    for (size_t i = 0; crew && i < crew->count; i++)
        count += crew->member[i].slot == CREW_NO_SLOT && crew_is_fit(crew, &crew->member[i]);
    return count;
}

bool crew_is_off(const struct policy *policy)
{
    const struct policy_crew *crew = policy->crew;

    for (size_t i = 0; crew && i < crew->count; i++) {
        if (crew->member[i].last.off && !crew->member[i].lost &&
            crew->member[i].last.state != MEMBER_LEFT)
            return true;
    }
    return false;
}

bool crew_has_node(const struct policy *policy, const char *node)
{
    const struct crew_member *member = policy->crew ? crew_find(policy->crew, node) : NULL;

    return member && member->slot != CREW_NO_SLOT && !member->lost;
}

size_t policy_members(const struct policy *policy)
{
    return policy->crew ? policy->crew->count : 0;
}

bool crew_may_shrink(const struct policy *policy)
{
    const struct policy_crew *crew = policy->crew;

    return crew && crew->count && crew->nodes > crew->member[0].last.nodes_min;
}

/* As the launchers that it names were then: another one on that node came later. */
static void crew_follow_place(struct policy_crew *crew, const struct decision *decision, uint32_t i,
                              uint32_t ranks)
{
    struct crew_member *member = crew_find(crew, decision->node[i]);

    if (!member)
        return;
    if (decision->start.life[i] == member->rival.life)
        crew_replace(member);
    member->slot = decision->start.first[i] / ranks;
    member->gone = decision->start.life[i] != member->last.life;
}

static void crew_follow_start(struct policy_crew *crew, const struct decision *decision)
{
    uint32_t ranks = crew->count ? crew->member[0].last.ranks : 1;

    if (!crew->begun || decision->attempt != crew->attempt) {
        crew->restarts += crew->begun;
        crew->wanted = crew->end_known = false;
        crew->ended_ns = 0;
        for (size_t i = 0; i < crew->count; i++) {
            crew->member[i].slot = CREW_NO_SLOT;
            crew->member[i].gone = false;
        }
    }
    crew->begun = true;
    crew->attempt = decision->attempt;
    crew->nodes = decision->start.world / ranks;
    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++)
        crew_follow_place(crew, decision, i, ranks);
    crew_phase_set(crew, CREW_RUNS);
}

static void crew_follow_order(struct policy *policy, const struct decision *decision)
{
    struct policy_crew *crew = policy->crew;

    crew_order_keep(crew, decision);
    crew->status = (int32_t)decision->argument;
    snprintf(crew->why, sizeof(crew->why), "%.159s", decision->why);
    if (decision->action == ACTION_START) {
        crew_follow_start(crew, decision);
    } else if (decision->action == ACTION_STOP) {
        crew->final |= crew->restarts >= crew->member[0].last.max_restarts ||
                       crew_forbids_restart(policy, crew->status);
        crew_phase_set(crew, CREW_STOPS);
    } else {
        crew_phase_set(crew, CREW_IS_OVER);
    }
}

/* Of a log whose ticks are partly gone: as it was decided then. */
void crew_follow_log(struct policy *policy, const struct decision *decision)
{
    struct policy_crew *crew = policy->crew;
    bool is_order = decision->action == ACTION_START || decision->action == ACTION_STOP ||
                    decision->action == ACTION_END;

    if (!crew || !crew->count)
        return;
    if (crew_is_refusal(decision))
        crew_follow_refusal(crew, decision);
    else if (!is_order)
        crew_decided(policy, decision);
    else if (decision->state == DECISION_ORDERED)
        crew_follow_order(policy, decision);
    else
        crew->orders = 0;
}
