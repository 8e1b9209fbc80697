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
    const struct log_event *note;
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

static int64_t seconds_ns(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static bool same_host(const char *a, const char *b) /* n7 and n7.example.org */
{
    size_t left = strcspn(a, "."), right = strcspn(b, ".");

    return left == right && left > 0 && strncasecmp(a, b, left) == 0;
}

/* "kern-n2.log" has n2 in it, "kern-n21.log" has not. */
static bool has_word(const char *text, const char *word)
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
static const struct logprocess *node_of(const struct kernel_inquiry *inquiry,
                                        const struct log_event *note)
{
    const struct logprocess *first = inquiry->process;
    bool one = inquiry->processes > 0;

    for (size_t i = 0; i < inquiry->processes; i++) {
        const struct logprocess *process = &inquiry->process[i];

        if (note->node[0] ? same_host(note->node, process->node)
                          : has_word(note->file, process->node))
            return process;
        one &= strcmp(process->node, first->node) == 0;
    }
    return one && !note->node[0] ? first : NULL;
}

/* The newest process with this number that had begun by then. */
static const struct logprocess *process_of(const struct kernel_inquiry *inquiry, const char *node,
                                           uint32_t pid, int64_t real_ns)
{
    const struct logprocess *found = NULL;

    for (size_t i = 0; i < inquiry->processes; i++) {
        const struct logprocess *process = &inquiry->process[i];

        if (process->pid == pid && strcmp(process->node, node) == 0 &&
            process->began_real_ns <= real_ns + seconds_ns(inquiry->limits.kernel_round) &&
            (!found || process->began_real_ns > found->began_real_ns))
            found = process;
    }
    return found;
}

static int by_time(const void *left, const void *right)
{
    const struct witness *a = left, *b = right;

    if (a->real_ns != b->real_ns)
        return a->real_ns < b->real_ns ? -1 : 1;
    if (a->note->file[0] && strcmp(a->note->file, b->note->file) != 0)
        return strcmp(a->note->file, b->note->file);
    return (a->note->line > b->note->line) - (a->note->line < b->note->line);
}

static int inquiry_hear(struct kernel_inquiry *inquiry, const struct logs *logs)
{
    inquiry->witness = calloc(logs->notes, sizeof(*inquiry->witness));
    if (!inquiry->witness)
        return -ENOMEM;
    for (size_t i = 0; i < logs->notes; i++) {
        const struct log_event *note = &logs->note[i];
        const struct logprocess *on = node_of(inquiry, note), *process = NULL;
        int64_t real_ns = note->real_ns;

        if (!on)
            continue;
        if (!real_ns && note->boot_ns && on->boot_real_ns)
            real_ns = note->boot_ns + on->boot_real_ns;
        if (!real_ns)
            continue;
        if (note->pid && !(process = process_of(inquiry, on->node, note->pid, real_ns)))
            continue; /* somebody else's, or of one that had the same number before */
        inquiry->witness[inquiry->witnesses++] =
            (struct witness){ note, process, on->node, real_ns };
    }
    if (inquiry->witnesses)
        qsort(inquiry->witness, inquiry->witnesses, sizeof(*inquiry->witness), by_time);
    return 0;
}

static bool is_device(unsigned layer)
{
    return layer == LAYER_GPU || layer == LAYER_GPU_MEMORY || layer == LAYER_THERMAL ||
           layer == LAYER_POWER || layer == LAYER_PCIE || layer == LAYER_NVLINK;
}

static bool reads_or_writes(const struct verdict *verdict)
{
    return verdict->layer == LAYER_STORAGE || verdict->layer == LAYER_DATA ||
           verdict->layer == LAYER_CHECKPOINT;
}

/* Could what broke on the node be why? */
static bool node_suffices(const struct verdict *verdict, unsigned layer)
{
    bool network = layer == LAYER_NIC || layer == LAYER_FABRIC;

    switch (verdict->kind) {
    case VERDICT_CRASH: /* one that only complains of others is told with little confidence */
        return verdict->layer == LAYER_UNKNOWN &&
               (network ? verdict->confidence <= 0.5
                        : is_device(layer) || layer == LAYER_CPU || layer == LAYER_HOST_MEMORY);
    case VERDICT_HANG:
        if (layer == LAYER_STORAGE)
            return reads_or_writes(verdict);
        if (network)
            return verdict->layer == LAYER_FABRIC || verdict->layer == LAYER_NIC;
        return is_device(layer) && verdict->layer == LAYER_GPU;
    case VERDICT_SYNC_STALL:
        return network || layer == LAYER_NVLINK;
    case VERDICT_INPUT_STALL:
    case VERDICT_CHECKPOINT_STALL:
        return layer == LAYER_STORAGE;
    case VERDICT_STRAGGLER:
        return layer == LAYER_STORAGE ? reads_or_writes(verdict)
                                      : is_device(layer) && verdict->layer == LAYER_GPU;
    default:
        return false;
    }
}

static bool process_suffices(const struct verdict *verdict, const struct log_event *note)
{
    switch (verdict->kind) {
    case VERDICT_CRASH:
        return note->kind != LOG_EVENT_NODE || note->layer != LAYER_STORAGE;
    case VERDICT_HANG:
        return note->kind == LOG_EVENT_XID ||
               (note->kind == LOG_EVENT_NODE && note->layer == LAYER_STORAGE &&
                (reads_or_writes(verdict) || verdict->layer == LAYER_UNKNOWN));
    case VERDICT_STRAGGLER: /* scarce cpus or slow code are no device's */
        return note->kind == LOG_EVENT_XID && is_device(note->layer) &&
               (verdict->layer == LAYER_GPU || verdict->layer == LAYER_UNKNOWN);
    case VERDICT_CORRUPTION:
        return note->kind == LOG_EVENT_XID && is_device(note->layer);
    default:
        return false;
    }
}

static bool names_rank(const struct verdict *verdict, uint32_t rank)
{
    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (verdict->rank[i] == rank)
            return true;
    }
    return false;
}

static bool names_node(const struct verdict *verdict, const char *node)
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
    int64_t until_ns = since_ns + seconds_ns(limits->kernel_after_crash);
    double before = witness->process ? limits->kernel_before_pid : limits->kernel_before;

    if (verdict->kind != VERDICT_CRASH)
        until_ns = verdict->until_real_ns
                       ? verdict->until_real_ns
                       : verdict->decided_real_ns + seconds_ns(limits->kernel_after);
    return since_ns &&
           witness->real_ns + seconds_ns(limits->kernel_round) >= since_ns - seconds_ns(before) &&
           witness->real_ns <= until_ns;
}

static bool kernel_suffices(const struct kernel_inquiry *inquiry, const struct verdict *verdict,
                            const struct witness *witness)
{
    if (!kernel_in_time(&inquiry->limits, verdict, witness))
        return false;
    if (witness->process)
        return names_rank(verdict, witness->process->rank) &&
               process_suffices(verdict, witness->note);
    /* Of those that name a process, one that names none says it of the device alone. */
    return witness->note->kind != LOG_EVENT_OOM_KILL && witness->note->kind != LOG_EVENT_SEGFAULT &&
           names_node(verdict, witness->node) && node_suffices(verdict, witness->note->layer);
}

static void echo(struct verdict *verdict, const char *source, const char *what)
{
    struct verdict_line *line = &verdict->echo[verdict->echo_count];

    if (verdict->echo_count == VERDICT_LINES)
        return;
    snprintf(line->what, sizeof(line->what), "%s", what);
    snprintf(line->source, sizeof(line->source), "%s", source);
    verdict->echo_count++;
}

static void take_cause(struct verdict *verdict, const struct witness *witness)
{
    const struct log_event *note = witness->note;

    if (verdict->because_count == VERDICT_LINES)
        verdict->because_count--; /* the line that says why matters more than the last of many */
    postmortem_because(verdict, note);
    if (!verdict->node_count)
        postmortem_name_node(verdict, witness->node);
    if (!verdict->device[0])
        snprintf(verdict->device, sizeof(verdict->device), "%s", note->device);
    verdict->confidence =
        witness->process ? MAX(verdict->confidence, SURE) : MIN(verdict->confidence, UNSURE);
    if (note->kind == LOG_EVENT_SEGFAULT) /* how it ended is known already, and in more words */
        return;
    verdict->layer = note->layer;
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", note->cause);
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
    take_cause(verdict, first);
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];

        if (witness != first && witness->real_ns >= first->real_ns &&
            kernel_suffices(inquiry, verdict, witness) &&
            strcmp(witness->note->cause, first->note->cause) != 0)
            echo(verdict, "kernel log", witness->note->text);
    }
    return true;
}

/* The process had been killed, or lost its device, and another one was only quicker to end. */
static bool came_before(const struct kernel_inquiry *inquiry, const struct verdict *verdict,
                        const struct witness *witness)
{
    const struct log_event *note = witness->note;
    bool fatal = note->kind == LOG_EVENT_OOM_KILL || note->kind == LOG_EVENT_SEGFAULT ||
                 (note->kind == LOG_EVENT_XID && is_device(note->layer));

    return witness->process && fatal && verdict->kind == VERDICT_CRASH &&
           witness->real_ns <= verdict->since_real_ns &&
           witness->real_ns + seconds_ns(inquiry->limits.kernel_before) >= verdict->since_real_ns;
}

static void move_to(struct verdict *verdict, const struct witness *witness)
{
    char what[200];

    snprintf(what, sizeof(what), "rank %u: %s", verdict->rank[0], verdict->cause);
    echo(verdict, "launcher", what);
    verdict->rank[0] = witness->process->rank;
    verdict->rank_count = 1;
    verdict->node_count = 0;
    verdict->since_real_ns = witness->real_ns;
    take_cause(verdict, witness);
    if (witness->note->kind == LOG_EVENT_SEGFAULT) {
        verdict->layer = witness->note->layer;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", witness->note->cause);
    }
    verdict_identify(verdict);
}

static bool is_named(const struct verdict *verdict, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        if (names_rank(&verdict[i], rank))
            return true;
    }
    return false;
}

static void kernel_move(const struct kernel_inquiry *inquiry, struct verdict *verdict, size_t count,
                        size_t which)
{
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];

        if (came_before(inquiry, &verdict[which], witness) && verdict[which].rank_count == 1 &&
            !is_named(verdict, count, witness->process->rank)) {
            move_to(&verdict[which], witness);
            return;
        }
    }
}

/* Nothing was said, and yet the kernel names one of the processes. */
static int tell_alone(const struct kernel_inquiry *inquiry, const char *run,
                      struct findings *findings)
{
    for (size_t i = 0; i < inquiry->witnesses; i++) {
        const struct witness *witness = &inquiry->witness[i];
        const struct log_event *note = witness->note;
        struct verdict *verdict;

        if (!witness->process || note->kind != LOG_EVENT_XID || !is_device(note->layer) ||
            is_named(findings->verdict, findings->count, witness->process->rank))
            continue;
        if (findings->count == POSTMORTEM_MAX)
            return 0;
        verdict = findings_add(findings, run, VERDICT_NODE_FAULT, note->layer);
        if (!verdict)
            return -ENOMEM;
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", note->cause);
        snprintf(verdict->device, sizeof(verdict->device), "%s", note->device);
        verdict->rank[verdict->rank_count++] = witness->process->rank;
        postmortem_name_node(verdict, witness->node);
        postmortem_because(verdict, note);
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

    if (!logs->notes || !watched->processes)
        return 0;
    postmortem_limits(findings, &inquiry.limits);
    result = inquiry_hear(&inquiry, logs);
    for (size_t i = 0; result == 0 && i < watched->verdicts; i++) {
        if (!kernel_explain(&inquiry, &watched->verdict[i]))
            kernel_move(&inquiry, watched->verdict, watched->verdicts, i);
    }
    if (result == 0 && !watched->verdicts)
        result = tell_alone(&inquiry, watched->run, findings);
    free(inquiry.witness);
    return result;
}
