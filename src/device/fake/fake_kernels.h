/* fake_kernels.h - the kernels of gpu_kernels.c as the scripted driver runs them: on the host, with scripted faults.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_FAKE_FAKE_KERNELS_H
#define LOCKSTEP_DEVICE_FAKE_FAKE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel of this name, if the PTX has an entry for it.  NULL: there is none. */
const void *fake_kernel_find(const char *ptx, const char *name);

struct fake_launch {
    const void *kernel;
    int64_t at_ns; /* when its stream gets there */
    int device;
    unsigned blocks, threads; /* threads: of a block */
    uint64_t argument[5];
};

bool fake_kernel_is_one(const void *function); /* and no other pointer */
/* Copies the arguments, which belong to the caller only until the launch returns. */
void fake_kernel_arguments(struct fake_launch *launch, void *const *arguments);
void fake_kernel_run(const struct fake_launch *launch);
int fake_sm_count(int device);

#endif
