/* trainer_fault.c - what the plan asks of this rank, and how much it really was.
 *
 * The probe gets no information about faults: the judges have to find them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/trainer/trainer_private.h"

#define LENGTH 512.0 /* tokens of a sequence, nominal */
#define SEQUENCES 4  /* in a micro-batch */
#define LINEAR 0.7   /* share of the work that goes with tokens; the rest with squared lengths */
#define UNEVEN 0.05  /* of a sequence's length, in a run with uneven data */

static bool fault_is_ours(const struct trainer *trainer, const struct fault *fault)
{
    if (!fault_active(fault, trainer->step))
        return false;
    if ((fault->set & FAULT_RANK) && fault->rank != trainer->config->rank)
        return false;
    return !(fault->set & FAULT_STAGE) || fault->stage == trainer->place.pp;
}

/* How much longer than others the sequences of one with `factor` times the work are. */
static double fault_stretch(double factor)
{
    double square = 1 - LINEAR;

    return (sqrt(LINEAR * LINEAR + 4 * square * factor) - LINEAR) / (2 * square);
}

/* The same on all ranks of a replica: they work on the same sequences. */
static void fault_lengths(struct trainer *trainer, const struct fault *uneven,
                          const struct fault *longer)
{
    uint64_t seed = hash64_u64(hash64_u64(trainer->config->seed, 0x6c656e67), trainer->step);
    struct rand turn = { seed }, rand = { hash64_u64(seed, trainer->place.dp + 1u) };
    bool heavy = uneven && rand_below(&turn, trainer->place.dp_size) == trainer->place.dp;
    double stretch = heavy ? fault_stretch(uneven->factor) : 1;

    if (longer)
        stretch *= fault_stretch(longer->factor);

    for (uint32_t micro = 0; micro < trainer->micros; micro++) {
        struct trainer_load *load = &trainer->load[micro];

        *load = (struct trainer_load){ 0 };
        for (int i = 0; i < SEQUENCES; i++) {
            double spread = uneven ? UNEVEN * (2 * rand_unit(&rand) - 1) : 0;
            double length = round(LENGTH * stretch * (1 + spread));

            load->tokens += length;
            load->squares += length * length;
        }
        load->work = LINEAR * load->tokens / (SEQUENCES * LENGTH) +
                     (1 - LINEAR) * load->squares / (SEQUENCES * LENGTH * LENGTH);
    }
}

/* Compute of this rank in this step, as the model has it for loads of 1. */
static double fault_nominal_ns(const struct trainer *trainer)
{
    return 3.0 * (double)trainer->times.block * trainer->blocks * trainer->micros;
}

/* Whose turn it is: never twice the same, and all ranks come to the same answer. */
static bool fault_wanders_here(const struct trainer *trainer, const struct fault *fault)
{
    struct rand turn = { hash64_u64(trainer->config->seed, 0x77616e64) };
    uint32_t world = trainer->config->world, at = rand_below(&turn, world);

    for (uint64_t step = fault->step; step < trainer->step; step++)
        at = (at + 1 + rand_below(&turn, MAX(world - 1, 1u))) % world;
    return at == trainer->config->rank;
}

static bool fault_slows_device(const struct trainer *trainer, const struct fault *fault)
{
    switch (fault->kind->id) {
    case FAULT_GPU_SLOW:
    case FAULT_HEAVY_STAGE:
    case FAULT_ALL_SLOW:
        return fault_is_ours(trainer, fault);
    case FAULT_WANDERING:
        return fault_is_ours(trainer, fault) && fault_wanders_here(trainer, fault);
    default:
        return false;
    }
}

/* Whether this is the step, and the only one, in which the fault hurts this rank. */
static bool fault_strikes(const struct trainer *trainer, const struct fault *fault)
{
    return trainer->config->attempt == 0 && fault->rank == trainer->config->rank &&
           fault->step == trainer->step;
}

static void fault_flip(struct trainer *trainer)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];

        if (fault->kind->id != FAULT_BIT_FLIP || !fault_strikes(trainer, fault))
            continue;
        toy_flip(&trainer->toy, hash64_u64(trainer->config->seed, 0x666c6970 + i));
        truth_add(trainer->truth, i, trainer->step, 0);
    }
}

static const struct fault *fault_now(const struct trainer *trainer, enum fault_id id)
{
    const struct fault *found = NULL;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        if (trainer->plan.fault[i].kind->id == id &&
            fault_active(&trainer->plan.fault[i], trainer->step))
            found = &trainer->plan.fault[i];
    }
    return found;
}

void trainer_fault_step(struct trainer *trainer)
{
    const struct fault *uneven = fault_now(trainer, FAULT_UNEVEN_DATA);
    const struct fault *longer = fault_now(trainer, FAULT_LONG_SEQUENCES);
    double load = 0;

    trainer->slow = 1;
    fault_flip(trainer);
    fault_lengths(trainer, uneven, longer);
    if (longer)
        truth_add(trainer->truth, (uint32_t)(longer - trainer->plan.fault), trainer->step, 0);
    for (uint32_t micro = 0; micro < trainer->micros; micro++)
        load += trainer->load[micro].work / trainer->micros;
    if (uneven)
        truth_add(trainer->truth, (uint32_t)(uneven - trainer->plan.fault), trainer->step,
                  (int64_t)(fault_nominal_ns(trainer) * (load - 1)));
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        double factor;

        if (!fault_slows_device(trainer, fault))
            continue;
        factor = fault_factor(fault, trainer->step);
        truth_add(trainer->truth, i, trainer->step,
                  (int64_t)((fault_nominal_ns(trainer) * load + (double)trainer->times.optimizer) *
                            trainer->slow * (factor - 1)));
        trainer->slow *= factor;
    }
}

void trainer_fault_gradient(struct trainer *trainer, float *gradient)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];

        if (fault->kind->id != FAULT_NAN || !fault_strikes(trainer, fault))
            continue;
        gradient[0] = NAN;
        truth_add(trainer->truth, i, trainer->step, 0);
    }
}

bool trainer_fault_frozen(struct trainer *trainer)
{
    bool frozen = false;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];

        if (fault->kind->id != FAULT_FROZEN || !fault_is_ours(trainer, fault))
            continue;
        truth_add(trainer->truth, i, trainer->step, 0);
        frozen = true;
    }
    return frozen;
}

bool trainer_fault_differs(const struct trainer *trainer)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        enum fault_id id = trainer->plan.fault[i].kind->id;

        if (id == FAULT_BIT_FLIP || id == FAULT_FROZEN)
            return true;
    }
    return false;
}

static void fault_sleep(int64_t ns)
{
    struct timespec until = time_spec(time_mono_ns() + ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Waits of the host: a loader that is not ready, code of the user's that dawdles. */
void trainer_fault_phase(struct trainer *trainer, enum lockstep_phase phase)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        bool input = fault->kind->id == FAULT_SLOW_INPUT && phase == LOCKSTEP_PHASE_DATA;
        bool host = fault->kind->id == FAULT_HOST_SLEEP && (int)phase == fault->phase;
        double ms =
            fault->set & FAULT_MS ? fault->ms : (fault->factor - 1) * trainer->config->step_ms;
        int64_t before = time_mono_ns();

        if ((!input && !host) || !fault_is_ours(trainer, fault))
            continue;
        fault_sleep((int64_t)(ms * 1e6));
        truth_add(trainer->truth, i, trainer->step, time_mono_ns() - before);
    }
}

void trainer_fault_die(struct trainer *trainer, uint32_t launched)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        enum fault_id id = fault->kind->id;

        if ((id != FAULT_KILL && id != FAULT_EXIT) || trainer->config->attempt != 0 ||
            fault->rank != trainer->config->rank || fault->step != trainer->step ||
            launched != trainer->micros / 2)
            continue;
        truth_add(trainer->truth, i, trainer->step, 0);
        truth_flush(trainer->truth);
        if (id == FAULT_KILL)
            raise(SIGKILL);
        _exit(1);
    }
}

/* The fault is on the way between these ranks: all of them come to the same answer. */
static bool fault_between(const struct trainer *trainer, const struct fault *fault,
                          const uint32_t *rank, uint32_t count)
{
    uint32_t world = trainer->config->world, nodes = trainer->plan.nodes;
    uint32_t first = fault_node_of_rank(rank[0], world, nodes);
    bool crosses = false, touches = fault->kind->id == FAULT_SLOW_FABRIC;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = fault_node_of_rank(rank[i], world, nodes);

        crosses |= node != first;
        touches |= node == fault->node;
    }
    return crosses && touches;
}

int64_t trainer_fault_transfer(struct trainer *trainer, const uint32_t *rank, uint32_t count,
                               int64_t ns)
{
    int64_t further_ns = 0;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        enum fault_id id = fault->kind->id;

        if ((id != FAULT_SLOW_FABRIC && id != FAULT_SLOW_NIC) ||
            !fault_active(fault, trainer->step) || !fault_between(trainer, fault, rank, count))
            continue;
        further_ns += (int64_t)((double)ns * (fault->factor - 1));
        truth_add(trainer->truth, i, trainer->step, (int64_t)((double)ns * (fault->factor - 1)));
    }
    return ns + further_ns;
}

static uint32_t fault_channels(const struct fault *fault)
{
    return (uint32_t)fmax(1, round(TRAINER_CHANNELS / fault->factor));
}

static bool fault_takes_channels(const struct trainer *trainer, const struct fault *fault,
                                 enum trainer_comm comm)
{
    static const int kind[] = { LOCKSTEP_COMM_WORLD, LOCKSTEP_COMM_DP, LOCKSTEP_COMM_TP };
    const struct group *group = &trainer->comm[comm];
    bool member = !(fault->set & FAULT_RANK);

    for (uint32_t i = 0; i < group->size; i++)
        member |= group->rank[i] == fault->rank;
    return member && fault->kind->id == FAULT_FEW_CHANNELS && fault->comm == kind[comm] &&
           trainer->config->attempt >= fault->attempt && fault_active(fault, trainer->step);
}

uint32_t trainer_fault_channels(const struct trainer *trainer, enum trainer_comm comm)
{
    uint32_t channels = TRAINER_CHANNELS;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        if (fault_takes_channels(trainer, &trainer->plan.fault[i], comm))
            channels = MIN(channels, fault_channels(&trainer->plan.fault[i]));
    }
    return channels;
}

int64_t trainer_fault_reduce(struct trainer *trainer, enum trainer_comm comm, int64_t ns)
{
    const struct group *group = &trainer->comm[comm];
    int64_t further_ns = 0;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        double times = (double)TRAINER_CHANNELS / fault_channels(fault);

        if (!fault_takes_channels(trainer, fault, comm))
            continue;
        further_ns = MAX(further_ns, (int64_t)((double)ns * (times - 1)));
        truth_add(trainer->truth, i, trainer->step, (int64_t)((double)ns * (times - 1)));
    }
    return trainer_fault_transfer(trainer, group->rank, group->size, ns + further_ns);
}

int64_t trainer_fault_checkpoint(struct trainer *trainer, int64_t taken_ns)
{
    int64_t further_ns = 0;

    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        int64_t ns = fault->set & FAULT_MS ? (int64_t)(fault->ms * 1e6)
                                           : (int64_t)((double)taken_ns * (fault->factor - 1));

        if (fault->kind->id != FAULT_SLOW_CHECKPOINT || !fault_is_ours(trainer, fault))
            continue;
        truth_add(trainer->truth, i, trainer->step, ns);
        further_ns += ns;
    }
    return further_ns;
}
