/* stamp_kernel.h - the kernel with which a stream of a device writes its own time into host memory.
 *
 * One thread, some 2 us of the stream.  Compiled by tools/ptx for the GPU (stamp_kernel.ptx, checked in); the scripted driver runs
 * the same source on the host.
 *
 *     lockstep_stamp(place, mask, tag)
 *
 * place: the first of `mask` + 1 places of 32 bytes (count, tag, device's clock, check), as struct ring_stamp of wire/ring.h.
 * The device counts its stamps by itself, and the count says which place is next: so a stamp in a graph that is replayed writes
 * another place each time.  mask STAMP_FIXED: `place` is the one place, and the count is the tag.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_CUDA_STAMP_KERNEL_H
#define LOCKSTEP_DEVICE_CUDA_STAMP_KERNEL_H

#include <stdint.h>

#define STAMP_FIXED UINT64_MAX
#define STAMP_KERNEL "lockstep_stamp"

/* What a place holds; `count` from 1. */
static inline
#ifdef __CUDA__
    __attribute__((device, always_inline))
#endif
    void
    stamp_fill(uint64_t word[4], uint64_t count, uint64_t tag, uint64_t device_ns)
{
    word[0] = count;
    word[1] = tag;
    word[2] = device_ns;
    word[3] = count * 0x9e3779b97f4a7c15u + tag * 0xbf58476d1ce4e5b9u +
              device_ns * 0x94d049bb133111ebu + 1;
}

#ifndef __CUDA__
#include <stddef.h>

extern const unsigned char stamp_kernel_ptx[]; /* made by tools/ptx; ends with a zero */
extern const size_t stamp_kernel_ptx_size;
#endif

#endif
