/* rand.h - repeatable random numbers from a seed, for the lab and for tests.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_RAND_H
#define LOCKSTEP_CORE_RAND_H

#include <stdint.h>

struct rand {
    uint64_t state; /* any value is a good seed */
};

static inline uint64_t rand_u64(struct rand *rand) /* splitmix64 */
{
    uint64_t z = (rand->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t rand_below(struct rand *rand, uint32_t limit) /* 0 … limit-1 */
{
    return (uint32_t)(((rand_u64(rand) >> 32) * limit) >> 32);
}

static inline double rand_unit(struct rand *rand) /* 0 ≤ x < 1 */
{
    return (double)(rand_u64(rand) >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1: twelve uniforms, no libm, tails cut at 6. */
static inline double rand_normal(struct rand *rand)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += rand_unit(rand);
    return sum;
}

#endif
