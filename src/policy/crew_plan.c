/* crew_plan.c - which launcher starts which ranks.
 *
 * A node keeps its ranks from one attempt to the next, and a spare takes the ranks of the node that it replaces: files and
 * caches of a rank stay where they are.  In the first attempt ranks follow the names of the nodes, n2 before n10.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "policy/crew.h"

static bool crew_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits as a number. */
static int crew_number_compare(const char **a, const char **b)
{
    size_t size_a, size_b;
    int differ;

    *a += strspn(*a, "0");
    *b += strspn(*b, "0");
    size_a = strspn(*a, "0123456789");
    size_b = strspn(*b, "0123456789");
    differ = size_a != size_b ? (size_a < size_b ? -1 : 1) : strncmp(*a, *b, size_a);
    *a += size_a;
    *b += size_b;
    return differ;
}

static int crew_name_compare(const char *a, const char *b)
{
    const char *left = a, *right = b;
    int differ = 0;

    while (*left && *right && !differ) {
        if (crew_digit(*left) && crew_digit(*right)) {
            differ = crew_number_compare(&left, &right);
        } else {
            differ = (unsigned char)*left - (unsigned char)*right;
            left++;
            right++;
        }
    }
    if (!differ)
        differ = (unsigned char)*left - (unsigned char)*right;
    return differ ? differ : strcmp(a, b);
}

bool crew_is_fit(const struct policy_crew *crew, const struct crew_member *member)
{
    const struct member *first = &crew->member[0].last, *last = &member->last;

    return !member->lost && !member->out && !member_has_ranks(last->state) &&
           last->state != MEMBER_LEFT && last->ranks == first->ranks &&
           last->nodes_max == first->nodes_max && last->nodes_min == first->nodes_min;
}

uint32_t crew_fit_count(const struct policy_crew *crew)
{
    uint32_t count = 0;

    for (size_t i = 0; i < crew->count; i++)
        count += crew_is_fit(crew, &crew->member[i]);
    return count;
}

struct crew_member *crew_slot(const struct policy_crew *crew, uint32_t slot)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (crew->member[i].slot == slot)
            return &crew->member[i];
    }
    return NULL;
}

/* Of those without a slot, the fit one whose name comes first. */
static struct crew_member *crew_next_new(const struct policy_crew *crew)
{
    struct crew_member *best = NULL;

    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *one = &crew->member[i];

        if (one->slot == CREW_NO_SLOT && crew_is_fit(crew, one) &&
            (!best || crew_name_compare(one->last.node, best->last.node) < 0))
            best = one;
    }
    return best;
}

/* Those that stay move together where there is no longer room for all. */
static void crew_close_ranks(struct policy_crew *crew, uint32_t nodes)
{
    uint32_t next = 0;

    for (uint32_t slot = 0; slot < crew->nodes; slot++) {
        struct crew_member *member = crew_slot(crew, slot);

        if (member)
            member->slot = next < nodes ? next++ : CREW_NO_SLOT;
    }
}

void crew_assign(struct policy_crew *crew, uint32_t nodes)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->member[i];

        member->gone = false;
        if (!crew_is_fit(crew, member))
            member->slot = CREW_NO_SLOT;
        member->kept = member->slot != CREW_NO_SLOT;
    }
    if (nodes != crew->nodes)
        crew_close_ranks(crew, nodes);
    crew->nodes = nodes;
    for (uint32_t slot = 0; slot < nodes; slot++) {
        struct crew_member *member = crew_slot(crew, slot);

        if (!member)
            member = crew_next_new(crew);
        if (member)
            member->slot = slot;
    }
}

/* Places of launchers that could start ranks and have none, and of those that cannot. */
static void crew_places(const struct policy_crew *crew, struct decision_start *start)
{
    for (size_t i = 0; i < crew->count; i++) {
        const struct crew_member *member = &crew->member[i];

        if (member->slot != CREW_NO_SLOT || member->last.state == MEMBER_LEFT)
            continue;
        if (crew_is_fit(crew, member))
            start->spare += member->last.ranks;
        else
            start->down += member->last.ranks;
    }
}

/* The newest checkpoint that all see.  Launchers that waited have not looked since: those of the last attempt have, and a
 * checkpoint is for all.
 */
static uint64_t crew_resume(const struct policy_crew *crew)
{
    uint64_t step = UINT64_MAX;
    bool any_kept = false;

    for (size_t i = 0; i < crew->count; i++)
        any_kept |= crew->member[i].kept && crew->member[i].slot != CREW_NO_SLOT;
    for (size_t i = 0; i < crew->count; i++) {
        const struct crew_member *member = &crew->member[i];

        if (member->slot == CREW_NO_SLOT || (any_kept && !member->kept))
            continue;
        if (member->last.resume == UINT64_MAX)
            return UINT64_MAX;
        step = MIN(step, member->last.resume);
    }
    return step;
}

uint32_t crew_start_fill(const struct policy_crew *crew, uint32_t slot, int64_t clock_ns,
                         struct decision *ret)
{
    const struct crew_member *first = crew_slot(crew, 0);
    uint32_t ranks = first ? first->last.ranks : 0;

    if (!first)
        return 0;
    *ret = (struct decision){ .action = ACTION_START,
                              .target = TARGET_NODES,
                              .attempt = crew->attempt,
                              .step = DECISION_NO_STEP };
    ret->start.world = crew->nodes * ranks;
    ret->start.port = first->last.port;
    ret->start.clock_ns = clock_ns;
    ret->start.resume = crew_resume(crew);
    memcpy(ret->start.host, first->last.host, sizeof(ret->start.host));
    crew_places(crew, &ret->start);
    for (; slot < crew->nodes && ret->node_count < DECISION_NODES; slot++) {
        const struct crew_member *member = crew_slot(crew, slot);
        uint32_t at = ret->node_count++;

        if (!member)
            return 0;
        memcpy(ret->node[at], member->last.node, sizeof(ret->node[at]));
        ret->start.first[at] = slot * ranks;
        ret->start.life[at] = member->last.life;
    }
    return ret->node_count;
}
