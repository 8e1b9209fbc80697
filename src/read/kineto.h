/* kineto.h - traces of PyTorch's profiler (Chrome's format), one file a rank.
 *
 * Of a trace with device kernels those count, and collectives are NCCL's; without, the host's ops do, and
 * collectives are those of gloo or NCCL as the host ran them.  Steps are the profiler's own marks; a
 * trace without any is one step.
 */
#ifndef LOCKSTEP_READ_KINETO_H
#define LOCKSTEP_READ_KINETO_H

#include "read/value_tree.h"
#include "wire/lanes.h"

bool kineto_is(const struct value_tree *tree);
/* `rank` is used where the trace does not say its own.  -EPROTO: nothing of a job in it. */
int kineto_add(struct lanes *lanes, uint32_t rank, const struct value_tree *tree, struct err *err);

#endif
