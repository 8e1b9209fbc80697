/* clock-stall.c - a machine with too much to do: preloaded into a program under test.
 *
 * Between any two readings of the clock the program may lose the CPU for milliseconds.  Here that happens often:
 * each reading is preceded by a sleep of up to $CLOCK_STALL_US microseconds, one time in four.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t draw(void) /* xorshift; each thread has its own */
{
    static _Thread_local uint64_t state;

    if (!state)
        state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(uintptr_t)&state;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static long stall_most_us(void)
{
    const char *text = getenv("CLOCK_STALL_US");

    return text ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long most_us = stall_most_us();

    if (most_us > 0 && draw() % 4 == 0) {
        struct timespec pause = { .tv_nsec = (long)(draw() % (uint64_t)most_us) * 1000 };

        nanosleep(&pause, NULL);
    }
    return (int)syscall(SYS_clock_gettime, clock, ret);
}
