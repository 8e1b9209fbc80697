/* program_unlike.c - what is typical for a rank that did something its peers did not.
 *
 * Ranks of one class have the same ops, and each op is compared with the same one of the peers.  A rank that collects
 * garbage or saves a file in a step has ops of its own there, so it is alone in its class just when it is slow.  But all meet
 * in the same collectives: what it did between two of them is compared with what its peers did between the same two, as a
 * whole.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/replay/program_private.h"

#define SAMPLED 65 /* peers; the same as where classes are alike */

enum unlike_part { /* device work and host time are compared apart */
    UNLIKE_HOST,
    UNLIKE_DEVICE,
    UNLIKE_PARTS
};

static uint32_t unlike_meetings(const struct form *form)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < form->ops; i++)
        count += form->op[i].kind == OP_COMM;
    return count;
}

/* Checkpoints and evaluations are planned: who saves for all is not slow. */
static bool unlike_plans(const struct program *program, const struct form *form, unsigned phase)
{
    const uint64_t *slot = map_get(&program->model->class_by_hash, form->class);
    const struct model_class *class = slot ? program->model->class[*slot] : NULL;

    for (uint32_t place = 0; class && place < class->places[0]; place++) {
        if (class->what[class->at[0][place]] == phase)
            return true;
    }
    return false;
}

static bool unlike_by_plan(const struct program *program, const struct form *form,
                           const struct form *peers)
{
    static const unsigned planned[] = { LOCKSTEP_PHASE_CHECKPOINT, LOCKSTEP_PHASE_EVAL };

    for (size_t i = 0; i < COUNT(planned); i++) {
        if (unlike_plans(program, form, planned[i]) != unlike_plans(program, peers, planned[i]))
            return true;
    }
    return false;
}

static int unlike_part_of(const struct op_form *op)
{
    if (op->kind == OP_SPAN)
        return UNLIKE_DEVICE;
    return op->kind == OP_HOST || op->kind == OP_END ? UNLIKE_HOST : -1;
}

/* A rank's local work before each of its meetings, and after the last; sum has UNLIKE_PARTS for each. */
static void unlike_sums(const struct program *program, uint32_t rank, int64_t *sum)
{
    const struct form *form = program->place[rank].form;
    uint32_t at = 0;

    for (uint32_t i = 0; i < form->ops; i++) {
        int part = unlike_part_of(&form->op[i]);

        if (form->op[i].kind == OP_COMM)
            at++;
        else if (part >= 0)
            sum[at * UNLIKE_PARTS + (uint32_t)part] += program->duration[op_at(program, rank, i)];
    }
}

/* The median of the peers' sums; -ENOMEM as false. */
static bool unlike_peers(const struct program *program, const uint32_t *peer, uint32_t count,
                         size_t sums, int64_t *median)
{
    uint32_t stride = (count + SAMPLED - 1) / SAMPLED, used = (count + stride - 1) / stride;
    CLEAN(free_clean) int64_t *sum = calloc(used * sums, sizeof(*sum));

    if (!sum)
        return false;
    for (uint32_t i = 0; i < used; i++)
        unlike_sums(program, peer[i * stride], sum + i * sums);
    for (size_t at = 0; at < sums; at++) {
        int64_t value[SAMPLED];

        for (uint32_t i = 0; i < used; i++)
            value[i] = sum[i * sums + at];
        median[at] = median_i64(value, used);
    }
    return true;
}

/* Each of its ops is as much shorter as all of them between two meetings would be. */
static void unlike_rank(struct program *program, uint32_t rank, const int64_t *own,
                        const int64_t *peers)
{
    const struct form *form = program->place[rank].form;
    uint32_t at = 0;

    for (uint32_t i = 0; i < form->ops; i++) {
        int part = unlike_part_of(&form->op[i]);
        size_t place = op_at(program, rank, i), sum = at * UNLIKE_PARTS + (uint32_t)MAX(part, 0);

        if (form->op[i].kind == OP_COMM)
            at++;
        else if (part >= 0 && own[sum] > peers[sum])
            program->typical[place] =
                (int64_t)((double)program->duration[place] * (double)peers[sum] / (double)own[sum]);
    }
}

void program_unlike_typical(struct program *program, const uint32_t *member, uint32_t count,
                            const uint32_t *peer, uint32_t peers)
{
    const struct form *form = program->place[member[0]].form, *other = program->place[peer[0]].form;
    size_t sums = (unlike_meetings(form) + (size_t)1) * UNLIKE_PARTS;
    CLEAN(free_clean) int64_t *median = calloc(2 * sums, sizeof(*median));

    if (!median || unlike_meetings(form) != unlike_meetings(other) ||
        unlike_by_plan(program, form, other) || !unlike_peers(program, peer, peers, sums, median))
        return;
    for (uint32_t i = 0; i < count; i++) {
        int64_t *own = median + sums;

        for (size_t at = 0; at < sums; at++)
            own[at] = 0;
        unlike_sums(program, member[i], own);
        unlike_rank(program, member[i], own, median);
    }
}
