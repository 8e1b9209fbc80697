/* log_case.c - puts events in order, and weighs them.
 *
 * Dates order events of different files; within a file, lines do.  An event without a date takes that of the line before it
 * in the same log.  Files without any date cannot be compared with others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "autopsy/log/log_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

#define OUTSIDE_LINES 10
#define OUTSIDE_NS (60 * NS_PER_S)
#define YEAR_NS INT64_C(31556952000000000)

uint8_t log_ended(const struct logs *logs, uint32_t rank)
{
    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].rank == rank)
            return logs->rank[i].ended;
    }
    return 0;
}

static bool log_is_echo(const struct logs *logs, uint32_t rank)
{
    uint8_t ended = rank == LOG_EVENT_NO_RANK ? 0 : log_ended(logs, rank);

    return ended == LOG_EVENT_LOST_PEER || ended == LOG_EVENT_TIMEOUT;
}

/* One that is aborted or asked to end is mostly so because another had ended. */
static unsigned log_strength_of_exit(const struct logs *logs, const struct log_event *event)
{
    int64_t value = event->value;

    if (value == 0 || log_is_echo(logs, event->rank))
        return LOG_NO_CAUSE;
    if (value == -6 || value == -15 || value == 143 || value == 134)
        return LOG_LAST;
    if (event->kind == LOG_EVENT_ROOT || value < 0)
        return LOG_MEDIUM;
    return LOG_WEAK;
}

static unsigned log_strength_of(const struct logs *logs, const struct log_event *event)
{
    switch (event->kind) {
    case LOG_EVENT_ERROR:
    case LOG_EVENT_SIGNAL:
    case LOG_EVENT_DESYNC:
    case LOG_EVENT_WRONG:
        return event->confidence >= 60   ? LOG_STRONG
               : event->confidence >= 45 ? LOG_MEDIUM
               : event->confidence >= 30 ? LOG_WEAK
                                         : LOG_LAST;
    case LOG_EVENT_OUTSIDE:
        return event->confidence >= 80 ? LOG_STRONG : LOG_WEAK;
    case LOG_EVENT_FABRIC:
        return event->confidence >= 80 ? LOG_STRONG : LOG_MEDIUM;
    case LOG_EVENT_EXIT:
    case LOG_EVENT_ROOT:
        return log_strength_of_exit(logs, event);
    case LOG_EVENT_XID:
        return verdict_layer_is_device(event->layer) ? LOG_STRONG : LOG_MEDIUM;
    case LOG_EVENT_OOM_KILL:
        return LOG_STRONG;
    case LOG_EVENT_SEGFAULT:
        return LOG_MEDIUM;
    default:
        return LOG_NO_CAUSE;
    }
}

/* A warning may be the reason where something else shows that the job failed. */
static void log_doubt_warnings(struct log_case *of)
{
    bool failed = false;

    for (size_t i = 0; i < of->items; i++)
        failed |= !of->item[i].event->warned && !of->item[i].event->guess &&
                  of->item[i].event->kind <= LOG_EVENT_FOLLOW;
    for (size_t i = 0; i < of->items; i++) {
        if (of->item[i].event->warned)
            of->item[i].strength = failed ? MIN(of->item[i].strength, LOG_WEAK) : LOG_NO_CAUSE;
    }
}

/* Kernel logs go back for months.  Is this line of the time of the job, as far as both are known?  Many have no year and no
 * zone: the time of the year counts, and roughly.
 */
static bool log_is_of_its_time(const struct log_case *of, const struct log_event *event)
{
    const struct findings *findings = of->findings;
    int64_t off_ns, apart_ns = (int64_t)(of->limits.kernel_unwatched * 1e9);

    if (event->kind < LOG_EVENT_XID || !findings->from_real_ns || !event->real_ns)
        return true;
    off_ns = MAX(
        MAX(findings->from_real_ns - event->real_ns, event->real_ns - findings->until_real_ns), 0);
    off_ns %= YEAR_NS;
    return MIN(off_ns, YEAR_NS - off_ns) <= apart_ns;
}

bool log_before(const struct log_item *a, const struct log_item *b)
{
    if (a->event->log == b->event->log) {
        if (a->event->part != b->event->part)
            return a->event->part > b->event->part;
        return a->event->line < b->event->line;
    }
    return a->when_ns && b->when_ns && a->when_ns < b->when_ns;
}

/* Exceptions of one type are alike, whatever numbers their texts have. */
bool log_alike(const struct log_item *a, const struct log_item *b)
{
    const char *one = a->event->cause, *other = b->event->cause;
    size_t bytes = strcspn(one, ":(");

    if (a->event->kind != b->event->kind || a->event->layer != b->event->layer)
        return false;
    return strcmp(one, other) == 0 ||
           (a->event->exception && b->event->exception && strncmp(one, other, bytes) == 0 &&
            bytes == strcspn(other, ":("));
}

/* Where a launcher names the first failure, the others are not. */
static void log_prefer_root(struct log_case *of)
{
    bool root = false;

    for (size_t i = 0; i < of->items; i++)
        root |= of->item[i].event->kind == LOG_EVENT_ROOT && of->item[i].strength;
    for (size_t i = 0; i < of->items && root; i++) {
        if (of->item[i].event->kind == LOG_EVENT_EXIT)
            of->item[i].strength = LOG_NO_CAUSE;
    }
}

/* Several programs write into one log: what the shell says of the end may stand shortly before what the scheduler says. */
static bool log_is_with(const struct log_item *outside, const struct log_item *item)
{
    const struct log_event *a = item->event, *b = outside->event;

    if (a->log != b->log || a->part != b->part || b->confidence < 80)
        return false;
    return a->line < b->line && b->line - a->line <= OUTSIDE_LINES &&
           (!a->real_ns || !b->real_ns || b->real_ns - a->real_ns <= OUTSIDE_NS);
}

/* Slurm tells of a process that lacked memory when the step ends, behind its word that it cancelled the job, or the shell's that
 * a process was killed.
 */
static bool log_is_for_memory(const struct log_case *of, const struct log_item *item)
{
    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;

        if (event->kind == LOG_EVENT_ERROR && event->layer == LAYER_HOST_MEMORY &&
            event->confidence >= 90 && event->log == item->event->log &&
            event->part == item->event->part && event->line > item->event->line &&
            event->line <= item->event->line + OUTSIDE_LINES)
            return true;
    }
    return false;
}

/* A process that a shell calls killed, where the scheduler tells shortly behind it that one lacked memory, lacked memory. */
static void log_prefer_memory(struct log_case *of)
{
    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;

        if (event->kind == LOG_EVENT_SIGNAL && event->layer == LAYER_UNKNOWN &&
            strncmp(event->cause, "killed", 6) == 0 && event->rank == LOG_EVENT_NO_RANK &&
            log_is_for_memory(of, &of->item[i]))
            of->item[i].strength = LOG_NO_CAUSE;
    }
}

/* What is killed after the job was cancelled was killed by that. */
static void log_prefer_outside(struct log_case *of)
{
    const struct log_item *outside = NULL;

    for (size_t i = 0; i < of->items && !outside; i++)
        outside = of->item[i].event->kind == LOG_EVENT_OUTSIDE ? &of->item[i] : NULL;
    if (outside && strstr(outside->event->cause, "cancelled") && log_is_for_memory(of, outside)) {
        for (size_t i = 0; i < of->items; i++) {
            if (of->item[i].event->kind == LOG_EVENT_OUTSIDE)
                of->item[i].strength = LOG_NO_CAUSE;
        }
        return;
    }
    for (size_t i = 0; i < of->items && outside; i++) {
        struct log_item *item = &of->item[i];
        const struct log_event *event = item->event;
        bool killed = (event->kind == LOG_EVENT_SIGNAL && event->layer == LAYER_UNKNOWN) ||
                      ((event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT) &&
                       (event->value < 0 || event->value > 128));
        bool ended = killed || event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT;

        if ((ended && log_before(outside, item)) || (killed && log_is_with(outside, item)))
            item->strength = LOG_NO_CAUSE;
    }
}

static int by_log(const void *left, const void *right)
{
    const struct log_item *a = left, *b = right;

    if (a->event->log != b->event->log)
        return a->event->log < b->event->log ? -1 : 1;
    if (a->event->part != b->event->part)
        return a->event->part > b->event->part ? -1 : 1;
    return (a->event->line > b->event->line) - (a->event->line < b->event->line);
}

static int log_by_time(const void *left, const void *right)
{
    const struct log_item *a = left, *b = right;

    if (a->when_ns != b->when_ns)
        return a->when_ns < b->when_ns ? -1 : 1;
    return by_log(left, right);
}

static void log_carry_dates(struct log_case *of)
{
    for (size_t i = 0; i < of->items; i++) {
        struct log_item *item = &of->item[i];

        item->when_ns = item->event->real_ns;
        if (!item->when_ns && i && item[-1].event->log == item->event->log)
            item->when_ns = item[-1].when_ns;
    }
    for (size_t i = of->items; i-- > 1;) {
        if (!of->item[i - 1].when_ns && of->item[i - 1].event->log == of->item[i].event->log)
            of->item[i - 1].when_ns = of->item[i].when_ns;
    }
}

/* A kernel's message without a date may be older than the job.  In a log of its own it cannot be compared at all. */
static void log_doubt_undated(struct log_case *of)
{
    for (size_t i = 0; i < of->items && of->job; i++) {
        struct log_item *item = &of->item[i];

        if (item->event->kind < LOG_EVENT_XID || item->event->library || item->when_ns)
            continue;
        item->undated = true;
        item->strength = MIN(item->strength, LOG_MEDIUM);
    }
}

static void log_count_ends(struct log_case *of)
{
    const struct logs *logs = of->logs;

    for (size_t i = 0; i < logs->ranks; i++) {
        of->lost += logs->rank[i].ended == LOG_EVENT_LOST_PEER;
        of->timeouts += logs->rank[i].ended == LOG_EVENT_TIMEOUT;
    }
    of->dense = logs->ranks > 1 && logs->rank[logs->ranks - 1].rank + 1 == logs->ranks;
}

static int log_case_init(struct log_case *of, const struct logs *logs, const char *run,
                         struct findings *findings)
{
    *of = (struct log_case){ .logs = logs, .run = run, .findings = findings };
    postmortem_limits(findings, &of->limits);
    of->item = calloc(logs->events + 1, sizeof(*of->item));
    if (!of->item)
        return -ENOMEM;
    for (size_t i = 0; i < logs->events; i++) {
        if (logs->event[i].kind < LOG_EVENT_XID)
            postmortem_saw(findings, logs->event[i].real_ns);
        of->job |= logs->event[i].kind < LOG_EVENT_XID;
    }
    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *event = &logs->event[i];

        if (event->kind >= LOG_EVENT_IDENTITY || event->mention || !log_is_of_its_time(of, event))
            continue;
        of->item[of->items++] = (struct log_item){
            .event = event,
            .rank = event->kind >= LOG_EVENT_XID ? postmortem_rank_of(logs, event) : event->rank,
            .strength = (uint8_t)log_strength_of(logs, event),
        };
    }
    if (log_drop_survived(of) < 0)
        return -ENOMEM;
    log_doubt_warnings(of);
    log_prefer_root(of);
    qsort(of->item, of->items, sizeof(*of->item), by_log);
    log_carry_dates(of);
    log_doubt_undated(of);
    qsort(of->item, of->items, sizeof(*of->item), log_by_time);
    log_prefer_outside(of);
    log_prefer_memory(of);
    log_count_ends(of);
    return 0;
}

static void log_case_fini(struct log_case *of)
{
    free(of->item);
    *of = (struct log_case){ 0 };
}

static bool log_is_duplicate(const struct verdict *a, const struct verdict *b)
{
    if (a->kind != b->kind || a->layer != b->layer || strcmp(a->cause, b->cause) != 0 ||
        strcmp(a->device, b->device) != 0 || a->rank_count != b->rank_count ||
        a->node_count != b->node_count)
        return false;
    for (uint32_t i = 0; i < MIN(a->rank_count, VERDICT_RANKS); i++) {
        if (a->rank[i] != b->rank[i])
            return false;
    }
    for (uint32_t i = 0; i < MIN(a->node_count, VERDICT_NODES); i++) {
        if (strcmp(a->node[i], b->node[i]) != 0)
            return false;
    }
    return true;
}

/* Attempts of one job, and jobs of one program, die of the same: that is one verdict, with the lines of all of them. */
static void log_merge_duplicates(struct findings *findings, size_t from)
{
    for (size_t i = from; i < findings->count; i++) {
        struct verdict *first = &findings->verdict[i];

        for (size_t k = i + 1; k < findings->count;) {
            const struct verdict *other = &findings->verdict[k];

            if (!log_is_duplicate(first, other)) {
                k++;
                continue;
            }
            for (uint32_t line = 0; line < other->because_count; line++) {
                if (first->because_count < VERDICT_LINES)
                    first->because[first->because_count++] = other->because[line];
            }
            memmove(&findings->verdict[k], other + 1,
                    (findings->count - k - 1) * sizeof(*findings->verdict));
            findings->count--;
        }
    }
}

int postmortem_logs(const struct logs *logs, const char *run, struct findings *findings)
{
    CLEAN(log_case_fini) struct log_case of = { 0 };
    size_t before = findings->count;
    int result;

    if (!logs->ranks && !logs->events)
        return 0;
    result = log_case_init(&of, logs, run, findings);
    if (result < 0)
        return result;
    log_clear_waiting(logs, findings);
    result = log_find_cause(&of);
    if (result == 0)
        result = log_find_hang(&of);
    if (result == 0)
        result = log_find_silent(&of);
    if (result == 0 && !findings->count)
        result = log_find_last(&of);
    if (of.lost || of.timeouts)
        findings->well = false;
    if (result >= 0)
        result = log_add_nodes(&of);
    log_name_places(logs, findings);
    log_merge_duplicates(findings, before);
    /* A job that died of something else has better things to report. */
    return result < 0 || findings->count > before || findings->count
               ? result
               : postmortem_channels(logs, run, findings);
}
