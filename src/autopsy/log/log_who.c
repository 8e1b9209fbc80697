/* log_who.c - which rank a line is about, and how lines become evidence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"

static uint32_t log_rank_by(const struct logs *logs, const struct log_event *event, bool by_exits)
{
    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *who = &logs->event[i];
        bool node = !event->node[0] || !who->node[0] || strcmp(event->node, who->node) == 0;

        if (who == event || who->rank == LOG_EVENT_NO_RANK || !node ||
            (who->kind != LOG_EVENT_EXIT && who->kind != LOG_EVENT_ROOT &&
             who->kind < LOG_EVENT_IDENTITY) ||
            (who->kind == LOG_EVENT_EXIT) != by_exits)
            continue;
        if (event->pid && who->pid == event->pid)
            return who->rank;
        if (event->device[0] && event->node[0] && who->node[0] &&
            strcmp(who->device, event->device) == 0)
            return who->rank;
    }
    return LOG_EVENT_NO_RANK;
}

/* What launchers report of each exit may count ranks by node, so the rest comes first. */
uint32_t postmortem_rank_of(const struct logs *logs, const struct log_event *event)
{
    uint32_t rank = log_rank_by(logs, event, false);

    return rank == LOG_EVENT_NO_RANK ? log_rank_by(logs, event, true) : rank;
}

void log_name_rank(struct verdict *verdict, uint32_t rank)
{
    uint32_t at = 0, count = MIN(verdict->rank_count, VERDICT_RANKS);

    if (rank == LOG_EVENT_NO_RANK)
        return;
    while (at < count && verdict->rank[at] < rank)
        at++;
    if (at < count && verdict->rank[at] == rank)
        return;
    if (count < VERDICT_RANKS) {
        memmove(verdict->rank + at + 1, verdict->rank + at,
                (count - at) * sizeof(verdict->rank[0]));
        verdict->rank[at] = rank;
    }
    verdict->rank_count++;
}

void postmortem_name_node(struct verdict *verdict, const char *node)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++) {
        if (strcmp(verdict->node[i], node) == 0)
            return;
    }
    if (!*node)
        return;
    if (verdict->node_count < VERDICT_NODES)
        snprintf(verdict->node[verdict->node_count], sizeof(verdict->node[0]), "%s", node);
    verdict->node_count++;
}

/* Is this line evidence of where its rank runs?  Lines about another rank, and numbers that count on one node, are not. */
static bool log_places_rank(const struct log_event *event, bool launcher)
{
    bool reported = event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT ||
                    event->kind == LOG_EVENT_IDENTITY;

    if (!event->node[0] || event->local || event->rank == LOG_EVENT_NO_RANK)
        return false;
    return launcher ? reported : event->kind < LOG_EVENT_ABSENT && event->kind != LOG_EVENT_DESYNC;
}

/* The node of a rank; "": not known, or lines disagree, because it was restarted elsewhere. */
static const char *log_node_of(const struct logs *logs, uint32_t rank)
{
    const char *node = "";

    for (int launcher = 1; launcher >= 0 && !*node; launcher--) {
        for (size_t i = 0; i < logs->events; i++) {
            const struct log_event *event = &logs->event[i];

            if (event->rank != rank || !log_places_rank(event, launcher))
                continue;
            if (*node && strcmp(node, event->node) != 0)
                return "";
            node = event->node;
        }
    }
    return node;
}

/* The only node that these logs name; "": there are none, or several. */
static const char *log_only_node(const struct logs *logs)
{
    const char *node = "";

    for (size_t i = 0; i < logs->events; i++) {
        const char *other = logs->event[i].node;

        if (logs->event[i].kind == LOG_EVENT_NODES && logs->event[i].value > 1)
            return "";
        if (*node && *other && strcmp(node, other) != 0)
            return "";
        node = *other ? other : node;
    }
    return node;
}

void log_name_places(const struct logs *logs, struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];

        if (verdict->node_count)
            continue;
        for (uint32_t k = 0; k < MIN(verdict->rank_count, VERDICT_RANKS); k++)
            postmortem_name_node(verdict, log_node_of(logs, verdict->rank[k]));
        if (!verdict->node_count && verdict->device[0])
            postmortem_name_node(verdict, log_only_node(logs));
        if (verdict->node_count)
            verdict_identify(verdict);
    }
}

static void log_line_place(struct verdict_line *line, const struct log_event *event)
{
    snprintf(line->source, sizeof(line->source), "%s",
             event->kind >= LOG_EVENT_XID && event->kind < LOG_EVENT_IDENTITY && !event->library
                 ? "kernel log"
                 : "log");
    snprintf(line->file, sizeof(line->file), "%s", event->file);
    line->line = event->line;
}

void postmortem_because(struct verdict *verdict, const struct log_event *event)
{
    struct verdict_line *line = &verdict->because[verdict->because_count];

    if (verdict->because_count == VERDICT_LINES)
        return;
    snprintf(line->what, sizeof(line->what), "%s", event->text);
    log_line_place(line, event);
    verdict->because_count++;
}

void postmortem_echo(struct verdict *verdict, const struct log_event *event, const char *format,
                     ...)
{
    struct verdict_line *line = &verdict->echo[verdict->echo_count];
    va_list args;

    if (verdict->echo_count == VERDICT_LINES)
        return;
    va_start(args, format);
    vsnprintf(line->what, sizeof(line->what), format, args);
    va_end(args);
    log_line_place(line, event);
    verdict->echo_count++;
}
