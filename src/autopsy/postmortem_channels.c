/* postmortem_channels.c - communicators with fewer channels than before, or than those of other ranks.
 *
 * NCCL logs for each communicator the number of channels it found paths for, and all members use the smallest number
 * of any member.  A program creates the same communicators in the same order on all ranks and in each attempt, so
 * the n-th communicator of a rank is compared with the n-th of other ranks and of its previous attempt.  Fewer
 * channels mean that a link or an adapter was not found.  Ranks with a different number of communicators are not
 * compared.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"

#define RANKS_LEAST 3 /* with two, nobody can say who is right */

struct setup { /* of one communicator, by one rank */
    uint32_t rank, pid, attempt, nth;
    int64_t channels;
    const struct log_event *event;
};

struct setups {
    struct setup *list;
    size_t count;
    struct map last;  /* rank → its newest */
    struct map place; /* rank, attempt, nth → where */
};

static void setups_fini(struct setups *setups)
{
    free(setups->list);
    map_fini(&setups->last);
    map_fini(&setups->place);
}

static uint64_t postmortem_key_of(uint32_t rank, uint32_t attempt, uint32_t nth)
{
    return hash64_u64(hash64_u64(rank, attempt), nth);
}

static const struct setup *setup_at(const struct setups *setups, uint32_t rank, uint32_t attempt,
                                    uint32_t nth)
{
    const uint64_t *at = map_get(&setups->place, postmortem_key_of(rank, attempt, nth));

    return at ? &setups->list[*at] : NULL;
}

/* Another process of the same rank is its next attempt. */
static int setup_add(struct setups *setups, uint32_t rank, const struct log_event *event)
{
    struct setup fresh = { rank, event->pid, 0, 0, event->value, event };
    uint64_t *last = map_put(&setups->last, rank, UINT64_MAX);

    if (!last)
        return -ENOMEM;
    if (*last != UINT64_MAX) {
        const struct setup *before = &setups->list[*last];

        fresh.attempt = before->attempt + (before->pid != event->pid);
        fresh.nth = before->pid == event->pid ? before->nth + 1 : 0;
    }
    if (!map_put(&setups->place, postmortem_key_of(rank, fresh.attempt, fresh.nth), setups->count))
        return -ENOMEM;
    *last = setups->count;
    setups->list[setups->count++] = fresh;
    return 0;
}

static int setups_gather(const struct logs *logs, struct setups *setups)
{
    size_t events = 0;
    int result = 0;

    for (size_t i = 0; i < logs->events; i++)
        events += logs->event[i].kind == LOG_EVENT_CHANNELS;
    if (!events)
        return 0;
    setups->list = calloc(events, sizeof(*setups->list));
    if (!setups->list)
        return -ENOMEM;
    for (size_t i = 0; i < logs->events && result == 0; i++) {
        const struct log_event *event = &logs->event[i];
        uint32_t rank = event->rank;

        if (event->kind != LOG_EVENT_CHANNELS)
            continue;
        if (rank == LOG_EVENT_NO_RANK)
            rank = postmortem_rank_of(logs, event);
        if (rank != LOG_EVENT_NO_RANK)
            result = setup_add(setups, rank, event);
    }
    return result;
}

/* The newest attempt of all, and how many communicators its ranks have; 0: not all as many. */
static uint32_t postmortem_newest_depth(const struct setups *setups, uint32_t *attempt)
{
    uint32_t depth = 0;
    bool even = true;

    *attempt = 0;
    for (size_t i = 0; i < setups->count; i++)
        *attempt = MAX(*attempt, setups->list[i].attempt);
    for (size_t i = 0; i < setups->count; i++) {
        const uint64_t *last = map_get(&setups->last, setups->list[i].rank);
        const struct setup *newest = &setups->list[*last];

        if (newest->attempt != *attempt)
            continue;
        even &= depth == 0 || depth == newest->nth + 1;
        depth = newest->nth + 1;
    }
    return even ? depth : 0;
}

static int by_channels(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* What more than half of the ranks have; 0: no number is that common. */
static int64_t usual_channels(const struct setups *setups, uint32_t attempt, uint32_t nth,
                              int64_t *room)
{
    size_t count = 0, same = 0;

    for (size_t i = 0; i < setups->count; i++) {
        if (setups->list[i].attempt == attempt && setups->list[i].nth == nth)
            room[count++] = setups->list[i].channels;
    }
    qsort(room, count, sizeof(*room), by_channels);
    for (size_t i = 0; i < count; i++)
        same += room[i] == room[count / 2];
    return count >= RANKS_LEAST && 2 * same > count ? room[count / 2] : 0;
}

static void channels_name_ranks(struct verdict *verdict, const struct setup *setup)
{
    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (verdict->rank[i] == setup->rank)
            return;
    }
    if (verdict->rank_count < VERDICT_RANKS)
        verdict->rank[verdict->rank_count] = setup->rank;
    verdict->rank_count++;
}

/* Ranks with fewer than most others have. */
static int postmortem_report_fewer_than_others(const struct setups *setups, const char *run,
                                               struct findings *findings)
{
    CLEAN(free_clean) int64_t *room = calloc(setups->count, sizeof(*room));
    struct verdict *verdict = NULL;
    uint32_t attempt, depth = postmortem_newest_depth(setups, &attempt);

    if (!room)
        return -ENOMEM;
    for (uint32_t nth = 0; nth < depth; nth++) {
        int64_t usual = usual_channels(setups, attempt, nth, room);

        for (size_t i = 0; usual && i < setups->count; i++) {
            const struct setup *at = &setups->list[i];

            if (at->attempt != attempt || at->nth != nth || at->channels >= usual)
                continue;
            if (!verdict)
                verdict = findings_add(findings, run, VERDICT_SYNC_STALL, LAYER_FABRIC);
            if (!verdict)
                return -ENOMEM;
            channels_name_ranks(verdict, at);
            verdict_because(
                verdict, "log",
                "rank %u: communicator %u has %lld channels, most ranks have %lld (%s line %u)",
                at->rank, nth, (long long)at->channels, (long long)usual, at->event->file,
                at->event->line);
        }
    }
    if (!verdict)
        return 0;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "fewer channels than the communicators of other ranks");
    verdict->confidence = 0.5; /* no time was measured */
    verdict_identify(verdict);
    return 1;
}

/* All of them have fewer than in the attempt before. */
static int postmortem_report_fewer_than_before(const struct setups *setups, const char *run,
                                               struct findings *findings)
{
    const struct setup *worst = NULL, *worst_before = NULL;
    size_t fewer = 0, compared = 0;
    struct verdict *verdict;

    for (size_t i = 0; i < setups->count; i++) {
        const struct setup *at = &setups->list[i];
        const struct setup *before =
            at->attempt ? setup_at(setups, at->rank, at->attempt - 1, at->nth) : NULL;

        if (!before)
            continue;
        compared++;
        if (at->channels >= before->channels)
            continue;
        fewer++;
        if (!worst || at->channels < worst->channels) {
            worst = at;
            worst_before = before;
        }
    }
    if (!worst || 2 * fewer < compared)
        return 0;
    verdict = findings_add(findings, run, VERDICT_SYNC_STALL, LAYER_FABRIC);
    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "communicators have fewer channels than before the restart");
    verdict_because(verdict, "log",
                    "%zu of %zu communicators have fewer channels than in the previous attempt: "
                    "rank %u has %lld, had %lld (%s line %u)",
                    fewer, compared, worst->rank, (long long)worst->channels,
                    (long long)worst_before->channels, worst->event->file, worst->event->line);
    verdict->confidence = 0.5;
    verdict_identify(verdict);
    return 0;
}

int postmortem_channels(const struct logs *logs, const char *run, struct findings *findings)
{
    CLEAN(setups_fini) struct setups setups = { 0 };
    int result = setups_gather(logs, &setups);

    if (result < 0 || !setups.count)
        return result;
    result = postmortem_report_fewer_than_others(&setups, run, findings);
    return result == 0 ? postmortem_report_fewer_than_before(&setups, run, findings)
                       : MIN(result, 0);
}
