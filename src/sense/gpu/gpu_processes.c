/* gpu_processes.c - who holds the memory of a GPU: processes that ended, and users that share it.
 *
 * NVML has the process numbers of the host.  A process that it lists and that is not there ended without giving its memory
 * back, if this is the host's pid namespace; elsewhere it may just not be visible.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "sense/gpu/gpu_look.h"
#include "wire/decision.h"

#define HOST_PID_NAMESPACE "pid:[4026531836]" /* PROC_PID_INIT_INO of the kernel */
#define MB (1 << 20)

static bool processes_are_of_host(const struct tree *tree)
{
    char path[PATH_MAX], target[64] = "";

    snprintf(path, sizeof(path), "%s/proc/self/ns/pid", tree->root);
    return readlink(path, target, sizeof(target) - 1) > 0 &&
           strcmp(target, HOST_PID_NAMESPACE) == 0;
}

/* Its user; -1: there is no such process. */
static int64_t processes_user(const struct tree *tree, uint32_t pid)
{
    char path[PATH_MAX];
    struct stat status;

    snprintf(path, sizeof(path), "%s/proc/%u", tree->root, pid);
    return stat(path, &status) < 0 ? -1 : (int64_t)status.st_uid;
}

static bool processes_was_gone(const struct gpu_processes *processes, uint32_t pid)
{
    for (unsigned i = 0; i < processes->gone; i++) {
        if (processes->gone_pid[i] == pid)
            return true;
    }
    return false;
}

static void processes_gone(uint32_t pid, int64_t bytes, const struct gpu_look *look)
{
    struct finding finding =
        sense_finding(look->now, FINDING_LEFTOVER, FINDING_CLASS_HOST, FINDING_WARN, look->device,
                      "process %u has ended and still holds %lld MB of GPU %s", pid,
                      (long long)MAX(bytes, INT64_C(0)) / MB, look->device);

    finding.code = pid; /* no pid: it is none of a rank any more */
    finding.action = ACTION_RESET_GPU;
    sense_hold(look->report, &finding);
}

static void processes_shared(unsigned users, const struct gpu_look *look)
{
    struct finding finding = sense_finding(
        look->now, FINDING_LEFTOVER, FINDING_CLASS_HOST, FINDING_WARN, look->device,
        "processes of %u users hold memory of GPU %s at the same time", users, look->device);

    finding.action = ACTION_INSPECT;
    sense_hold(look->report, &finding);
}

void gpu_processes_judge(struct gpu_processes *processes, const struct tree *tree,
                         const struct nvml_process *process, unsigned count,
                         const struct gpu_look *look)
{
    struct gpu_processes now = { .gone = 0 };
    int64_t user[NVML_PROCESSES];
    unsigned users = 0;

    if (count && !processes_are_of_host(tree))
        return;
    for (unsigned i = 0; i < count; i++) {
        bool known = false;

        user[users] = processes_user(tree, process[i].pid);
        if (user[users] < 0) {
            now.gone_pid[now.gone++] = process[i].pid;
            if (processes_was_gone(processes, process[i].pid))
                processes_gone(process[i].pid, process[i].used_bytes, look);
            continue;
        }
        for (unsigned j = 0; j < users; j++)
            known |= user[j] == user[users];
        users += !known;
    }
    if (users > 1)
        processes_shared(users, look);
    *processes = now;
}
