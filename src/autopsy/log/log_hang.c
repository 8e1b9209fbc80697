/* log_hang.c - collectives that did not complete, and the rank that the others waited for.
 *
 * A rank that times out was alive and waited; it is a victim.  Watchdogs report how far their rank came: whoever has not
 * enqueued the collective in which the others time out is the one they wait for.  A rank whose log has no timeout, where
 * all others have one, was somewhere else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"
#include "core/map.h"

#define NEED_ALL                                                                                   \
    "the logs of all ranks, flight-recorder dumps (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, "            \
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1), or stacks of all ranks (py-spy dump)"

struct log_progress { /* of a rank in one group */
    const struct log_item *item;
    int64_t seq, enqueued;
    const char *op; /* of that number; "" : not known */
};

struct group_progress {
    const char *group;
    struct log_progress *rank; /* one each */
    size_t ranks;
    bool several;   /* groups are named, and the lines at hand name none */
    int64_t waited; /* the newest collective in which a rank timed out */
};

static int progress_by_rank(const void *left, const void *right)
{
    const struct log_progress *a = left, *b = right;

    return (a->item->rank > b->item->rank) - (a->item->rank < b->item->rank);
}

/* Joins the lines of each rank: one has the number, another one how far it came. */
static void progress_join(struct group_progress *group)
{
    size_t kept = 0;

    qsort(group->rank, group->ranks, sizeof(*group->rank), progress_by_rank);
    for (size_t i = 0; i < group->ranks; i++) {
        const struct log_progress *one = &group->rank[i];
        struct log_progress *into = kept ? &group->rank[kept - 1] : NULL;

        if (!into || into->item->rank != one->item->rank) {
            group->rank[kept++] = *one;
            continue;
        }
        into->enqueued = MAX(into->enqueued, one->enqueued);
        if (into->seq == LOG_EVENT_NO_NUMBER ||
            (one->seq != LOG_EVENT_NO_NUMBER && one->seq < into->seq)) {
            into->seq = one->seq;
            into->op = one->op;
        } else if (!into->op[0] && one->seq == into->seq) {
            into->op = one->op;
        }
    }
    group->ranks = kept;
    group->waited = LOG_EVENT_NO_NUMBER;
    for (size_t i = 0; i < kept; i++)
        group->waited = MAX(group->waited, group->rank[i].seq);
}

static bool in_group(const struct log_item *item, const char *group)
{
    const struct log_event *event = item->event;

    return event->kind == LOG_EVENT_TIMEOUT && item->rank != LOG_EVENT_NO_RANK &&
           (event->seq != LOG_EVENT_NO_NUMBER || event->enqueued != LOG_EVENT_NO_NUMBER) &&
           (!event->group[0] || strcmp(event->group, group) == 0);
}

/* The group of the first timeout that has a number.  Lines of one timeout name the group or do not: where all that name
 * one name the same, the others belong to it as well.
 */
static const char *group_of_first(const struct log_case *of)
{
    const char *first = NULL, *only = "";

    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;

        if (event->kind != LOG_EVENT_TIMEOUT)
            continue;
        if (!first && event->seq != LOG_EVENT_NO_NUMBER)
            first = event->group;
        if (only && only[0] && event->group[0] && strcmp(only, event->group) != 0)
            only = NULL; /* there are several */
        else if (only && !only[0])
            only = event->group;
    }
    return first && !first[0] && only ? only : first;
}

/* The progress in that group; other groups mostly wait for the same. */
static int progress_read(const struct log_case *of, struct group_progress *group)
{
    group->group = group_of_first(of);
    if (!group->group)
        return 0;
    for (size_t i = 0; i < of->items && !group->group[0]; i++)
        group->several |=
            of->item[i].event->kind == LOG_EVENT_TIMEOUT && of->item[i].event->group[0];
    group->rank = calloc(of->items + 1, sizeof(*group->rank));
    if (!group->rank)
        return -ENOMEM;
    for (size_t i = 0; i < of->items; i++) {
        if (in_group(&of->item[i], group->group))
            group->rank[group->ranks++] =
                (struct log_progress){ &of->item[i], of->item[i].event->seq,
                                       of->item[i].event->enqueued, of->item[i].event->op };
    }
    progress_join(group);
    return 0;
}

static bool log_is_laggard(const struct group_progress *group, const struct log_progress *rank)
{
    return rank->enqueued != LOG_EVENT_NO_NUMBER && rank->enqueued < group->waited;
}

static int log_name_laggards(const struct group_progress *group, struct verdict *verdict)
{
    size_t laggards = 0;

    for (size_t i = 0; i < group->ranks; i++)
        laggards += log_is_laggard(group, &group->rank[i]);
    if (!laggards || 2 * laggards > group->ranks)
        return 0;
    for (size_t i = 0; i < group->ranks; i++) {
        const struct log_progress *rank = &group->rank[i];

        if (!log_is_laggard(group, rank))
            continue;
        log_name_rank(verdict, rank->item->rank);
        postmortem_name_node(verdict, rank->item->event->node);
        postmortem_because(verdict, rank->item->event);
        verdict_because(verdict, "log",
                        "rank %u last enqueued collective %lld; others wait in collective %lld",
                        rank->item->rank, (long long)rank->enqueued, (long long)group->waited);
    }
    snprintf(verdict->cause, sizeof(verdict->cause),
             "did not enter a collective that the others wait in");
    verdict->confidence = 0.85;
    return 1;
}

/* Ranks that time out in an earlier collective than the others: these have completed it. */
static int log_name_behind(const struct group_progress *group, struct verdict *verdict)
{
    size_t behind = 0, known = 0;

    if (group->several)
        return 0; /* numbers of different groups */
    for (size_t i = 0; i < group->ranks; i++) {
        known += group->rank[i].seq != LOG_EVENT_NO_NUMBER;
        behind += group->rank[i].seq != LOG_EVENT_NO_NUMBER && group->rank[i].seq < group->waited;
        if (!group->group[0] && strcmp(group->rank[i].op, group->rank[0].op) != 0)
            return 0; /* perhaps of different groups */
    }
    if (!behind || 2 * behind > known)
        return 0;
    for (size_t i = 0; i < group->ranks; i++) {
        const struct log_progress *rank = &group->rank[i];

        if (rank->seq == LOG_EVENT_NO_NUMBER || rank->seq >= group->waited)
            continue;
        log_name_rank(verdict, rank->item->rank);
        postmortem_because(verdict, rank->item->event);
        verdict_because(verdict, "log",
                        "rank %u is behind: it waits in collective %lld, others in %lld",
                        rank->item->rank, (long long)rank->seq, (long long)group->waited);
    }
    snprintf(verdict->cause, sizeof(verdict->cause),
             "is behind: did not complete a collective that the others completed");
    verdict->confidence = group->group[0] ? 0.7 : 0.55;
    return 1;
}

/* Messages between two ranks have different names on the two sides. */
static bool log_is_message(const char *op)
{
    static const char *const messages[] = { "SEND", "RECV", "COALESCED", "UNKNOWN" };

    for (size_t i = 0; i < COUNT(messages); i++) {
        if (strstr(op, messages[i]))
            return true;
    }
    return false;
}

static size_t log_count_op(const struct group_progress *group, int64_t seq, const char *op)
{
    size_t count = 0;

    for (size_t i = 0; i < group->ranks; i++)
        count += group->rank[i].seq == seq && strcmp(group->rank[i].op, op) == 0;
    return count;
}

/* The op that most ranks entered under the newest number; NULL: all entered the same, or it is not known. */
static const char *log_usual_op(const struct group_progress *group)
{
    const char *usual = NULL;
    bool differ = false;

    for (size_t i = 0; i < group->ranks; i++) {
        const struct log_progress *rank = &group->rank[i];

        if (rank->seq != group->waited || !rank->op[0])
            continue;
        if (log_is_message(rank->op))
            return NULL;
        differ |= usual && strcmp(usual, rank->op) != 0;
        if (!usual ||
            log_count_op(group, rank->seq, rank->op) > log_count_op(group, rank->seq, usual))
            usual = rank->op;
    }
    return differ ? usual : NULL;
}

/* Ranks that entered another op than most under one number: they went different ways.  0: they did not. */
static int log_name_different(const struct group_progress *group, struct verdict *verdict)
{
    const char *usual = log_usual_op(group);
    size_t most, all = 0;

    if (!usual)
        return 0;
    for (size_t i = 0; i < group->ranks; i++)
        all += group->rank[i].seq == group->waited && group->rank[i].op[0];
    most = log_count_op(group, group->waited, usual);
    verdict->kind = VERDICT_DESYNC;
    verdict->layer = LAYER_USER_CODE;
    snprintf(verdict->cause, sizeof(verdict->cause), "entered another collective than the others");
    verdict->confidence = group->group[0] ? 0.85 : 0.65;
    for (size_t i = 0; i < group->ranks; i++) {
        const struct log_progress *rank = &group->rank[i];

        if (rank->seq != group->waited || !rank->op[0] || strcmp(rank->op, usual) == 0)
            continue;
        if (2 * most > all) /* else nobody is the odd one */
            log_name_rank(verdict, rank->item->rank);
        if (verdict->because_count < 4)
            verdict_because(verdict, "log",
                            "rank %u entered %s as number %lld; %zu ranks entered %s",
                            rank->item->rank, rank->op, (long long)rank->seq, most, usual);
    }
    if (!verdict->rank_count)
        snprintf(verdict->cause, sizeof(verdict->cause), "ranks entered different collectives");
    return 1;
}

static void log_name_absent(const struct log_case *of, struct verdict *verdict)
{
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *item = &of->item[i];

        if (item->event->kind != LOG_EVENT_ABSENT)
            continue;
        log_name_rank(verdict, item->rank);
        if (verdict->because_count < 4)
            postmortem_because(verdict, item->event);
        item->used = true;
        verdict->confidence = item->event->confidence / 100.0;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", item->event->cause);
    }
}

/* Whoever waited has timed out; who only lost its peers afterwards was somewhere else. */
static void log_name_silent(const struct log_case *of, struct verdict *verdict)
{
    const struct logs *logs = of->logs;
    size_t silent = 0, shared = 0;

    for (size_t i = 0; i < logs->ranks; i++) {
        silent += logs->rank[i].ended != LOG_EVENT_TIMEOUT;
        shared += !logs->rank[i].own_file;
    }
    if (!of->dense || !of->timeouts || !silent || 2 * silent > logs->ranks)
        return;
    if (shared && 4 * silent > logs->ranks)
        return; /* a launcher that ends all at once cuts off what they would have written to a common file */
    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].ended == LOG_EVENT_TIMEOUT)
            continue;
        log_name_rank(verdict, logs->rank[i].rank);
        verdict_because(verdict, "log",
                        "rank %u was not waiting: it reports no timeout; %zu ranks do",
                        logs->rank[i].rank, logs->ranks - silent);
    }
    snprintf(verdict->cause, sizeof(verdict->cause), "did not enter a collective");
    verdict->confidence = 0.7;
}

static const struct log_item *log_first_wait(const struct log_case *of)
{
    for (size_t i = 0; i < of->items; i++) {
        if (of->item[i].event->kind == LOG_EVENT_TIMEOUT ||
            of->item[i].event->kind == LOG_EVENT_ABSENT)
            return &of->item[i];
    }
    return NULL;
}

/* What the named ranks write of their own wait is evidence, and did not follow from it. */
static void log_use_waits(struct log_case *of, const struct verdict *verdict)
{
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *item = &of->item[i];

        if (item->event->kind == LOG_EVENT_TIMEOUT && item->rank != LOG_EVENT_NO_RANK &&
            verdict_names_rank(verdict, item->rank))
            item->used = true;
    }
}

int log_find_hang(struct log_case *of)
{
    struct verdict *verdict = log_hang_of(of->findings);
    struct log_item *first = (struct log_item *)log_first_wait(of);
    struct group_progress group = { 0 };
    int result;

    if (!first)
        return 0;
    if (verdict) { /* the dumps show more */
        log_add_echoes(of, verdict, NULL);
        return 1;
    }
    result = progress_read(of, &group);
    verdict = result < 0 ? NULL : findings_add(of->findings, of->run, VERDICT_HANG, LAYER_UNKNOWN);
    if (!verdict) {
        free(group.rank);
        return -ENOMEM;
    }
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", first->event->cause);
    verdict->confidence = 0.5;
    verdict->since_real_ns = first->event->real_ns;
    log_name_absent(of, verdict);
    if (!verdict->rank_count && group.ranks > 1 && !log_name_laggards(&group, verdict) &&
        !log_name_behind(&group, verdict))
        log_name_different(&group, verdict);
    if (!verdict->rank_count && verdict->kind == VERDICT_HANG)
        log_name_silent(of, verdict);
    if (verdict->because_count < VERDICT_LINES - 1)
        postmortem_because(verdict, first->event);
    first->used = true;
    log_use_waits(of, verdict);
    if (!verdict->rank_count)
        verdict->would_decide = NEED_ALL;
    log_add_echoes(of, verdict, NULL);
    verdict_identify(verdict);
    free(group.rank);
    return 1;
}

/* ---- a peer is gone, and nothing shows why ---- */

/* "communication failed" says no more than that there was something.  The lines behind it often say what: "Last error: ..." */
#define LOST_NEAR 8

static bool log_says_little(const struct log_event *event)
{
    return strncmp(event->cause, "communication failed", 20) == 0;
}

static const struct log_item *log_first_lost(const struct log_case *of)
{
    const struct log_item *first = NULL;

    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *item = &of->item[i];

        if (item->event->kind != LOG_EVENT_LOST_PEER)
            continue;
        if (!first)
            first = item;
        if (!log_says_little(first->event))
            return first;
        if (!log_says_little(item->event) && item->event->log == first->event->log &&
            item->event->part == first->event->part &&
            item->event->line - first->event->line <= LOST_NEAR)
            return item;
    }
    return first;
}

static size_t log_name_quiet(const struct log_case *of, struct verdict *verdict)
{
    const struct logs *logs = of->logs;
    size_t quiet = 0;

    for (size_t i = 0; i < logs->ranks; i++)
        quiet += logs->rank[i].ended != LOG_EVENT_LOST_PEER;
    if (!of->dense || 2 * quiet > logs->ranks)
        return 0; /* most of them?  then their silence means something else */
    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].ended == LOG_EVENT_LOST_PEER)
            continue;
        log_name_rank(verdict, logs->rank[i].rank);
        verdict_because(verdict, "log",
                        "the log of rank %u ends without an error; the other ranks lost a peer",
                        logs->rank[i].rank);
    }
    return quiet;
}

int log_find_silent(struct log_case *of)
{
    struct log_item *lost = (struct log_item *)log_first_lost(of);
    struct verdict *verdict;

    if (!lost)
        return 0;
    verdict = log_hang_of(of->findings);
    if (verdict) {
        log_add_echoes(of, verdict, NULL);
        return 1;
    }
    verdict = findings_add(of->findings, of->run, VERDICT_CRASH, LAYER_UNKNOWN);
    if (!verdict)
        return -ENOMEM;
    if (log_name_quiet(of, verdict)) {
        snprintf(verdict->cause, sizeof(verdict->cause), "ended without an error message");
        verdict->confidence = 0.7;
    } else {
        snprintf(verdict->cause, sizeof(verdict->cause), "%s; these logs do not show why",
                 lost->event->cause);
        verdict->confidence = 0.3;
        if (lost->event->peer[0])
            snprintf(verdict->cause, sizeof(verdict->cause), "%s (%s); these logs do not show why",
                     lost->event->cause, lost->event->peer);
    }
    verdict->advice = lost->event->advice;
    verdict->would_decide = "the log of the rank that ended first, and the kernel log of its node";
    postmortem_because(verdict, lost->event);
    lost->used = true;
    log_add_echoes(of, verdict, NULL);
    verdict = log_take_over_hang(of->findings, verdict);
    verdict_identify(verdict);
    return 1;
}
