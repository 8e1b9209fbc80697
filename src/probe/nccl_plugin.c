/* nccl_plugin.c - the tables that NCCL looks for, and its events in our words.
 *
 * Whatever is handed to us, success is returned: an error of a profiler is no reason to end a training.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "probe/nccl.h"

#pragma GCC visibility push(default)
#include "probe/nccl_plugin.h"
#pragma GCC visibility pop

static _Atomic(int *) plugin_mask; /* NCCL's own: what it tells of, in all communicators */

static _Atomic int plugin_more; /* events that only this version of the table has */

static int nccl_mask_wanted(void)
{
    switch (nccl_mode()) {
    case NCCL_MODE_TIMES:
        return NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL | atomic_load(&plugin_more);
    case NCCL_MODE_METHOD:
        return NCCL_EVENT_COLL;
    default:
        return 0;
    }
}

static int plugin_open(void **context, int *mask, const char *name, uint64_t id, int ranks,
                       int rank)
{
    *context = nccl_comm_open(id, name, ranks, rank);
    if (*context) {
        *mask = nccl_mask_wanted();
        atomic_store(&plugin_mask, mask);
    }
    return NCCL_SUCCESS;
}

static void nccl_coll_start(void *context, void **handle, const struct nccl_coll_v4 *coll,
                            void *group)
{
    *handle = nccl_task_start(context, &(struct nccl_task){ .func = coll->func,
                                                            .datatype = coll->datatype,
                                                            .algorithm = coll->algorithm,
                                                            .protocol = coll->protocol,
                                                            .count = coll->count,
                                                            .channels = coll->channels,
                                                            .group = group });
}

static void nccl_p2p_start(void *context, void **handle, const struct nccl_p2p_v4 *p2p, void *group)
{
    if (p2p->peer >= 0)
        *handle = nccl_task_start(context, &(struct nccl_task){ .p2p = true,
                                                                .func = p2p->func,
                                                                .datatype = p2p->datatype,
                                                                .count = p2p->count,
                                                                .peer = (uint32_t)p2p->peer,
                                                                .channels = p2p->channels,
                                                                .group = group });
}

static int nccl_start_v4(void *context, void **handle, struct nccl_descr_v4 *descr)
{
    *handle = NULL;
    switch (descr->type) {
    case NCCL_EVENT_GROUP:
        *handle = nccl_group_start(context);
        break;
    case NCCL_EVENT_COLL:
        nccl_coll_start(context, handle, &descr->coll, descr->parent);
        break;
    case NCCL_EVENT_P2P:
        nccl_p2p_start(context, handle, &descr->p2p, descr->parent);
        break;
    case NCCL_EVENT_KERNEL:
        *handle = nccl_kernel_start(descr->parent, descr->kernel.channel, descr->kernel.timer_ns);
        break;
    default: /* a kind that was not asked for */
        break;
    }
    return NCCL_SUCCESS;
}

static int nccl_start_v5(void *context, void **handle, struct nccl_descr_v5 *descr)
{
    *handle = NULL;
    switch (descr->type) {
    case NCCL_EVENT_GROUP:
        *handle = nccl_group_start(context);
        break;
    case NCCL_EVENT_COLL:
        nccl_coll_start(context, handle, &descr->coll.is, descr->coll.group);
        break;
    case NCCL_EVENT_P2P:
        nccl_p2p_start(context, handle, &descr->p2p.is, descr->p2p.group);
        break;
    case NCCL_EVENT_KERNEL:
        *handle = nccl_kernel_start(descr->parent, descr->kernel.channel, descr->kernel.timer_ns);
        break;
    default: /* a kind that was not asked for, or its parents' */
        break;
    }
    return NCCL_SUCCESS;
}

static int nccl_start_v6(void *context, void **handle, struct nccl_descr_v6 *descr)
{
    if (descr->type != NCCL_EVENT_CE_COLL)
        return nccl_start_v5(context, handle, &descr->v5);
    *handle = NULL;
    nccl_launch(context, &(struct nccl_task){ .func = descr->ce_coll.func,
                                              .datatype = descr->ce_coll.datatype,
                                              .count = descr->ce_coll.count });
    return NCCL_SUCCESS;
}

/* Of a launch it says only that the host is done with it. */
static int plugin_stop(void *handle)
{
    nccl_kernel_stop(handle, 0);
    return NCCL_SUCCESS;
}

/* The only state that a kernel has is its end, by the device's clock; the stop follows. */
static int plugin_record(void *handle, int state, union nccl_state *args)
{
    (void)state;
    if (args)
        nccl_kernel_stop(handle, args->timer_ns);
    return NCCL_SUCCESS;
}

static int plugin_finalize(void *context)
{
    nccl_comm_close(context);
    return NCCL_SUCCESS;
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes,
                        int ranks, int rank, void *log)
{
    (void)nodes;
    (void)log;
    return plugin_open(context, mask, name, id, ranks, rank);
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    (void)nodes;
    (void)log;
    return plugin_open(context, mask, name, id, ranks, rank);
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v6(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    (void)nodes;
    (void)log;
    atomic_store(&plugin_more, NCCL_EVENT_CE_COLL);
    return plugin_open(context, mask, name, id, ranks, rank);
}

const struct nccl_profiler_v4 ncclProfiler_v4 = {
    .name = "lockstep",
    .init = nccl_init_v4,
    .start = nccl_start_v4,
    .stop = plugin_stop,
    .record = plugin_record,
    .finalize = plugin_finalize,
};

const struct nccl_profiler_v5 ncclProfiler_v5 = {
    .name = "lockstep",
    .init = nccl_init_v5,
    .start = nccl_start_v5,
    .stop = plugin_stop,
    .record = plugin_record,
    .finalize = plugin_finalize,
};

const struct nccl_profiler_v6 ncclProfiler_v6 = {
    .name = "lockstep",
    .init = nccl_init_v6,
    .start = nccl_start_v6,
    .stop = plugin_stop,
    .record = plugin_record,
    .finalize = plugin_finalize,
};

void nccl_watch(int on)
{
    int *mask = atomic_load(&plugin_mask);

    if (mask)
        __atomic_store_n(mask, on ? nccl_mask_wanted() : 0, __ATOMIC_RELAXED);
}
