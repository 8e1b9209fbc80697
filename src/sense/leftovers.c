/* leftovers.c - processes that hold a GPU and do not run any more.
 *
 * A process that is stuck in the kernel keeps its GPU memory, and nothing ends it.  It is reported if it is found so in two
 * reads in a row.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/sensors.h"
#include "sense/tree.h"

#define STUCK_MAX 256
#define FILES_MAX 4096 /* of a process */

struct leftovers {
    struct tree tree;
    uint32_t stuck[STUCK_MAX], was[STUCK_MAX]; /* processes of this and of the last read */
    size_t stucks, were;
    const struct sense_now *now;
    struct sense_report *report;
    /* of the process at hand */
    uint32_t pid;
    char gpu[24];
};

static int leftovers_open(const struct sense_place *place, void **state, struct err *err)
{
    struct leftovers *leftovers;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/dev/nvidia0", place->root);
    if (access(path, F_OK) < 0)
        return err_set(err, -ENODEV, "%s: not there", path);
    leftovers = calloc(1, sizeof(*leftovers));
    if (!leftovers)
        return err_nomem(err);
    leftovers->tree.root = place->root;
    *state = leftovers;
    return 0;
}

static void leftovers_fd_of_gpu(void *user, const char *name)
{
    struct leftovers *leftovers = user;
    char path[PATH_MAX], target[64];
    ssize_t bytes;

    snprintf(path, sizeof(path), "%s/proc/%u/fd/%s", leftovers->tree.root, leftovers->pid, name);
    bytes = readlink(path, target, sizeof(target) - 1);
    if (bytes < 12)
        return;
    target[bytes] = '\0';
    if (strncmp(target, "/dev/nvidia", 11) == 0 && isdigit((unsigned char)target[11]))
        snprintf(leftovers->gpu, sizeof(leftovers->gpu), "%.20s", target + 5);
}

static bool leftovers_was_stuck(const struct leftovers *leftovers, uint32_t pid)
{
    for (size_t i = 0; i < leftovers->were; i++) {
        if (leftovers->was[i] == pid)
            return true;
    }
    return false;
}

static void leftovers_process(void *user, const char *name)
{
    struct leftovers *leftovers = user;
    char stat[512], folder[64], comm[20] = "";
    const char *end;
    struct finding finding;

    if (!isdigit((unsigned char)*name) ||
        tree_read(&leftovers->tree, stat, sizeof(stat), "/proc/%s/stat", name) <= 0)
        return;
    end = strrchr(stat, ')');
    if (!end || strncmp(end, ") D", 3) != 0 || leftovers->stucks == STUCK_MAX)
        return;
    leftovers->pid = (uint32_t)strtoul(name, NULL, 10);
    leftovers->gpu[0] = '\0';
    snprintf(folder, sizeof(folder), "/proc/%.20s/fd", name);
    tree_list_some(&leftovers->tree, folder, FILES_MAX, leftovers_fd_of_gpu, leftovers);
    if (!leftovers->gpu[0])
        return;
    leftovers->stuck[leftovers->stucks++] = leftovers->pid;
    if (!leftovers_was_stuck(leftovers, leftovers->pid))
        return;
    sscanf(stat, "%*u (%19[^)]", comm);
    finding = sense_finding(leftovers->now, FINDING_LEFTOVER, FINDING_CLASS_HOST, FINDING_WARN,
                            leftovers->gpu, "process %u (%s) is stuck in the kernel and holds %s",
                            leftovers->pid, comm, leftovers->gpu);
    finding.pid = leftovers->pid;
    sense_hold(leftovers->report, &finding);
}

static int leftovers_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct leftovers *leftovers = state;

    leftovers->now = now;
    leftovers->report = report;
    memcpy(leftovers->was, leftovers->stuck, sizeof(leftovers->was));
    leftovers->were = leftovers->stucks;
    leftovers->stucks = 0;
    tree_list(&leftovers->tree, "/proc", leftovers_process, leftovers);
    return 0;
}

static void leftovers_close(void *state)
{
    free(state);
}

const struct sensor sensor_leftovers = {
    .name = "leftovers",
    .summary = "processes that hold a GPU and are stuck in the kernel",
    .fix = "nothing to do on a machine without GPUs; else run the node daemon as root, in the "
           "host's pid namespace",
    .period_ns = 60 * NS_PER_S,
    .open = leftovers_open,
    .read = leftovers_read,
    .close = leftovers_close,
};
