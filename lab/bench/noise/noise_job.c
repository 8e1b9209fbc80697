/* noise_job.c - simulates the steps of such a job, and counts the verdicts about them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/noise/noise_job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"
#include "judge/ledger.h"
#include "lockstep/probe.h"

#define STEP_NS NS_PER_S /* only shares matter */
#define DATA_NS (STEP_NS / 100)
#define LAUNCH_NS (STEP_NS / 1000)
#define FORWARD_NS (STEP_NS * 28 / 100)
#define BACKWARD_NS (STEP_NS * 56 / 100)
#define OPTIMIZER_NS (STEP_NS * 4 / 100)
#define TENSOR_NS (STEP_NS * 2 / 100)
#define BUCKET_NS (STEP_NS * 5 / 100)
#define WORLD_NS (STEP_NS * 3 / 100)
#define TAIL_NS (STEP_NS / 500)

enum noise_item { /* of each rank's step, in launch order */
    ITEM_OF_DATA,
    ITEM_OF_HOST,
    ITEM_OF_FORWARD,
    ITEM_OF_TENSOR,
    ITEM_OF_BACKWARD,
    ITEM_OF_BUCKET,
    ITEM_OF_WORLD,
    ITEM_OF_OPTIMIZER,
    ITEMS
};

struct noise_job {
    const struct noise_job_settings *settings;
    struct noise_job_result result;
    struct noise noise;
    struct judge_state judge;
    struct job_step job_step;
    struct noise_host *host;
    struct item_time (*time)[ITEMS]; /* by rank */
    double *slow;                    /* by rank: device work takes so many times as long */
    uint32_t ranks, hosts;
    int64_t begin_ns, judged_ns;
    uint64_t step;
};

static void job_fini(struct noise_job *job)
{
    free(job->host);
    free(job->time);
    free(job->slow);
    free(job->job_step.step_of); /* their times are the job's */
    free(job->job_step.shape_of);
    judge_state_fini(&job->judge);
}

/* ---- who they are ---- */

static struct shape_item job_item(enum noise_item item, uint32_t rank)
{
    static const struct shape_item items[ITEMS] = {
        [ITEM_OF_DATA] = { .kind = ITEM_PHASE, .what = LOCKSTEP_PHASE_DATA },
        [ITEM_OF_HOST] = { .kind = ITEM_PHASE, .what = LOCKSTEP_PHASE_FORWARD },
        [ITEM_OF_FORWARD] = { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_FORWARD, .stream = 1 },
        [ITEM_OF_TENSOR] = { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .stream = 2 },
        [ITEM_OF_BACKWARD] = { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_BACKWARD, .stream = 1 },
        [ITEM_OF_BUCKET] = { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .stream = 3 },
        [ITEM_OF_WORLD] = { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .stream = 3 },
        [ITEM_OF_OPTIMIZER] = { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_OPTIMIZER, .stream = 1 },
    };
    struct shape_item made = items[item];

    made.count = 1;
    if (made.kind == ITEM_COLL)
        made.bytes = 1 << 20;
    if (item == ITEM_OF_TENSOR)
        made.comm = 0x10000 + rank / NOISE_RANKS;
    else if (item == ITEM_OF_BUCKET)
        made.comm = 0x2000000 + rank % NOISE_RANKS;
    else if (item == ITEM_OF_WORLD)
        made.comm = 0x3000000;
    return made;
}

static int job_comms(struct noise_job *job, uint32_t rank)
{
    const struct fact_comm comm[] = {
        { .id = 0x10000 + rank / NOISE_RANKS, .size = NOISE_RANKS, .index = rank % NOISE_RANKS },
        { .id = 0x2000000 + rank % NOISE_RANKS, .size = job->hosts, .index = rank / NOISE_RANKS },
        { .id = 0x3000000, .size = job->ranks, .index = rank },
    };
    int result = 0;

    for (size_t i = 0; i < COUNT(comm) && result == 0; i++) {
        struct fact_comm fact = comm[i];

        fact.rank = rank;
        result = model_comm(&job->judge.model, &fact);
    }
    return result;
}

static int job_introduce(struct noise_job *job, uint32_t rank)
{
    struct fact_ring ring = { .rank = rank, .world = job->ranks, .has_layout = true };
    CLEAN(fact_shape_fini) struct fact_shape shape = { .count = ITEMS };
    const uint16_t layout[] = { NOISE_RANKS,
                                1,
                                (uint16_t)job->hosts,
                                1,
                                1,
                                (uint16_t)(rank % NOISE_RANKS),
                                0,
                                (uint16_t)(rank / NOISE_RANKS),
                                0,
                                0 };
    int result;

    memcpy(ring.layout, layout, sizeof(layout));
    snprintf(ring.node, sizeof(ring.node), "n%u", rank / NOISE_RANKS);
    result = model_ring(&job->judge.model, &ring);
    if (result == 0)
        result = job_comms(job, rank);
    shape.item = malloc(ITEMS * sizeof(*shape.item));
    if (result < 0 || !shape.item)
        return result < 0 ? result : -ENOMEM;
    for (int item = 0; item < ITEMS; item++)
        shape.item[item] = job_item((enum noise_item)item, rank);
    shape_hash(&shape);
    job->job_step.step_of[rank].shape = shape.hash;
    result = model_shape(&job->judge.model, &shape);
    job->job_step.shape_of[rank] =
        model_shape_get(&job->judge.model, job->job_step.step_of[rank].shape);
    return result;
}

static int job_init(struct noise_job *job)
{
    int result = judge_state_init(&job->judge, "noise");

    job->ranks = job->settings->ranks;
    job->hosts = job->ranks / NOISE_RANKS;
    job->begin_ns = NS_PER_S;
    noise_init(&job->noise, job->settings->tape, job->settings->seed, job->settings->step_s,
               job->settings->often);
    if (result == 0)
        result = job_step_init(&job->job_step, job->ranks, 0, 0);
    job->host = calloc(job->hosts, sizeof(*job->host));
    job->time = malloc(job->ranks * sizeof(*job->time));
    job->slow = malloc(job->ranks * sizeof(*job->slow));
    if (result < 0 || !job->host || !job->time || !job->slow)
        return result < 0 ? result : -ENOMEM;
    ledger_run(job->judge.book, job->ranks, 0);
    for (uint32_t rank = 0; rank < job->ranks && result == 0; rank++) {
        job->slow[rank] = 1;
        result = job_introduce(job, rank);
    }
    return result;
}

/* ---- a step ---- */

static int64_t noise_job_share(int64_t ns, double more)
{
    return (int64_t)((double)ns * (1 + MAX(-0.5, more)));
}

/* Host work, then forward of all ranks of a host, and where they meet. */
static void job_host_forward(struct noise_job *job, uint32_t host,
                             const struct noise_draw draw[NOISE_RANKS])
{
    int64_t last = 0, end;

    for (uint32_t i = 0; i < NOISE_RANKS; i++) {
        uint32_t rank = host * NOISE_RANKS + i;
        struct item_time *time = job->time[rank];
        int64_t launched = DATA_NS + LAUNCH_NS + (int64_t)(draw[i].host * (double)STEP_NS);

        time[ITEM_OF_DATA] = (struct item_time){ 0, 0, DATA_NS, -1 };
        time[ITEM_OF_HOST] = (struct item_time){ DATA_NS, DATA_NS, launched, -1 };
        time[ITEM_OF_FORWARD] = (struct item_time){
            launched, launched,
            launched +
                (int64_t)((double)noise_job_share(FORWARD_NS, draw[i].compute) * job->slow[rank]),
            -1
        };
        last = MAX(last, time[ITEM_OF_FORWARD].end_ns);
    }
    end = last + noise_job_share(TENSOR_NS, noise_transfer(&job->noise));
    for (uint32_t i = 0; i < NOISE_RANKS; i++) {
        uint32_t rank = host * NOISE_RANKS + i;
        struct item_time *time = job->time[rank];
        int64_t launched = time[ITEM_OF_HOST].end_ns;
        int64_t ns =
            (int64_t)((double)noise_job_share(BACKWARD_NS, draw[i].compute) * job->slow[rank]);

        time[ITEM_OF_TENSOR] =
            (struct item_time){ launched, time[ITEM_OF_FORWARD].end_ns, end, -1 };
        time[ITEM_OF_BACKWARD] = (struct item_time){ launched, end, end + ns, -1 };
        job->job_step.step_of[rank].run_delay_ns = (int64_t)(draw[i].delay * (double)STEP_NS);
    }
}

/* Members are `stride` apart; all go on when the last has come. */
static void noise_job_meet(struct noise_job *job, enum noise_item item, enum noise_item after,
                           uint32_t first, uint32_t stride, int64_t ns)
{
    int64_t last = 0;

    for (uint32_t rank = first; rank < job->ranks; rank += stride)
        last = MAX(last, job->time[rank][after].end_ns);
    last += noise_job_share(ns, noise_transfer(&job->noise));
    for (uint32_t rank = first; rank < job->ranks; rank += stride)
        job->time[rank][item] = (struct item_time){ job->time[rank][ITEM_OF_HOST].end_ns,
                                                    job->time[rank][after].end_ns, last, -1 };
}

static int64_t job_optimize(struct noise_job *job)
{
    int64_t longest = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        struct item_time *time = job->time[rank];
        int64_t start = time[ITEM_OF_WORLD].end_ns;

        time[ITEM_OF_OPTIMIZER] =
            (struct item_time){ time[ITEM_OF_HOST].end_ns, start,
                                start + (int64_t)((double)OPTIMIZER_NS * job->slow[rank]), -1 };
        longest = MAX(longest, time[ITEM_OF_OPTIMIZER].end_ns);
    }
    return longest;
}

/* Of this thread: others may use the machine, too. */
static int64_t job_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int job_step(struct noise_job *job)
{
    int64_t longest, before;
    int result;

    for (uint32_t host = 0; host < job->hosts; host++) {
        struct noise_draw draw[NOISE_RANKS];

        noise_next(&job->noise, &job->host[host], draw);
        job_host_forward(job, host, draw);
    }
    for (uint32_t index = 0; index < NOISE_RANKS; index++)
        noise_job_meet(job, ITEM_OF_BUCKET, ITEM_OF_BACKWARD, index, NOISE_RANKS, BUCKET_NS);
    noise_job_meet(job, ITEM_OF_WORLD, ITEM_OF_BUCKET, 0, 1, WORLD_NS);
    longest = job_optimize(job);
    job->job_step.step = job->step;
    job->job_step.have = job->ranks;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        struct fact_step *step = &job->job_step.step_of[rank];
        int64_t delay = step->run_delay_ns;

        *step = (struct fact_step){ .rank = rank,
                                    .step = job->step,
                                    .shape = step->shape,
                                    .begin_ns = job->begin_ns,
                                    .duration_ns = job->time[rank][ITEM_OF_OPTIMIZER].end_ns,
                                    .run_delay_ns = delay,
                                    .count = ITEMS,
                                    .time = job->time[rank] };
        step->tail_ns = longest + TAIL_NS - step->duration_ns;
    }
    job->begin_ns += longest + TAIL_NS;
    job->step++;
    before = job_cpu_ns();
    result = judge_state_step(&job->judge, &job->job_step);
    job->judged_ns += job_cpu_ns() - before;
    return result;
}

/* ---- the results ---- */

static uint32_t job_opened(struct noise_job *job, bool keep)
{
    struct verdict_table *verdicts = &job->judge.verdicts;
    uint32_t opened = 0;

    for (uint32_t i = 0; i < verdicts->count; i++) {
        struct tracked_verdict *tracked = verdicts->tracked[i];
        const struct verdict *verdict = &tracked->verdict;
        uint64_t at = job->result.alarms + opened;

        if (!tracked->changed)
            continue;
        tracked->changed = false;
        if (!tracked->open || verdict->decided_step + 1 != job->step)
            continue; /* it goes on, or it is over */
        opened++;
        if (!keep || at >= NOISE_ALARMS_KEPT)
            continue;
        job->result.alarm[at].step = verdict->decided_step;
        snprintf(job->result.alarm[at].text, sizeof(job->result.alarm[at].text),
                 "%s %s, rank %d of %u: %s", verdict_kind_name(verdict->kind),
                 verdict_layer_name(verdict->layer),
                 verdict->rank_count ? (int)verdict->rank[0] : -1, verdict->rank_count,
                 verdict->cause);
    }
    return opened;
}

static int job_quiet(struct noise_job *job, struct err *err)
{
    const struct noise_job_settings *settings = job->settings;
    struct noise_job_result *result = &job->result;
    int64_t began = time_mono_ns();

    while (result->steps < settings->steps &&
           (settings->seconds <= 0 ||
            (double)(time_mono_ns() - began) < settings->seconds * (double)NS_PER_S)) {
        int status = job_step(job);

        if (status < 0)
            return err_set(err, status, "cannot judge step %llu", (unsigned long long)job->step);
        result->steps++;
        result->alarms += job_opened(job, true);
        if (settings->progress)
            settings->progress(settings->arg, result->steps, result->alarms);
    }
    result->unfit = job->judge.unfit_steps;
    result->judge_ms = (double)job->judged_ns / 1e6 / (double)MAX(1, result->steps);
    return 0;
}

/* ---- faults in the same noise ---- */

static double job_slow_steady(uint64_t step)
{
    (void)step;
    return 1.25;
}

static double job_slow_slightly(uint64_t step)
{
    (void)step;
    return 1.10;
}

static double job_slow_every_fifth(uint64_t step)
{
    return step % 5 == 0 ? 1.6 : 1;
}

static const struct {
    const char *name;
    double (*slow)(uint64_t step);
    bool all; /* ranks */
    bool must;
    uint64_t steps;
} made[NOISE_FAULTS] = {
    { "device 1.25x", job_slow_steady, false, true, 40 },
    { "device 1.10x", job_slow_slightly, false, false, 60 },
    { "device 1.6x in every fifth step", job_slow_every_fifth, false, true, 80 },
    { "all devices 1.10x", job_slow_slightly, true, true, 200 },
};

static bool job_is_about(const struct verdict *verdict, bool all, uint32_t rank)
{
    if (all)
        return verdict->kind == VERDICT_REGRESSION;
    return verdict->kind == VERDICT_STRAGGLER && verdict->rank_count == 1 &&
           verdict->rank[0] == rank;
}

static void job_fault_look(struct noise_job *job, struct noise_fault *fault, bool all,
                           uint32_t rank, uint64_t steps)
{
    for (uint32_t i = 0; i < job->judge.verdicts.count; i++) {
        struct tracked_verdict *tracked = job->judge.verdicts.tracked[i];

        if (!tracked->open || !tracked->changed)
            continue;
        tracked->changed = false;
        if (!job_is_about(&tracked->verdict, all, rank)) {
            fault->wrong++;
        } else if (!fault->found) {
            fault->found = true;
            fault->steps = steps;
        }
    }
}

static int job_faults(struct noise_job *job, struct err *err)
{
    for (size_t i = 0; i < COUNT(made); i++) {
        struct noise_fault *fault = &job->result.fault[job->result.faults++];
        uint32_t rank = (uint32_t)(job->ranks * (2 * i + 1) / (2 * COUNT(made)) + i);

        fault->name = made[i].name;
        fault->must = made[i].must;
        for (uint64_t step = 0; step < made[i].steps + 40; step++) {
            bool on = step < made[i].steps && !fault->found;
            int status;

            for (uint32_t at = 0; at < job->ranks; at++)
                job->slow[at] = on && (made[i].all || at == rank) ? made[i].slow(step) : 1;
            status = job_step(job);
            if (status < 0)
                return err_set(err, status, "cannot judge step %llu",
                               (unsigned long long)job->step);
            job_fault_look(job, fault, made[i].all, rank, step + 1);
        }
    }
    return 0;
}

int noise_job_run(const struct noise_job_settings *settings, struct noise_job_result *ret,
                  struct err *err)
{
    struct noise_job *job = calloc(1, sizeof(*job));
    int result;

    if (!job)
        return err_nomem(err);
    job->settings = settings;
    result = job_init(job);
    if (result < 0)
        err_set(err, result, "no memory for a job of %u ranks", settings->ranks);
    job->result.compute = job->noise.compute;
    job->result.host = job->noise.host;
    job->result.transfer = job->noise.transfer;
    if (result == 0)
        result = job_quiet(job, err);
    if (result == 0 && settings->with_faults)
        result = job_faults(job, err);
    if (result == 0)
        *ret = job->result;
    job_fini(job);
    free(job);
    return result;
}

/* Where so few, or fewer, come in only one of twenty times. */
double noise_upper_95(uint64_t events)
{
    double low = (double)events, high = 2 * (double)events + 20;

    for (int i = 0; i < 60; i++) {
        double mean = (low + high) / 2, term = exp(-mean), sum = term;

        for (uint64_t k = 1; k <= events; k++)
            sum += term *= mean / (double)k;
        if (sum > 0.05)
            low = mean;
        else
            high = mean;
    }
    return high;
}
