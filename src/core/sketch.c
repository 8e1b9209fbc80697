/* sketch.c - buckets by leading bits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/sketch.h"

#include <stddef.h>

#include "core/clean.h"

/* The leading one and the SKETCH_BITS bits after it, and how far they were moved. */
static size_t sketch_bucket_of(uint64_t value)
{
    int high = 63 - __builtin_clzll(value | 1);
    int shift = MAX(high - SKETCH_BITS, 0);

    return ((size_t)shift << SKETCH_BITS) + (size_t)(value >> shift);
}

static uint64_t sketch_bucket_middle(size_t bucket)
{
    size_t shift = bucket >> SKETCH_BITS;
    uint64_t lead = bucket;

    if (shift <= 1)
        return bucket; /* one value each */
    shift--;
    lead -= (uint64_t)shift << SKETCH_BITS;
    return (lead << shift) + (UINT64_C(1) << (shift - 1));
}

void sketch_add(struct sketch *sketch, uint64_t value)
{
    if (sketch->total == 0 || value < sketch->min)
        sketch->min = value;
    if (sketch->total == 0 || value > sketch->max)
        sketch->max = value;
    sketch->count[sketch_bucket_of(value)]++;
    sketch->total++;
}

void sketch_merge(struct sketch *sketch, const struct sketch *other)
{
    if (other->total == 0)
        return;
    if (sketch->total == 0 || other->min < sketch->min)
        sketch->min = other->min;
    if (sketch->total == 0 || other->max > sketch->max)
        sketch->max = other->max;
    for (size_t i = 0; i < SKETCH_BUCKETS; i++)
        sketch->count[i] += other->count[i];
    sketch->total += other->total;
}

uint64_t sketch_count(const struct sketch *sketch)
{
    return sketch->total;
}

uint64_t sketch_quantile(const struct sketch *sketch, double q)
{
    double wanted = q * (double)sketch->total;
    uint64_t seen = 0;

    if (sketch->total == 0)
        return 0;
    if (q >= 1)
        return sketch->max;
    if (q <= 0)
        return sketch->min;
    for (size_t i = 0; i < SKETCH_BUCKETS; i++) {
        seen += sketch->count[i];
        if (sketch->count[i] && (double)seen >= wanted) {
            uint64_t value = sketch_bucket_middle(i);

            return MIN(MAX(value, sketch->min), sketch->max);
        }
    }
    return sketch->max;
}
