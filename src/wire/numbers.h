/* numbers.h - facts about the public header's numbers that only lockstep itself needs.
 *
 * A public enum has no last member: a program compiled against an older header must not depend
 * on how many there were.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_NUMBERS_H
#define LOCKSTEP_WIRE_NUMBERS_H

#include "lockstep/probe.h"

/* One more than the largest number of each enum. */
#define LOCKSTEP_PHASE_COUNT (LOCKSTEP_PHASE_OTHER + 1)
#define LOCKSTEP_OP_COUNT (LOCKSTEP_OP_RECV + 1)
#define LOCKSTEP_DTYPE_COUNT (LOCKSTEP_DTYPE_MIXED + 1)
#define LOCKSTEP_METRIC_COUNT (LOCKSTEP_METRIC_FLOP + 1)
#define LOCKSTEP_COMM_KIND_COUNT (LOCKSTEP_COMM_EP + 1)

/* Streams above those of devices are reserved for lockstep's own hooks. */
#define LOCKSTEP_DEVICE_LAUNCHES                                                                   \
    0xfe80 /* from here: a device whose operations are only known to be launched */
#define LOCKSTEP_DEVICE_OPS                                                                        \
    0xfec0 /* from here: a device that reports operations, no spans (NCCL) */
#define LOCKSTEP_HOST_THREADS 0xff00 /* from here: threads of the host, beside the caller (gloo) */
#define LOCKSTEP_HOST_LATE 0xff80    /* from here: the same, and an end may be observed late */

#endif
