/* gpu_held.h - whether some process holds a GPU of this node.
 *
 * What it has opened is compared by the number of the device, so neither another name nor another place of the device file, as a
 * container has it, hides it; what it has mapped and closed since is found by its name.  What cannot be seen counts as held.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_GPU_HELD_H
#define LOCKSTEP_AGENT_NODE_GPU_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gpu_files {        /* which files are GPUs */
    unsigned major, last; /* number of the driver, and the highest of a GPU */
    const char *name;     /* what stands before the number of the GPU */
};

extern const struct gpu_files gpu_files_nvidia;

bool gpu_held_by(const struct gpu_files *gpus, pid_t pid);
/* By any process; `why` says by which. */
bool gpu_held(const struct gpu_files *gpus, char *why, size_t room);

#endif
