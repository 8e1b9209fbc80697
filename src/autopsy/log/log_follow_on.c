/* log_follow_on.c - what followed from a cause, and what dumps show of the same fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"
#include "core/time.h"

#define KINDS_MAX 64 /* of follow-on errors that are listed one by one */

/* One line for all that mean the same: how many, and where the first stands. */
struct follow {
    const struct log_item *first;
    size_t count, ranks;
    uint32_t last_rank;
};

/* Does this event stand in a file of the same directory?  Names that were cut are not compared. */
static bool follow_is_beside(const struct log_event *a, const struct log_event *b)
{
    const char *end = strrchr(a->file, '/'), *other = strrchr(b->file, '/');
    size_t bytes = end ? (size_t)(end - a->file) : 0;

    return bytes == (other ? (size_t)(other - b->file) : 0) &&
           strncmp(a->file, b->file, bytes) == 0;
}

/* Jobs with a folder each: what stands beside another cause follows from that one, unless it is the same. */
static bool follow_is_of_folder(const struct log_case *of, const struct log_item *item,
                                const struct log_item *cause)
{
    if (follow_is_beside(item->event, cause->event))
        return false;
    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *other = &of->item[i];

        if (other->strength == LOG_STRONG && other != cause && !log_alike(other, cause) &&
            follow_is_beside(other->event, item->event) && !log_before(cause, other))
            return true;
    }
    return false;
}

/* Logs of several jobs lie in one folder.  Whoever waits for a collective may wait for an hour, and ends then; what comes
 * later is of another job, and so is what has a cause of its own in its log.
 */
static bool follow_is_of_another(const struct log_case *of, const struct log_item *item,
                                 const struct log_item *cause)
{
    if (!item->when_ns || !cause->when_ns || item->when_ns <= cause->when_ns)
        return false;
    if (item->when_ns - cause->when_ns > LOG_FOLLOWS_NS)
        return true;
    if (item->event->log == cause->event->log)
        return false;
    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *other = &of->item[i];

        if (!other->used && other->strength == LOG_STRONG &&
            other->event->log == item->event->log && (other == item || log_before(other, item)) &&
            other->when_ns - cause->when_ns > LOG_OTHER_NS && !log_alike(other, cause))
            return true;
    }
    return false;
}

static bool is_follow_on(const struct log_case *of, const struct log_item *item,
                         const struct log_item *cause)
{
    const struct log_event *event = item->event;

    if (item->used || event->kind >= LOG_EVENT_XID || (cause && log_before(item, cause)))
        return false;
    if (cause && (follow_is_of_another(of, item, cause) || follow_is_of_folder(of, item, cause)))
        return false;
    if (cause && item->strength == LOG_STRONG && !log_before(cause, item))
        return false; /* another cause, in files that cannot be compared */
    if (event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT)
        return event->value != 0;
    return true;
}

static size_t follow_add(struct follow *list, size_t count, const struct log_item *item)
{
    size_t at = 0;

    while (at < count && !log_alike(list[at].first, item))
        at++;
    if (at == KINDS_MAX)
        return count;
    if (at == count)
        list[at] = (struct follow){ .first = item, .last_rank = LOG_EVENT_NO_RANK };
    list[at].count++;
    if (item->rank != LOG_EVENT_NO_RANK && item->rank != list[at].last_rank) {
        list[at].last_rank = item->rank;
        list[at].ranks++;
    }
    return MAX(count, at + 1);
}

/* What is killed because the job was ended did not lack memory. */
static void follow_text(const struct log_event *event, const struct log_item *cause, char *out,
                        size_t room)
{
    static const char guess[] = ", mostly for lack of memory";
    const char *at = strstr(event->cause, guess);

    if (at && cause && cause->event->kind == LOG_EVENT_OUTSIDE)
        snprintf(out, room, "%.*s%s", (int)(at - event->cause), event->cause, at + strlen(guess));
    else
        snprintf(out, room, "%s", event->cause);
}

void log_add_echoes(const struct log_case *of, struct verdict *verdict,
                    const struct log_item *cause)
{
    struct follow list[KINDS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < of->items; i++) {
        if (is_follow_on(of, &of->item[i], cause))
            count = follow_add(list, count, &of->item[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct log_event *event = list[i].first->event;
        char text[sizeof(event->cause)];

        follow_text(event, cause, text, sizeof(text));
        if (list[i].ranks > 1)
            postmortem_echo(verdict, event, "%s (%zu ranks)", text, list[i].ranks);
        else if (list[i].count > 1)
            postmortem_echo(verdict, event, "%s (%zu lines)", text, list[i].count);
        else
            postmortem_echo(verdict, event, "%s", text);
    }
}

/* ---- verdicts of dumps ---- */

static bool log_share_a_rank(const struct verdict *a, const struct verdict *b)
{
    for (uint32_t i = 0; i < MIN(a->rank_count, VERDICT_RANKS); i++) {
        if (verdict_names_rank(b, a->rank[i]))
            return true;
    }
    return false;
}

/* Whoever else the hang names stays named.  Returns the crash, which may have moved. */
struct verdict *log_take_over_hang(struct findings *findings, struct verdict *crash)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *hang = &findings->verdict[i];
        uint32_t kept = 0;

        if (hang == crash || hang->kind != VERDICT_HANG || !log_share_a_rank(hang, crash))
            continue;
        for (uint32_t k = 0; k < hang->because_count; k++)
            verdict_because(crash, hang->because[k].source, "%s", hang->because[k].what);
        for (uint32_t k = 0; k < MIN(hang->rank_count, VERDICT_RANKS); k++) {
            if (!verdict_names_rank(crash, hang->rank[k]))
                hang->rank[kept++] = hang->rank[k];
        }
        if (kept) {
            hang->rank_count = kept;
            verdict_identify(hang);
            return crash;
        }
        memmove(hang, hang + 1,
                (size_t)(findings->verdict + findings->count - (hang + 1)) * sizeof(*hang));
        findings->count--; /* the crash was the last one, and has moved down, too */
        return crash - 1;
    }
    return crash;
}

/* Of those that are named for their missing dump alone, whoever waited until a collective timed out is a victim. */
void log_clear_waiting(const struct logs *logs, struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];
        uint32_t kept = 0, count = MIN(verdict->rank_count, VERDICT_RANKS);

        if (verdict->kind != VERDICT_HANG || verdict->confidence > POSTMORTEM_UNSEEN || !count)
            continue;
        for (uint32_t k = 0; k < count; k++) {
            if (log_ended(logs, verdict->rank[k]) != LOG_EVENT_TIMEOUT)
                verdict->rank[kept++] = verdict->rank[k];
        }
        if (kept == count)
            continue;
        verdict->rank_count = kept;
        verdict_identify(verdict);
        if (!kept)
            memmove(verdict, verdict + 1, (--findings->count - i) * sizeof(*verdict));
        return; /* there is one such verdict at most */
    }
}

struct verdict *log_hang_of(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->verdict[i].kind == VERDICT_HANG ||
            findings->verdict[i].kind == VERDICT_DESYNC)
            return &findings->verdict[i];
    }
    return NULL;
}
