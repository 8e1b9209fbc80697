/* kernel_host.c - lines about processors, memory, processes and the kernel itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"
#include "wire/verdict.h"

static void kernel_cpu_device(const struct kernel_scan *scan, const char *words,
                              struct kernel_event *event)
{
    const char *at = scan_find(scan->text, scan->end, words);
    uint64_t cpu;

    if (at && scan_number(at + strlen(words), scan->end, 10, &cpu) && cpu < 100000)
        snprintf(event->device, sizeof(event->device), "cpu%u", (unsigned)cpu);
}

/* "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 4: e600000000020408" */
bool host_mce(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (scan_has(scan, "BERT:"))
        return false; /* of an earlier boot */
    if (scan_has(scan, "Machine Check Exception") || scan_has(scan, "context corrupt")) {
        event->severity = FINDING_FATAL;
        event->action = ACTION_REPAIR;
        event->what = "machine check exception";
    }
    kernel_cpu_device(scan, "CPU", event);
    return true;
}

/* "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood event"; most reasons
 * are what a person or the kernel asked for.
 */
bool host_reset_reason(const struct kernel_scan *scan, struct kernel_event *event)
{
    (void)event;
    return scan_find(scan->after, scan->end, "uncorrected error") ||
           scan_find(scan->after, scan->end, "sync flood") ||
           scan_find(scan->after, scan->end, "thermal");
}

/* "[Hardware Error]: CPU:2 (15:2:0) MC2_STATUS[Over|CE|MiscV|-|AddrV|-|-|CECC]: 0xdc25405000040136" */
bool host_mce_status(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *status = scan_find(scan->after, scan->end, "_STATUS[");

    if (!status)
        return false;
    if (scan_find(status, scan->end, "|UE|") || scan_find(status, scan->end, "|UC|")) {
        event->what = "uncorrected hardware error";
        event->severity = FINDING_FATAL;
        event->action = ACTION_REPAIR;
        event->layer = LAYER_CPU;
    }
    kernel_cpu_device(scan, "CPU:", event);
    return true;
}

/* "{1}[Hardware Error]: event severity: recoverable" */
bool host_cper(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!scan_has(scan, "[Hardware Error]") || scan_has(scan, "BERT"))
        return false;
    if (scan_find(scan->after, scan->end, "fatal")) {
        event->what = "firmware reports a fatal hardware error";
        event->severity = FINDING_FATAL;
        event->action = ACTION_REPAIR;
        event->layer = LAYER_CPU;
    } else if (scan_find(scan->after, scan->end, "recoverable") ||
               scan_find(scan->after, scan->end, "uncorrected")) {
        event->what = "firmware reports an uncorrected hardware error";
        event->severity = FINDING_ERROR;
        event->action = ACTION_INSPECT;
        event->layer = LAYER_CPU;
    }
    return true;
}

/* "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (...)", "EDAC MC1: UE page 0x0, ..." */
bool host_edac(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan->after, *on;

    while (at < scan->end && isdigit((unsigned char)*at))
        at++;
    if (at == scan->after || scan->end - at < 5 || at[0] != ':')
        return false;
    at++;
    while (at < scan->end && (*at == ' ' || isdigit((unsigned char)*at)))
        at++;
    if (scan->end - at < 3 || at[1] != 'E' || at[2] != ' ' || (at[0] != 'C' && at[0] != 'U'))
        return false;
    if (at[0] == 'U') {
        event->what = "uncorrected memory error";
        event->severity = FINDING_FATAL;
        event->action = ACTION_REPAIR;
        event->layer = LAYER_HOST_MEMORY;
    }
    on = scan_find(at, scan->end, " on ");
    if (on && scan->end - on > 11 && memcmp(on + 4, "unknown", 7) != 0)
        scan_word(on + 4, scan->end, " ", event->device, sizeof(event->device));
    else
        scan_word(scan->after - 2, scan->end, ":", event->device, sizeof(event->device));
    return true;
}

/* A name and a process before a colon or a bracket: "python3:1234", "kworker/u16:9:7088". */
static void kernel_name_and_pid(const char *from, const char *to, struct kernel_event *event)
{
    const char *colon = to;

    while (colon > from && colon[-1] != ':')
        colon--;
    if (colon == from)
        return;
    scan_pid(colon, to, event);
    if (event->pid)
        snprintf(event->process, sizeof(event->process), "%.*s",
                 (int)MIN(colon - 1 - from, (ptrdiff_t)sizeof(event->process) - 1), from);
}

/* "Memory failure: 0x4a7: Sending SIGBUS to python3:1234 due to hardware memory corruption"; "Killing" in older ones. */
bool host_memory(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *due = scan_find(scan->after, scan->end, " due to hardware memory corruption");
    const char *from;

    if (!due) {
        event->what = "a page of memory was lost";
        event->severity = FINDING_WARN;
        event->action = ACTION_INSPECT;
        event->layer = LAYER_UNKNOWN;
        if (!scan_find(scan->after, scan->end, "recovery action") &&
            !scan_find(scan->after, scan->end, "unhandlable page"))
            return false;
        if (!scan_find(scan->after, scan->end, ": Recovered") &&
            !scan_find(scan->after, scan->end, ": Delayed")) {
            event->severity = FINDING_FATAL;
            event->action = ACTION_REPAIR;
        }
        return true;
    }
    for (from = due; from > scan->after && from[-1] != ' ';)
        from--;
    kernel_name_and_pid(from, due, event);
    return true;
}

/* "Killed process 1234 (python3) total-vm:..." */
bool host_killed(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *name = memchr(scan->after, '(', (size_t)(scan->end - scan->after));

    scan_pid(scan->after, scan->end, event);
    if (!event->pid)
        return false;
    if (name)
        scan_word(name + 1, scan->end, ")", event->process, sizeof(event->process));
    event->more = scan_has(scan, "cgroup out of memory") ? KERNEL_OOM_CGROUP
                  : scan_has(scan, "Out of memory")      ? KERNEL_OOM_NODE
                                                         : NULL;
    return true;
}

/* Names of cgroups and processes stand before, and may have the same words. */
static const char *kernel_find_last(const char *at, const char *end, const char *words)
{
    const char *last = NULL;

    while ((at = scan_find(at, end, words)))
        last = at++;
    return last;
}

/* "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),...,task=python3,pid=1234,uid=0" */
bool host_oom(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *pid = kernel_find_last(scan->after, scan->end, ",pid=");
    const char *task = kernel_find_last(scan->after, pid ? pid : scan->end, ",task=");

    if (pid)
        scan_pid(pid + 5, scan->end, event);
    if (task)
        scan_word(task + 6, scan->end, ", ", event->process, sizeof(event->process));
    if (scan_find(scan->after, scan->end, "CONSTRAINT_MEMCG"))
        event->more = KERNEL_OOM_CGROUP;
    else if (scan->after < scan->end && scan_find(scan->after, scan->end, "CONSTRAINT_NONE"))
        event->more = KERNEL_OOM_NODE;
    else
        event->more = KERNEL_OOM_NUMA;
    return true;
}

/* "python3 invoked oom-killer: gfp_mask=..."; the line that names the killed process follows. */
bool host_oom_begins(const struct kernel_scan *scan, struct kernel_event *event)
{
    scan_word(scan->text, scan->found, "", event->process, sizeof(event->process));
    event->opens = true;
    event->follows = 1;
    return true;
}

/* "Task in /kubepods/pod1 killed as a result of limit of /kubepods/pod1": older kernels; the process follows as well. */
bool host_oom_limit(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (scan->found != scan->text || scan->after >= scan->end || *scan->after != '/' ||
        !scan_find(scan->after, scan->end, " killed as a result of limit of "))
        return false;
    event->more = KERNEL_OOM_CGROUP;
    event->opens = true;
    event->follows = 1;
    return true;
}

/* "INFO: task python3:1234 blocked for more than 120 seconds."; newer kernels say what it waits for in between. */
bool host_blocked(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *blocked = kernel_find_last(scan->after, scan->end, " blocked ");

    if (!blocked || !scan_find(blocked, scan->end, "for more than "))
        return false;
    kernel_name_and_pid(scan->after, blocked, event);
    return true;
}

/* "BUG: soft lockup - CPU#58 stuck for 23s! [ksoftirqd/58:302]" */
bool host_lockup(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *task = memchr(scan->found, '[', (size_t)(scan->end - scan->found)), *end;

    kernel_cpu_device(scan, "CPU#", event);
    if (!event->device[0])
        kernel_cpu_device(scan, "cpu ", event);
    end = task ? memchr(task, ']', (size_t)(scan->end - task)) : NULL;
    if (end)
        kernel_name_and_pid(task + 1, end, event);
    return true;
}

bool host_thermal(const struct kernel_scan *scan, struct kernel_event *event)
{
    kernel_cpu_device(scan, "CPU", event);
    if (!event->device[0])
        scan_word(scan->text, scan->end, " ", event->device, sizeof(event->device));
    return true;
}

/* Programs crash everywhere.  A crash is news by itself if the program or the library is one that trains. */
static bool kernel_trains(const struct kernel_scan *scan, const char *process)
{
    static const char *const names[] = { "python",      "pt_main_thread", "pt_data_worker",
                                         "pt_autograd", "torchrun",       "ray::",
                                         "nccl",        "train" };
    static const char *const libraries[] = { "in libnccl",  "in libcuda",   "in libtorch",
                                             "in libc10",   "in libnvidia", "in libcublas",
                                             "in libcudnn", "in python" };

    for (size_t i = 0; i < COUNT(names); i++) {
        if (strncmp(process, names[i], strlen(names[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < COUNT(libraries); i++) {
        if (scan_find(scan->found, scan->end, libraries[i]))
            return true;
    }
    return false;
}

static bool kernel_crashed(const struct kernel_scan *scan, const char *from, const char *bracket,
                           struct kernel_event *event)
{
    const char *in = scan_find(scan->found, scan->end, " in ");

    scan_pid(bracket + 1, scan->end, event);
    snprintf(event->process, sizeof(event->process), "%.*s",
             (int)MIN(bracket - from, (ptrdiff_t)sizeof(event->process) - 1), from);
    if (in)
        scan_word(in + 4, scan->end, "[ ", event->device, sizeof(event->device));
    event->process_only = !kernel_trains(scan, event->process);
    return true;
}

/* "python3[1234]: segfault at 0 ip 00007f ... error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]" */
bool host_segfault(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *bracket = scan->found;

    while (bracket > scan->text && *bracket != '[')
        bracket--;
    if (*bracket == '[' && bracket > scan->text)
        return kernel_crashed(scan, scan->text, bracket, event);
    event->process_only = !kernel_trains(scan, ""); /* the process is not named */
    return true;
}

/* "traps: python3[991] general protection fault ip:7f ... in libcuda.so" */
bool host_trap(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *bracket = memchr(scan->after, '[', (size_t)(scan->end - scan->after));

    if (!bracket)
        return false;
    return kernel_crashed(scan, scan->after, bracket, event);
}

/* "Internal error: Oops: 96000004 [#1] SMP", "Internal error: synchronous external abort: ..." */
bool host_internal(const struct kernel_scan *scan, struct kernel_event *event)
{
    (void)event;
    return scan->found == scan->text;
}

/* A fault in a program is none of the kernel. */
bool host_panic(const struct kernel_scan *scan, struct kernel_event *event)
{
    (void)event;
    return !scan_has(scan, "traps: ") && !scan_has(scan, "ip:");
}
