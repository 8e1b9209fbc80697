/* cpu_math.c - does every CPU compute right?
 *
 * CPUs corrupt data as well as GPUs do, and mostly on one core of a machine.  Each CPU, pinned, repeats two computations whose
 * answers are written in cpu_math.h: multiplications and shifts of integers, and fused multiply-adds of doubles in vector
 * registers.  One wrong bit in any step changes the result.  IEEE 754 rounds a fused multiply-add exactly one way, so the
 * answer is the same on every CPU, with vector instructions and without.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/cpu_math.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/checks.h"

#define INTEGER_STEPS 1000000u
#define FMA_STEPS 200000u
#define FMA_LANES 16u
#define CPUS_MAX 4096

uint64_t cpu_math_integer(uint32_t flip_at)
{
    uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xbf58476d1ce4e5b9ull;

    for (uint32_t i = 1; i <= INTEGER_STEPS; i++) {
        a = (a ^ (b >> 29)) * 0xd6e8feb86659fd93ull;
        b = (b << 23 | b >> 41) + a * (b | 1);
        a ^= b / ((a >> 40) | 1);
        if (i == flip_at)
            a ^= 1ull << 17;
    }
    return a ^ b;
}

static uint64_t cpu_math_digest(const uint64_t sum[static FMA_LANES])
{
    uint64_t digest = 0;

    for (uint32_t lane = 0; lane < FMA_LANES; lane++)
        digest = (digest << 7 | digest >> 57) ^ sum[lane];
    return digest;
}

/* The logistic map x = r x (1 - x), in the lanes of vector registers.  Where the map is flat a wrong bit is lost in the next
 * step, so every step goes into a sum, times an odd number, from which nothing is lost.
 */
#define FMA_BODY                                                                                   \
    union {                                                                                        \
        double number[FMA_LANES];                                                                  \
        uint64_t bits[FMA_LANES];                                                                  \
    } x;                                                                                           \
    uint64_t sum[FMA_LANES] = { 0 };                                                               \
                                                                                                   \
    for (uint32_t lane = 0; lane < FMA_LANES; lane++)                                              \
        x.number[lane] = (lane + 1) / 37.0;                                                        \
    for (uint32_t i = 1; i <= FMA_STEPS; i++) {                                                    \
        for (uint32_t lane = 0; lane < FMA_LANES; lane++) {                                        \
            double t = 3.984375 * x.number[lane];                                                  \
                                                                                                   \
            x.number[lane] = fma(-t, x.number[lane], t);                                           \
        }                                                                                          \
        if (i == flip_at)                                                                          \
            x.bits[5] ^= 1;                                                                        \
        for (uint32_t lane = 0; lane < FMA_LANES; lane++)                                          \
            sum[lane] = sum[lane] * 5 + x.bits[lane];                                              \
    }                                                                                              \
    return cpu_math_digest(sum);

static uint64_t cpu_math_plain(uint32_t flip_at)
{
    FMA_BODY
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static uint64_t cpu_math_avx2(uint32_t flip_at)
{
    FMA_BODY
}

__attribute__((target("avx512f,avx512vl"))) static uint64_t cpu_math_avx512(uint32_t flip_at){
    FMA_BODY
}
#endif

uint64_t cpu_math_fma(uint32_t flip_at)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return cpu_math_avx512(flip_at);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return cpu_math_avx2(flip_at);
#endif
    return cpu_math_plain(flip_at);
}

/* ---- every CPU ---- */

struct cpu_worker {
    pthread_t thread;
    int cpu;
    int64_t end_ns;
    bool begun, pinned;
    uint64_t rounds, wrong;
    const char *kernel; /* of the first wrong one */
    uint64_t got, expected, at_round;
};

static void cpu_worker_compare(struct cpu_worker *worker, const char *kernel, uint64_t got,
                               uint64_t expected)
{
    if (got == expected)
        return;
    if (!worker->wrong++) {
        worker->kernel = kernel;
        worker->got = got;
        worker->expected = expected;
        worker->at_round = worker->rounds + 1;
    }
}

static void *cpu_worker_main(void *user)
{
    struct cpu_worker *worker = user;
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);

    if (set) {
        CPU_ZERO_S(size, set);
        CPU_SET_S((size_t)worker->cpu, size, set);
        worker->pinned = sched_setaffinity(0, size, set) == 0;
        CPU_FREE(set);
    }
    do {
        cpu_worker_compare(worker, "integer", cpu_math_integer(0), CPU_MATH_INTEGER);
        cpu_worker_compare(worker, "fused multiply-add", cpu_math_fma(0), CPU_MATH_FMA);
        worker->rounds++;
    } while (time_mono_ns() < worker->end_ns);
    return NULL;
}

/* One worker for each CPU that this process may use.  NULL: no memory. */
static struct cpu_worker *cpu_workers_make(size_t *count)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX), room = 0;
    struct cpu_worker *worker = NULL;

    *count = 0;
    if (set && sched_getaffinity(0, size, set) == 0)
        room = (size_t)CPU_COUNT_S(size, set);
    worker = calloc(room ? room : 1, sizeof(*worker));
    for (int cpu = 0; worker && cpu < CPUS_MAX && *count < room; cpu++) {
        if (CPU_ISSET_S((size_t)cpu, size, set))
            worker[(*count)++].cpu = cpu;
    }
    if (set)
        CPU_FREE(set);
    return worker;
}

static int64_t cpu_math_time_ns(const struct verify_place *place)
{
    static const int64_t time_ns[VERIFY_STAGES] = { NS_PER_S, 3 * NS_PER_S, 30 * NS_PER_S };

    return place->stage == VERIFY_BURN ? place->burn_ns : time_ns[place->stage];
}

static void cpu_workers_report(const struct cpu_worker *worker, size_t count,
                               struct verify_report *report)
{
    uint64_t rounds = 0, bad = 0, missing = 0;
    char device[FACT_NAME];

    for (size_t i = 0; i < count; i++) {
        rounds += worker[i].rounds;
        missing += !worker[i].begun || !worker[i].pinned;
        if (!worker[i].wrong)
            continue;
        bad++;
        snprintf(device, sizeof(device), "cpu %d", worker[i].cpu);
        verify_result(
            report, CHECK_FAILED, device,
            "wrong result of the %s kernel in %llu of %llu rounds: %016llx, expected %016llx",
            worker[i].kernel, (unsigned long long)worker[i].wrong,
            (unsigned long long)worker[i].rounds, (unsigned long long)worker[i].got,
            (unsigned long long)worker[i].expected);
    }
    if (missing)
        verify_result(report, CHECK_UNKNOWN, "", "%llu of %zu CPUs could not be tested",
                      (unsigned long long)missing, count);
    if (!bad && !missing) {
        struct check *result =
            verify_result(report, CHECK_OK, "", "%zu CPUs computed right", count);

        result->has_value = true;
        result->value = (double)rounds;
        snprintf(result->unit, sizeof(result->unit), "rounds");
    }
}

/* CPUs of the machine that a control group or an affinity keeps from this process were not looked at. */
static void cpu_others_report(size_t count, struct verify_report *report)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (online > 0 && (size_t)online > count)
        verify_result(report, CHECK_UNKNOWN, "",
                      "%zu of %ld CPUs were not tested: this process may not use them",
                      (size_t)online - count, online);
}

static void cpu_math_run(const struct verify_place *place, struct verify_report *report)
{
    size_t count = 0;
    CLEAN(free_clean) struct cpu_worker *worker = cpu_workers_make(&count);
    int64_t end_ns = time_mono_ns() + cpu_math_time_ns(place);

    if (!worker || !count) {
        verify_result(report, CHECK_UNKNOWN, "", "the CPUs of this process could not be listed");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        worker[i].end_ns = end_ns;
        worker[i].begun = pthread_create(&worker[i].thread, NULL, cpu_worker_main, &worker[i]) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (worker[i].begun)
            pthread_join(worker[i].thread, NULL);
    }
    cpu_workers_report(worker, count, report);
    cpu_others_report(count, report);
}

const struct verify_check check_cpu_math = {
    .name = "cpu-math",
    .summary = "every CPU computes right: integers and vectors, compared with known answers",
    .why = "a right CPU gives the same bits every time, so one difference is enough",
    .advice = "take the node out of service and replace the CPU; results of earlier jobs on it are "
              "in doubt",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 10 * NS_PER_S, 12 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S },
    .run = cpu_math_run,
};
