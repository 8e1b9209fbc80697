/* gpu_reference.h - the right answer of the exact test, by integer arithmetic and nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_GPU_GPU_REFERENCE_H
#define LOCKSTEP_VERIFY_GPU_GPU_REFERENCE_H

#include <stdint.h>

/* What each block leaves for its threads: GPU_THREADS * GPU_THREAD_WORDS words. */
void gpu_reference_exact(unsigned type, uint32_t seed, uint32_t rounds, uint32_t *out);

#endif
