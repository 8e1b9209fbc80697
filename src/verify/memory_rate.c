/* memory_rate.c - how fast the host's memory is, and whether it gives back what was written.
 *
 * All CPUs copy at once, each its own buffers: what limits then is the memory, not one core.  A channel that is missing or
 * degraded shows as a rate below that of other nodes of the same type.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/checks.h"
#include "verify/measured.h"
#include "verify/other_load.h"

#define BUFFER_MAX ((size_t)32 << 20) /* larger than a core's share of the caches */
#define BUFFER_MIN ((size_t)1 << 20)
#define MEMORY_SHARE 8 /* of what is free, one part in so many is used */
#define WORKERS_MAX 1024
#define CPU_SHARE 0.9 /* of the processors, which all have nothing else to do */

struct memory_worker {
    pthread_t thread;
    bool begun, failed;
    size_t bytes;    /* of each buffer */
    int64_t time_ns; /* to copy for */
    uint64_t seed;
    int64_t wall_ns, cpu_ns; /* while it copied; cpu_ns: that it had a processor */
    double rate;             /* bytes per second, read and written */
    uint64_t wrong_at;
    bool wrong;
};

static void memory_fill(uint64_t *word, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        word[i] = (seed + i) * 0x9e3779b97f4a7c15ull;
}

static int64_t memory_cpu_ns(void)
{
    struct timespec now = { 0 };

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void *memory_worker_main(void *user)
{
    struct memory_worker *worker = user;
    CLEAN(free_clean) uint64_t *from = malloc(worker->bytes);
    CLEAN(free_clean) uint64_t *to = malloc(worker->bytes);
    size_t words = worker->bytes / sizeof(*from);
    int64_t began_ns, now_ns, cpu_ns;
    uint64_t copies = 0;

    if (!from || !to) {
        worker->failed = true;
        return NULL;
    }
    memory_fill(from, words, worker->seed);
    memset(to, 0, worker->bytes);
    cpu_ns = memory_cpu_ns();
    began_ns = now_ns = time_mono_ns();
    for (; now_ns - began_ns < worker->time_ns; now_ns = time_mono_ns()) {
        memcpy(copies % 2 ? from : to, copies % 2 ? to : from, worker->bytes);
        copies++;
    }
    worker->cpu_ns = memory_cpu_ns() - cpu_ns;
    worker->wall_ns = now_ns - began_ns;
    worker->rate = 2.0 * (double)worker->bytes * (double)copies * 1e9 / (double)(now_ns - began_ns);
    for (size_t i = 0; i < words && !worker->wrong; i++) {
        if (to[i] == (worker->seed + i) * 0x9e3779b97f4a7c15ull)
            continue;
        worker->wrong = true;
        worker->wrong_at = i * sizeof(*to);
    }
    return NULL;
}

/* A check that its control group or other programs keep from the CPUs has not measured the memory: a low rate then says nothing. */
static void memory_starved(const struct memory_worker *worker, size_t count,
                           struct verify_report *report)
{
    struct check *result = &report->result[0];
    size_t size = strlen(result->why);
    double got = 0;

    for (size_t i = 0; i < count; i++)
        got += worker[i].wall_ns ? (double)worker[i].cpu_ns / (double)worker[i].wall_ns : 0;
    if (report->count != 1 || !result->has_value || !result->has_expected ||
        (result->state != CHECK_LIMITED && result->state != CHECK_FAILED) ||
        got >= CPU_SHARE * (double)count)
        return;
    result->state = CHECK_UNKNOWN;
    snprintf(result->why + size, sizeof(result->why) - size,
             "; the check got %.1f of %zu processors: see the limits of its control group", got,
             count);
}

static size_t memory_buffer_bytes(size_t workers)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page / MEMORY_SHARE / workers / 2
                                         : BUFFER_MIN;

    return MIN(MAX(bytes & ~(size_t)4095, BUFFER_MIN), BUFFER_MAX);
}

static void memory_report(const struct memory_worker *worker, size_t count,
                          const struct verify_place *place, struct verify_report *report)
{
    double rate = 0;
    size_t missing = 0;

    for (size_t i = 0; i < count; i++) {
        rate += worker[i].rate;
        missing += !worker[i].begun || worker[i].failed;
        if (worker[i].wrong) {
            verify_result(report, CHECK_FAILED, "",
                          "memory gave back other bytes than were written, at offset %llu of a "
                          "buffer of %zu bytes",
                          (unsigned long long)worker[i].wrong_at, worker[i].bytes);
            return;
        }
    }
    if (missing) {
        verify_result(report, CHECK_UNKNOWN, "",
                      "%zu of %zu threads could not be started: not enough memory", missing, count);
        return;
    }
    measured_result(report, place->profile, "memory-rate", "", rate / 1e9, "GB/s");
}

static void memory_rate_run(const struct verify_place *place, struct verify_report *report)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = (size_t)MIN(MAX(cpus, 1L), (long)WORKERS_MAX);
    CLEAN(free_clean) struct memory_worker *worker = calloc(count, sizeof(*worker));
    size_t bytes = memory_buffer_bytes(count);
    struct other_load load;

    if (!worker) {
        verify_result(report, CHECK_UNKNOWN, "", "not enough memory");
        return;
    }
    other_load_begin(&load, place->root, NULL);
    for (size_t i = 0; i < count; i++) {
        worker[i].bytes = bytes;
        worker[i].time_ns = place->stage >= VERIFY_DEEP ? 10 * NS_PER_S : 2 * NS_PER_S;
        worker[i].seed = i << 32;
        worker[i].begun =
            pthread_create(&worker[i].thread, NULL, memory_worker_main, &worker[i]) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (worker[i].begun)
            pthread_join(worker[i].thread, NULL);
    }
    memory_report(worker, count, place, report);
    other_load_judge(&load, 0, report, 0);
    memory_starved(worker, count, report);
}

const struct verify_check check_memory_rate = {
    .name = "memory-rate",
    .summary =
        "rate of the host's memory with all CPUs copying, and whether it returns what was written",
    .why =
        "good nodes of one type differ by a few percent; a missing channel costs an eighth or more",
    .advice = "look for a missing or degraded memory module (dmidecode -t memory, ras-mc-ctl)",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 15 * NS_PER_S, 15 * NS_PER_S, 40 * NS_PER_S, 40 * NS_PER_S },
    .run = memory_rate_run,
};
