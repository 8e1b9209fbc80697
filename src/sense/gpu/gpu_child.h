/* gpu_child.h - the process that asks NVML, because a call into it may block for ever or end the process.
 *
 * The process is held by a pidfd: a program that reaps all its children, such as the node daemon, may have reaped this one
 * before, and its number may belong to another process by then.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_GPU_GPU_CHILD_H
#define LOCKSTEP_SENSE_GPU_GPU_CHILD_H

#include <stdbool.h>

#include "device/nvml.h"

#define GPUS_MAX 32
#define EVENTS_MAX 32 /* in one answer; the rest is in the next */

struct gpu_report {
    int result;
    char pci[32];
    struct nvml_sample sample;
    unsigned links, processes;
    struct nvml_link link[NVML_LINKS];
    struct nvml_process process[NVML_PROCESSES];
};

struct gpu_answer {
    unsigned count;
    int result;
    int64_t read_ns; /* monotonic */
    char why[120];
    bool has_links; /* these and activity take long to read, so not every answer has them */
    unsigned events;
    struct nvml_event event[EVENTS_MAX];
    struct gpu_report gpu[GPUS_MAX];
};

struct gpu_child {
    int fd;    /* -1: it is not asked any more */
    int pidfd; /* -1: there is none */
};

/* Its first answer comes without a request, and has all there is.  -errno. */
int gpu_child_start(struct gpu_child *child, const char *library);
/* `all`: with links and activity, too, which take longer.  -errno: it ended. */
int gpu_child_ask(struct gpu_child *child, bool all);
/* 1: answered, and every count and text is within its bounds; 0: not yet; -errno: it ended, or sent something else. */
int gpu_child_receive(struct gpu_child *child, struct gpu_answer *answer, int wait_ms);
void gpu_child_kill(struct gpu_child *child);
/* Is no process left?  One that hangs in the driver outlives SIGKILL.  Waits at most `wait_ms`. */
bool gpu_child_gone(struct gpu_child *child, int wait_ms);
void gpu_child_close(struct gpu_child *child); /* kills it */

#endif
