/* kineto.h - traces of PyTorch's profiler (Chrome's format), one file per rank.
 *
 * In a trace with device kernels these are used, with NCCL's collectives; otherwise the host's ops, with the
 * collectives of gloo or NCCL on the host.  Steps are the profiler's marks; a trace without marks is one step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_KINETO_H
#define LOCKSTEP_READ_KINETO_H

#include "read/value_tree.h"
#include "wire/lanes.h"

bool kineto_is(const struct value_tree *tree);
/* `rank` is used where the trace does not say its own.  -EPROTO: nothing of a job in it. */
int kineto_add(struct lanes *lanes, uint32_t rank, const struct value_tree *tree, struct err *err);

#endif
