/* bench_replay.c - replay_run() on the step of a large job, beside what memory allows.
 *
 * The jobs are tp 8 x pp 16 x dp D with 64 micro-batches.  The tensor-parallel group is one line,
 * each forward, backward, transfer between stages, reduce-scatter and optimizer one op.
 * Repeats of the sizes take turns, so that a noisy moment of the machine hits them
 * all; before each run one duration changes, as it does when a judge asks "what if".
 *
 * The ceiling is a plain pass that reads as many durations and writes as many times: a replay
 * cannot do with less.
 */
#include "lab/bench_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "judge/replay.h"
#include "lab/bench_pipeline.h"

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
struct job {
    struct pipeline pipeline;
    struct replay *replay;
    int64_t *scratch, *out;
    double create_ms;
    double *ms[TIMINGS]; /* by repeat */
};

static void job_fini(struct job *job)
{
    pipeline_fini(&job->pipeline);
    replay_destroy(job->replay);
    free(job->scratch);
    free(job->out);
    for (int i = 0; i < TIMINGS; i++)
        free(job->ms[i]);
}

static double ms_since(int64_t then)
{
    return (double)(time_mono_ns() - then) / (double)NS_PER_MS;
}

static int job_init(struct job *job, uint32_t gpus, bool by_rank, uint32_t repeats, struct err *err)
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
    job->create_ms = ms_since(begin);
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
static int64_t ceiling_pass(const int64_t *duration, size_t count, int64_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = duration[i] + 1;
    __asm__ volatile("" : : "r"(out) : "memory"); /* the writes count */
    return out[count / 2];
}

static int job_repeat(struct job *job, uint32_t repeat, struct err *err)
{
    int64_t *duration = job->pipeline.duration;
    size_t count = job->pipeline.count;
    int64_t step, begin;

    duration[(repeat * UINT64_C(7919)) % count] += 1000;
    begin = time_mono_ns();
    step = replay_run(job->replay, duration, job->scratch, NULL, NULL);
    job->ms[RUN][repeat] = ms_since(begin);

    begin = time_mono_ns();
    replay_slack(job->replay, duration, job->scratch, job->out);
    job->ms[SLACK][repeat] = ms_since(begin);

    begin = time_mono_ns();
    if (replay_run(job->replay, duration, job->scratch, job->out, NULL) != step)
        return err_set(err, -EIO, "two replays of the same durations differ");
    job->ms[RUN_ENDS][repeat] = ms_since(begin);

    begin = time_mono_ns();
    ceiling_pass(duration, count, job->scratch);
    job->ms[CEILING][repeat] = ms_since(begin);
    return 0;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *value, uint32_t count)
{
    qsort(value, count, sizeof(*value), compare_double);
    return value[count / 2];
}

void bench_report_add(struct bench_report *report, const char *name, const char *key, double value,
                      const char *text)
{
    struct bench_figure *figure = &report->figure[report->count];

    if (report->count == BENCH_FIGURES_MAX)
        return;
    snprintf(figure->name, sizeof(figure->name), "%s", name);
    snprintf(figure->key, sizeof(figure->key), "%s", key);
    snprintf(figure->text, sizeof(figure->text), "%s", text);
    figure->value = value;
    report->count++;
}

static const struct size {
    uint32_t gpus;
    bool by_rank;
    const char *name, *key, *text;
} sizes[] = {
    { 1024, false, "step_ms", "1024", "ms a replay, by number of GPUs" },
    { 16384, false, "step_ms", "16384", "" },
    { 131072, false, "step_ms", "131072", "" },
    { 131072, true, "by_rank_ms", "", "the same, but one rank's ops after another's" },
};

#define LARGEST 2

static void steps_report(struct job *job, uint32_t repeats, struct bench_report *report)
{
    const struct job *large = &job[LARGEST];
    double ms[COUNT(sizes)];

    for (size_t i = 0; i < COUNT(sizes); i++)
        ms[i] = median(job[i].ms[RUN], repeats);
    bench_report_add(report, "ops_per_second", "",
                     (double)large->pipeline.count * 1000 / ms[LARGEST],
                     "ops replayed per second, 131072 GPUs");
    bench_report_add(report, "ops", "", (double)large->pipeline.count, "ops, 131072 GPUs");
    bench_report_add(report, "compute_ops", "", (double)large->pipeline.compute_count,
                     "of them forwards and backwards");
    for (size_t i = 0; i < COUNT(sizes); i++)
        bench_report_add(report, sizes[i].name, sizes[i].key, ms[i], sizes[i].text);
    bench_report_add(report, "with_ends_ms", "", median(large->ms[RUN_ENDS], repeats),
                     "ms a replay that returns every end");
    bench_report_add(report, "slack_ms", "", median(large->ms[SLACK], repeats),
                     "ms for the slack of every op");
    bench_report_add(report, "create_ms", "", large->create_ms, "ms to compile the program");
    bench_report_add(report, "ceiling_ms", "", median(large->ms[CEILING], repeats),
                     "ms to stream the same durations and ends");
    bench_report_add(report, "of_ceiling", "", median(large->ms[CEILING], repeats) / ms[LARGEST],
                     "part of what memory allows");
}

static int bench_steps(uint32_t repeats, struct bench_report *report, struct err *err)
{
    struct job job[COUNT(sizes)] = { 0 };
    int r = 0;

    for (size_t i = 0; i < COUNT(sizes) && r == 0; i++)
        r = job_init(&job[i], sizes[i].gpus, sizes[i].by_rank, repeats, err);
    for (uint32_t repeat = 0; repeat < repeats && r == 0; repeat++) {
        for (size_t i = 0; i < COUNT(sizes) && r == 0; i++)
            r = job_repeat(&job[i], repeat, err);
    }
    if (r == 0)
        steps_report(job, repeats, report);
    for (size_t i = 0; i < COUNT(sizes); i++)
        job_fini(&job[i]);
    return r;
}

/* Every measurement of `bench replay`. */
static int (*const measurements[])(uint32_t repeats, struct bench_report *report,
                                   struct err *err) = {
    bench_steps,
};

int bench_replay(uint32_t repeats, struct bench_report *report, struct err *err)
{
    *report = (struct bench_report){ 0 };
    if (repeats < 1 || repeats > REPEATS_MAX)
        return err_set(err, -EINVAL, "repeats must be 1 to %d, not %u", REPEATS_MAX, repeats);
    for (size_t i = 0; i < COUNT(measurements); i++) {
        int r = measurements[i](repeats, report, err);

        if (r < 0)
            return r;
    }
    return 0;
}
