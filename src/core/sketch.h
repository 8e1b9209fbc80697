/* sketch.h - quantiles of many values in bounded memory.
 *
 * Each power of two is cut into 64 equal buckets, so a quantile is off by at most 1/128 of
 * itself (0.8 %); values below 128 are kept exactly.  No libm: a bucket's number is read from
 * the value's own bits.  Two sketches add up to the sketch of both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_SKETCH_H
#define LOCKSTEP_CORE_SKETCH_H

#include <stdint.h>

#define SKETCH_BITS 6 /* buckets per power of two, as a power of two */
#define SKETCH_BUCKETS ((64 - SKETCH_BITS + 1) << SKETCH_BITS)

struct sketch { /* 30 KB; all zero is empty */
    uint64_t total;
    uint64_t min, max; /* exact; only when total is not 0 */
    uint64_t count[SKETCH_BUCKETS];
};

void sketch_add(struct sketch *sketch, uint64_t value);
void sketch_merge(struct sketch *sketch, const struct sketch *other);
uint64_t sketch_count(const struct sketch *sketch);

/* The value below or at which a part q of all values lie (0 ≤ q ≤ 1; 0.5 is the median, 0 the
 * smallest, 1 the largest).  0 when empty.
 */
uint64_t sketch_quantile(const struct sketch *sketch, double q);

#endif
