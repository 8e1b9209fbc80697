/* cpu_math.h - two computations with a known answer, in which one wrong bit changes the whole result.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_CPU_MATH_H
#define LOCKSTEP_VERIFY_CPU_MATH_H

#include <stdint.h>

#define CPU_MATH_INTEGER 0x148cec98201deb99ull
#define CPU_MATH_FMA 0x81929320e719016full

/* The state at step `flip_at` gets one wrong bit; 0: never, as everywhere but in tests. */
uint64_t cpu_math_integer(uint32_t flip_at);
uint64_t cpu_math_fma(uint32_t flip_at);

#endif
