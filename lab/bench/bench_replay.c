/* bench_replay.c - replay_run() on the step of a large job, beside what memory allows.
 *
 * The jobs are tp 8 x pp 16 x dp D with 64 micro-batches.  The tensor-parallel group is one line,
 * each forward, backward, transfer between stages, reduce-scatter and optimizer one op.
 * Repeats of the sizes take turns, so that a noisy moment of the machine hits them
 * all; before each run one duration changes, as it does when a judge asks "what if".
 *
 * The ceiling is a plain pass that reads as many durations and writes as many times: a replay
 * cannot do with less.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/bench_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "judge/median.h"
#include "judge/replay/replay.h"
#include "lab/bench/bench_judge.h"
#include "lab/bench/bench_pipeline.h"

#define TENSOR 8
#define STAGES 16
#define MICRO_BATCHES 64
#define REPEATS_MAX 1001

static const struct pipeline_times times = {
    .forward = 10 * NS_PER_MS,
    .backward = 20 * NS_PER_MS,
    .transfer = 200 * NS_PER_US,
    .reduce = 30 * NS_PER_MS,
    .optimizer = 5 * NS_PER_MS,
    .jitter = 0.02,
};

enum timing {
    RUN,
    RUN_ENDS,
    SLACK,
    CEILING,
    TIMINGS
};

/* One size of job, ready to run. */
struct replay_bench_job {
    struct pipeline pipeline;
    struct replay *replay;
    int64_t *scratch, *out;
    double create_ms;
    double *ms[TIMINGS]; /* by repeat */
};

static void job_fini(struct replay_bench_job *job)
{
    pipeline_fini(&job->pipeline);
    replay_destroy(job->replay);
    free(job->scratch);
    free(job->out);
    for (int i = 0; i < TIMINGS; i++)
        free(job->ms[i]);
}

static double bench_ms_since(int64_t then)
{
    return (double)(time_mono_ns() - then) / (double)NS_PER_MS;
}

static int job_init(struct replay_bench_job *job, uint32_t gpus, bool by_rank, uint32_t repeats,
                    struct err *err)
{
    const struct pipeline_shape shape = {
        .stages = STAGES,
        .replicas = gpus / (TENSOR * STAGES),
        .micro_batches = MICRO_BATCHES,
        .by_rank = by_rank,
    };
    struct rand rand = { .state = gpus };
    int64_t begin;
    int r = pipeline_init(&job->pipeline, &shape, &times, &rand);

    if (r < 0)
        return err_set(err, r, "no memory for a job of %u GPUs", gpus);
    begin = time_mono_ns();
    r = replay_create(job->pipeline.op, job->pipeline.count, &job->replay, err);
    job->create_ms = bench_ms_since(begin);
    if (r < 0)
        return r;
    job->scratch = aligned_alloc(64, replay_scratch_bytes(job->replay));
    job->out = malloc(job->pipeline.count * sizeof(*job->out));
    for (int i = 0; i < TIMINGS; i++)
        job->ms[i] = calloc(repeats, sizeof(*job->ms[i]));
    for (int i = 0; i < TIMINGS; i++) {
        if (!job->scratch || !job->out || !job->ms[i])
            return err_set(err, -ENOMEM, "no memory for a job of %u GPUs", gpus);
    }
    memset(job->scratch, 0, replay_scratch_bytes(job->replay)); /* no page faults later */
    memset(job->out, 0, job->pipeline.count * sizeof(*job->out));
    return 0;
}

/* As many durations read and times written as a replay must. */
static int64_t bench_ceiling_pass(const int64_t *duration, size_t count, int64_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = duration[i] + 1;
    __asm__ volatile("" : : "r"(out) : "memory"); /* the writes count */
    return out[count / 2];
}

static int job_repeat(struct replay_bench_job *job, uint32_t repeat, struct err *err)
{
    int64_t *duration = job->pipeline.duration;
    size_t count = job->pipeline.count;
    int64_t step, begin;

    duration[(repeat * UINT64_C(7919)) % count] += 1000;
    begin = time_mono_ns();
    step = replay_run(job->replay, duration, job->scratch, NULL, NULL);
    job->ms[RUN][repeat] = bench_ms_since(begin);

    begin = time_mono_ns();
    replay_slack(job->replay, duration, job->scratch, job->out);
    job->ms[SLACK][repeat] = bench_ms_since(begin);

    begin = time_mono_ns();
    if (replay_run(job->replay, duration, job->scratch, job->out, NULL) != step)
        return err_set(err, -EIO, "two replays of the same durations differ");
    job->ms[RUN_ENDS][repeat] = bench_ms_since(begin);

    begin = time_mono_ns();
    bench_ceiling_pass(duration, count, job->scratch);
    job->ms[CEILING][repeat] = bench_ms_since(begin);
    return 0;
}

static double bench_replay_median(double *value, uint32_t count)
{
    qsort(value, count, sizeof(*value), order_f64);
    return value[count / 2];
}

void bench_report_add(struct bench_report *report, const struct bench_figure *figure)
{
    if (report->count < BENCH_FIGURES_MAX)
        report->figure[report->count++] = *figure;
}

bool bench_figure_good(const struct bench_figure *figure)
{
    return figure->value >= figure->at_least &&
           (figure->at_most == 0 || figure->value <= figure->at_most);
}

static const struct size {
    uint32_t gpus;
    bool by_rank;
    struct bench_figure figure;
} sizes[] = {
    { 1024,
      false,
      { .name = "step_ms", .key = "1024", .text = "ms per replay, by number of GPUs" } },
    { 16384, false, { .name = "step_ms", .key = "16384" } },
    { 131072, false, { .name = "step_ms", .key = "131072", .at_most = 20 } },
    { 131072, true, { .name = "by_rank_ms", .text = "ms per replay, operations ordered by rank" } },
};

#define LARGEST 2

static void bench_steps_report(struct replay_bench_job *job, uint32_t repeats,
                               struct bench_report *report)
{
    const struct replay_bench_job *large = &job[LARGEST];
    double ms[TIMINGS], ops = (double)large->pipeline.count;

    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct bench_figure figure = sizes[i].figure;

        figure.value = bench_replay_median(job[i].ms[RUN], repeats);
        bench_report_add(report, &figure);
    }
    for (int i = 0; i < TIMINGS; i++)
        ms[i] = bench_replay_median(large->ms[i], repeats);
    const struct bench_figure figures[] = {
        { .name = "ops_per_second",
          .text = "operations replayed per second, 131072 GPUs",
          .value = ops * 1000 / ms[RUN],
          .at_least = 100e6 },
        { .name = "ops", .text = "operations of that step", .value = ops },
        { .name = "compute_ops",
          .text = "forwards and backwards among them",
          .value = (double)large->pipeline.compute_count },
        { .name = "with_ends_ms",
          .text = "ms per replay with the end of every operation",
          .value = ms[RUN_ENDS] },
        { .name = "slack_ms", .text = "ms for the slack of every operation", .value = ms[SLACK] },
        { .name = "create_ms", .text = "ms to compile the program", .value = large->create_ms },
        { .name = "ceiling_ms",
          .text = "ms to read as many durations and write as many ends",
          .value = ms[CEILING] },
        { .name = "of_ceiling",
          .text = "speed of the replay as a share of that",
          .value = ms[CEILING] / ms[RUN] },
    };
    for (size_t i = 0; i < COUNT(figures); i++)
        bench_report_add(report, &figures[i]);
}

static int bench_steps(uint32_t repeats, struct bench_report *report, struct err *err)
{
    struct replay_bench_job job[COUNT(sizes)] = { 0 };
    int r = 0;

    for (size_t i = 0; i < COUNT(sizes) && r == 0; i++)
        r = job_init(&job[i], sizes[i].gpus, sizes[i].by_rank, repeats, err);
    for (uint32_t repeat = 0; repeat < repeats && r == 0; repeat++) {
        for (size_t i = 0; i < COUNT(sizes) && r == 0; i++)
            r = job_repeat(&job[i], repeat, err);
    }
    if (r == 0)
        bench_steps_report(job, repeats, report);
    for (size_t i = 0; i < COUNT(sizes); i++)
        job_fini(&job[i]);
    return r;
}

/* Every measurement of `bench replay`. */
static int (*const measurements[])(uint32_t repeats, struct bench_report *report,
                                   struct err *err) = {
    bench_steps,
    bench_judge,
    bench_step_bytes,
};

int bench_replay(uint32_t repeats, struct bench_report *report, struct err *err)
{
    *report = (struct bench_report){ 0 };
    if (repeats < 1 || repeats > REPEATS_MAX)
        return err_set(err, -EINVAL, "--repeats must be 1 to %d, not %u", REPEATS_MAX, repeats);
    for (size_t i = 0; i < COUNT(measurements); i++) {
        int r = measurements[i](repeats, report, err);

        if (r < 0)
            return r;
    }
    return 0;
}
