/* nccl_plugin.c - the tables that NCCL looks for, and its events in our words.
 *
 * Whatever is handed to us, success is returned: an error of a profiler is no reason to end a training.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "probe/nccl.h"
#include "probe/nccl_next.h"
#include "probe/nccl_private.h"

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

static void plugin_mask_set(int *mask)
{
    *mask = nccl_mask_wanted();
    atomic_store(&plugin_mask, mask);
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

static int plugin_start_v4(void *context, void **handle, void *of)
{
    const struct nccl_descr_v4 *descr = of;

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

static int plugin_start_v5(void *context, void **handle, void *of)
{
    const struct nccl_descr_v5 *descr = of;

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

static int plugin_start_v6(void *context, void **handle, void *of)
{
    const struct nccl_descr_v6 *descr = of;

    if (descr->type != NCCL_EVENT_CE_COLL)
        return plugin_start_v5(context, handle, of);
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

/* ---- version 3: who a communicator is comes with its first launch, its size only from who made it ---- */

struct nccl_unnamed {
    _Atomic bool used;
    bool tried;
    struct nccl_group group; /* that was expected when it was made */
    _Atomic(void *) open;    /* what it is for us since its first launch */
};

static struct nccl_unnamed unnamed[NCCL_COMMS];

static void *plugin_unnamed_make(void)
{
    struct nccl_group group = nccl_group_take();

    for (size_t i = 0; group.ranks && i < NCCL_COMMS; i++) {
        bool used = false;

        if (!atomic_compare_exchange_strong(&unnamed[i].used, &used, true))
            continue;
        unnamed[i].group = group;
        unnamed[i].tried = false;
        atomic_store(&unnamed[i].open, NULL);
        return &unnamed[i];
    }
    return NULL;
}

/* By the thread that launches in it. */
static void *plugin_unnamed_open(struct nccl_unnamed *comm, uint64_t id, const char *name, int rank)
{
    if (!comm->tried && rank >= 0 && (uint32_t)rank == comm->group.rank)
        atomic_store(&comm->open, nccl_comm_open_as(id, name, &comm->group));
    comm->tried = true;
    return atomic_load(&comm->open);
}

static void *plugin_unnamed_coll(struct nccl_unnamed *comm, const struct nccl_descr_v3 *descr)
{
    const struct nccl_coll_v3 *coll = &descr->coll;

    return nccl_task_start(plugin_unnamed_open(comm, coll->id, coll->name, descr->rank),
                           &(struct nccl_task){ .func = coll->func,
                                                .datatype = coll->datatype,
                                                .algorithm = coll->algorithm,
                                                .protocol = coll->protocol,
                                                .count = coll->count,
                                                .channels = coll->channels_max,
                                                .channels_at_most = true,
                                                .group = descr->parent });
}

static void *plugin_unnamed_p2p(struct nccl_unnamed *comm, const struct nccl_descr_v3 *descr)
{
    const struct nccl_p2p_v3 *p2p = &descr->p2p;

    if (p2p->peer < 0)
        return NULL;
    return nccl_task_start(plugin_unnamed_open(comm, p2p->id, p2p->name, descr->rank),
                           &(struct nccl_task){ .p2p = true,
                                                .func = p2p->func,
                                                .datatype = p2p->datatype,
                                                .count = p2p->count,
                                                .peer = (uint32_t)p2p->peer,
                                                .channels = 1,
                                                .channels_at_most = true,
                                                .group = descr->parent });
}

static int plugin_start_v3(void *context, void **handle, void *of)
{
    const struct nccl_descr_v3 *descr = of;
    struct nccl_unnamed *comm = context;

    *handle = NULL;
    if (descr->type == NCCL_EVENT_KERNEL)
        *handle = nccl_kernel_start(descr->parent, descr->kernel.channel, 0);
    if (!comm || !atomic_load(&comm->used))
        return NCCL_SUCCESS;
    if (descr->type == NCCL_EVENT_GROUP)
        *handle = nccl_group_start(atomic_load(&comm->open));
    else if (descr->type == NCCL_EVENT_COLL)
        *handle = plugin_unnamed_coll(comm, descr);
    else if (descr->type == NCCL_EVENT_P2P)
        *handle = plugin_unnamed_p2p(comm, descr);
    return NCCL_SUCCESS;
}

/* No state of a kernel is told. */
static int plugin_record_v3(void *handle, int state, union nccl_state *args)
{
    (void)handle;
    (void)state;
    (void)args;
    return NCCL_SUCCESS;
}

static int plugin_finalize_v3(void *context)
{
    struct nccl_unnamed *comm = context;

    if (comm && atomic_load(&comm->used)) {
        nccl_comm_close(atomic_load(&comm->open));
        atomic_store(&comm->used, false);
    }
    return NCCL_SUCCESS;
}

/* ---- the tables ---- */

static int plugin_open(int version, void **context, int *mask, const struct nccl_next_comm *comm)
{
    *context = version == 3 ? plugin_unnamed_make()
                            : nccl_comm_open(comm->id, comm->name, comm->ranks, comm->rank);
    if (version == 6)
        atomic_store(&plugin_more, NCCL_EVENT_CE_COLL);
    if (*context)
        plugin_mask_set(mask);
    if (nccl_next_is_there(version))
        nccl_next_open(context, mask, comm);
    return NCCL_SUCCESS;
}

static int nccl_init_v3(void **context, int *mask)
{
    return plugin_open(3, context, mask, &(struct nccl_next_comm){ 0 });
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes,
                        int ranks, int rank, void *log)
{
    return plugin_open(4, context, mask,
                       &(struct nccl_next_comm){ name, id, nodes, ranks, rank, log });
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    return plugin_open(5, context, mask,
                       &(struct nccl_next_comm){ name, id, nodes, ranks, rank, log });
}

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int nccl_init_v6(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    return plugin_open(6, context, mask,
                       &(struct nccl_next_comm){ name, id, nodes, ranks, rank, log });
}

/* The functions of one table: straight to ours, unless another plugin is to be called as well. */
#define PLUGIN_TABLE(n, record_n, finalize_n)                                                      \
    static const struct nccl_own plugin_v##n = {                                                   \
        .version = (n),                                                                            \
        .start = plugin_start_v##n,                                                                \
        .stop = plugin_stop,                                                                       \
        .record = (record_n),                                                                      \
        .finalize = (finalize_n),                                                                  \
    };                                                                                             \
    static int nccl_start_v##n(void *context, void **handle, struct nccl_descr_v##n *descr)        \
    {                                                                                              \
        return nccl_next_is_on() ? nccl_next_start(&plugin_v##n, context, handle, descr)           \
                                 : plugin_start_v##n(context, handle, descr);                      \
    }                                                                                              \
    static int nccl_stop_v##n(void *handle)                                                        \
    {                                                                                              \
        return nccl_next_is_on() ? nccl_next_stop(&plugin_v##n, handle) : plugin_stop(handle);     \
    }                                                                                              \
    static int nccl_record_v##n(void *handle, int state, union nccl_state *args)                   \
    {                                                                                              \
        return nccl_next_is_on() ? nccl_next_record(&plugin_v##n, handle, state, args)             \
                                 : record_n(handle, state, args);                                  \
    }                                                                                              \
    static int nccl_finalize_v##n(void *context)                                                   \
    {                                                                                              \
        return nccl_next_is_on() ? nccl_next_finalize(&plugin_v##n, context)                       \
                                 : finalize_n(context);                                            \
    }                                                                                              \
    const struct nccl_profiler_v##n ncclProfiler_v##n = {                                          \
        .name = "lockstep",                                                                        \
        .init = nccl_init_v##n,                                                                    \
        .start = nccl_start_v##n,                                                                  \
        .stop = nccl_stop_v##n,                                                                    \
        .record = nccl_record_v##n,                                                                \
        .finalize = nccl_finalize_v##n,                                                            \
    }

PLUGIN_TABLE(3, plugin_record_v3, plugin_finalize_v3);
PLUGIN_TABLE(4, plugin_record, plugin_finalize);
PLUGIN_TABLE(5, plugin_record, plugin_finalize);
PLUGIN_TABLE(6, plugin_record, plugin_finalize);

void nccl_watch(int on)
{
    int *mask = atomic_load(&plugin_mask);

    if (mask)
        __atomic_store_n(mask, on ? nccl_mask_wanted() : 0, __ATOMIC_RELAXED);
}
