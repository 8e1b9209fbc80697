/* noise_cases.c - draws the jobs, simulates their steps, and compares the verdicts with what was done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/noise/noise_cases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "judge/ledger.h"
#include "judge/state.h"
#include "lockstep/probe.h"

#define RANKS_MAX 64
#define BUCKETS 3
#define AFTER 120 /* steps from the begin of a fault to the end of a case */
#define COMM_WORLD 0x77

enum case_item { /* of each rank's step, in launch order */
    CASE_DATA,
    CASE_HOST,
    CASE_FORWARD,
    CASE_BACKWARD, /* a span and a bucket, BUCKETS times */
    CASE_OPTIMIZER = CASE_BACKWARD + 2 * BUCKETS,
    CASE_ITEMS
};

enum case_course { /* of a fault over its steps */
    COURSE_STEADY,
    COURSE_RAMP,
    COURSE_SOME, /* steps */
    COURSE_ON_OFF,
    COURSES
};

static const struct case_kind {
    const char *name;
    uint8_t kind, layer;
    double least, most; /* how much more, in shares of the step */
    bool of_node;       /* else of a rank, or of all where `of_all` */
    bool of_all;
} case_kinds[NOISE_CASE_KINDS] = {
    [NOISE_CASE_NONE] = { "none", 0, LAYER_UNKNOWN, 0, 0, false, true },
    [NOISE_CASE_DEVICE] = { "device of a rank", VERDICT_STRAGGLER, LAYER_GPU, 0.08, 0.6, false,
                            false },
    [NOISE_CASE_HOST] = { "host code of a rank", VERDICT_STRAGGLER, LAYER_USER_CODE, 0.08, 0.6,
                          false, false },
    [NOISE_CASE_BATCH] = { "batches of a rank", VERDICT_STRAGGLER, LAYER_DATA, 0.12, 0.6, false,
                           false },
    [NOISE_CASE_BATCHES] = { "all batches", VERDICT_INPUT_STALL, LAYER_DATA, 0.12, 0.6, false,
                             true },
    [NOISE_CASE_FABRIC] = { "transfers between nodes", VERDICT_SYNC_STALL, LAYER_FABRIC, 0.1, 0.5,
                            false, true },
    [NOISE_CASE_STARVED] = { "a node without CPUs", VERDICT_STRAGGLER, LAYER_CPU, 0.15, 0.6, true,
                             false },
    [NOISE_CASE_ALL] = { "all devices", VERDICT_REGRESSION, LAYER_UNKNOWN, 0.1, 0.5, false, true },
};

struct case_job {
    struct rand rand;
    struct judge_state judge;
    struct job_step job_step;
    struct item_time time[RANKS_MAX][CASE_ITEMS];
    double lasts[RANKS_MAX]; /* noise of a rank that goes on from step to step */
    double sigma;            /* deviation of device work */
    double step_ns, data, host, compute, transfer; /* shares of the step */
    uint32_t ranks, per_node;
    enum noise_case_kind kind;
    enum case_course course;
    uint32_t victim; /* rank, or a rank of the node */
    uint64_t begins, step;
    double more;
    int64_t begin_ns;
};

static double case_between(struct rand *rand, double low, double high)
{
    return low + (high - low) * rand_unit(rand);
}

/* ---- who they are ---- */

static void case_draw(struct case_job *job, uint64_t seed, uint32_t number)
{
    static const uint32_t per_node[] = { 2, 4, 8 };

    job->rand = (struct rand){ seed * 100003 + number };
    job->kind = (enum noise_case_kind)(number % NOISE_CASE_KINDS);
    job->per_node = per_node[rand_below(&job->rand, COUNT(per_node))];
    job->ranks = job->per_node * (3 + rand_below(&job->rand, RANKS_MAX / 8 - 2));
    job->victim = rand_below(&job->rand, job->ranks);
    job->sigma = case_between(&job->rand, 0.002, 0.02);
    job->step_ns = exp(case_between(&job->rand, log(4e7), log(3e9)));
    job->data = case_between(&job->rand, 0.002, 0.01);
    job->host = case_between(&job->rand, 0.005, 0.03);
    job->transfer = case_between(&job->rand, 0.04, 0.12);
    job->compute = 1 - job->data - job->host - job->transfer;
    job->course = (enum case_course)rand_below(&job->rand, COURSES);
    if (job->kind != NOISE_CASE_DEVICE && job->kind != NOISE_CASE_HOST)
        job->course = job->course == COURSE_RAMP ? COURSE_RAMP : COURSE_STEADY;
    job->begins = 30 + rand_below(&job->rand, 80);
    job->more = case_between(&job->rand, case_kinds[job->kind].least, case_kinds[job->kind].most);
    if (job->course == COURSE_SOME || job->course == COURSE_ON_OFF)
        job->more = MAX(job->more, 0.4); /* so that it is worth a word on average */
    job->begin_ns = NS_PER_S;
}

static struct shape_item case_item(int item)
{
    bool bucket = item >= CASE_BACKWARD && item < CASE_OPTIMIZER && (item - CASE_BACKWARD) % 2;
    struct shape_item made = { .kind = ITEM_SPAN, .stream = 1, .count = 1 };

    if (item == CASE_DATA || item == CASE_HOST) {
        made.kind = ITEM_PHASE;
        made.what = item == CASE_DATA ? LOCKSTEP_PHASE_DATA : LOCKSTEP_PHASE_FORWARD;
        made.stream = 0;
    } else if (bucket) {
        made.kind = ITEM_COLL;
        made.what = LOCKSTEP_OP_ALL_REDUCE;
        made.stream = 3;
        made.bytes = 1 << 22;
        made.comm = COMM_WORLD;
    } else {
        made.what = item == CASE_FORWARD     ? LOCKSTEP_PHASE_FORWARD
                    : item == CASE_OPTIMIZER ? LOCKSTEP_PHASE_OPTIMIZER
                                             : LOCKSTEP_PHASE_BACKWARD;
    }
    return made;
}

static int case_introduce(struct case_job *job, uint32_t rank)
{
    struct fact_ring ring = { .rank = rank, .world = job->ranks, .has_layout = true };
    struct fact_comm comm = { .id = COMM_WORLD, .rank = rank, .size = job->ranks, .index = rank };
    const uint16_t layout[] = { 1, 1, (uint16_t)job->ranks, 1, 1, 0, 0, (uint16_t)rank, 0, 0 };
    CLEAN(fact_shape_fini) struct fact_shape shape = { .count = CASE_ITEMS };
    int result;

    memcpy(ring.layout, layout, sizeof(layout));
    snprintf(ring.node, sizeof(ring.node), "n%u", rank / job->per_node);
    result = model_ring(&job->judge.model, &ring);
    if (result == 0)
        result = model_comm(&job->judge.model, &comm);
    shape.item = malloc(CASE_ITEMS * sizeof(*shape.item));
    if (result < 0 || !shape.item)
        return result < 0 ? result : -ENOMEM;
    for (int item = 0; item < CASE_ITEMS; item++)
        shape.item[item] = case_item(item);
    shape_hash(&shape);
    job->job_step.step_of[rank].shape = shape.hash;
    result = model_shape(&job->judge.model, &shape);
    job->job_step.shape_of[rank] =
        model_shape_get(&job->judge.model, job->job_step.step_of[rank].shape);
    return result;
}

static int case_init(struct case_job *job)
{
    int result = judge_state_init(&job->judge, "case");

    if (result == 0)
        result = job_step_init(&job->job_step, job->ranks, 0, 0);
    if (result == 0)
        ledger_run(job->judge.book, job->ranks, 0);
    for (uint32_t rank = 0; rank < job->ranks && result == 0; rank++)
        result = case_introduce(job, rank);
    return result;
}

static void case_fini(struct case_job *job)
{
    free(job->job_step.step_of); /* their times are the job's */
    free(job->job_step.shape_of);
    judge_state_fini(&job->judge);
}

/* ---- a step ---- */

static bool case_hurts(const struct case_job *job, uint32_t rank)
{
    if (case_kinds[job->kind].of_all)
        return job->kind != NOISE_CASE_NONE;
    if (case_kinds[job->kind].of_node)
        return rank / job->per_node == job->victim / job->per_node;
    return rank == job->victim;
}

/* How much more in this step, as a share of it. */
static double case_more(struct case_job *job)
{
    uint64_t since = job->step - job->begins;

    if (job->step < job->begins)
        return 0;
    switch (job->course) {
    case COURSE_RAMP:
        return job->more * MIN(1, (double)since / 25);
    case COURSE_SOME:
        return rand_unit(&job->rand) < 0.3 ? job->more : 0;
    case COURSE_ON_OFF:
        return since / 15 % 2 == 0 ? job->more : 0;
    default:
        return job->more;
    }
}

/* Host and device work of a rank until its first bucket; the noise of a rank lasts for some steps. */
static void case_rank_begin(struct case_job *job, uint32_t rank, double more, double *scale)
{
    bool hurt = more > 0 && case_hurts(job, rank);
    double data = job->data, host = job->host, own = hurt ? more : 0, delay = 0;
    struct item_time *time = job->time[rank];
    int64_t launched;

    job->lasts[rank] = 0.7 * job->lasts[rank] + 0.7 * rand_normal(&job->rand);
    *scale = exp(job->sigma * (0.6 * job->lasts[rank] + 0.5 * rand_normal(&job->rand)));
    host *= exp(0.4 * rand_normal(&job->rand));
    if (rand_below(&job->rand, 600) == 0) /* a pause of the host, which heals */
        host += 0.02 * pow(1 - rand_unit(&job->rand), -1 / 2.5);
    if (job->kind == NOISE_CASE_BATCH || job->kind == NOISE_CASE_BATCHES)
        data += own * exp(0.1 * rand_normal(&job->rand));
    if (job->kind == NOISE_CASE_HOST)
        host += own;
    if (job->kind == NOISE_CASE_STARVED && own > 0)
        host += delay = own * 2 * rand_unit(&job->rand);
    if (job->kind == NOISE_CASE_DEVICE || job->kind == NOISE_CASE_ALL)
        *scale *= 1 + own / job->compute;
    launched = (int64_t)((data + host) * job->step_ns);
    time[CASE_DATA] = (struct item_time){ 0, 0, (int64_t)(data * job->step_ns), -1 };
    time[CASE_HOST] =
        (struct item_time){ time[CASE_DATA].end_ns, time[CASE_DATA].end_ns, launched, -1 };
    time[CASE_FORWARD] =
        (struct item_time){ launched, launched,
                            launched + (int64_t)(0.3 * job->compute * *scale * job->step_ns), -1 };
    job->job_step.step_of[rank].run_delay_ns =
        (int64_t)((delay + 0.001 * rand_unit(&job->rand)) * job->step_ns);
}

/* A part of the backward pass, then its bucket while the next part runs: all leave it when the last has come. */
static void case_bucket(struct case_job *job, int bucket, double more, const double *scale)
{
    int span = CASE_BACKWARD + 2 * bucket;
    double slower = job->kind == NOISE_CASE_FABRIC ? more / job->transfer : 0;
    double noise = exp(0.05 * rand_normal(&job->rand));
    int64_t last = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        struct item_time *time = job->time[rank];
        int64_t launched = time[CASE_HOST].end_ns;
        int64_t start = time[bucket ? span - 2 : CASE_FORWARD].end_ns;
        int64_t ns = (int64_t)(0.65 / BUCKETS * job->compute * scale[rank] * job->step_ns);

        time[span] = (struct item_time){ launched, start, start + ns, -1 };
        start = MAX(start + ns, bucket ? time[span - 1].end_ns : 0);
        time[span + 1] = (struct item_time){ launched, start, 0, -1 };
        last = MAX(last, start);
    }
    last += (int64_t)(job->transfer / BUCKETS * (1 + slower) * noise * job->step_ns);
    for (uint32_t rank = 0; rank < job->ranks; rank++)
        job->time[rank][span + 1].end_ns = last;
}

static int case_step(struct case_job *job)
{
    double scale[RANKS_MAX], more = case_more(job);
    int64_t longest = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++)
        case_rank_begin(job, rank, more, &scale[rank]);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        case_bucket(job, bucket, more, scale);
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        struct item_time *time = job->time[rank];
        int64_t start = time[CASE_OPTIMIZER - 1].end_ns;

        time[CASE_OPTIMIZER] =
            (struct item_time){ time[CASE_HOST].end_ns, start,
                                start + (int64_t)(0.05 * job->compute * scale[rank] * job->step_ns),
                                -1 };
        longest = MAX(longest, time[CASE_OPTIMIZER].end_ns);
    }
    job->job_step.step = job->step;
    job->job_step.have = job->ranks;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        struct fact_step *step = &job->job_step.step_of[rank];

        *step = (struct fact_step){ .rank = rank,
                                    .step = job->step,
                                    .shape = step->shape,
                                    .begin_ns = job->begin_ns,
                                    .duration_ns = job->time[rank][CASE_OPTIMIZER].end_ns,
                                    .run_delay_ns = step->run_delay_ns,
                                    .count = CASE_ITEMS,
                                    .time = job->time[rank] };
        step->tail_ns = longest - step->duration_ns + (int64_t)(0.002 * job->step_ns);
    }
    job->begin_ns += longest + (int64_t)(0.002 * job->step_ns);
    job->step++;
    return judge_state_step(&job->judge, &job->job_step);
}

/* ---- the results ---- */

static bool case_names_right(const struct case_job *job, const struct verdict *verdict)
{
    uint32_t wanted = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        bool named = !case_kinds[job->kind].of_all && case_hurts(job, rank);

        wanted += named;
        if (named && !verdict_names_rank(verdict, rank))
            return false;
    }
    return verdict->rank_count == wanted;
}

static void case_wrong(const struct case_job *job, const struct verdict *verdict, uint32_t number,
                       struct noise_cases_result *result)
{
    static const char *const courses[] = { "steady", "ramp", "some steps", "on and off" };

    if (result->wrongs >= NOISE_CASE_WRONG)
        return;
    snprintf(result->wrong[result->wrongs++], sizeof(result->wrong[0]),
             "case %u: %s, %s, %u ranks, %u a node, from step %llu, %.0f %% of a step of %.0f ms: "
             "%s %s %s (%s; step %llu)",
             number, case_kinds[job->kind].name, courses[job->course], job->ranks, job->per_node,
             (unsigned long long)job->begins, 100 * job->more, job->step_ns / 1e6,
             verdict ? verdict_kind_name(verdict->kind) : "no verdict",
             verdict ? verdict_layer_name(verdict->layer) : "", verdict ? verdict->cause : "",
             verdict ? verdict->because[0].what : "",
             verdict ? (unsigned long long)verdict->decided_step : 0);
}

static void case_score(const struct case_job *job, uint32_t number,
                       struct noise_cases_result *result)
{
    const struct case_kind *wanted = &case_kinds[job->kind];
    struct noise_case_row *row = &result->row[job->kind];
    const struct verdict *first = NULL;
    bool kind, ranks, layer;

    row->name = wanted->name;
    row->cases++;
    for (uint32_t i = 0; i < job->judge.verdicts.count; i++) {
        const struct verdict *verdict = &job->judge.verdicts.tracked[i]->verdict;
        bool right = job->kind != NOISE_CASE_NONE && verdict->decided_step >= job->begins &&
                     verdict->kind == wanted->kind && case_names_right(job, verdict);
        int bin = (int)MIN(verdict->confidence * NOISE_CASE_BINS, NOISE_CASE_BINS - 1);

        result->verdicts[bin]++;
        result->right[bin] += right;
        result->confidence[bin] += verdict->confidence;
        row->early += job->kind == NOISE_CASE_NONE || verdict->decided_step < job->begins;
        if (!first || verdict->decided_step < first->decided_step)
            first = verdict;
    }
    if (job->kind == NOISE_CASE_NONE) {
        if (first)
            case_wrong(job, first, number, result);
        return;
    }
    row->silent += !first;
    kind = first && first->kind == wanted->kind && first->decided_step >= job->begins;
    ranks = kind && case_names_right(job, first);
    layer = kind && first->layer == wanted->layer;
    row->found += kind;
    row->ranks += ranks;
    row->layer += layer;
    if (kind)
        row->steps += (double)(first->decided_step - job->begins + 1);
    if (!kind || !ranks || !layer)
        case_wrong(job, first, number, result);
}

int noise_cases_run(uint64_t seed, uint32_t cases, struct noise_cases_result *ret, struct err *err)
{
    CLEAN(free_clean) struct case_job *job = malloc(sizeof(*job));
    CLEAN(free_clean) struct noise_cases_result *scored = calloc(1, sizeof(*scored));
    int result = job && scored ? 0 : -ENOMEM;

    for (uint32_t number = 0; number < cases && result == 0; number++) {
        *job = (struct case_job){ 0 };
        case_draw(job, seed, number);
        result = case_init(job);
        while (result == 0 && job->step < job->begins + AFTER)
            result = case_step(job);
        if (result == 0)
            case_score(job, number, scored);
        case_fini(job);
    }
    if (result < 0)
        return err_set(err, result, "cannot judge a job");
    *ret = *scored;
    return 0;
}
