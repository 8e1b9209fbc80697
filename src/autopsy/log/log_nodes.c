/* log_nodes.c - what kernels and networks report about nodes joins the verdicts, or becomes one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"
#include "core/time.h"

#define NEED_DATES                                                                                 \
    "the kernel log with dates (dmesg -T, journalctl -k): its line has none and may be older "     \
    "than the job"
#define RECOVERY_NS (600 * NS_PER_S) /* the driver says so late, at most, what it asks for */

/* Evidence of the node for a verdict that names the rank it is about, or the only one there is. */
static struct verdict *log_verdict_for(struct findings *findings, uint32_t rank)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];

        for (uint32_t k = 0; k < MIN(verdict->rank_count, VERDICT_RANKS); k++) {
            if (verdict->rank[k] == rank)
                return verdict;
        }
    }
    if (rank == LOG_EVENT_NO_RANK && findings->count == 1 && findings->verdict[0].rank_count == 1 &&
        findings->verdict[0].layer == LAYER_UNKNOWN)
        return &findings->verdict[0];
    return NULL;
}

static bool log_is_of_network(const struct verdict *verdict, const struct log_event *event)
{
    return event->kind == LOG_EVENT_NODE && event->layer == LAYER_NIC &&
           (verdict->kind == VERDICT_CRASH || verdict->kind == VERDICT_HANG);
}

/* An adapter or port that failed is why transfers fail. */
static bool log_explains_network(const struct verdict *verdict, const struct log_event *event)
{
    return log_is_of_network(verdict, event) && verdict->layer == LAYER_FABRIC;
}

/* The library reports the adapter of a node, and the kernel reports it, too. */
static bool log_confirms_network(const struct verdict *verdict, const struct log_event *event)
{
    return log_is_of_network(verdict, event) && verdict->layer == LAYER_NIC &&
           (!event->node[0] || !verdict->node_count ||
            (verdict->node_count == 1 && strcmp(verdict->node[0], event->node) == 0));
}

static void log_add_evidence(struct verdict *verdict, const struct log_item *item)
{
    const struct log_event *event = item->event;
    bool sure = item->rank != LOG_EVENT_NO_RANK && !item->undated;

    postmortem_because(verdict, event);
    postmortem_name_node(verdict, event->node);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", event->device);
    if (verdict->layer == LAYER_UNKNOWN || (sure && event->kind == LOG_EVENT_XID) ||
        log_explains_network(verdict, event)) {
        verdict->layer = event->layer;
        verdict->advice = event->advice; /* that of the line before was about another cause */
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", event->cause);
    }
    if (sure)
        verdict->confidence = MAX(verdict->confidence, 0.95);
    if (item->undated)
        verdict->would_decide = NEED_DATES;
}

static bool log_line_names(const char *what, uint32_t rank)
{
    char words[24];
    int size = snprintf(words, sizeof(words), "rank %u", rank);
    const char *at = strstr(what, words);

    return at && (at[size] < '0' || at[size] > '9');
}

/* What is known of one alone says nothing of the others that are named with it: it gets a verdict of its own. */
static struct verdict *log_set_apart(struct verdict *among, uint32_t rank, const char *run,
                                     struct findings *findings)
{
    struct verdict *alone;
    uint32_t kept = 0;

    if (among->rank_count < 2 || among->rank_count > VERDICT_RANKS ||
        among->layer != LAYER_UNKNOWN || findings->count == POSTMORTEM_MAX)
        return among;
    alone = findings_add(findings, run, among->kind, LAYER_UNKNOWN);
    if (!alone)
        return among;
    snprintf(alone->cause, sizeof(alone->cause), "%s", among->cause);
    alone->confidence = among->confidence;
    alone->since_real_ns = among->since_real_ns;
    log_name_rank(alone, rank);
    for (uint32_t i = 0; i < among->because_count; i++) {
        if (log_line_names(among->because[i].what, rank))
            verdict_because(alone, among->because[i].source, "%s", among->because[i].what);
        else
            among->because[kept++] = among->because[i];
    }
    among->because_count = kept ? kept : among->because_count;
    kept = 0;
    for (uint32_t i = 0; i < among->rank_count; i++) {
        if (among->rank[i] != rank)
            among->rank[kept++] = among->rank[i];
    }
    among->rank_count = kept;
    verdict_identify(among);
    verdict_identify(alone);
    return alone;
}

static int log_report_node(const struct log_case *of, const struct log_item *item)
{
    const struct log_event *event = item->event;
    struct verdict *verdict = findings_add(of->findings, of->run, VERDICT_NODE_FAULT, event->layer);

    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", event->cause);
    snprintf(verdict->device, sizeof(verdict->device), "%s", event->device);
    if (event->kind == LOG_EVENT_NODE && event->layer == LAYER_HOST_MEMORY)
        verdict->advice = "Drain the node, and replace the memory module that the line names.";
    else if (event->kind == LOG_EVENT_OOM_KILL)
        verdict->advice = event->advice;
    if (item->rank != LOG_EVENT_NO_RANK)
        log_name_rank(verdict, item->rank);
    postmortem_name_node(verdict, event->node);
    postmortem_because(verdict, event);
    verdict->confidence = event->kind == LOG_EVENT_XID || event->kind == LOG_EVENT_OOM_KILL ? 0.8
                          : event->library                                                  ? 0.45
                                                                                            : 0.5;
    if (!item->when_ns && !event->library) {
        verdict->confidence = MIN(verdict->confidence, LOG_UNDATED);
        verdict->would_decide = NEED_DATES;
    }
    verdict_identify(verdict);
    return 0;
}

static bool log_is_reported(const struct findings *findings, const struct log_event *event)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct verdict *verdict = &findings->verdict[i];

        if (verdict->kind == VERDICT_NODE_FAULT && strcmp(verdict->cause, event->cause) == 0 &&
            strcmp(verdict->device, event->device) == 0 &&
            (!verdict->node_count || strcmp(verdict->node[0], event->node) == 0))
            return true;
    }
    return false;
}

/* Does this verdict rest on what the kernel reports anyway, or on something that it can explain? */
static bool log_is_open_to(const struct verdict *verdict, const struct log_event *event)
{
    bool hardware = event->layer != LAYER_USER_CODE && event->layer != LAYER_UNKNOWN;

    if (log_explains_network(verdict, event) || log_confirms_network(verdict, event))
        return true;
    return event->kind == LOG_EVENT_XID && hardware && verdict->kind == VERDICT_CRASH &&
           (verdict->layer == LAYER_GPU || verdict->layer == LAYER_UNKNOWN);
}

static int log_add_node(struct log_case *of, const struct log_item *item)
{
    const struct log_event *event = item->event;
    struct verdict *verdict = log_verdict_for(of->findings, item->rank);

    if (verdict && verdict->kind == VERDICT_CRASH && event->kind == LOG_EVENT_OOM_KILL &&
        item->rank != LOG_EVENT_NO_RANK)
        return 0; /* it is what the verdict rests on */
    if (!verdict && of->findings->count == 1 && log_is_open_to(&of->findings->verdict[0], event))
        verdict = &of->findings->verdict[0];
    if (verdict && item->rank != LOG_EVENT_NO_RANK)
        verdict = log_set_apart(verdict, item->rank, of->run, of->findings);
    if (verdict) {
        log_add_evidence(verdict, item);
        return 0;
    }
    return log_is_reported(of->findings, event) ? 0 : log_report_node(of, item);
}

static bool log_is_recovery_of(const struct verdict *verdict, const struct log_item *item)
{
    const struct log_event *event = item->event;

    if (!event->device[0] || strcmp(verdict->device, event->device) != 0 ||
        (verdict->node_count && event->node[0] && strcmp(verdict->node[0], event->node) != 0))
        return false;
    return !verdict->since_real_ns || !item->when_ns ||
           (item->when_ns >= verdict->since_real_ns &&
            item->when_ns - verdict->since_real_ns <= RECOVERY_NS);
}

/* What the driver asks for decides, whatever else there is to read. */
static void log_add_recoveries(struct log_case *of)
{
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *item = &of->item[i];

        for (size_t k = 0; k < of->findings->count && !item->used; k++) {
            struct verdict *verdict = &of->findings->verdict[k];

            if (item->event->kind != LOG_EVENT_RECOVERY || !log_is_recovery_of(verdict, item))
                continue;
            postmortem_because(verdict, item->event);
            postmortem_name_node(verdict, item->event->node);
            verdict->advice = item->event->advice;
            item->used = true;
        }
    }
}

int log_add_nodes(struct log_case *of)
{
    int result = 0;

    for (size_t i = 0; i < of->items && result == 0 && of->findings->count < POSTMORTEM_MAX; i++) {
        const struct log_item *item = &of->item[i];
        uint8_t kind = item->event->kind;

        if (!item->used &&
            (kind == LOG_EVENT_XID || kind == LOG_EVENT_NODE || kind == LOG_EVENT_OOM_KILL))
            result = log_add_node(of, item);
    }
    log_add_recoveries(of);
    return result;
}
