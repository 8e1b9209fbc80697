/* log_cause.c - the first cause in the logs of a dead job.
 *
 * Every rank of a job that dies writes an error, and most of these are about another rank.  So only lines that can be a cause
 * count here, the strongest first and among equals the earliest.  Programs also write errors that they survive: of errors
 * that are far apart in one log, the last ones ended it.  Where files cannot be compared, each first error is a verdict.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"

#define APART_NS (1800 * NS_PER_S) /* errors of one end are nearer to each other */
#define APART_LINES 4000
#define SURELY_ITS_OWN 80            /* percent: an error of a network adapter itself */
#define TOGETHER_NS (120 * NS_PER_S) /* the same error on other ranks is the same fault */

static bool log_is_far(const struct log_item *a, const struct log_item *b)
{
    if (a->when_ns && b->when_ns)
        return b->when_ns - a->when_ns > APART_NS;
    return a->event->log == b->event->log && a->event->part == b->event->part &&
           b->event->line > a->event->line + APART_LINES;
}

/* A hang that certainly came before: then whoever ended the job found it hanging. */
static bool log_hung_before(const struct log_case *of, const struct log_item *item)
{
    if (item->event->kind != LOG_EVENT_OUTSIDE)
        return false;
    for (size_t i = 0; i < of->items; i++) {
        if (of->item[i].event->kind == LOG_EVENT_TIMEOUT && log_before(&of->item[i], item))
            return true;
    }
    return false;
}

/* Kernel messages alone are faults of nodes; beside dumps they explain what the dumps show (log_nodes.c). */
static bool log_is_for_nodes(const struct log_case *of, const struct log_item *item)
{
    return item->event->kind >= LOG_EVENT_XID &&
           (!of->job || (item->rank == LOG_EVENT_NO_RANK && of->findings->count));
}

#define HEADS_MAX 4096

struct log_heads { /* of each log, the first event of its last group of errors */
    struct log_item *item[HEADS_MAX];
    size_t count;
};

/* Items are in the order of time, and so are those of one log. */
static int heads_find(struct log_case *of, unsigned strength, struct log_heads *heads)
{
    CLEAN(map_fini)
    struct map of_log = { 0 }; /* → index of its head, and of its last item, plus 1 */
    CLEAN(map_fini) struct map last_of_log = { 0 };

    heads->count = 0;
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *item = &of->item[i];
        uint64_t *head, *last;

        if (item->strength != strength || item->used || log_hung_before(of, item) ||
            log_is_for_nodes(of, item))
            continue;
        head = map_put(&of_log, item->event->log, UINT64_MAX);
        last = map_put(&last_of_log, item->event->log, UINT64_MAX);
        if (!head || !last)
            return -ENOMEM;
        if (*head == UINT64_MAX && heads->count < HEADS_MAX) {
            *head = heads->count;
            heads->item[heads->count++] = item;
        } else if (*head != UINT64_MAX && log_is_far(&of->item[*last], item)) {
            heads->item[*head] = item; /* the program survived what came before */
        }
        *last = i;
    }
    return 0;
}

/* Would the first error of another log explain this one, because it certainly came before? */
static bool log_comes_after_another(const struct log_heads *heads, const struct log_item *item)
{
    for (size_t i = 0; i < heads->count; i++) {
        const struct log_item *other = heads->item[i];

        if (other == item || !log_before(other, item) || log_alike(other, item) ||
            log_is_far(other, item))
            continue;
        if (item->strength < LOG_STRONG || other->event->log == item->event->log ||
            item->when_ns - other->when_ns <= LOG_OTHER_NS)
            return true;
    }
    return false;
}

static unsigned log_verdict_kind_of(const struct log_case *of, const struct log_event *event)
{
    switch (event->kind) {
    case LOG_EVENT_DESYNC:
        return VERDICT_DESYNC;
    case LOG_EVENT_WRONG:
        return VERDICT_CORRUPTION;
    case LOG_EVENT_XID:
    case LOG_EVENT_OOM_KILL:
    case LOG_EVENT_SEGFAULT:
        return of->job ? VERDICT_CRASH : VERDICT_NODE_FAULT;
    default:
        return VERDICT_CRASH;
    }
}

/* Of the same place, as far as both are known. */
static bool log_is_one_node(const struct log_event *a, const struct log_event *b)
{
    return !a->node[0] || !b->node[0] || strcmp(a->node, b->node) == 0;
}

/* What the scheduler reports of a process that lacked memory, the kernel reports, too. */
static bool log_is_memory_kill(const struct log_item *item, const struct log_item *other)
{
    const struct log_item *kernel = item->event->kind == LOG_EVENT_OOM_KILL ? item : other;
    const struct log_item *scheduler = kernel == item ? other : item;
    int64_t apart_ns =
        MAX(kernel->when_ns, scheduler->when_ns) - MIN(kernel->when_ns, scheduler->when_ns);

    return kernel->event->kind == LOG_EVENT_OOM_KILL && scheduler->event->kind == LOG_EVENT_ERROR &&
           scheduler->event->layer == LAYER_HOST_MEMORY &&
           strncmp(scheduler->event->cause, "killed", 6) == 0 &&
           log_is_one_node(kernel->event, scheduler->event) &&
           (!kernel->when_ns || !scheduler->when_ns || apart_ns <= TOGETHER_NS);
}

/* The error of the only rank whose GPU failed, and the Xid shortly before it. */
static bool log_is_error_of_xid(const struct log_case *of, const struct log_item *item,
                                const struct log_item *xid)
{
    if (item->event->kind != LOG_EVENT_ERROR || xid->event->kind != LOG_EVENT_XID ||
        item->rank == LOG_EVENT_NO_RANK || xid->rank != LOG_EVENT_NO_RANK ||
        item->event->layer != xid->event->layer || !verdict_layer_is_device(xid->event->layer) ||
        !item->when_ns || !xid->when_ns || !log_is_one_node(item->event, xid->event) ||
        xid->when_ns > item->when_ns + TOGETHER_NS || xid->when_ns + LOG_FOLLOWS_NS < item->when_ns)
        return false;
    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *other = &of->item[i];

        if (other->event->kind == LOG_EVENT_ERROR && other->rank != item->rank &&
            verdict_layer_is_device(other->event->layer))
            return false;
    }
    return true;
}

/* The same error on another rank, about at the same time: one fault. */
static bool log_is_same_fault(const struct log_case *of, const struct log_item *item,
                              const struct log_item *other)
{
    if (log_is_memory_kill(item, other) || log_is_error_of_xid(of, item, other) ||
        log_is_error_of_xid(of, other, item))
        return true;
    if (!log_alike(item, other))
        return item->event->rank != LOG_EVENT_NO_RANK && item->rank == other->rank &&
               other->strength && item->event->layer == other->event->layer;
    if (item->when_ns && other->when_ns)
        return other->when_ns - item->when_ns <= TOGETHER_NS;
    return true;
}

/* A transfer has two sides: the one that reports its failure may be the healthy one.  An adapter that failed itself says so. */
static bool log_is_of_two_sides(const struct log_event *event)
{
    return event->kind == LOG_EVENT_FABRIC &&
           (event->layer != LAYER_NIC || event->confidence < SURELY_ITS_OWN);
}

static void log_report_part(struct verdict *verdict, struct log_item *item)
{
    const struct log_event *event = item->event;

    item->used = true;
    if (!log_is_of_two_sides(event))
        log_name_rank(verdict, item->rank);
    postmortem_name_node(verdict, event->node);
    if (verdict->because_count < 4)
        postmortem_because(verdict, event);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", event->device);
}

static const char *log_missing_of(const struct log_event *event, const struct verdict *verdict)
{
    if (event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT)
        return event->value < 0
                   ? "the kernel log of the node (dmesg -T) and the end of the log of this rank"
                   : "the log of this rank itself: its exit status alone does not show the cause";
    if (event->kind == LOG_EVENT_SIGNAL && event->layer == LAYER_UNKNOWN)
        return "the kernel log of the node (dmesg -T), and the accounting of the job's memory "
               "(sacct, cgroup)";
    if (event->kind == LOG_EVENT_ERROR && event->confidence < 30)
        return "a log that shows more: this message alone does not say why the job failed";
    if (event->kind == LOG_EVENT_FABRIC)
        return "logs of the nodes on the other side: a node that died looks the same from here";
    if (event->layer == LAYER_GPU)
        return "the kernel log of the node (dmesg -T | grep -i xid): with an Xid it is the "
               "hardware, without one the program";
    if (!verdict->rank_count && event->kind != LOG_EVENT_OUTSIDE)
        return NULL;
    return NULL;
}

/* A GPU's error that names no process: the only rank whose own calls to its GPU failed about then is the one on it. */
static uint32_t log_rank_of_device(const struct log_case *of, const struct log_item *item)
{
    uint32_t rank = LOG_EVENT_NO_RANK;

    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *other = &of->item[i];

        if (other->event->kind != LOG_EVENT_ERROR || other->rank == LOG_EVENT_NO_RANK ||
            other->event->local || other->event->layer != LAYER_GPU || !other->strength ||
            !other->when_ns || other->when_ns + TOGETHER_NS < item->when_ns ||
            other->when_ns > item->when_ns + TOGETHER_NS)
            continue;
        if (rank != LOG_EVENT_NO_RANK && rank != other->rank)
            return LOG_EVENT_NO_RANK;
        rank = other->rank;
    }
    return rank;
}

/* A signal that names no process: the only rank that a launcher reports as ended by it, in the same log. */
static uint32_t log_rank_of_signal(const struct log_case *of, const struct log_item *item)
{
    uint32_t rank = LOG_EVENT_NO_RANK;

    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *other = of->item[i].event;
        bool same = item->event->value ? other->value == item->event->value
                                       : strncmp(other->cause, item->event->cause,
                                                 strlen(item->event->cause)) == 0;

        if ((other->kind != LOG_EVENT_EXIT && other->kind != LOG_EVENT_ROOT) ||
            other->log != item->event->log || other->rank == LOG_EVENT_NO_RANK ||
            !log_before(item, &of->item[i]) || other->value >= 0)
            continue;
        if (!same || (rank != LOG_EVENT_NO_RANK && rank != other->rank))
            return LOG_EVENT_NO_RANK;
        rank = other->rank;
    }
    return rank;
}

/* An error that names no process: the only rank that a launcher reports as ended by itself, with the status of an exception,
 * in the same log.
 */
static uint32_t log_rank_of_error(const struct log_case *of, const struct log_item *item)
{
    uint32_t rank = LOG_EVENT_NO_RANK;

    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *other = of->item[i].event;

        if ((other->kind != LOG_EVENT_EXIT && other->kind != LOG_EVENT_ROOT) ||
            other->log != item->event->log || other->value == -SIGTERM)
            continue;
        if (other->rank == LOG_EVENT_NO_RANK || other->value != 1 ||
            !log_before(item, &of->item[i]) || (rank != LOG_EVENT_NO_RANK && rank != other->rank))
            return LOG_EVENT_NO_RANK;
        rank = other->rank;
    }
    return rank;
}

/* A process that lacked memory, by the scheduler: the only rank that was killed, in the same log. */
static uint32_t log_rank_of_kill(const struct log_case *of, const struct log_item *item)
{
    uint32_t rank = LOG_EVENT_NO_RANK;

    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *other = of->item[i].event;

        if ((other->kind != LOG_EVENT_EXIT && other->kind != LOG_EVENT_ROOT) ||
            other->log != item->event->log || other->value != -SIGKILL)
            continue;
        if (other->rank == LOG_EVENT_NO_RANK || (rank != LOG_EVENT_NO_RANK && rank != other->rank))
            return LOG_EVENT_NO_RANK;
        rank = other->rank;
    }
    return rank;
}

/* A verdict about this item and those that mean the same. */
static int log_report(struct log_case *of, struct log_item *item)
{
    const struct log_event *event = item->event;
    struct verdict *verdict =
        findings_add(of->findings, of->run, log_verdict_kind_of(of, event), event->layer);

    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", event->cause);
    verdict->confidence = event->confidence ? event->confidence / 100.0 : 0.7;
    if (item->undated)
        verdict->confidence = MIN(verdict->confidence, LOG_UNDATED);
    verdict->advice = event->advice;
    verdict->since_real_ns = event->real_ns;
    log_report_part(verdict, item);
    if (event->kind == LOG_EVENT_XID && verdict_layer_is_device(event->layer) &&
        !verdict->rank_count)
        log_name_rank(verdict, log_rank_of_device(of, item));
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *other = &of->item[i];

        if (!other->used && other->strength && log_is_same_fault(of, item, other)) {
            log_report_part(verdict, other);
            if (other->event->kind == LOG_EVENT_OOM_KILL && other->event->advice)
                verdict->advice = other->event->advice; /* it knows which limit */
        }
    }
    if (event->kind == LOG_EVENT_SIGNAL && !verdict->rank_count)
        log_name_rank(verdict, log_rank_of_signal(of, item));
    if (event->kind == LOG_EVENT_ERROR && event->layer == LAYER_HOST_MEMORY &&
        strncmp(event->cause, "killed", 6) == 0 && !verdict->rank_count)
        log_name_rank(verdict, log_rank_of_kill(of, item));
    if (event->kind == LOG_EVENT_ERROR && verdict->kind == VERDICT_CRASH && !verdict->rank_count)
        log_name_rank(verdict, log_rank_of_error(of, item));
    verdict->would_decide =
        item->undated ? "the kernel log with dates (dmesg -T, journalctl -k): this line has none "
                        "and may be older than the job"
                      : log_missing_of(event, verdict);
    log_add_echoes(of, verdict, item);
    if (verdict->kind == VERDICT_CRASH)
        verdict = log_take_over_hang(of->findings, verdict);
    verdict_identify(verdict);
    return 1;
}

/* A job of another time in the same folder, of whose log no line is used yet. */
static bool log_is_of_another_job(const struct log_case *of, const struct log_item *item)
{
    for (size_t i = 0; i < of->items; i++) {
        const struct log_item *other = &of->item[i];
        int64_t apart_ns = MAX(other->when_ns, item->when_ns) - MIN(other->when_ns, item->when_ns);

        if (other->used && (other->event->log == item->event->log || !other->when_ns ||
                            apart_ns <= LOG_FOLLOWS_NS))
            return false;
    }
    return item->when_ns != 0;
}

static int log_report_all(struct log_case *of, unsigned strength, bool others)
{
    CLEAN(free_clean) struct log_heads *heads = malloc(sizeof(*heads));
    int result = heads ? heads_find(of, strength, heads) : -ENOMEM;

    for (size_t i = 0; result >= 0 && i < heads->count; i++) {
        struct log_item *item = heads->item[i];

        if (item->used || log_comes_after_another(heads, item) ||
            (others && !log_is_of_another_job(of, item)))
            continue;
        if (of->findings->count == POSTMORTEM_MAX)
            break;
        result = log_report(of, item);
    }
    return result;
}

int log_find_cause(struct log_case *of)
{
    bool waits = false, weak = false;
    int result = log_report_all(of, LOG_STRONG, false), more;

    more = result < 0 ? 0 : log_report_all(of, LOG_MEDIUM, result > 0);
    result = more ? more : result;
    for (size_t i = 0; i < of->items; i++) {
        waits |= of->item[i].event->kind == LOG_EVENT_TIMEOUT ||
                 of->item[i].event->kind == LOG_EVENT_ABSENT;
        weak |= of->item[i].strength == LOG_WEAK;
    }
    return result == 0 && weak && !waits ? log_report_all(of, LOG_WEAK, false) : result;
}

int log_find_last(struct log_case *of)
{
    return log_report_all(of, LOG_LAST, false);
}
