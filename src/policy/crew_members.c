/* crew_members.c - the launchers of a job that has one on each node: who has joined, lives, is lost, or has another's name.
 *
 * A launcher is known by the name of its node and by its life, a random number.  Another life on the same node means that the
 * launcher was started again, or that two nodes have one name.  Only time tells: the newcomer takes the place when the one
 * before has left or is lost, and is refused when the one before still sends messages.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/crew.h"

#define CREW_TICK_MAX_NS (2 * NS_PER_S) /* more between two ticks: the controller was away */
#define CREW_NOTICE_NS (NS_PER_S / 2)
#define CREW_REFUSED_STATUS 2 /* as of a command line that is at fault */

struct crew_member *crew_find(const struct policy_crew *crew, const char *node)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (strcmp(crew->member[i].last.node, node) == 0)
            return &crew->member[i];
    }
    return NULL;
}

static struct crew_member *crew_add(struct policy_crew *crew)
{
    if (crew->count == CREW_MEMBERS_MAX ||
        !ARRAY_FIT_ZERO(crew->member, crew->room, crew->count + 1))
        return NULL;
    crew->member[crew->count] = (struct crew_member){ .slot = CREW_NO_SLOT };
    return &crew->member[crew->count++];
}

void crew_replace(struct crew_member *member)
{
    member->former = member->last.life;
    member->gone |= member->slot != CREW_NO_SLOT;
    member->out = member->ended = false;
    member->last = member->rival;
    member->rival = (struct member){ 0 };
    member->reported = true;
}

/* One that says it is on a node whose launcher is another one. */
static void crew_hear_rival(const struct policy_crew *crew, struct crew_member *member,
                            const struct member *fact)
{
    if (fact->life == member->former || fact->life == member->refused)
        return;
    if (fact->life != member->rival.life)
        member->rival_ns = crew->clock_ns;
    member->rival = *fact;
    if (member->lost || member->last.state == MEMBER_LEFT)
        crew_replace(member);
}

int policy_member(struct policy *policy, const struct member *fact)
{
    struct policy_crew *crew = policy->crew;
    struct crew_member *member;

    if (!crew)
        crew = policy->crew = calloc(1, sizeof(*crew));
    if (!crew)
        return -ENOMEM;
    member = crew_find(crew, fact->node);
    if (!member && fact->state == MEMBER_GONE)
        return 0;
    if (!member)
        member = crew_add(crew);
    if (!member)
        return crew->count == CREW_MEMBERS_MAX ? -E2BIG : -ENOMEM;
    if (fact->state == MEMBER_GONE) {
        member->ended |= member->last.life == fact->life;
        return 0;
    }
    if (member->last.life && member->last.life != fact->life) {
        crew_hear_rival(crew, member, fact);
        return 0;
    }
    if (member->ended)
        return 0;
    member->last = *fact;
    member->reported = true;
    return 0;
}

/* A launcher may have been told that it was heard of while the log could not be written, or was not there: its lease began
 * again then, so it begins again here.  Who was lost before stays so until it is heard of.
 */
void crew_listen(struct policy_crew *crew, const struct policy_view *view)
{
    int64_t gap_ns = crew->tick_ns ? MAX(view->mono_ns - crew->tick_ns, 0) : 0;
    bool away = gap_ns > CREW_TICK_MAX_NS || view->deaf;

    crew->clock_ns += MIN(gap_ns, CREW_TICK_MAX_NS);
    crew->tick_ns = view->mono_ns;
    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->member[i];

        if (member->reported || !member->heard_ns || (away && !member->lost))
            member->heard_ns = crew->clock_ns + 1; /* never 0 */
        member->lost = member->last.state != MEMBER_LEFT &&
                       (member->ended || crew->clock_ns - member->heard_ns > member->last.lease_ns);
        if (member->rival.life && member->lost) {
            crew_replace(member);
            member->heard_ns = crew->clock_ns + 1;
            member->lost = false;
        }
    }
}

/* ---- two of one name ---- */

/* What a refusal is about stands in `of`. */
static void crew_life_name(uint32_t life, char ret[static DECISION_ID])
{
    snprintf(ret, DECISION_ID, "%08" PRIx32, life);
}

static void crew_refuse(struct policy *policy, struct crew_member *member)
{
    struct decision decision = { .action = ACTION_END,
                                 .target = TARGET_NODES,
                                 .attempt = policy->crew->attempt,
                                 .step = DECISION_NO_STEP,
                                 .argument = CREW_REFUSED_STATUS,
                                 .node_count = 1 };

    crew_life_name(member->rival.life, decision.of);
    memcpy(decision.node[0], member->last.node, sizeof(decision.node[0]));
    snprintf(
        decision.why, sizeof(decision.why),
        "another launcher of node %.47s is in this run already, at %.47s; this one is at %.47s: "
        "give it another name with --node",
        member->last.node, member->last.host, member->rival.host);
    policy_decide_of_attempt(policy, &decision, 0);
    member->refused = member->rival.life;
    member->rival = (struct member){ 0 };
}

/* What is heard of the first one just now cannot be what a dead one left. */
void crew_refuse_rivals(struct policy *policy)
{
    struct policy_crew *crew = policy->crew;

    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->member[i];

        if (member->rival.life && member->reported &&
            crew->clock_ns - member->rival_ns > member->last.lease_ns / 2)
            crew_refuse(policy, member);
        member->reported = false;
    }
}

bool crew_is_refusal(const struct decision *decision)
{
    return decision->action == ACTION_END && decision->target == TARGET_NODES;
}

void crew_follow_refusal(struct policy_crew *crew, const struct decision *decision)
{
    struct crew_member *member = crew_find(crew, decision->node[0]);
    char name[DECISION_ID];

    if (!member || !member->rival.life)
        return;
    crew_life_name(member->rival.life, name);
    if (strcmp(name, decision->of) != 0)
        return;
    member->refused = member->rival.life;
    member->rival = (struct member){ 0 };
}

size_t policy_lost(const struct policy *policy, struct policy_lost *ret, size_t room)
{
    const struct policy_crew *crew = policy->crew;
    size_t count = 0;

    for (size_t i = 0; crew && i < crew->count && count < room; i++) {
        const struct crew_member *member = &crew->member[i];

        if (!member->lost || member->slot == CREW_NO_SLOT)
            continue;
        memcpy(ret[count].node, member->last.node, sizeof(ret[0].node));
        ret[count].ended = member->ended;
        ret[count].last_real_ns = member->last.real_ns;
        ret[count++].life = member->last.life;
    }
    return count;
}

int64_t policy_loss_ns(const struct policy *policy)
{
    const struct policy_crew *crew = policy->crew;

    return crew && crew->count > 1 ? crew->member[0].last.lease_ns + CREW_NOTICE_NS : 0;
}

size_t policy_lives(const struct policy *policy, struct member *ret, size_t room)
{
    const struct policy_crew *crew = policy->crew;
    size_t count = 0;

    for (size_t i = 0; crew && i < crew->count && count < room; i++) {
        const struct crew_member *member = &crew->member[i];

        if (!member->lost && member->last.state != MEMBER_LEFT && member->last.life_port)
            ret[count++] = member->last;
    }
    return count;
}
