/* nccl_clock.c - a device's times on the host's clock. */
#include "core/clean.h"
#include "core/time.h"
#include "probe/nccl.h"

uint64_t nccl_clock_host(struct nccl_clock *clock, uint64_t device_ns, uint64_t now_ns)
{
    int64_t now = (int64_t)now_ns, difference, age, host;

    if (device_ns == 0 || device_ns > INT64_MAX || now_ns > INT64_MAX)
        return now_ns;
    difference = now - (int64_t)device_ns;
    age = now - clock->since_ns;
    if (!clock->set || age >= 2 * NS_PER_S || age < 0) {
        *clock = (struct nccl_clock){
            .since_ns = now, .now = difference, .before = difference, .set = true
        };
    } else if (age >= NS_PER_S) {
        clock->before = clock->now;
        clock->now = difference;
        clock->since_ns = now;
    }
    clock->now = MIN(clock->now, difference);
    host = (int64_t)device_ns + MIN(clock->now, clock->before); /* never after now */
    return host > 0 ? (uint64_t)host : now_ns;
}
