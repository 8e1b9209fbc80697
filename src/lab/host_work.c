/* host_work.c - what a framework's host does between launches, as a fixed amount of arithmetic.
 *
 * A fixed amount and not a fixed time: where the CPU is shared or throttled it must take
 * longer, as Python does.
 */
#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer_parts.h"

#define WORK_LOOPS 256 /* in a unit: about half a microsecond */

static double host_work_unit(double value)
{
    for (int i = 0; i < WORK_LOOPS; i++)
        value = value * 0.999 + 0.5 / (1.0 + value);
    return value;
}

void host_work(double units)
{
    volatile double sink = 1; /* or the compiler would see that nobody wants the result */

    for (double done = 0; done < units; done++)
        sink = host_work_unit(sink);
}

/* CPU time, not wall time, and the best of several: other processes are on this CPU too. */
double host_work_calibrate(void)
{
    double best = 0;

    for (int round = 0; round < 8; round++) {
        int64_t before = time_ns(CLOCK_THREAD_CPUTIME_ID);
        double taken;

        host_work(200);
        taken = (double)(time_ns(CLOCK_THREAD_CPUTIME_ID) - before) / 200;
        if (round == 0 || taken < best)
            best = taken;
    }
    return MAX(best, 1.0);
}
