/* rate.c - leaky buckets in a table of fixed size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/rate.h"

#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

void rate_init(struct rate *rate, double per_second, double burst)
{
    memset(rate, 0, sizeof(*rate));
    rate->per_second = per_second;
    rate->burst = burst;
}

static double rate_bucket_level(const struct rate *rate, const struct rate_bucket *bucket,
                                int64_t now_ns)
{
    double drained = (double)(now_ns - bucket->at_ns) / (double)NS_PER_S * rate->per_second;

    return MAX(bucket->used - MAX(drained, 0), 0);
}

bool rate_take(struct rate *rate, uint64_t who, double amount, int64_t now_ns)
{
    struct rate_bucket *bucket = &rate->bucket[hash64_u64(1, who) % RATE_BUCKETS];
    double level = rate_bucket_level(rate, bucket, now_ns);

    if (level >= rate->burst)
        return false;
    bucket->used = level + amount;
    bucket->at_ns = now_ns;
    return true;
}
