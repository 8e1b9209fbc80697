/* bench_probe.c - marks against clock reads, in turn, in one run.
 *
 * Every mark reads the clock once; what we add is the rest.  Batches of 1,000 marks of the
 * kinds that training makes most (phases, collectives) take turns with batches of 1,000
 * plain clock reads, so that a change of the machine's frequency hits both.  The cost is the
 * batch's time per mark less the run's median clock read.
 *
 * A collective of NCCL's is more than a mark: a group, a launch, and each channel's begin and end.  It is passed to our
 * plugin and to an empty one in turn.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/bench_probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "judge/median.h"
#include "lockstep/probe.h"
#include "probe/nccl_plugin.h"
#include "wire/ring.h"

#define BENCH_CYCLE 5u                            /* marks made by bench_cycle() */
#define BENCH_NCCL_BATCH (BENCH_PROBE_BATCH / 10) /* collectives: ten calls each */
#define BENCH_NCCL_CHANNELS 2
#define BENCH_EVICT_MIN_BYTES ((size_t)64 << 20)
#define BENCH_EVICT_MAX_BYTES ((size_t)1 << 30)

struct bench_lap { /* nanoseconds per mark, and per clock read, of each batch */
    double *mark, *clock;
    uint32_t count;
};

struct bench_thread {
    struct lockstep_probe *probe;
    pthread_barrier_t *start;
    pthread_t thread;
    int comm;
    struct bench_lap lap;
};

static double bench_probe_quantile(const double *sorted, uint32_t count, double q)
{
    return sorted[(uint32_t)(q * (count - 1) + 0.5)];
}

static void lap_free(struct bench_lap *lap)
{
    free(lap->mark);
    free(lap->clock);
}

static int lap_create(struct bench_lap *lap, uint32_t count)
{
    lap->mark = calloc(count, sizeof(*lap->mark));
    lap->clock = calloc(count, sizeof(*lap->clock));
    lap->count = count;
    return lap->mark && lap->clock ? 0 : -ENOMEM;
}

static struct bench_probe_cost lap_cost(struct bench_lap *lap)
{
    struct bench_probe_cost cost;

    qsort(lap->mark, lap->count, sizeof(double), order_f64);
    qsort(lap->clock, lap->count, sizeof(double), order_f64);
    cost.clock_p50_ns = bench_probe_quantile(lap->clock, lap->count, 0.50);
    cost.p50_ns = bench_probe_quantile(lap->mark, lap->count, 0.50) - cost.clock_p50_ns;
    cost.p99_ns = bench_probe_quantile(lap->mark, lap->count, 0.99) - cost.clock_p50_ns;
    return cost;
}

/* ---- warm ---- */

static void bench_cycle(struct lockstep_probe *probe, int comm)
{
    uint64_t key;

    lockstep_phase_begin(probe, LOCKSTEP_PHASE_FORWARD);
    key = lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE,
                                                        .bytes = 1 << 20, .stream = 1));
    lockstep_coll_start(probe, comm, key, 0);
    lockstep_coll_end(probe, comm, key, 0);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_FORWARD);
}

static double bench_marks_ns(struct lockstep_probe *probe, int comm)
{
    uint64_t begin = lockstep_clock_ns();

    for (uint32_t i = 0; i < BENCH_PROBE_BATCH / BENCH_CYCLE; i++)
        bench_cycle(probe, comm);
    return (double)(lockstep_clock_ns() - begin) / BENCH_PROBE_BATCH;
}

static double bench_clocks_ns(void)
{
    uint64_t begin = lockstep_clock_ns();

    for (uint32_t i = 0; i < BENCH_PROBE_BATCH; i++)
        lockstep_clock_ns();
    return (double)(lockstep_clock_ns() - begin) / BENCH_PROBE_BATCH;
}

static void bench_lap_run(struct lockstep_probe *probe, int comm, struct bench_lap *lap)
{
    lockstep_step_begin(probe, 1);
    for (uint32_t i = 0; i < lap->count; i++) {
        lap->mark[i] = bench_marks_ns(probe, comm);
        lap->clock[i] = bench_clocks_ns();
    }
}

static int bench_one(struct lockstep_probe *probe, int comm, uint32_t batches,
                     struct bench_probe_cost *ret)
{
    CLEAN(lap_free) struct bench_lap lap = { 0 };

    if (lap_create(&lap, batches) < 0)
        return -ENOMEM;
    bench_lap_run(probe, comm, &lap);
    *ret = lap_cost(&lap);
    return 0;
}

static void *bench_thread_main(void *arg)
{
    struct bench_thread *self = arg;

    pthread_barrier_wait(self->start);
    bench_lap_run(self->probe, self->comm, &self->lap);
    return NULL;
}

/* The figure of two threads is the dearer one's. */
static int bench_two(struct lockstep_probe *probe, const int comm[static 2], uint32_t batches,
                     struct bench_probe_cost *ret)
{
    struct bench_thread thread[2] = { { 0 } };
    pthread_barrier_t start;
    int result = 0, running = 0;

    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < 2 && result == 0; i++) {
        thread[i] = (struct bench_thread){ .probe = probe, .comm = comm[i], .start = &start };
        result = lap_create(&thread[i].lap, batches);
    }
    for (int i = 0; i < 2 && result == 0; i++, running += result == 0)
        result = -pthread_create(&thread[i].thread, NULL, bench_thread_main, &thread[i]);
    if (running == 1) /* let the first one through */
        pthread_barrier_wait(&start);
    for (int i = 0; i < running; i++)
        pthread_join(thread[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        if (result == 0) {
            struct bench_probe_cost cost = lap_cost(&thread[i].lap);

            if (i == 0 || cost.p50_ns > ret->p50_ns)
                *ret = cost;
        }
        lap_free(&thread[i].lap);
    }
    pthread_barrier_destroy(&start);
    return result;
}

/* ---- cold ---- */

static size_t bench_evict_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? 2 * (size_t)cache : 0;

    return MIN(MAX(bytes, BENCH_EVICT_MIN_BYTES), BENCH_EVICT_MAX_BYTES);
}

/* Writes a line each, so that nothing of ours stays in any cache. */
static void bench_evict(volatile unsigned char *buffer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        buffer[i]++;
}

/* Clock, mark, clock against clock, clock, clock, each after the caches were emptied. */
static int bench_cold(struct lockstep_probe *probe, int comm, uint32_t samples, double *ret_ns)
{
    CLEAN(lap_free) struct bench_lap lap = { 0 };
    size_t bytes = bench_evict_bytes();
    CLEAN(free_clean) unsigned char *buffer = calloc(1, bytes);

    if (!buffer || lap_create(&lap, samples) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t begin;

        bench_evict(buffer, bytes);
        begin = lockstep_clock_ns();
        lockstep_coll_start(probe, comm, i, 0);
        lap.mark[i] = (double)(lockstep_clock_ns() - begin);
        bench_evict(buffer, bytes);
        begin = lockstep_clock_ns();
        lockstep_clock_ns();
        lap.clock[i] = (double)(lockstep_clock_ns() - begin);
    }
    *ret_ns = lap_cost(&lap).p50_ns;
    return 0;
}

/* ---- NCCL's collectives ---- */

static int bench_empty_start(void *context, void **handle, struct nccl_descr_v5 *descr)
{
    (void)descr;
    *handle = context;
    return NCCL_SUCCESS;
}

static int bench_empty_stop(void *handle)
{
    (void)handle;
    return NCCL_SUCCESS;
}

static int bench_empty_record(void *handle, int state, union nccl_state *args)
{
    (void)handle;
    (void)state;
    (void)args;
    return NCCL_SUCCESS;
}

static const struct nccl_profiler_v5 bench_empty = {
    .name = "empty",
    .start = bench_empty_start,
    .stop = bench_empty_stop,
    .record = bench_empty_record,
};

static void bench_collective(const struct nccl_profiler_v5 *plugin, void *context,
                             uint64_t timer_ns)
{
    void *group = NULL, *task = NULL, *kernel[BENCH_NCCL_CHANNELS] = { NULL };
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_GROUP };
    union nccl_state state = { .timer_ns = timer_ns };

    plugin->start(context, &group, &descr);
    descr = (struct nccl_descr_v5){ .type = NCCL_EVENT_COLL };
    descr.coll.is = (struct nccl_coll_v4){ .func = "AllReduce",
                                           .datatype = "ncclBfloat16",
                                           .algorithm = "RING",
                                           .protocol = "SIMPLE",
                                           .count = 1 << 20,
                                           .channels = BENCH_NCCL_CHANNELS };
    descr.coll.group = group;
    plugin->start(context, &task, &descr);
    plugin->stop(task);
    plugin->stop(group);
    descr = (struct nccl_descr_v5){ .type = NCCL_EVENT_KERNEL, .parent = task };
    descr.kernel.timer_ns = timer_ns;
    for (uint8_t i = 0; i < BENCH_NCCL_CHANNELS; i++) {
        descr.kernel.channel = i;
        plugin->start(context, &kernel[i], &descr);
    }
    for (uint8_t i = 0; i < BENCH_NCCL_CHANNELS; i++) {
        plugin->record(kernel[i], 0, &state);
        plugin->stop(kernel[i]);
    }
}

static double bench_collectives_ns(const struct nccl_profiler_v5 *volatile plugin, void *context)
{
    uint64_t begin = lockstep_clock_ns();

    for (uint32_t i = 0; i < BENCH_NCCL_BATCH; i++)
        bench_collective(plugin, context, begin + i); /* read anew: nothing is inlined */
    /* NOLINTNEXTLINE(bugprone-integer-division): the batch is a whole number */
    return (double)(lockstep_clock_ns() - begin) / BENCH_NCCL_BATCH;
}

static int bench_nccl(uint32_t batches, struct bench_probe_nccl *ret)
{
    CLEAN(lap_free) struct bench_lap lap = { 0 };
    static int mask; /* the plugin keeps its address */
    void *context = NULL;

    if (lap_create(&lap, batches) < 0)
        return -ENOMEM;
    ncclProfiler_v5.init(&context, 3, &mask, "bench 3", 1, 8, 0, NULL);
    if (!context)
        return -ENODEV;
    for (uint32_t i = 0; i < batches; i++) {
        lap.mark[i] = bench_collectives_ns(&ncclProfiler_v5, context);
        lap.clock[i] = bench_collectives_ns(&bench_empty, context);
    }
    ncclProfiler_v5.finalize(context);
    qsort(lap.mark, batches, sizeof(double), order_f64);
    qsort(lap.clock, batches, sizeof(double), order_f64);
    *ret =
        (struct bench_probe_nccl){ .p50_ns = bench_probe_quantile(lap.mark, batches, 0.50),
                                   .p99_ns = bench_probe_quantile(lap.mark, batches, 0.99),
                                   .floor_p50_ns = bench_probe_quantile(lap.clock, batches, 0.50) };
    return 0;
}

/* ---- a ring of its own ---- */

static int bench_measure(struct lockstep_probe *probe, const struct bench_probe_plan *plan,
                         struct bench_probe_result *ret)
{
    const int comm[2] = {
        lockstep_comm_add(probe, 1, 8, 0, LOCKSTEP_COMM_DP, "bench 1"),
        lockstep_comm_add(probe, 2, 8, 0, LOCKSTEP_COMM_TP, "bench 2"),
    };
    int result = bench_one(probe, comm[0], plan->batches, &ret->one);

    if (result == 0)
        result = bench_two(probe, comm, plan->batches, &ret->two);
    if (result == 0)
        result = bench_nccl(plan->batches, &ret->nccl);
    if (result == 0)
        result = bench_cold(probe, comm[0], plan->cold, &ret->cold_p50_ns);
    return result;
}

static int bench_dir_create(char *dir, size_t room, struct err *err)
{
    snprintf(dir, room, "/dev/shm/lockstep-bench-XXXXXX");
    if (!mkdtemp(dir)) {
        snprintf(dir, room, "/tmp/lockstep-bench-XXXXXX");
        if (!mkdtemp(dir))
            return err_set(err, -errno, "%s: %m", dir);
    }
    return 0;
}

int bench_probe_run(const struct bench_probe_plan *plan, struct bench_probe_result *ret,
                    struct err *err)
{
    struct lockstep_probe *probe = NULL;
    char dir[64], path[128];
    int used, result = bench_dir_create(dir, sizeof(dir), err);

    if (result < 0)
        return result;
    setenv("LOCKSTEP_DIR", dir, 1);
    setenv("LOCKSTEP_NCCL", "times", 1);
    result = lockstep_probe_open(0, 1, &probe, NULL, 0);
    if (result < 0) {
        err_set(err, result, "%s: cannot open a ring", dir);
    } else {
        result = bench_measure(probe, plan, ret);
        if (result < 0)
            err_set(err, result, "%s", strerror(-result));
    }
    lockstep_probe_close(probe);
    used = snprintf(path, sizeof(path), "%s/", dir);
    snprintf(path + used, sizeof(path) - (size_t)used, RING_NAME_FORMAT, 0u, 0u);
    unlink(path);
    rmdir(dir);
    return result;
}
