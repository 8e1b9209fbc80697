/* doctor_gpu.h - the GPUs of this node as NVML shows them, asked by a child that can be killed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_DOCTOR_DOCTOR_GPU_H
#define LOCKSTEP_CMD_DOCTOR_DOCTOR_GPU_H

#include "core/err.h"

struct doctor_gpus {
    unsigned count;
    unsigned bad;       /* how many of them do not answer or ask for a reset */
    unsigned first_bad; /* the first of these */
    char why[160];      /* what NVML says of it */
    char name[96];      /* of GPU 0 */
    char driver[80];
};

/* -ENOENT: no NVML here; -ETIMEDOUT: it did not answer within three seconds, as with a GPU that is failing. */
int doctor_gpus_look(struct doctor_gpus *ret, struct err *err);

#endif
