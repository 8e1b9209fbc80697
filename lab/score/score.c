/* score.c - the table of right answers, the cases, and how an answer is compared.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/clean.h"
#include "core/rand.h"
#include "lab/score/score_private.h"

static const struct score_expect expects[] = {
    { FAULT_GPU_SLOW, FAULT_EVERY, "recurring", "straggler", "gpu", SCORE_RANK, 0 },
    { FAULT_GPU_SLOW, SCORE_SENSORS(WIDTH), "sensors", "straggler", "pcie", SCORE_RANK, 0 },
    { FAULT_GPU_SLOW, SCORE_SENSORS(OTHERS), "sensors", "straggler", "gpu", SCORE_RANK, 0 },
    { FAULT_GPU_SLOW, SCORE_SENSORS(CLOCK), "sensors", "straggler", "thermal", SCORE_RANK, 0 },
    { FAULT_KILL, SCORE_SENSORS(ECC), "sensors", "crash", "gpu-memory", SCORE_RANK, 0 },
    { FAULT_FROZEN_LINK, SCORE_SENSORS(PORT), "sensors", "hang", "nic", SCORE_NOBODY, 0 },
    { FAULT_SLOW_INPUT, SCORE_SENSORS(DISK), "sensors", "straggler", "storage", SCORE_RANK, 0 },
    { FAULT_KILL, SCORE_SENSORS(MEMORY), "sensors", "crash", "host-memory", SCORE_RANK, 0 },
    { FAULT_GPU_SLOW, FAULT_OVER, "forming", "straggler", "gpu", SCORE_RANK, 0 },
    { FAULT_WANDERING, 0, "recurring", "straggler", "unknown", SCORE_NOBODY, 0 },
    { FAULT_ALL_SLOW, 0, "regression", "regression", "unknown", SCORE_NOBODY, 0 },
    /* A wait inside forward, in a process without a device that anybody sees: it is slow, and nobody can know why. */
    { FAULT_GPU_SLOW, SCORE_HOST_VIEW, "gpu", "straggler", "unknown", SCORE_RANK, 0 },
    { FAULT_GPU_SLOW, 0, "gpu", "straggler", "gpu", SCORE_RANK, SCORE_IN(STRAGGLER_WAIT) },
    { FAULT_HOST_SLEEP, 0, "user-code", "straggler", "user-code", SCORE_RANK,
      SCORE_IN(STRAGGLER_WAIT) },
    { FAULT_CPU_QUOTA, 0, "cpu", "straggler", "cpu", SCORE_NODE, SCORE_IN(STRAGGLER_WAIT) },
    { FAULT_NEIGHBOURS, 0, "cpu", "straggler", "cpu", SCORE_NODE, SCORE_IN(STRAGGLER_WAIT) },
    { FAULT_UNEVEN_DATA, 0, "data", "imbalance", "data", SCORE_NOBODY,
      SCORE_IN(IMBALANCE) | SCORE_WORK },
    /* It moves the critical path, and messages that compute hid come to light: by the lab's own account up to 8 %. */
    { FAULT_HEAVY_STAGE, 0, "stage", "imbalance", NULL, SCORE_STAGE,
      SCORE_IN(IMBALANCE) | SCORE_IN(TRANSFER) | SCORE_WORK },
    { FAULT_SLOW_INPUT, FAULT_RANK, "input", "straggler", "data", SCORE_RANK,
      SCORE_IN(INPUT) | SCORE_IN(STRAGGLER_WAIT) },
    { FAULT_SLOW_INPUT, 0, "input", "input-stall", "data", SCORE_NOBODY, SCORE_IN(INPUT) },
    { FAULT_SLOW_DATASET, FAULT_RANK, "input", "straggler", "storage", SCORE_RANK, 0 },
    { FAULT_SLOW_DATASET, 0, "input", "input-stall", "storage", SCORE_NOBODY, 0 },
    { FAULT_KILL, SCORE_KERNEL(OOM), "kernel-log", "crash", "host-memory", SCORE_RANK, 0 },
    { FAULT_KILL, SCORE_KERNEL(MEMORY), "kernel-log", "crash", "host-memory", SCORE_RANK, 0 },
    { FAULT_KILL, SCORE_KERNEL(OTHERS), "kernel-log", "crash", "unknown", SCORE_RANK, 0 },
    { FAULT_ABORT, SCORE_KERNEL(BUS), "kernel-log", "crash", "pcie", SCORE_RANK, 0 },
    { FAULT_EXCEPTION, SCORE_KERNEL(ECC), "kernel-log", "crash", "gpu-memory", SCORE_RANK, 0 },
    { FAULT_GPU_HANG, SCORE_KERNEL(DEVICE), "kernel-log", "hang", "pcie", SCORE_RANK, 0 },
    { FAULT_STUCK_DATA, SCORE_KERNEL(DISK), "kernel-log", "hang", "storage", SCORE_RANK, 0 },
    { FAULT_FROZEN_LINK, SCORE_KERNEL(LINK), "kernel-log", "hang", "nic", SCORE_NOBODY, 0 },
    { FAULT_KILL, 0, "crash", "crash", "unknown", SCORE_RANK, 0 },
    { FAULT_EXIT, 0, "crash", "crash", "user-code", SCORE_RANK, 0 },
    { FAULT_SEGFAULT, 0, "crash", "crash", "user-code", SCORE_RANK, 0 },
    { FAULT_ABORT, 0, "crash", "crash", "user-code", SCORE_RANK, 0 },
    { FAULT_EXCEPTION, 0, "crash", "crash", "user-code", SCORE_RANK, 0 },
    { FAULT_OOM, 0, "crash", "crash", "host-memory", SCORE_RANK, 0 },
    { FAULT_STOP, 0, "hang", "hang", "unknown", SCORE_RANK, 0 },
    { FAULT_STUCK_DATA, 0, "hang", "hang", "data", SCORE_RANK, 0 },
    { FAULT_STUCK_CODE, 0, "hang", "hang", "user-code", SCORE_RANK, 0 },
    { FAULT_STUCK_GIL, 0, "hang", "hang", "user-code", SCORE_RANK, 0 },
    { FAULT_STUCK_STORAGE, 0, "hang", "hang", "storage", SCORE_RANK, 0 },
    { FAULT_STUCK_CHECKPOINT, 0, "hang", "hang", "storage", SCORE_RANK, 0 },
    { FAULT_GPU_HANG, 0, "hang", "hang", "gpu", SCORE_RANK, 0 },
    { FAULT_FROZEN_LINK, 0, "hang", "hang", "fabric", SCORE_NOBODY, 0 },
    { FAULT_OTHER_ORDER, 0, "hang", "hang", "user-code", SCORE_RANK, 0 },
    { FAULT_OTHER_OP, 0, "desync", "desync", "user-code", SCORE_RANK, 0 },
    { FAULT_OTHER_SIZE, 0, "desync", "desync", "user-code", SCORE_RANK, 0 },
    { FAULT_BIT_FLIP, 0, "corruption", "corruption", "gpu-memory", SCORE_REPLICA, 0 },
    { FAULT_NAN, 0, "corruption", "corruption", "unknown", SCORE_RANK, 0 },
    { FAULT_FROZEN, FAULT_RANK, "corruption", "corruption", "user-code", SCORE_RANK, 0 },
    { FAULT_FROZEN, 0, "corruption", "corruption", "user-code", SCORE_NOBODY, 0 },
    { FAULT_SLOW_FABRIC, 0, "fabric", "sync-stall", "fabric", SCORE_NOBODY,
      SCORE_IN(TRANSFER) | SCORE_IN(IMBALANCE) },
    { FAULT_SLOW_NIC, 0, "fabric", "sync-stall", "nic", SCORE_NODE,
      SCORE_IN(TRANSFER) | SCORE_IN(IMBALANCE) },
    { FAULT_SLOW_LINK, 0, "fabric", "sync-stall", "nic", SCORE_NODE, 0 },
    /* Fewer paths between nodes: which of them is missing, nobody tells. */
    { FAULT_FEW_CHANNELS, 0, "channels", "sync-stall", "fabric", SCORE_NOBODY, 0 },
    { FAULT_LINK_DOWN, 0, "hang", "hang", "fabric", SCORE_NOBODY, 0 },
    { FAULT_SLOW_STORAGE, FAULT_RANK, "checkpoint", "checkpoint-stall", "storage", SCORE_RANK, 0 },
    { FAULT_SLOW_STORAGE, 0, "checkpoint", "checkpoint-stall", "storage", SCORE_NOBODY, 0 },
    { FAULT_SLOW_CHECKPOINT, FAULT_STEPS, "traps", NULL, NULL, SCORE_NOBODY, 0 }, /* one long one */
    { FAULT_SLOW_CHECKPOINT, FAULT_RANK, "checkpoint", "checkpoint-stall", "checkpoint", SCORE_RANK,
      0 },
    { FAULT_SLOW_CHECKPOINT, 0, "checkpoint", "checkpoint-stall", "checkpoint", SCORE_NOBODY, 0 },
};

const struct score_expect *score_expects(size_t *count)
{
    *count = COUNT(expects);
    return expects;
}

const struct score_expect *score_expect(const struct fault *fault)
{
    for (size_t i = 0; i < COUNT(expects); i++) {
        if (expects[i].fault == fault->kind->id &&
            (fault->set & expects[i].given) == expects[i].given)
            return expects[i].kind ? &expects[i] : NULL;
    }
    return NULL;
}

/* ---- cases ---- */

/* A real host has a core for each rank.  Here all share a few: many ranks have less host work and
 * longer steps, so that they do not wait for each other more than few do.
 */
#define STEP_MS 100.0
#define STEP_MS_RANK 12.5
#define HOST_WORK_MS 10.0  /* of all ranks together */
#define HOST_WORK_CPU_MS 8 /* of each rank: a scarce cpu only hurts who needs it */
#define SLIGHT 1.2
#define ONSET 20 /* the first steps are for warming up and for knowing what is typical */

/* How often each fault is drawn, of ten; `given`: with these said that else mean all. */
struct draw {
    enum fault_id fault;
    uint32_t given, weight;
};
static const struct draw draws_slow[] = {
    { FAULT_GPU_SLOW, 0, 4 },   { FAULT_HOST_SLEEP, 0, 2 },  { FAULT_CPU_QUOTA, 0, 1 },
    { FAULT_NEIGHBOURS, 0, 1 }, { FAULT_UNEVEN_DATA, 0, 1 }, { FAULT_HEAVY_STAGE, 0, 1 },
};
static const struct draw draws_stall[] = {
    { FAULT_SLOW_INPUT, 0, 2 },      { FAULT_SLOW_INPUT, FAULT_RANK, 2 },
    { FAULT_SLOW_CHECKPOINT, 0, 1 }, { FAULT_SLOW_CHECKPOINT, FAULT_RANK, 2 },
    { FAULT_SLOW_FABRIC, 0, 2 },     { FAULT_SLOW_NIC, 0, 1 },
};
static const struct draw draws_corruption[] = {
    { FAULT_BIT_FLIP, 0, 4 },
    { FAULT_NAN, 0, 3 },
    { FAULT_FROZEN, FAULT_RANK, 2 },
    { FAULT_FROZEN, 0, 1 },
};

/* What no judge may speak about; those of a set are drawn in turn among its healthy runs. */
static const enum fault_id traps_none[] = { FAULT_NONE };
static const enum fault_id traps_stall[] = { FAULT_NONE, FAULT_EVAL, FAULT_SLOW_START,
                                             FAULT_COMPILE };

/* Families that are drawn together.  The first set is drawn unless another one, or a family of it,
 * is asked for: each keeps its cases when others grow.
 */
static const struct draw_set {
    const char *name;
    const struct draw *draw;
    size_t draws;
    const enum fault_id *trap;
    size_t traps;
    uint32_t checkpoint_every; /* in its healthy runs */
} sets[] = {
    { "slow", draws_slow, COUNT(draws_slow), traps_none, COUNT(traps_none), 0 },
    { "stall", draws_stall, COUNT(draws_stall), traps_stall, COUNT(traps_stall), 9 },
    { "corruption", draws_corruption, COUNT(draws_corruption), traps_none, COUNT(traps_none), 0 },
};

static const struct {
    uint32_t ranks, tp, pp;
} layouts[] = {
    { 4, 1, 1 }, { 4, 2, 1 }, { 4, 1, 2 },  { 8, 1, 1 },  { 8, 2, 1 },  { 8, 2, 2 },
    { 8, 1, 2 }, { 8, 1, 4 }, { 16, 1, 1 }, { 16, 2, 2 }, { 16, 2, 1 }, { 16, 1, 4 },
};
static const double factors[] = { 1.10, 1.25, 2 };

const struct fault_kind *score_kind(enum fault_id id)
{
    size_t count;
    const struct fault_kind *kind = fault_kinds(&count);

    for (size_t i = 0; i < count; i++) {
        if (kind[i].id == id)
            return &kind[i];
    }
    return NULL;
}

static bool score_layout_suits(enum fault_id id, uint32_t ranks, uint32_t tp, uint32_t stages)
{
    switch (id) {
    case FAULT_HEAVY_STAGE:
        return stages > 1;
    case FAULT_UNEVEN_DATA:
        return stages == 1;
    case FAULT_ELASTIC:
        return stages == 1 && tp == 1;
    case FAULT_FEW_CHANNELS: /* so that data parallel communicators are between the nodes */
        return stages == 1;
    case FAULT_SLOW_LINK:
    case FAULT_SLOW_NIC: /* a stage a node: else every communicator touches every node */
        return stages == 4;
    case FAULT_OTHER_ORDER:
    case FAULT_OTHER_OP:
    case FAULT_OTHER_SIZE: /* with two, nobody can say who is right */
        return ranks / stages / tp >= 4;
    default:
        return true;
    }
}

static bool score_size_suits(enum fault_id id, uint32_t ranks)
{
    bool suits = false;

    for (size_t i = 0; i < COUNT(layouts); i++)
        suits |= layouts[i].ranks == ranks &&
                 score_layout_suits(id, layouts[i].ranks, layouts[i].tp, layouts[i].pp);
    return suits;
}

void score_layout(struct score_case *at, struct rand *rand, enum fault_id id, uint32_t ranks)
{
    bool sized = score_size_suits(id, ranks);
    size_t which;

    do {
        which = rand_below(rand, COUNT(layouts));
    } while (!score_layout_suits(id, layouts[which].ranks, layouts[which].tp, layouts[which].pp) ||
             (sized && layouts[which].ranks != ranks));
    at->ranks = layouts[which].ranks;
    at->tp = layouts[which].tp;
    at->pp = layouts[which].pp;
    at->dp = at->ranks / at->tp / at->pp;
    at->host_work_ms = HOST_WORK_MS / at->ranks;
    at->step_ms = MAX(STEP_MS, STEP_MS_RANK * at->ranks);
}

static void score_case_fault(struct score_case *at, struct rand *rand, uint32_t number,
                             const struct draw *draw)
{
    enum fault_id id = draw->fault;
    static const uint32_t numerator[] = { 0, 1, 2 }; /* first, middle and last rank or stage */
    struct fault *fault = &at->fault;

    *fault = (struct fault){ .kind = score_kind(id), .set = FAULT_STEP | FAULT_FACTOR };
    fault->step = id == FAULT_HEAVY_STAGE ? 0 : ONSET;
    fault->factor = factors[number % COUNT(factors)];
    at->steps = ONSET + (fault->factor < SLIGHT ? 60 : 30);
    at->nodes = 1;
    switch (id) {
    case FAULT_GPU_SLOW:
    case FAULT_HOST_SLEEP:
    case FAULT_BIT_FLIP:
    case FAULT_NAN:
        fault->set |= FAULT_RANK;
        fault->rank = (at->ranks - 1) * numerator[rand_below(rand, 3)] / 2;
        break;
    case FAULT_SLOW_NIC:
        fault->set |= FAULT_NODE;
        fault->node = rand_below(rand, 4);
        __attribute__((fallthrough));
    case FAULT_SLOW_FABRIC:
        at->nodes = id == FAULT_SLOW_NIC ? 4 : 2;
        fault->factor = fault->factor < 1.2 ? 10 : 20;
        at->steps = ONSET + 22;
        break;
    case FAULT_SLOW_CHECKPOINT:
        at->checkpoint_every = 6;
        fault->factor = fault->factor < 1.2 ? 8 : 20;
        at->steps = ONSET + 22;
        __attribute__((fallthrough));
    case FAULT_SLOW_INPUT:
    case FAULT_FROZEN:
        if (draw->given & FAULT_RANK) {
            fault->set |= FAULT_RANK;
            fault->rank = (at->ranks - 1) * numerator[rand_below(rand, 3)] / 2;
        }
        break;
    case FAULT_CPU_QUOTA:
    case FAULT_NEIGHBOURS:
        at->nodes = 2; /* so that one of them can be named */
        fault->set |= FAULT_NODE;
        fault->node = rand_below(rand, 2);
        at->host_work_ms = HOST_WORK_CPU_MS;
        fault->step =
            2 * ONSET; /* steps with much host work differ more: more of them to know them */
        at->steps = fault->step + 60;
        break;
    case FAULT_HEAVY_STAGE:
        fault->set |= FAULT_STAGE;
        fault->stage = (at->pp - 1) * numerator[rand_below(rand, 3)] / 2;
        break;
    default:
        break;
    }
    fault->set &= fault->kind->params;
    if (!(fault->set & FAULT_FACTOR))
        fault->factor = 1; /* it is there or not, and has as long as the slightest to be found */
}

static const struct draw *draw_fault(const struct draw_set *set, uint32_t number)
{
    uint32_t at = number * 7 % 10; /* spreads the kinds evenly over any run of ten cases */

    for (size_t i = 0; i < set->draws; i++) {
        if (at < set->draw[i].weight)
            return &set->draw[i];
        at -= set->draw[i].weight;
    }
    return &set->draw[0];
}

static const char *draw_family(const struct draw *draw)
{
    struct fault fault = { .kind = score_kind(draw->fault), .set = draw->given };

    return score_expect(&fault)->family;
}

/* The set that is called so, or has a family that is. */
static const struct draw_set *set_of(const char *name)
{
    for (size_t i = 0; i < COUNT(sets); i++) {
        if (strcmp(sets[i].name, name) == 0)
            return &sets[i];
        for (size_t k = 0; k < sets[i].draws; k++) {
            if (strcmp(draw_family(&sets[i].draw[k]), name) == 0)
                return &sets[i];
        }
    }
    return NULL;
}

bool score_has_family(const char *family)
{
    return score_has_series(family) || set_of(family) != NULL;
}

/* A healthy run, or one with something in it that is no fault. */
static void score_case_trap(struct score_case *at, const struct draw_set *set, uint32_t number)
{
    const struct fault_kind *kind = score_kind(set->trap[number % set->traps]);

    at->checkpoint_every = set->checkpoint_every;
    at->fault = (struct fault){ .kind = kind,
                                .set = kind->params & (FAULT_MS | FAULT_STEP),
                                .step = ONSET,
                                .ms = 4 * at->step_ms };
}

#define SET_SEEDS 1000000 /* apart, so that no two sets have the same healthy run */

/* The next case after `from` that has a ledger to compare, a slight one if only those are meant. */
static uint32_t score_twin_next(const struct score_case *cases, uint32_t faults, uint32_t from,
                                bool slight)
{
    while (from < faults &&
           !(score_has_ledger(&cases[from]) && (!slight || cases[from].fault.factor < SLIGHT)))
        from++;
    return from;
}

/* First the twins of those whose ledgers are compared, second ones of the slight ones, then layouts at random. */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static uint32_t draw_healthy(const struct draw_set *set, uint64_t seed, uint32_t healthy,
                             struct rand *rand, struct score_case *cases, uint32_t faults,
                             uint32_t room)
{
    uint32_t count = 0, twin = 0;
    bool again = false;

    for (; count < healthy && faults + count < room; count++) {
        struct score_case *at = &cases[faults + count];

        twin = score_twin_next(cases, faults, twin, again);
        if (twin == faults && !again) {
            again = true;
            twin = score_twin_next(cases, faults, 0, again);
        }
        if (twin < faults) {
            *at = cases[twin];
            at->twin = twin++;
            at->again = again;
            at->fault = (struct fault){ .kind = score_kind(FAULT_NONE) };
        } else {
            *at = (struct score_case){
                .seed = seed * 1000 + 500 + count, .nodes = 1, .steps = 60, .twin = SCORE_NO_TWIN
            };
            score_layout(at, rand, FAULT_NONE, 0);
            score_case_trap(at, set, count);
        }
    }
    return count;
}

uint32_t score_draw(uint64_t seed, uint32_t faults, uint32_t healthy, const char *only,
                    struct score_case *ret, uint32_t room)
{
    bool series = only && score_has_series(only);
    const struct draw_set *set = only && !series ? set_of(only) : &sets[0];
    struct rand rand = { seed };
    uint32_t count = 0;

    for (uint32_t i = 0; series && i < faults && count < room; i++) {
        struct score_case *at = &ret[count++];

        *at = (struct score_case){ .seed = seed * 1000 + i, .twin = SCORE_NO_TWIN };
        score_series_case(only, i, &rand, at);
    }
    for (uint32_t i = 0; !series && i < faults && count < room; i++) {
        struct score_case *at = &ret[count];
        const struct draw *draw = draw_fault(set, i);

        *at = (struct score_case){ .seed = SET_SEEDS * (uint64_t)(set - sets) + seed * 1000 + i,
                                   .twin = SCORE_NO_TWIN };
        score_layout(at, &rand, draw->fault, 0);
        score_case_fault(at, &rand, i / 3 + i, draw);
        if (!only || strcmp(only, set->name) == 0 || strcmp(only, draw_family(draw)) == 0)
            count++;
    }
    return count + draw_healthy(set, seed, healthy, &rand, ret, count, room);
}

void score_case_text(const struct score_case *at, char *out, size_t room)
{
    char fault[FAULT_TEXT] = "none", also[FAULT_TEXT] = "";
    const char *log = score_kernel_name(&at->fault);

    if (at->fault.kind->id != FAULT_NONE)
        fault_format(&at->fault, fault);
    if (at->also.kind)
        fault_format(&at->also, also);
    snprintf(out, room, "%s%s%u ranks tp %u pp %u dp %u, %s%s%s%s%s", at->torch ? "PyTorch, " : "",
             at->stamps ? "stamps, " : "", at->ranks, at->tp, at->pp, at->dp, fault, also[0] ? " and " : "", also,
             log ? ", kernel log: " : "", log ? log : "");
    if (score_sensors_name(&at->fault))
        snprintf(out + strlen(out), room - strlen(out), ", sensors: %s",
                 score_sensors_name(&at->fault));
}

const char *score_family(const struct score_case *at)
{
    const struct score_expect *expect = score_expect(&at->fault);

    if (at->family)
        return at->family;
    if (expect)
        return expect->family;
    return at->fault.kind->id == FAULT_NONE ? "healthy" : "traps";
}

int score_run(const struct score_case *at, const char *state, struct score_result *ret,
              struct err *err)
{
    struct score_result result = { .ran = true };
    struct score_truth truth = { 0 };
    struct json_object *answer = NULL;
    int status = score_demo(at, state, &answer, &result, err);

    if (status < 0)
        return status;
    if (!answer) {
        result.ran = false;
    } else {
        struct json_object *name;

        if (json_object_object_get_ex(answer, "run", &name))
            snprintf(result.run, sizeof(result.run), "%s", json_object_get_string(name));
        if (at->fault.set & SCORE_KERNEL_MASK)
            status = score_kernel_join(at, state, answer, err);
        score_compare(at, answer, &truth, &result);
        score_ledger_read(answer, &truth, &result.ledger);
    }
    json_object_put(answer);
    if (status == 0)
        *ret = result;
    return status;
}
