/* time.h - the clock.
 *
 * Judges get `now` as an argument; only the rooms that run (probe, agent, control's server, act, lab, cmd) read the
 * clock, and only through this header.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_TIME_H
#define LOCKSTEP_CORE_TIME_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t time_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline int64_t time_mono_ns(void) /* the same for all processes of a node */
{
    return time_ns(CLOCK_MONOTONIC);
}

static inline int64_t time_boot_ns(void) /* goes on while the machine is suspended: for leases */
{
    return time_ns(CLOCK_BOOTTIME);
}

static inline int64_t time_real_ns(void)
{
    return time_ns(CLOCK_REALTIME);
}

static inline struct timespec time_spec(int64_t ns)
{
    return (struct timespec){ .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
}

/* What poll() and epoll_wait() take to wait from now until then: rounded up, at most an hour.  0 when it has come;
 * -1, for ever, only for INT64_MAX.  For them any other negative number is for ever, too.
 */
static inline int time_poll_ms(int64_t until_ns, int64_t now_ns)
{
    const uint64_t most_ms = 3600 * 1000, ns_per_ms = NS_PER_MS;
    uint64_t left_ms;

    if (until_ns == INT64_MAX)
        return -1;
    if (until_ns <= now_ns)
        return 0;
    left_ms = ((uint64_t)until_ns - (uint64_t)now_ns - 1) / ns_per_ms + 1;
    return (int)(left_ms < most_ms ? left_ms : most_ms);
}

/* A date without a zone, as the zone of this process has it; 0: no time, or one of another age. */
int64_t time_local_ns(struct tm *date);

/* "2026-03-01T10:42:07.123Z" */
void time_format_utc(int64_t real_ns, char out[static 32]);

#endif
