/* sense_gpus.h - lockstep sense --gpus.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_NODE_SENSE_GPUS_H
#define LOCKSTEP_CMD_NODE_SENSE_GPUS_H

#include <stdbool.h>

/* Prints what NVML reports of each GPU.  `library`: NULL for the usual one.  Returns the exit status. */
int sense_gpus(const char *library, bool json);

#endif
