/* nccl_play.h - plays NCCL: calls the tables that liblockstep.so exports as NCCL does, in any version.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_TEST_NCCL_PLAY_H
#define LOCKSTEP_PROBE_TEST_NCCL_PLAY_H

#include <stddef.h>
#include <stdint.h>

#include "probe/nccl_plugin.h"

#define PLAY_KERNEL_STOP 22         /* the state of a kernel's channel that is over */
#define PLAY_UNTOUCHED 0x5eed       /* in the mask before init */
#define PLAY_CLOCK_AHEAD 1700000000 /* of the host, in seconds: the device tells the time of day */

static int play_version = 5;
static const char *const play_names[] = { "", "", "", "", "version 4", "version 5", "version 6" };
static int play_mask; /* one for all communicators, and it stays: the plugin keeps its address */

static inline uint64_t play_timer(uint64_t host_ns)
{
    return host_ns + PLAY_CLOCK_AHEAD * UINT64_C(1000000000);
}

static inline void *play_init(uint64_t id, const char *name, int ranks, int rank)
{
    void *context = &play_mask; /* to be overwritten */
    int result = play_version == 4
                     ? ncclProfiler_v4.init(&context, &play_mask, name, id, 1, ranks, rank, NULL)
                 : play_version == 5
                     ? ncclProfiler_v5.init(&context, id, &play_mask, name, 1, ranks, rank, NULL)
                     : ncclProfiler_v6.init(&context, id, &play_mask, name, 1, ranks, rank, NULL);

    return result == 0 ? context : &play_mask;
}

static inline int play_finalize(void *context)
{
    return play_version == 4 ? ncclProfiler_v4.finalize(context)
                             : ncclProfiler_v5.finalize(context);
}

static inline void *play_start_v4(void *context, struct nccl_descr_v4 descr)
{
    void *handle = &play_mask;

    return ncclProfiler_v4.start(context, &handle, &descr) == 0 ? handle : &play_mask;
}

static inline void *play_start_v5(void *context, struct nccl_descr_v5 descr)
{
    struct nccl_descr_v6 wider = { .v5 = descr };
    void *handle = &play_mask;
    int result = play_version == 6 ? ncclProfiler_v6.start(context, &handle, &wider)
                                   : ncclProfiler_v5.start(context, &handle, &descr);

    return result == 0 ? handle : &play_mask;
}

static inline void *play_group(void *context)
{
    return play_version == 4
               ? play_start_v4(context, (struct nccl_descr_v4){ .type = NCCL_EVENT_GROUP })
               : play_start_v5(context, (struct nccl_descr_v5){ .type = NCCL_EVENT_GROUP });
}

static inline void *play_coll(void *context, void *group, struct nccl_coll_v4 coll)
{
    if (play_version == 4)
        return play_start_v4(context, (struct nccl_descr_v4){
                                          .type = NCCL_EVENT_COLL, .parent = group, .coll = coll });
    return play_start_v5(context, (struct nccl_descr_v5){ .type = NCCL_EVENT_COLL,
                                                          .coll = { .is = coll, .group = group } });
}

static inline void *play_p2p(void *context, void *group, struct nccl_p2p_v4 p2p)
{
    if (play_version == 4)
        return play_start_v4(
            context, (struct nccl_descr_v4){ .type = NCCL_EVENT_P2P, .parent = group, .p2p = p2p });
    return play_start_v5(context, (struct nccl_descr_v5){ .type = NCCL_EVENT_P2P,
                                                          .p2p = { .is = p2p, .group = group } });
}

static inline void *play_kernel(void *context, void *task, uint8_t channel, uint64_t timer_ns)
{
    const struct nccl_kernel kernel = { .channel = channel, .timer_ns = timer_ns };

    return play_version == 4
               ? play_start_v4(context, (struct nccl_descr_v4){ .type = NCCL_EVENT_KERNEL,
                                                                .parent = task,
                                                                .kernel = kernel })
               : play_start_v5(context, (struct nccl_descr_v5){ .type = NCCL_EVENT_KERNEL,
                                                                .parent = task,
                                                                .kernel = kernel });
}

static inline int play_record(void *handle, uint64_t timer_ns)
{
    union nccl_state state = { .timer_ns = timer_ns };

    return play_version == 4 ? ncclProfiler_v4.record(handle, PLAY_KERNEL_STOP, &state)
                             : ncclProfiler_v5.record(handle, PLAY_KERNEL_STOP, &state);
}

static inline int play_stop(void *handle)
{
    return play_version == 4 ? ncclProfiler_v4.stop(handle) : ncclProfiler_v5.stop(handle);
}

/* A channel's end as NCCL tells it. */
static inline void play_kernel_end(void *kernel, uint64_t timer_ns)
{
    play_record(kernel, timer_ns);
    play_stop(kernel);
}

static inline struct nccl_coll_v4 play_all_reduce(size_t count, uint8_t channels)
{
    return (struct nccl_coll_v4){ .func = "AllReduce",
                                  .count = count,
                                  .datatype = "ncclFloat32",
                                  .channels = channels,
                                  .algorithm = "RING",
                                  .protocol = "SIMPLE" };
}

#endif
