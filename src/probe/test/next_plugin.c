/* next_plugin.c - a profiler plugin as another vendor might have one; NEXT_ONLY_V4 leaves out all tables but one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/next_plugin.h"

#include "probe/nccl_abi.h"

#define EXPORT __attribute__((visibility("default")))

extern struct next_told next_told;
EXPORT struct next_told next_told;

static int next_init(int version, void **context, int *mask, uint64_t id, int ranks, int rank)
{
    next_told.version = version;
    next_told.inits++;
    next_told.id = id;
    next_told.ranks = ranks;
    next_told.rank = rank;
    next_told.mask = mask;
    if (next_told.want)
        *mask = next_told.want;
    *context = NEXT_HANDLE(0);
    return next_told.refuse ? 3 : 0;
}

static int next_start(void *context, void **handle, uint64_t type, const void *parent)
{
    next_told.types |= type;
    next_told.parent = parent;
    *handle = context == NEXT_HANDLE(0) ? NEXT_HANDLE(++next_told.starts) : NULL;
    return 0;
}

static int next_is_mine(const void *handle)
{
    return handle >= NEXT_HANDLE(1) && handle <= NEXT_HANDLE(next_told.starts);
}

static int next_stop(void *handle)
{
    next_told.stops += next_is_mine(handle);
    return 0;
}

static int next_record(void *handle, int state, union nccl_state *args)
{
    (void)state;
    (void)args;
    next_told.records += next_is_mine(handle);
    return 0;
}

static int next_finalize(void *context)
{
    next_told.finalizes += context == NEXT_HANDLE(0);
    return 0;
}

#define TABLE(n)                                                                                   \
    static int next_start_v##n(void *context, void **handle, struct nccl_descr_v##n *descr)        \
    {                                                                                              \
        return next_start(context, handle, descr->type, descr->parent);                            \
    }                                                                                              \
    extern const struct nccl_profiler_v##n ncclProfiler_v##n;                                      \
    EXPORT const struct nccl_profiler_v##n ncclProfiler_v##n = { "another",       next_init_v##n,  \
                                                                 next_start_v##n, next_stop,       \
                                                                 next_record,     next_finalize }

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int next_init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes,
                        int ranks, int rank, void *log)
{
    (void)name;
    (void)nodes;
    (void)log;
    return next_init(4, context, mask, id, ranks, rank);
}
TABLE(4);

#ifndef NEXT_ONLY_V4
static int next_init_v3(void **context, int *mask)
{
    return next_init(3, context, mask, 0, 0, 0);
}
TABLE(3);

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int next_init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    (void)name;
    (void)nodes;
    (void)log;
    return next_init(5, context, mask, id, ranks, rank);
}
TABLE(5);

/* NOLINTNEXTLINE(readability-function-size): the signature is NCCL's */
static int next_init_v6(void **context, uint64_t id, int *mask, const char *name, int nodes,
                        int ranks, int rank, void *log)
{
    (void)name;
    (void)nodes;
    (void)log;
    return next_init(6, context, mask, id, ranks, rank);
}

static int next_start_v6(void *context, void **handle, struct nccl_descr_v6 *descr)
{
    return next_start(context, handle, descr->v5.type, descr->v5.parent);
}
extern const struct nccl_profiler_v6 ncclProfiler_v6;
EXPORT const struct nccl_profiler_v6 ncclProfiler_v6 = { "another", next_init_v6, next_start_v6,
                                                         next_stop, next_record,  next_finalize };
#endif
