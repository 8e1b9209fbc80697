/* bench_judge.c - a made-up job of 16,384 GPUs before the judge state that the controller calls.
 *
 * Tensor groups of 8 are nodes; replicas of a tensor index reduce gradients across all nodes.  Each
 * tensor reduction holds up compute, gradient buckets overlap it, one reduction over all ranks
 * comes before the optimizer: 200 collectives a step and rank.  Times come from a plain
 * forward pass over groups, with noise, and one rank becomes slow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/bench_judge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "judge/ledger.h"
#include "judge/state.h"
#include "lockstep/probe.h"
#include "wire/frame.h"

#define TENSOR 8
#define RANKS 16384
#define REPLICAS (RANKS / TENSOR)
#define BLOCKS 120 /* spans, each with a reduction of its tensor group */
#define BUCKETS 79 /* gradient buckets, over the second half of them */
#define COLLECTIVES (BLOCKS + BUCKETS + 1)
#define ITEMS (2 + 2 * BLOCKS + BUCKETS + 2) /* phases, and the optimizer's span */
#define HEALTHY_STEPS 8
#define SLOW_STEPS 8 /* by then it must be named */
#define SLOW_RANK 9001
#define SLOW_FACTOR 1.25

#define BLOCK_NS (2 * NS_PER_MS)
#define TENSOR_NS (150 * NS_PER_US)
#define BUCKET_NS (900 * NS_PER_US)
#define WORLD_NS (400 * NS_PER_US)
#define OPTIMIZER_NS (12 * NS_PER_MS)
#define DATA_NS NS_PER_MS
#define LAUNCH_NS (10 * NS_PER_US)
#define TAIL_NS (100 * NS_PER_US)
#define NOISE 0.01

enum {
    STREAM_COMPUTE = 1,
    STREAM_TENSOR = 2,
    STREAM_GRADIENTS = 3
};

enum item_role {
    ROLE_DATA,
    ROLE_FORWARD,
    ROLE_BLOCK,
    ROLE_TENSOR,
    ROLE_BUCKET,
    ROLE_WORLD,
    ROLE_OPTIMIZER
};

struct clocks { /* of a rank in the step being made, after the step's begin */
    int64_t compute, tensor, gradients;
};

struct crowd {
    struct judge_state judge;
    struct job_step job_step;
    enum item_role role[ITEMS];
    uint32_t items;
    struct clocks *at;
    struct item_time *time; /* of all ranks */
    struct rand rand;
    int64_t begin_ns;
    double slow; /* of SLOW_RANK */
};

static void crowd_fini(struct crowd *crowd)
{
    free(crowd->at);
    free(crowd->time);
    free(crowd->job_step.step_of); /* their times are the crowd's */
    free(crowd->job_step.shape_of);
    judge_state_fini(&crowd->judge);
}

static void crowd_script(struct crowd *crowd)
{
    uint32_t buckets = 0;

    crowd->role[crowd->items++] = ROLE_DATA;
    crowd->role[crowd->items++] = ROLE_FORWARD;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        crowd->role[crowd->items++] = ROLE_BLOCK;
        if (block >= BLOCKS / 2) { /* buckets spread evenly over what is left */
            uint32_t due = BUCKETS * (block + 1 - BLOCKS / 2) / (BLOCKS - BLOCKS / 2);

            for (; buckets < due; buckets++)
                crowd->role[crowd->items++] = ROLE_BUCKET;
        }
        crowd->role[crowd->items++] = ROLE_TENSOR;
    }
    crowd->role[crowd->items++] = ROLE_WORLD;
    crowd->role[crowd->items++] = ROLE_OPTIMIZER;
}

static struct shape_item crowd_item(enum item_role role, uint32_t rank)
{
    struct shape_item item = { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .count = 1 };

    switch (role) {
    case ROLE_DATA:
    case ROLE_FORWARD:
        item.kind = ITEM_PHASE;
        item.what = role == ROLE_DATA ? LOCKSTEP_PHASE_DATA : LOCKSTEP_PHASE_FORWARD;
        return item;
    case ROLE_BLOCK:
    case ROLE_OPTIMIZER:
        item.kind = ITEM_SPAN;
        item.what = role == ROLE_BLOCK ? LOCKSTEP_PHASE_FORWARD : LOCKSTEP_PHASE_OPTIMIZER;
        item.stream = STREAM_COMPUTE;
        return item;
    case ROLE_TENSOR:
        item.stream = STREAM_TENSOR;
        item.comm = 0x10000 + rank / TENSOR;
        break;
    case ROLE_BUCKET:
        item.stream = STREAM_GRADIENTS;
        item.comm = 0x20000 + rank % TENSOR;
        break;
    case ROLE_WORLD:
        item.stream = STREAM_GRADIENTS;
        item.comm = 0x30000;
        break;
    }
    item.bytes = 1 << 20;
    return item;
}

static int crowd_comms(struct crowd *crowd, uint32_t rank)
{
    const struct fact_comm comm[] = {
        { .id = 0x10000 + rank / TENSOR, .size = TENSOR, .index = rank % TENSOR },
        { .id = 0x20000 + rank % TENSOR, .size = REPLICAS, .index = rank / TENSOR },
        { .id = 0x30000, .size = RANKS, .index = rank },
    };
    int result = 0;

    for (size_t i = 0; i < COUNT(comm) && result == 0; i++) {
        struct fact_comm fact = comm[i];

        fact.rank = rank;
        result = model_comm(&crowd->judge.model, &fact);
    }
    return result;
}

/* What a rank says of itself before its first step. */
static int crowd_introduce(struct crowd *crowd, uint32_t rank)
{
    struct fact_ring ring = { .rank = rank, .world = RANKS, .has_layout = true };
    CLEAN(fact_shape_fini) struct fact_shape shape = { .count = crowd->items };
    const uint16_t layout[] = {
        TENSOR, 1, REPLICAS, 1, 1, (uint16_t)(rank % TENSOR), 0, (uint16_t)(rank / TENSOR), 0, 0
    };
    int result;

    memcpy(ring.layout, layout, sizeof(layout));
    snprintf(ring.node, sizeof(ring.node), "node-%u", rank / TENSOR);
    result = model_ring(&crowd->judge.model, &ring);
    if (result == 0)
        result = crowd_comms(crowd, rank);
    shape.item = malloc(crowd->items * sizeof(*shape.item));
    if (result < 0 || !shape.item)
        return result < 0 ? result : -ENOMEM;
    for (uint32_t i = 0; i < crowd->items; i++)
        shape.item[i] = crowd_item(crowd->role[i], rank);
    shape_hash(&shape);
    crowd->job_step.step_of[rank].shape = shape.hash;
    result = model_shape(&crowd->judge.model, &shape);
    crowd->job_step.shape_of[rank] =
        model_shape_get(&crowd->judge.model, crowd->job_step.step_of[rank].shape);
    return result;
}

static int crowd_init(struct crowd *crowd)
{
    int result = judge_state_init(&crowd->judge, "bench");

    if (result == 0)
        result = job_step_init(&crowd->job_step, RANKS, 0, 0);
    crowd->rand.state = RANKS;
    crowd->begin_ns = NS_PER_S;
    crowd->slow = 1;
    crowd->at = malloc(RANKS * sizeof(*crowd->at));
    crowd_script(crowd);
    crowd->time = malloc((size_t)RANKS * crowd->items * sizeof(*crowd->time));
    if (result < 0 || !crowd->at || !crowd->time)
        return result < 0 ? result : -ENOMEM;
    ledger_run(crowd->judge.book, RANKS, 0);
    for (uint32_t rank = 0; rank < RANKS && result == 0; rank++)
        result = crowd_introduce(crowd, rank);
    return result;
}

/* ---- a step ---- */

static struct item_time *crowd_time(struct crowd *crowd, uint32_t rank, uint32_t item)
{
    return &crowd->time[(size_t)rank * crowd->items + item];
}

static double crowd_noise(struct crowd *crowd)
{
    return 1 + NOISE * rand_normal(&crowd->rand);
}

static void crowd_span(struct crowd *crowd, uint32_t item, int64_t launch_ns, int64_t ns)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct clocks *at = &crowd->at[rank];
        struct item_time *time = crowd_time(crowd, rank, item);
        double slow = rank == SLOW_RANK ? crowd->slow : 1;

        time->enqueue_ns = launch_ns;
        time->start_ns = MAX(MAX(at->compute, at->tensor), launch_ns);
        if (crowd->role[item] == ROLE_OPTIMIZER)
            time->start_ns = MAX(time->start_ns, at->gradients);
        time->end_ns = time->start_ns + (int64_t)((double)ns * slow * crowd_noise(crowd));
        at->compute = time->end_ns;
    }
}

/* Members of a group are `stride` apart. */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static void crowd_meet(struct crowd *crowd, uint32_t item, int64_t launch_ns, uint32_t first,
                       uint32_t stride, uint32_t count, int64_t ns)
{
    int64_t last = 0, end;

    for (uint32_t i = 0; i < count; i++) {
        struct clocks *at = &crowd->at[first + i * stride];
        struct item_time *time = crowd_time(crowd, first + i * stride, item);

        time->enqueue_ns = launch_ns;
        time->start_ns = MAX(at->compute, launch_ns);
        if (crowd->role[item] != ROLE_TENSOR)
            time->start_ns = MAX(time->start_ns, at->gradients);
        last = MAX(last, time->start_ns);
    }
    end = last + (int64_t)((double)ns * crowd_noise(crowd));
    for (uint32_t i = 0; i < count; i++) {
        struct clocks *at = &crowd->at[first + i * stride];

        crowd_time(crowd, first + i * stride, item)->end_ns = end;
        *(crowd->role[item] == ROLE_TENSOR ? &at->tensor : &at->gradients) = end;
    }
}

static void crowd_op(struct crowd *crowd, uint32_t item, int64_t launch_ns)
{
    switch (crowd->role[item]) {
    case ROLE_BLOCK:
        crowd_span(crowd, item, launch_ns, BLOCK_NS);
        break;
    case ROLE_OPTIMIZER:
        crowd_span(crowd, item, launch_ns, OPTIMIZER_NS);
        break;
    case ROLE_TENSOR:
        for (uint32_t group = 0; group < REPLICAS; group++)
            crowd_meet(crowd, item, launch_ns, group * TENSOR, 1, TENSOR, TENSOR_NS);
        break;
    case ROLE_BUCKET:
        for (uint32_t group = 0; group < TENSOR; group++)
            crowd_meet(crowd, item, launch_ns, group, TENSOR, REPLICAS, BUCKET_NS);
        break;
    case ROLE_WORLD:
        crowd_meet(crowd, item, launch_ns, 0, 1, RANKS, WORLD_NS);
        break;
    default:
        for (uint32_t rank = 0; rank < RANKS; rank++)
            *crowd_time(crowd, rank, item) =
                crowd->role[item] == ROLE_DATA
                    ? (struct item_time){ 0, 0, DATA_NS, -1 }
                    : (struct item_time){ DATA_NS, DATA_NS, DATA_NS + BLOCKS * LAUNCH_NS, -1 };
    }
}

/* Makes the next step and lays it before the judge state. */
static int crowd_step(struct crowd *crowd, uint64_t number, double *ms)
{
    int64_t launch = DATA_NS, longest = 0, begin;
    int result;

    memset(crowd->at, 0, RANKS * sizeof(*crowd->at));
    for (uint32_t item = 0; item < crowd->items; item++)
        crowd_op(crowd, item, launch += LAUNCH_NS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        longest = MAX(longest, crowd->at[rank].compute);
    crowd->job_step.step = number;
    crowd->job_step.have = RANKS;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct fact_step *step = &crowd->job_step.step_of[rank];

        *step = (struct fact_step){ .rank = rank,
                                    .step = number,
                                    .shape = step->shape,
                                    .begin_ns = crowd->begin_ns,
                                    .duration_ns = crowd->at[rank].compute,
                                    .count = crowd->items,
                                    .time = crowd_time(crowd, rank, 0) };
        step->tail_ns = longest + TAIL_NS - step->duration_ns;
    }
    crowd->begin_ns += longest + TAIL_NS;
    begin = time_mono_ns();
    result = judge_state_step(&crowd->judge, &crowd->job_step);
    *ms = (double)(time_mono_ns() - begin) / (double)NS_PER_MS;
    return result;
}

static bool crowd_named(const struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->judge.verdicts.count; i++) {
        const struct verdict *verdict = &crowd->judge.verdicts.tracked[i]->verdict;

        if (verdict->kind == VERDICT_STRAGGLER && verdict->rank[0] == SLOW_RANK)
            return true;
    }
    return false;
}

/* Healthy steps, then slow ones until the straggler is named.  `decided` is of that step. */
static int crowd_run(struct crowd *crowd, double *first_ms, double *decided_ms, struct err *err)
{
    double ms;
    int result = crowd_init(crowd);

    if (result < 0)
        return err_set(err, result, "no memory for a step of %u ranks", RANKS);
    for (uint64_t step = 0; step < HEALTHY_STEPS + SLOW_STEPS; step++) {
        crowd->slow = step >= HEALTHY_STEPS ? SLOW_FACTOR : 1;
        result = crowd_step(crowd, step, &ms);
        if (result < 0)
            return err_set(err, result, "cannot judge step %llu", (unsigned long long)step);
        if (step == 0)
            *first_ms = ms;
        *decided_ms = ms;
        if (crowd_named(crowd))
            return crowd->judge.verdicts.count == 1
                       ? 0
                       : err_set(err, -EIO, "a verdict names other ranks than rank %u", SLOW_RANK);
    }
    return err_set(err, -EIO, "no verdict names rank %u within %u steps", SLOW_RANK, SLOW_STEPS);
}

int bench_judge(uint32_t repeats, struct bench_report *report, struct err *err)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    double first_ms = 0, decided_ms = 0;
    int result = crowd ? crowd_run(crowd, &first_ms, &decided_ms, err) : err_nomem(err);

    (void)repeats; /* one job is enough: its steps are half a gigabyte */
    if (result == 0) {
        bench_report_add(report, &(struct bench_figure){
                                     .name = "judge_16384x200_ms",
                                     .text = "ms to judge a step of 16384 ranks × 200 collectives",
                                     .value = decided_ms,
                                     .at_most = 1000 });
        bench_report_add(report, &(struct bench_figure){
                                     .name = "judge_16384x200_first_ms",
                                     .text = "ms to judge its first step, which builds the program",
                                     .value = first_ms });
    }
    if (crowd)
        crowd_fini(crowd);
    free(crowd);
    return result;
}

/* ---- bytes ---- */

#define BYTES_OPS 5000
#define BYTES_PERIOD 8 /* ops of one layer: three spans, two reductions, a message, two buckets */

static struct shape_item bench_bytes_item(uint32_t i)
{
    static const struct shape_item layer[BYTES_PERIOD] = {
        { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_FORWARD, .stream = 1 },
        { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .stream = 2, .comm = 11 },
        { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_FORWARD, .stream = 1 },
        { .kind = ITEM_P2P, .what = LOCKSTEP_OP_SEND, .stream = 4, .comm = 13, .peer = 1 },
        { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_BACKWARD, .stream = 1 },
        { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_REDUCE, .stream = 2, .comm = 11 },
        { .kind = ITEM_COLL, .what = LOCKSTEP_OP_REDUCE_SCATTER, .stream = 3, .comm = 12 },
        { .kind = ITEM_COLL, .what = LOCKSTEP_OP_ALL_GATHER, .stream = 3, .comm = 12 },
    };
    struct shape_item item = layer[i % BYTES_PERIOD];

    item.count = 1;
    item.bytes = item.kind == ITEM_SPAN ? 0 : 1u << (16 + i % 5);
    return item;
}

static size_t bench_bytes_frame(const struct fact_shape *shape, struct item_time *time)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    CLEAN(buf_fini) struct buf frame = { 0 };
    struct fact_step step = { .step = 123456, .shape = shape->hash, .count = shape->count };

    for (uint32_t i = 0; i < shape->count; i++) {
        int64_t at = i * 150 * NS_PER_US;

        time[i] = (struct item_time){ at, at + 2 * NS_PER_MS, at + 3 * NS_PER_MS, NS_PER_MS };
    }
    step.time = time;
    step.flags = STEP_SPLIT; /* the largest there is */
    step.begin_ns = 86400 * NS_PER_S;
    step.duration_ns = NS_PER_S;
    step.digest_parts = 1;
    for (int i = 1; i < LOCKSTEP_METRIC_COUNT; i++) {
        step.metric_set |= 1u << i;
        step.metric[i] = i;
    }
    fact_step_put(&payload, &step, shape);
    frame_put(&frame, &(struct frame){ .type = FRAME_STEP,
                                       .version = FRAME_VERSION,
                                       .payload = payload.data,
                                       .payload_bytes = payload.size });
    return frame.failed || payload.failed ? 0 : frame.size;
}

int bench_step_bytes(uint32_t repeats, struct bench_report *report, struct err *err)
{
    CLEAN(free_clean) struct shape_item *item = malloc(BYTES_OPS * sizeof(*item));
    CLEAN(free_clean) struct shape_item *merged = malloc(BYTES_OPS * sizeof(*merged));
    CLEAN(free_clean) uint32_t *group = malloc(BYTES_OPS * sizeof(*group));
    CLEAN(free_clean) struct item_time *time = malloc(BYTES_OPS * sizeof(*time));
    struct fact_shape shape = { .item = merged };
    size_t bytes = 0;

    (void)repeats;
    if (item && merged && group && time) {
        for (uint32_t i = 0; i < BYTES_OPS; i++)
            item[i] = bench_bytes_item(i);
        shape.count = (uint32_t)shape_merge(item, BYTES_OPS, merged, group);
        shape_hash(&shape);
        bytes = bench_bytes_frame(&shape, time);
    }
    if (!bytes)
        return err_set(err, -ENOMEM, "no memory for a step of %u ops", BYTES_OPS);
    bench_report_add(report, &(struct bench_figure){ .name = "bytes_per_rank_step_5000_ops",
                                                     .text = "bytes of a step of 5000 operations",
                                                     .value = (double)bytes,
                                                     .at_most = FACT_STEP_BYTES_MAX });
    return 0;
}
