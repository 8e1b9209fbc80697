/* stamp_kernel.c - the kernel of stamp_kernel.h, in CUDA's C dialect; tools/ptx compiles it, the C compiler never does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/cuda/stamp_kernel.h"

extern "C" __attribute__((device)) uint64_t stamps_run; /* on this device, by this process */
__attribute__((device)) uint64_t stamps_run;

extern "C" __attribute__((global)) void lockstep_stamp(uint64_t *place, uint64_t mask, uint64_t tag)
{
    uint64_t count = tag, now, word[4];

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (mask != STAMP_FIXED) {
        asm volatile("atom.add.u64 %0, [%1], 1;" : "=l"(count) : "l"(&stamps_run) : "memory");
        place += (count & mask) * 4;
        count++;
    }
    stamp_fill(word, count, tag, now);
    /* Half by half: a reader that comes in between sees that the check is wrong. */
    asm volatile("st.v2.u64 [%0], {%1, %2};" : : "l"(place), "l"(word[0]), "l"(word[1]) : "memory");
    asm volatile("st.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(place + 2), "l"(word[2]), "l"(word[3])
                 : "memory");
}
