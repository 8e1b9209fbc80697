/* nccl_plugin.h - what NCCL finds in liblockstep.so, which is its profiler plugin, too.
 *
 * One library and not two: the ring is one for all that writes to it in a process, and a second copy of the probe would
 * open a second one.  libnccl-profiler-lockstep.so is another name of the same file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_NCCL_PLUGIN_H
#define LOCKSTEP_PROBE_NCCL_PLUGIN_H

#include "probe/nccl_abi.h"

extern const struct nccl_profiler_v3 ncclProfiler_v3;
extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5;
extern const struct nccl_profiler_v6 ncclProfiler_v6;

/* Has NCCL tell us nothing, or all that is wanted, from the next launch on.  For who measures what that costs. */
void nccl_watch(int on);

#endif
