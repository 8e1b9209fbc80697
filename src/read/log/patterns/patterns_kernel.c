/* patterns_kernel.c - kernel messages in logs, as the one classifier of kernel lines reads them.
 *
 * Only events that can explain why a job failed count: corrected errors, warnings and Xids that follow others do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/xid.h"

static uint8_t pattern_kind_of(const struct kernel_event *event)
{
    switch (event->kind) {
    case FINDING_XID:
        return LOG_EVENT_XID;
    case FINDING_OOM:
        return LOG_EVENT_OOM_KILL;
    case FINDING_SEGFAULT:
        return LOG_EVENT_SEGFAULT;
    default:
        return LOG_EVENT_NODE;
    }
}

/* Words that are too short to search for stand in lines of hardware errors. */
const char *pattern_of_kernel(size_t n)
{
    const char *words = kernel_line_words(n);

    return words && strcspn(words, "*#") < MATCHER_ANCHOR_MIN ? "[Hardware Error]" : words;
}

/* An Xid that names the one it follows from means that one. */
static void pattern_trace_back(struct kernel_event *event)
{
    const struct xid *first = event->caused_by ? xid_find(event->caused_by) : NULL;

    if (!first || event->layer != LAYER_UNKNOWN)
        return;
    event->layer = first->layer;
    event->code = event->caused_by;
    event->what = first->what;
    event->more = "named by a later Xid";
}

/* Number 154 is no cause.  It says what the driver asks for. */
static const char *pattern_recovery(const struct kernel_event *event)
{
    if (event->kind != FINDING_XID || event->code != XID_RECOVERY_ACTION)
        return NULL;
    switch (event->action) {
    case ACTION_REBOOT:
        return "Drain the node and reboot it, as the driver asks (Xid 154); if the error comes "
               "back, have the GPU and its slot checked.";
    case ACTION_RESET_GPU:
        return "Reset the GPU, as the driver asks (Xid 154); drain the node if the error comes "
               "back.";
    case ACTION_DRAIN:
        return "Drain the node and reset the GPU, as the driver asks (Xid 154).";
    default:
        return NULL;
    }
}

/* What helps depends on which memory was used up, or is faulty. */
static const char *pattern_memory_advice(const struct kernel_event *event)
{
    if (event->kind == FINDING_XID && event->layer == LAYER_GPU_MEMORY)
        return "Reset the GPU; replace it if row remapping failed.";
    if (event->kind != FINDING_OOM || !event->more)
        return NULL;
    if (strcmp(event->more, KERNEL_OOM_CGROUP) == 0)
        return "Raise the memory limit of the job or container (sbatch --mem, "
               "resources.limits.memory), or use less "
               "host memory: fewer loader workers, less cached or pinned data.  Other jobs of the "
               "node are not "
               "the reason.";
    if (strcmp(event->more, KERNEL_OOM_NUMA) == 0)
        return "Let the job use memory of all NUMA nodes (numactl, cpuset.mems), or use less host "
               "memory.";
    return "The whole node ran out of memory: a memory limit of the job would not have helped.  "
           "Find what else "
           "used it (the table of processes before this line, /dev/shm, tmpfs), use less host "
           "memory, or keep "
           "other jobs off the node.";
}

bool pattern_kernel_event(struct kernel_reader *reader, const struct log_line *line,
                          struct log_event *event)
{
    struct kernel_event found;
    const char *recovery;

    if (!kernel_line_read(reader, line->raw, (size_t)(line->end - line->raw), &found))
        return false;
    pattern_trace_back(&found);
    recovery = pattern_recovery(&found);
    event->advice = recovery ? recovery : pattern_memory_advice(&found);
    if ((found.layer == LAYER_UNKNOWN && !recovery) || found.origin == FINDING_FROM_USER ||
        (found.severity < FINDING_ERROR && found.kind != FINDING_XID))
        return false;
    event->kind = recovery ? LOG_EVENT_RECOVERY : pattern_kind_of(&found);
    event->layer = found.layer;
    event->confidence = 85;
    event->pid = found.pid;
    event->value = found.code;
    kernel_event_cause(&found, event->cause, sizeof(event->cause));
    snprintf(event->node, sizeof(event->node), "%s", found.node);
    snprintf(event->device, sizeof(event->device), "%.*s", (int)sizeof(event->device) - 1,
             found.kind == FINDING_SEGFAULT ? "" : found.device);
    return true;
}
