/* inject_storage.c - a file system that becomes slow for the job, or stops answering one rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>

#include "core/clean.h"
#include "lab/faults/inject_private.h"
#include "lab/faults/slowfs.h"

static int64_t storage_delay(const struct inject_target *target)
{
    const struct fault *fault = target->fault;
    double ns = fault->set & FAULT_MS ? fault->ms * 1e6 : (fault->factor - 1) * target->step_ns;

    return fault_ends_attempt(fault) ? SLOWFS_FOREVER : (int64_t)ns;
}

static int storage_make(const struct inject_target *target, void **state, struct err *err)
{
    const struct fault *fault = target->fault;
    enum fault_id id = fault->kind->id;
    bool data = id == FAULT_STUCK_STORAGE || id == FAULT_SLOW_DATASET;
    struct slowfs_order *order;
    int64_t delay = storage_delay(target);

    if (!target->config->storage)
        return err_set(err, -ENODEV, "%s",
                       target->config->storage_why ? target->config->storage_why
                                                   : "the job has no FUSE file system");
    order = &target->config->storage[target->number];
    atomic_store(&order->rank, fault->set & FAULT_RANK ? fault->rank : SLOWFS_ANY);
    atomic_store(&order->part, data ? SLOWFS_IN_DATA : SLOWFS_IN_CHECKPOINTS);
    atomic_store(&order->delay_ns, delay);
    if (delay == SLOWFS_FOREVER)
        snprintf(target->method, target->method_room,
                 "the file system no longer responds to %s of rank %u", data ? "reads" : "writes",
                 fault->rank);
    else
        snprintf(target->method, target->method_room, "each %s takes %.0f ms longer",
                 data ? "read" : "write and fsync", (double)delay / 1e6);
    *state = order;
    return 0;
}

static void storage_undo(void *state, const struct inject_target *target)
{
    struct slowfs_order *order = state;

    (void)target;
    atomic_store(&order->delay_ns, 0);
}

static int64_t storage_struck(const void *state)
{
    const struct slowfs_order *order = state;

    return atomic_load(&order->first_hit_ns);
}

const struct inject_way inject_storage = { storage_make, NULL, storage_undo, storage_struck };
