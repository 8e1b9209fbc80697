/* postmortem_kernel.c - causes from kernel logs, for the processes and nodes of an observed run.
 *
 * A verdict names the culprit; the kernel log of its node may contain the cause.  A line joins a verdict on the same
 * node, at the same time and of a matching kind: a failed disk explains a rank that waits for data, not one that was
 * killed.  A line that names a process joins only verdicts about the rank of that process.  The earliest sufficient
 * cause wins; later ones are follow-on errors.  A line alone is no verdict while the job trains well, unless it
 * names one of its processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

#define SURE 0.95
#define UNSURE 0.8 /* at most, where the node alone says it */

struct witness {
    const struct log_event *event;
    const struct logprocess *process; /* that it names; NULL: none */
    const char *node;
    int64_t real_ns;
};

struct kernel_inquiry {
    struct thresholds limits;
    const struct logprocess *process;
    size_t processes;
    struct witness *witness; /* in the order of time */
    size_t witnesses;
};

static int64_t kernel_seconds_ns(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static bool kernel_same_host(const char *a, const char *b) /* n7 and n7.example.org */
{
    size_t left = strcspn(a, "."), right = strcspn(b, ".");

    return left == right && left > 0 && strncasecmp(a, b, left) == 0;
}

/* "kern-n2.log" has n2 in it, "kern-n21.log" has not. */
static bool kernel_has_word(const char *text, const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t size = strlen(word);

    for (const char *at = text; size && (at = strstr(at, word)); at++) {
        if ((at == text || !strchr(letters, at[-1])) &&
            (at[size] == '\0' || !strchr(letters, at[size])))
            return true;
    }
    return false;
}

/* Whose log it is: by the host in the line, by the file's name, or since there is but one node.  NULL: not known, or
 * none of this run.
 */
static const struct logprocess *kernel_node_of(const struct kernel_inquiry *inquiry,
                                               const struct log_event *event)
{
    const struct logprocess *first = inquiry->process;
    bool one = inquiry->processes > 0;

    for (size_t i = 0; i < inquiry->processes; i++) {
        const struct logprocess *process = &inquiry->process[i];

        if (event->node[0] ? kernel_same_host(event->node, process->node)
                           : kernel_has_word(event->file, process->node))
            return process;
        one &= strcmp(process->node, first->node) == 0;
    }
    return one && !event->node[0] ? first : NULL;
}

/* The newest process with this number that had begun by then. */
static const struct logprocess *kernel_process_of(const struct kernel_inquiry *inquiry,
                                                  const char *node, uint32_t pid, int64_t real_ns)
{
    const struct logprocess *found = NULL;

    for (size_t i = 0; i < inquiry->processes; i++) {
        const struct logprocess *process = &inquiry->process[i];

        if (process->pid == pid && strcmp(process->node, node) == 0 &&
            process->began_real_ns <= real_ns + kernel_seconds_ns(inquiry->limits.kernel_round) &&
            (!found || process->began_real_ns > found->began_real_ns))
            found = process;
    }
    return found;
}

static int kernel_by_time(const void *left, const void *right)
{
    const struct witness *a = left, *b = right;

    if (a->real_ns != b->real_ns)
        return a->real_ns < b->real_ns ? -1 : 1;
    if (a->event->file[0] && strcmp(a->event->file, b->event->file) != 0)
        return strcmp(a->event->file, b->event->file);
    return (a->event->line > b->event->line) - (a->event->line < b->event->line);
}

static int inquiry_read_logs(struct kernel_inquiry *inquiry, const struct logs *logs)
{
    inquiry->witness = calloc(logs->events, sizeof(*inquiry->witness));
    if (!inquiry->witness)
        return -ENOMEM;
    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *event = &logs->event[i];
        const struct logprocess *on = kernel_node_of(inquiry, event), *process = NULL;
        int64_t real_ns = event->real_ns;

        if (!on || event->kind == LOG_EVENT_RECOVERY)
            continue;
        if (!real_ns && event->boot_ns && on->boot_real_ns)
            real_ns = event->boot_ns + on->boot_real_ns;
        if (!real_ns)
            continue;
        if (event->pid && !(process = kernel_process_of(inquiry, on->node, event->pid, real_ns)))
            continue; /* somebody else's, or of one that had the same number before */
        inquiry->witness[inquiry->witnesses++] =
            (struct witness){ event, process, on->node, real_ns };
    }
    if (inquiry->witnesses)
        qsort(inquiry->witness, inquiry->witnesses, sizeof(*inquiry->witness), kernel_by_time);
    return 0;
}

static bool kernel_reads_or_writes(const struct verdict *verdict)
{
    return verdict->layer == LAYER_STORAGE || verdict->layer == LAYER_DATA ||
           verdict->layer == LAYER_CHECKPOINT;
}

/* Could what broke on the node be why? */
static bool kernel_node_suffices(const struct verdict *verdict, unsigned layer)
{
    bool network = layer == LAYER_NIC || layer == LAYER_FABRIC;

    switch (verdict->kind) {
    case VERDICT_CRASH: /* one that only complains of others is told with little confidence */
        return verdict->layer == LAYER_UNKNOWN &&
               (network ? verdict->confidence <= 0.5
                        : verdict_layer_is_device(layer) || layer == LAYER_CPU ||
                              layer == LAYER_HOST_MEMORY);
    case VERDICT_HANG:
        if (layer == LAYER_STORAGE)
            return kernel_reads_or_writes(verdict);
        if (network)
            return verdict->layer == LAYER_FABRIC || verdict->layer == LAYER_NIC;
        return verdict_layer_is_device(layer) && verdict->layer == LAYER_GPU;
    case VERDICT_SYNC_STALL:
        return network || layer == LAYER_NVLINK;
    case VERDICT_INPUT_STALL:
    case VERDICT_CHECKPOINT_STALL:
        return layer == LAYER_STORAGE;
    case VERDICT_STRAGGLER:
        return layer == LAYER_STORAGE
                   ? kernel_reads_or_writes(verdict)
                   : verdict_layer_is_device(layer) && verdict->layer == LAYER_GPU;
    default:
        return false;
    }
}

static bool kernel_process_suffices(const struct verdict *verdict, const struct log_event *event)
{
    switch (verdict->kind) {
    case VERDICT_CRASH:
        return event->kind != LOG_EVENT_NODE || event->layer != LAYER_STORAGE;
    case VERDICT_HANG:
        return event->kind == LOG_EVENT_XID ||
               (event->kind == LOG_EVENT_NODE && event->layer == LAYER_STORAGE &&
                (kernel_reads_or_writes(verdict) || verdict->layer == LAYER_UNKNOWN));
    case VERDICT_STRAGGLER: /* scarce cpus or slow code are no device's */
        return event->kind == LOG_EVENT_XID && verdict_layer_is_device(event->layer) &&
               (verdict->layer == LAYER_GPU || verdict->layer == LAYER_UNKNOWN);
    case VERDICT_CORRUPTION:
        return event->kind == LOG_EVENT_XID && verdict_layer_is_device(event->layer);
    default:
        return false;
    }
}

static bool kernel_names_node(const struct verdict *verdict, const char *node)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++) {
        if (strcmp(verdict->node[i], node) == 0)
            return true;
    }
    return !verdict->node_count && !verdict->rank_count; /* nobody: it may be any */
}

static bool kernel_in_time(const struct thresholds *limits, const struct verdict *verdict,
                           const struct witness *witness)
{
    int64_t since_ns = verdict->since_real_ns;
    int64_t until_ns = since_ns + kernel_seconds_ns(limits->kernel_after_crash);
    double before = witness->process ? limits->kernel_late : limits->kernel_before;

    if (verdict->kind != VERDICT_CRASH)
        until_ns = verdict->until_real_ns
                       ? verdict->until_real_ns
                       : verdict->decided_real_ns + kernel_seconds_ns(limits->kernel_late);
    return since_ns &&
           witness->real_ns + kernel_seconds_ns(limits->kernel_round) >=
               since_ns - kernel_seconds_ns(before) &&
           witness->real_ns <= until_ns;
}

static bool kernel_suffices(const struct kernel_inquiry *inquiry, const struct verdict *verdict,
                            const struct witness *witness)
{
    if (!kernel_in_time(&inquiry->limits, verdict, witness))
        return false;
    if (witness->process)
        return verdict_names_rank(verdict, witness->process->rank) &&
               kernel_process_suffices(verdict, witness->event);
    /* Of those that name a process, one that names none says it of the device alone. */
    return witness->event->kind != LOG_EVENT_OOM_KILL &&
           witness->event->kind != LOG_EVENT_SEGFAULT &&
           kernel_names_node(verdict, witness->node) &&
           kernel_node_suffices(verdict, witness->event->layer);
}

static void kernel_echo(struct verdict *verdict, const char *source, const char *what)
{
    struct verdict_line *line = &verdict->echo[verdict->echo_count];

    if (verdict->echo_count == VERDICT_LINES)
        return;
    snprintf(line->what, sizeof(line->what), "%s", what);
    snprintf(line->source, sizeof(line->source), "%s", source);
    verdict->echo_count++;
}

static void kernel_take_cause(struct verdict *verdict, const struct witness *witness)
{
    const struct log_event *event = witness->event;

    if (verdict->because_count == VERDICT_LINES)
        verdict->because_count--; /* the line that says why matters more than the last of many */
    postmortem_because(verdict, event);
    if (!verdict->node_count)
        postmortem_name_node(verdict, witness->node);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", event->device);
    verdict->confidence =
        witness->process ? MAX(verdict->confidence, SURE) : MIN(verdict->confidence, UNSURE);
    if (event->kind == LOG_EVENT_SEGFAULT) /* how it ended is known already, and in more words */
        return;
    verdict->layer = event->layer;
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", event->cause);
}

/* Lines about the process itself before those about its node; then the earliest. */
static bool kernel_explain(const struct kernel_inquiry *inquiry, struct verdict *verdict)
{
    const struct witness *first = NULL;

    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];

        if (kernel_suffices(inquiry, verdict, witness) &&
            (!first || (witness->process && !first->process)))
            first = witness;
    }
    if (!first)
        return false;
    kernel_take_cause(verdict, first);
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];

        if (witness != first && witness->real_ns >= first->real_ns &&
            kernel_suffices(inquiry, verdict, witness) &&
            strcmp(witness->event->cause, first->event->cause) != 0)
            kernel_echo(verdict, "kernel log", witness->event->text);
    }
    return true;
}

/* The process had been killed, or lost its device, and another one was only quicker to end. */
static bool kernel_came_before(const struct kernel_inquiry *inquiry, const struct verdict *verdict,
                               const struct witness *witness)
{
    const struct log_event *event = witness->event;
    bool fatal = event->kind == LOG_EVENT_OOM_KILL || event->kind == LOG_EVENT_SEGFAULT ||
                 (event->kind == LOG_EVENT_XID && verdict_layer_is_device(event->layer));

    return witness->process && fatal && verdict->kind == VERDICT_CRASH &&
           witness->real_ns <= verdict->since_real_ns &&
           witness->real_ns + kernel_seconds_ns(inquiry->limits.kernel_before) >=
               verdict->since_real_ns;
}

static void kernel_move_to(struct verdict *verdict, const struct witness *witness)
{
    char what[200];

    snprintf(what, sizeof(what), "rank %u: %s", verdict->rank[0], verdict->cause);
    kernel_echo(verdict, "launcher", what);
    verdict->rank[0] = witness->process->rank;
    verdict->rank_count = 1;
    verdict->node_count = 0;
    verdict->since_real_ns = witness->real_ns;
    kernel_take_cause(verdict, witness);
    if (witness->event->kind == LOG_EVENT_SEGFAULT) {
        verdict->layer = witness->event->layer;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", witness->event->cause);
    }
    verdict_identify(verdict);
}

static bool kernel_is_named(const struct verdict *verdict, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        if (verdict_names_rank(&verdict[i], rank))
            return true;
    }
    return false;
}

static void kernel_move(const struct kernel_inquiry *inquiry, struct verdict *verdict, size_t count,
                        size_t which)
{
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];

        if (kernel_came_before(inquiry, &verdict[which], witness) &&
            verdict[which].rank_count == 1 &&
            !kernel_is_named(verdict, count, witness->process->rank)) {
            kernel_move_to(&verdict[which], witness);
            return;
        }
    }
}

/* Nothing was said, and yet the kernel names one of the processes. */
static int kernel_report_alone(const struct kernel_inquiry *inquiry, const char *run,
                               struct findings *findings)
{
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];
        const struct log_event *event = witness->event;
        struct verdict *verdict;

        if (!witness->process || event->kind != LOG_EVENT_XID ||
            !verdict_layer_is_device(event->layer) ||
            kernel_is_named(findings->verdict, findings->count, witness->process->rank))
            continue;
        if (findings->count == POSTMORTEM_MAX)
            return 0;
        verdict = findings_add(findings, run, VERDICT_NODE_FAULT, event->layer);
        if (!verdict)
            return -ENOMEM;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", event->cause);
        snprintf(verdict->device, sizeof(verdict->device), "%s", event->device);
        verdict->rank[verdict->rank_count++] = witness->process->rank;
        postmortem_name_node(verdict, witness->node);
        postmortem_because(verdict, event);
        verdict->since_real_ns = verdict->decided_real_ns = witness->real_ns;
        verdict->confidence = UNSURE;
        verdict_identify(verdict);
    }
    return 0;
}

int postmortem_kernel(const struct postmortem_watched *watched, const struct logs *logs,
                      struct findings *findings)
{
    struct kernel_inquiry inquiry = { .process = watched->process,
                                      .processes = watched->processes };
    int result;

    if (!logs->events || !watched->processes)
        return 0;
    postmortem_limits(findings, &inquiry.limits);
    result = inquiry_read_logs(&inquiry, logs);
    for (size_t i = 0; result == 0 && i < watched->verdicts; i++) {
        if (!kernel_explain(&inquiry, &watched->verdict[i]))
            kernel_move(&inquiry, watched->verdict, watched->verdicts, i);
    }
    if (result == 0 && !watched->verdicts)
        result = kernel_report_alone(&inquiry, watched->run, findings);
    free(inquiry.witness);
    return result;
}
