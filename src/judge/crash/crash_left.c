/* crash_left.c - ranks that left in order, or with an exit status that nobody knows because another launcher is their parent.
 *
 * A rank whose status is known to be 0 is no fault by itself; where others lose a peer then, it is the one that they miss.
 * Their rings show when they ended and whether they were closed in order, which an interpreter also does after an exception.
 * A rank that noted an uncaught exception and blames no other rank has failed.  Ranks that lost a peer or ended without a
 * note are judged when the attempt is over: launchers end workers when members come and go, and people end launchers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/crash/crash.h"
#include "judge/crash/crash_private.h"
#include "judge/stuck/hang.h"

bool crash_is_unknown(const struct fact_exit *fact)
{
    return fact->status == -1 || (fact->status == 0 && strcmp(fact->text, EXIT_CLOSED) == 0);
}

bool crash_is_left(const struct fact_exit *fact)
{
    return fact->status == -1 || strcmp(fact->text, CRASH_NOTED) == 0;
}

/* Ctrl-C is no fault of the rank that hears it. */
static bool crash_ends_a_rank(const struct fact_note *fact)
{
    static const char interrupt[] = CRASH_UNCAUGHT "KeyboardInterrupt";

    return strncmp(fact->text, CRASH_UNCAUGHT, strlen(CRASH_UNCAUGHT)) == 0 &&
           strncmp(fact->text, interrupt, strlen(interrupt)) != 0;
}

static const struct fact_note *crash_note_of(const struct judge_state *judge, uint32_t rank)
{
    if (judge->raised.text[0] && judge->raised.rank == rank && crash_ends_a_rank(&judge->raised))
        return &judge->raised;
    for (uint32_t i = 0; i < judge->uncaught_count; i++) {
        if (judge->uncaught[i].rank == rank)
            return &judge->uncaught[i];
    }
    return NULL;
}

/* The first is why it ends; of more ranks than there is room for, `raised` has the one that matters most. */
void crash_left_note(struct judge_state *judge, const struct fact_note *fact)
{
    if (crash_ends_a_rank(fact) && judge->uncaught_count < COUNT(judge->uncaught) &&
        !crash_note_of(judge, fact->rank))
        judge->uncaught[judge->uncaught_count++] = *fact;
}

void crash_fill_noted(const struct judge_state *judge, const struct fact_note *note,
                      struct fact_exit *ret)
{
    *ret = (struct fact_exit){ .rank = note->rank,
                               .attempt = note->attempt,
                               .mono_ns = judge_state_run_ns(judge, note->rank, note->mono_ns),
                               .status = 1 << 8 /* what an interpreter ends with */ };
    snprintf(ret->text, sizeof(ret->text), CRASH_NOTED);
    snprintf(ret->words, sizeof(ret->words), "%s",
             strstr(note->text, CRASH_UNCAUGHT) + strlen(CRASH_UNCAUGHT));
}

void crash_left_as(const struct judge_state *judge, const struct fact_exit *fact,
                   struct fact_exit *ret)
{
    const struct fact_note *note = crash_note_of(judge, fact->rank);

    if (note) {
        crash_fill_noted(judge, note, ret);
        return;
    }
    *ret = *fact;
    ret->mono_ns = judge_state_run_ns(judge, fact->rank, fact->mono_ns);
}

bool crash_noted_end(struct judge_state *judge, uint32_t rank)
{
    const struct fact_note *note = crash_note_of(judge, rank);
    struct fact_exit noted;

    for (uint32_t i = 0; i < judge->exits; i++) {
        if (judge->exit[i].rank == rank)
            return false;
    }
    if (!note)
        return false;
    crash_fill_noted(judge, note, &noted);
    crash_add(judge, &noted);
    return true;
}

void crash_left_exit(struct judge_state *judge, const struct fact_exit *left)
{
    bool raised = left->status > 0 && !crash_blames_others(left);

    if (raised || (judge->failed && left->status != 0))
        crash_add(judge, left);
    else if (judge->left_count < COUNT(judge->left)) /* the first are the ones that count */
        judge->left[judge->left_count++] = *left;
}

void crash_failed(struct judge_state *judge)
{
    uint32_t kept = 0;

    judge->failed = true;
    for (uint32_t i = 0; i < judge->left_count; i++) {
        const struct fact_exit *left = &judge->left[i];

        if (left->status == 0)
            judge->left[kept++] = *left;
        else if (!hang_is_alive(judge, left->rank)) /* else another process is that rank now */
            crash_add(judge, left);
    }
    judge->left_count = kept;
}

bool crash_left_first(const struct judge_state *judge, const struct fact_exit *first,
                      struct fact_exit *ret)
{
    const struct fact_exit *found = NULL;

    for (uint32_t i = 0; i < judge->left_count; i++) {
        const struct fact_exit *left = &judge->left[i];
        double before = (double)(first->mono_ns - left->mono_ns) / 1e9;

        /* An interpreter takes its time to end: who lost it may be seen to fail before.  Others may miss a rank late. */
        if (left->status == 0 && left->rank != first->rank &&
            (before <= judge->limits.crash_near || !crash_is_unknown(left)) &&
            before >= (first->status == -1 ? 0 : -judge->limits.crash_near) &&
            (!found || left->mono_ns < found->mono_ns))
            found = left;
    }
    if (!found)
        return false;
    *ret = *found;
    return true;
}

void crash_left_clear(struct judge_state *judge)
{
    judge->raised.text[0] = judge->raised_thread.text[0] = '\0';
    judge->uncaught_count = judge->left_count = 0;
}

void crash_workers_restarted(struct judge_state *judge)
{
    uint32_t kept = 0;

    crash_left_clear(judge);
    crash_points_restart(judge);
    for (uint32_t i = 0; i < judge->exits; i++) {
        if (!crash_is_left(&judge->exit[i]))
            judge->exit[kept++] = judge->exit[i];
    }
    judge->crash_reported &= kept > 0;
    judge->exits = kept;
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        struct verdict *verdict = &tracked->verdict;

        if (verdict->kind != VERDICT_CRASH || !tracked->open || kept ||
            tracked->attempt != judge->model.attempt)
            continue;
        snprintf(verdict->plan, sizeof(verdict->plan), CRASH_RESTARTED);
        snprintf(verdict->plan_state, sizeof(verdict->plan_state), "acting");
        tracked->restarted = tracked->changed = true;
    }
}
