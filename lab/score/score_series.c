/* score_series.c - the cases of each family of faults.
 *
 * Each family goes through its faults in turn; nine rounds are the first, middle and last rank of 4, 8 and 16, in
 * layouts that are drawn.  A family with more than a table and a case has a file of its own (score_kernel.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "lab/score/score_private.h"
#include "lockstep/probe.h"

#define PAUSE_MS 14000 /* longer than the limit of a hang */
#define CHECKPOINT_EVERY 6
#define ELASTIC_STEPS 14
#define ONSET 20 /* steps before: enough to know what is typical */

/* ---- faults that hang or kill a rank, and long pauses ---- */

/* Families that have cases only when they are asked for: a hang takes its limit to be said. */
static const struct score_series {
    const char *family;
    uint32_t count;
    enum fault_id fault[16];
} all_series[] = {
    { "hang",
      8,
      { FAULT_STOP, FAULT_STUCK_DATA, FAULT_GPU_HANG, FAULT_STUCK_CODE, FAULT_OTHER_ORDER,
        FAULT_FROZEN_LINK, FAULT_STUCK_STORAGE, FAULT_STUCK_CHECKPOINT } },
    { "crash",
      6,
      { FAULT_SEGFAULT, FAULT_OOM, FAULT_EXCEPTION, FAULT_KILL, FAULT_ABORT, FAULT_EXIT } },
    { "desync", 2, { FAULT_OTHER_OP, FAULT_OTHER_SIZE } },
    { "traps",
      7,
      { FAULT_EVAL, FAULT_SLOW_CHECKPOINT, FAULT_SLOW_START, FAULT_COMPILE, FAULT_BUSY,
        FAULT_LONG_SEQUENCES, FAULT_ELASTIC } },
};

static const struct score_series *series_of(const char *family)
{
    for (size_t i = 0; i < COUNT(all_series); i++) {
        if (strcmp(all_series[i].family, family) == 0)
            return &all_series[i];
    }
    return NULL;
}

bool score_has_series(const char *family)
{
    return series_of(family) != NULL;
}

const char *score_series_name(uint32_t which)
{
    return which < COUNT(all_series) ? all_series[which].family : NULL;
}

uint32_t score_series_faults(uint32_t which)
{
    return all_series[which].count;
}

uint32_t score_place(uint32_t which, uint32_t count)
{
    return (count - 1) * (which % 3) / 2;
}

uint32_t score_size(uint32_t which)
{
    static const uint32_t sizes[] = { 4, 8, 16 };

    return sizes[which % COUNT(sizes)];
}

/* A quarter of the ranks goes and comes back, or in some rounds none does: then all begin again as they were. */
static void score_elastic_case(struct score_case *at, uint32_t round)
{
    struct fault *fault = &at->fault;

    at->checkpoint_every = CHECKPOINT_EVERY;
    fault->steps = ELASTIC_STEPS;
    fault->set |= FAULT_STEPS;
    at->steps += ELASTIC_STEPS;
    if (round % 3 == 2)
        return;
    fault->count = at->ranks / 4;
    fault->set |= FAULT_COUNT;
}

void score_series_case(const char *family, uint32_t number, struct rand *rand,
                       struct score_case *at)
{
    const struct score_series *series = series_of(family);
    uint32_t which = number % series->count, round = number / series->count;
    enum fault_id id = series->fault[which];
    struct fault *fault = &at->fault;

    score_layout(at, rand, id, score_size(which + round / 3));
    at->nodes = 1;
    at->steps = ONSET + 14;
    *fault = (struct fault){ .kind = score_kind(id),
                             .set = FAULT_STEP | FAULT_RANK | FAULT_MS,
                             .step = id == FAULT_SLOW_START ? 0 : ONSET,
                             .phase = LOCKSTEP_PHASE_FORWARD,
                             .ms = PAUSE_MS,
                             .rank = score_place(which + round, at->ranks) };
    if (id == FAULT_SLOW_CHECKPOINT) {
        at->checkpoint_every = (uint32_t)fault->step;
        fault->step--;
        fault->steps = 1;
        fault->set |= FAULT_STEPS;
    }
    if (id == FAULT_STUCK_CHECKPOINT)
        at->checkpoint_every = CHECKPOINT_EVERY;
    if (id == FAULT_LONG_SEQUENCES) {
        fault->factor = 1.5;
        fault->steps = 8;
        fault->set |= FAULT_FACTOR | FAULT_STEPS;
    }
    if (id == FAULT_ELASTIC)
        score_elastic_case(at, round);
    if (fault->kind->all_params & FAULT_RANK && round % 2 == 0)
        fault->set &= ~(uint32_t)FAULT_RANK; /* all of them */
    fault->set &= fault->kind->params;
}

/* ---- slowness that comes and goes, moves, grows or is everybody's: it takes many steps to be sure of ---- */

static const struct slow_fault {
    enum fault_id fault;
    double factor;
    uint64_t step, steps, every, over;
} slow_faults[] = {
    { FAULT_GPU_SLOW, 2, 30, 80, 4, 0 },
    { FAULT_WANDERING, 2, 30, 80, 0, 0 },
    { FAULT_GPU_SLOW, 1.08, 24, 74, 0, 100 },
    { FAULT_ALL_SLOW, 1.25, 45, 125, 0, 0 },
};
_Static_assert(COUNT(slow_faults) == SCORE_SLOWLY, "as the header says");

void score_slowly_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(slow_faults), which = number % COUNT(slow_faults);
    const struct slow_fault *of = &slow_faults[which];

    score_layout(at, rand, of->fault, score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = of->steps;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                .step = of->step,
                                .factor = of->factor,
                                .every = of->every,
                                .over = of->over,
                                .rank = score_place(which + round, at->ranks) };
    if (of->every)
        at->fault.set |= FAULT_EVERY;
    if (of->over)
        at->fault.set |= FAULT_OVER;
    at->fault.set &= at->fault.kind->params;
}

/* ---- a file system of our own (slowfs.h) under the checkpoints or batches, which answers late ---- */

static const struct storage_fault {
    enum fault_id fault;
    double steps; /* that each request takes longer */
    bool all;     /* for all ranks */
} storage_faults[] = {
    { FAULT_SLOW_STORAGE, 1.5, true },
    { FAULT_SLOW_STORAGE, 1.5, false },
    { FAULT_SLOW_DATASET, 0.4, true },
    { FAULT_SLOW_DATASET, 0.4, false },
};
_Static_assert(COUNT(storage_faults) == SCORE_STORAGE, "as the header says");

void score_storage_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(storage_faults), which = number % COUNT(storage_faults);
    const struct storage_fault *of = &storage_faults[which];

    at->family = "storage";
    score_layout(at, rand, of->fault, score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = ONSET + 30;
    at->checkpoint_every = of->fault == FAULT_SLOW_STORAGE ? CHECKPOINT_EVERY : 0;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_MS | FAULT_RANK,
                                .step = ONSET,
                                .ms = of->steps * at->step_ms,
                                .rank = score_place(which + round, at->ranks) };
    if (of->all)
        at->fault.set &= ~(uint32_t)FAULT_RANK;
    at->fault.set &= at->fault.kind->params;
}

/* ---- nodes with networks of their own, and the link of one of them slow or cut ---- */

static const enum fault_id link_faults[] = { FAULT_SLOW_LINK, FAULT_LINK_DOWN };
_Static_assert(COUNT(link_faults) == SCORE_LINK, "as the header says");

void score_link_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(link_faults), which = number % COUNT(link_faults);
    enum fault_id id = link_faults[which];

    at->family = "link";
    score_layout(at, rand, id, score_size(which + round));
    at->nodes =
        id == FAULT_SLOW_LINK ? 4 : 2; /* pairs distinguish a slow link from a slow fabric */
    at->steps = ONSET + 30;
    at->fault = (struct fault){ .kind = score_kind(id),
                                .set = FAULT_STEP | FAULT_NODE | FAULT_FACTOR,
                                .step = ONSET,
                                .factor = 3,
                                .node = score_place(round, at->nodes) };
    at->fault.set &= at->fault.kind->params;
}

/* ---- communicators that go on with fewer channels: from a step on, or since a restart ---- */

#define KILLED 26 /* by then it is known what is typical */

void score_channels_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / SCORE_CHANNELS;
    bool restart = number % SCORE_CHANNELS == 1;

    at->family = "channels";
    score_layout(at, rand, FAULT_FEW_CHANNELS, score_size(round + restart));
    at->nodes = 2;
    at->steps = ONSET + 30;
    at->fault = (struct fault){ .kind = score_kind(FAULT_FEW_CHANNELS),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_COMM,
                                .step = ONSET,
                                .comm = LOCKSTEP_COMM_DP,
                                .factor = round % 2 ? 4 : 8 };
    if (round % 2 == 0) { /* else all of them */
        at->fault.set |= FAULT_RANK;
        at->fault.rank = score_place(round / 2, at->ranks);
    }
    if (!restart)
        return;
    at->checkpoint_every = 5;
    at->fault.set |= FAULT_ATTEMPT;
    at->fault.attempt = 1;
    at->fault.step = 0;
    at->also = (struct fault){ .kind = score_kind(FAULT_KILL),
                               .set = FAULT_STEP | FAULT_RANK,
                               .step = KILLED,
                               .rank = score_place(round, at->ranks) };
}

/* ---- two faults at once: each must be named, and neither for the other's deed ---- */

#define DATASET_STEPS 0.4 /* of a step: each request for a batch takes so much longer */

static const struct score_pair {
    enum fault_id fault[2];
    double factor[2];
    bool all[2]; /* on all ranks */
    uint32_t checkpoint_every;
} pairs[] = {
    { { FAULT_GPU_SLOW, FAULT_HOST_SLEEP }, { 1.5, 1.5 }, { false }, 0 },
    { { FAULT_STOP, FAULT_STUCK_DATA }, { 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_KILL }, { 1.5, 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_BIT_FLIP }, { 2, 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_SLOW_INPUT }, { 1.5, 1.5 }, { false, true }, 0 },
    { { FAULT_HOST_SLEEP, FAULT_SLOW_CHECKPOINT }, { 1.5, 20 }, { false, true }, 6 },
    { { FAULT_STUCK_CODE, FAULT_GPU_HANG }, { 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_SLOW_DATASET }, { 1.5, 0 }, { false }, 0 },
};
_Static_assert(COUNT(pairs) == SCORE_PAIRS, "as the header says");

static uint32_t score_replica(const struct score_case *at, uint32_t rank)
{
    return rank / at->tp % at->dp;
}

/* Far from the first, and not behind it in the same pipeline: what waits there for its input cannot go wrong. */
static uint32_t score_other_replica(const struct score_case *at)
{
    uint32_t rank = (at->fault.rank + 1 + (at->ranks - 1) / 2) % at->ranks;

    while (score_replica(at, rank) == score_replica(at, at->fault.rank))
        rank = (rank + 1) % at->ranks;
    return rank;
}

void score_pair_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct score_pair *pair = &pairs[number % COUNT(pairs)];
    uint32_t round = number / COUNT(pairs), which = number % COUNT(pairs);
    struct fault *fault[] = { &at->fault, &at->also };

    at->family = "two";
    score_layout(at, rand, pair->fault[0], score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = ONSET + 24;
    at->checkpoint_every = pair->checkpoint_every;
    for (size_t i = 0; i < COUNT(fault); i++) {
        *fault[i] = (struct fault){ .kind = score_kind(pair->fault[i]),
                                    .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                    .step = ONSET,
                                    .phase = LOCKSTEP_PHASE_FORWARD,
                                    .factor = pair->factor[i],
                                    .rank = score_place(which + round, at->ranks) };
        if (pair->fault[i] ==
            FAULT_SLOW_DATASET) { /* about as slow as the other: each hides the other */
            fault[i]->ms = DATASET_STEPS * at->step_ms;
            fault[i]->set ^= FAULT_MS | FAULT_FACTOR;
        }
        if (pair->all[i])
            fault[i]->set &= ~(uint32_t)FAULT_RANK;
        fault[i]->set &= fault[i]->kind->params;
    }
    at->also.rank = score_other_replica(at);
    if (pair->fault[1] == FAULT_KILL) /* the straggler has to be known by then */
        at->also.step = ONSET + 15;
}

/* ---- PyTorch's DistributedDataParallel on gloo, with the faults that its demo can make ---- */

/* Ranks really compute, and share the cpus: few of them, with long steps. */

static const struct torch_fault {
    enum fault_id fault;
    double factor; /* 0: there or not */
    uint32_t checkpoint_every;
} torch_faults[] = {
    { FAULT_GPU_SLOW, 2, 0 },   { FAULT_HOST_SLEEP, 2, 0 }, { FAULT_SLOW_INPUT, 2, 0 },
    { FAULT_KILL, 0, 0 },       { FAULT_EXCEPTION, 0, 0 },  { FAULT_EXIT, 0, 0 },
    { FAULT_ABORT, 0, 0 },      { FAULT_SEGFAULT, 0, 0 },   { FAULT_STOP, 0, 0 },
    { FAULT_STUCK_DATA, 0, 0 }, { FAULT_STUCK_CODE, 0, 0 }, { FAULT_STUCK_GIL, 0, 0 },
    { FAULT_OTHER_OP, 0, 0 },   { FAULT_OTHER_SIZE, 0, 0 }, { FAULT_BIT_FLIP, 0, 0 },
    { FAULT_NAN, 0, 0 },        { FAULT_EVAL, 0, 0 },       { FAULT_NONE, 0, 9 },
};
_Static_assert(COUNT(torch_faults) == SCORE_TORCH, "as the header says");

void score_torch_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct torch_fault *of = &torch_faults[number % COUNT(torch_faults)];
    uint32_t round = number / COUNT(torch_faults), which = number % COUNT(torch_faults);

    at->family = "torch";
    at->torch = true;
    at->ranks = at->dp = 2 + 2 * rand_below(rand, 2);
    if (of->fault == FAULT_OTHER_OP || of->fault == FAULT_OTHER_SIZE)
        at->ranks = at->dp = 4; /* with two, nobody can say who is right */
    at->tp = at->pp = at->nodes = 1;
    at->step_ms = 200;
    at->steps = ONSET + 24;
    at->checkpoint_every = of->checkpoint_every;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                .ms = PAUSE_MS,
                                .step = ONSET,
                                .phase = LOCKSTEP_PHASE_FORWARD,
                                .factor = of->factor,
                                .rank = score_place(which + round, at->ranks) };
    if (of->factor == 0)
        at->fault.set = FAULT_STEP | FAULT_RANK | FAULT_MS;
    at->fault.set &= at->fault.kind->params;
    at->fault.set |= SCORE_HOST_VIEW;
}
