/* wait_local.c - no rank is known to wait for another, and none advances.
 *
 * A process that is stopped explains that by itself, whatever the others do.  Otherwise hosts that wait for their devices
 * are victims of those that do not, and if all do, no rank is named.  Without any of this each rank is stuck in work of its
 * own; one that uses a CPU, or is in no phase, may simply need long.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "judge/stuck/wait_private.h"

static bool wait_local_is_busy(const struct look *look, const struct wait_rank *rank)
{
    return !rank->device_wait && !wait_is_stopped(rank) &&
           (rank->cpus >= look->rule->busy_cpus || rank->phase == 0);
}

/* Whether all observed ranks have stood still for long enough. */
static bool wait_local_all_still(const struct look *look, bool stopped)
{
    uint32_t still = 0;

    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *at = &look->rank[rank];
        bool late = wait_is_named_phase(at) || (!stopped && wait_local_is_busy(look, at));

        if (!at->seen || at->gone)
            continue;
        if (!stopped && look->waits[rank]) /* in an operation, though not for long yet */
            return false;
        if (at->advanced || at->stuck_ns < (late ? look->rule->late_ns : look->rule->limit_ns))
            return false;
        still++;
    }
    return still > 0;
}

static bool wait_local_any(const struct look *look, bool (*is)(const struct wait_rank *))
{
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        if (look->rank[rank].seen && !look->rank[rank].gone && is(&look->rank[rank]))
            return true;
    }
    return false;
}

static bool wait_is_for_device(const struct wait_rank *rank)
{
    return rank->device_wait;
}

static bool wait_is_not_for_device(const struct wait_rank *rank)
{
    return !rank->device_wait;
}

static bool wait_is_anybody(const struct wait_rank *rank)
{
    return rank->seen;
}

static bool wait_is_nobody(const struct wait_rank *rank)
{
    (void)rank;
    return false;
}

/* Those that are named; all others wait. */
static bool (*wait_local_culprits(const struct look *look))(const struct wait_rank *)
{
    if (wait_local_any(look, wait_is_stopped))
        return wait_is_stopped;
    if (!wait_local_any(look, wait_is_for_device))
        return wait_is_anybody;
    return wait_local_any(look, wait_is_not_for_device) ? wait_is_not_for_device : wait_is_nobody;
}

bool wait_find_local(const struct look *look, struct wait_finding *ret)
{
    bool (*named)(const struct wait_rank *) = wait_local_culprits(look);

    if (!wait_local_all_still(look, named == wait_is_stopped))
        return false;
    *ret = (struct wait_finding){ .kind = named == wait_is_nobody ? WAIT_STILL : WAIT_ROOTS,
                                  .op = { .comm = MODEL_NONE } };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *at = &look->rank[rank];

        if (!at->seen || at->gone)
            continue;
        ret->op.age_ns = ret->op.age_ns ? MIN(ret->op.age_ns, at->stuck_ns) : at->stuck_ns;
        if (!named(at)) {
            ret->victims++;
            continue;
        }
        if (ret->culprits < WAIT_CULPRITS) {
            ret->culprit[ret->culprits] = rank;
            ret->cause[ret->culprits] = wait_is_stopped(at) ? WAIT_STOPPED : WAIT_LOCAL;
            ret->missed_op[ret->culprits].comm = MODEL_NONE;
        }
        ret->culprits++;
    }
    return true;
}
