/* nccl_ops.c - launches, and what the device reports of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/nccl.h"
#include "probe/nccl_private.h"
#include "probe/stamp.h"

#define relaxed memory_order_relaxed
#define DEAF_LAUNCHES 256
#define DEAF_NS (120 * (uint64_t)NS_PER_S)

/* ---- launches ---- */

static uint64_t nccl_group_next(struct nccl_comm *comm)
{
    return atomic_fetch_add_explicit(&comm->grouped, 1, relaxed) + 1;
}

void *nccl_group_start(void *context)
{
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(context, HANDLE_COMM, &handle);

    if (!comm)
        return NULL;
    handle.kind = HANDLE_GROUP;
    handle.number = nccl_group_next(comm);
    return nccl_handle_pack(handle);
}

static uint64_t nccl_group_of(struct nccl_comm *comm, const void *group)
{
    struct nccl_handle handle;

    if (nccl_handle_comm(group, HANDLE_GROUP, &handle) == comm &&
        handle.number > atomic_load_explicit(&comm->first_group, relaxed) &&
        handle.number <= atomic_load_explicit(&comm->grouped, relaxed))
        return handle.number;
    return nccl_group_next(comm);
}

/* The mark of a launch.  The device runs a communicator's ops in order: it is one stream from `stream` on. */
static uint64_t nccl_op_mark(const struct nccl_comm *comm, const struct nccl_task *task,
                             struct lockstep_op_desc desc, uint32_t stream)
{
    int place = atomic_load_explicit(&comm->place, relaxed);

    desc.size = sizeof(desc);
    desc.comm = place;
    desc.peer = task->peer;
    desc.stream = (uint16_t)(stream + (uint32_t)place);
    return task->p2p ? lockstep_p2p_enqueue(nccl_ring(), &desc)
                     : lockstep_coll_enqueue(nccl_ring(), &desc);
}

static void *nccl_op_launch(struct nccl_comm *comm, const struct nccl_task *task,
                            struct lockstep_op_desc desc)
{
    uint64_t number = atomic_fetch_add_explicit(&comm->launched, 1, relaxed) + 1;
    struct nccl_op *at = &comm->op[number % NCCL_OPS];
    uint64_t key;

    atomic_store_explicit(&at->word, 0, relaxed); /* what was there is let go */
    key = nccl_op_mark(comm, task, desc, LOCKSTEP_DEVICE_OPS);
    atomic_store_explicit(&at->key, key, memory_order_release); /* after that */
    atomic_store_explicit(&at->group, nccl_group_of(comm, task->group), relaxed);
    atomic_store_explicit(&at->enqueue_ns, lockstep_clock_ns(), relaxed);
    atomic_store_explicit(&at->start_ns, 0, relaxed);
    atomic_store_explicit(&at->stop_ns, 0, relaxed);
    atomic_store_explicit(&at->begun, 0, relaxed);
    atomic_store_explicit(&at->stopped, 0, relaxed);
    atomic_store_explicit(&at->channels,
                          task->channels_at_most ? 0 : MIN(task->channels, NCCL_CHANNELS), relaxed);
    atomic_store_explicit(&at->epoch, atomic_load_explicit(&comm->epoch, relaxed), relaxed);
    atomic_store_explicit(&at->p2p, task->p2p, relaxed);
    atomic_store_explicit(&at->word, number << OP_STATE_BITS, memory_order_release);
    return nccl_handle_pack(
        (struct nccl_handle){ .kind = HANDLE_TASK, .slot = comm->slot, .number = number });
}

/* An NCCL that never tells of kernels, for whatever reason, would leave ops that seem never to begin. */
static bool nccl_comm_is_deaf(const struct nccl_comm *comm)
{
    return atomic_load_explicit(&comm->kernels, relaxed) == 0 &&
           atomic_load_explicit(&comm->launched, relaxed) -
                   atomic_load_explicit(&comm->first, relaxed) >=
               DEAF_LAUNCHES &&
           lockstep_clock_ns() - comm->first_ns >= DEAF_NS;
}

/* The communicator of a task and what is said of it; NULL: it is not recorded. */
static struct nccl_comm *nccl_task_of(void *context, const struct nccl_task *task,
                                      struct lockstep_op_desc *ret)
{
    struct nccl_word func = nccl_func(task->func), type = nccl_datatype(task->datatype);
    bool message = func.number == LOCKSTEP_OP_SEND || func.number == LOCKSTEP_OP_RECV;
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(context, HANDLE_COMM, &handle);

    if (!comm || task->p2p != message || !nccl_comm_joined(comm))
        return NULL;
    *ret = (struct lockstep_op_desc){ .op = func.number ? func.number : LOCKSTEP_OP_OTHER,
                                      .bytes = task->count * type.size,
                                      .dtype = type.number };
    return comm;
}

void nccl_launch(void *context, const struct nccl_task *task)
{
    struct lockstep_op_desc desc;
    const struct nccl_comm *comm = nccl_task_of(context, task, &desc);

    if (comm && comm->times)
        nccl_op_mark(comm, task, desc, LOCKSTEP_DEVICE_LAUNCHES);
}

void *nccl_task_start(void *context, const struct nccl_task *task)
{
    struct lockstep_op_desc desc;
    struct nccl_comm *comm = nccl_task_of(context, task, &desc);

    if (!comm)
        return NULL;
    if (!task->p2p)
        nccl_method_put(comm, desc.op, desc.bytes, task);
    /* Without channels no kernel is launched. */
    if (!comm->times || task->channels == 0)
        return NULL;
    /* A message to itself, as in every all-to-all, puts NCCL's count of kernels out of step with the device's: from then on
     * it tells of one what was another's (seen with 2.28.9).  So only launches are recorded, which alone show who has not
     * come.
     */
    comm->blurred |= task->p2p && task->peer == comm->rank;
    if (!comm->blurred && !nccl_comm_is_deaf(comm))
        return nccl_op_launch(comm, task, desc);
    nccl_op_mark(comm, task, desc, LOCKSTEP_DEVICE_LAUNCHES);
    return NULL;
}

/* ---- kernels ---- */

static struct nccl_op *nccl_op_find(struct nccl_comm *comm, uint64_t number)
{
    struct nccl_op *op = &comm->op[number % NCCL_OPS];

    if (number <= atomic_load_explicit(&comm->first, relaxed) ||
        atomic_load_explicit(&op->word, memory_order_acquire) >> OP_STATE_BITS != number ||
        atomic_load_explicit(&op->epoch, relaxed) != probe_epoch(nccl_ring()))
        return NULL;
    return op;
}

static bool nccl_op_is(const struct nccl_op *op, unsigned state)
{
    return (atomic_load_explicit(&op->word, relaxed) & state) != 0;
}

/* False: it was so already, or another has taken its place. */
static bool nccl_op_turn(struct nccl_op *op, uint64_t number, unsigned from, unsigned to)
{
    uint64_t word = number << OP_STATE_BITS | from;

    return atomic_compare_exchange_strong_explicit(&op->word, &word, number << OP_STATE_BITS | to,
                                                   memory_order_acq_rel, relaxed);
}

static void nccl_op_start(struct nccl_comm *comm, struct nccl_op *op, uint64_t number,
                          uint64_t time_ns)
{
    int place = atomic_load_explicit(&comm->place, relaxed);
    uint64_t key = atomic_load_explicit(&op->key, memory_order_acquire);
    bool p2p = atomic_load_explicit(&op->p2p, relaxed);

    time_ns = MAX(time_ns, atomic_load_explicit(&op->enqueue_ns, relaxed));
    if (!nccl_op_turn(op, number, 0, OP_STARTED))
        return;
    atomic_store_explicit(&op->start_ns, time_ns, relaxed);
    if (p2p)
        lockstep_p2p_start(nccl_ring(), place, key, time_ns);
    else
        lockstep_coll_start(nccl_ring(), place, key, time_ns);
}

static void nccl_op_end(struct nccl_comm *comm, struct nccl_op *op, uint64_t number,
                        uint64_t time_ns)
{
    int place = atomic_load_explicit(&comm->place, relaxed);
    uint64_t key = atomic_load_explicit(&op->key, memory_order_acquire);
    bool p2p = atomic_load_explicit(&op->p2p, relaxed);

    nccl_op_start(comm, op, number, time_ns); /* where nothing was told: it was over by then */
    time_ns = MAX(time_ns, atomic_load_explicit(&op->start_ns, relaxed));
    if (!nccl_op_turn(op, number, OP_STARTED, OP_STARTED | OP_ENDED))
        return;
    if (p2p)
        lockstep_p2p_end(nccl_ring(), place, key, time_ns);
    else
        lockstep_coll_end(nccl_ring(), place, key, time_ns);
}

/* The next of a group, which is one kernel and lies together: `way` is 1 or -1.  NULL: that was all. */
static struct nccl_op *nccl_group_step(struct nccl_comm *comm, uint64_t *number, int way,
                                       uint64_t group)
{
    struct nccl_op *op;

    *number += (uint64_t)(int64_t)way;
    op = nccl_op_find(comm, *number);
    return op && atomic_load_explicit(&op->group, relaxed) == group ? op : NULL;
}

/* A kernel has begun, and with it all of its group, also those of which NCCL tells nothing. */
static void nccl_group_begin(struct nccl_comm *comm, struct nccl_op *first, uint64_t number,
                             uint64_t time_ns)
{
    uint64_t group = atomic_load_explicit(&first->group, relaxed);

    if (nccl_op_is(first, OP_STARTED))
        return;
    nccl_op_start(comm, first, number, time_ns);
    for (int way = -1; way <= 1; way += 2) {
        uint64_t at = number;
        struct nccl_op *op;

        while ((op = nccl_group_step(comm, &at, way, group)) != NULL)
            nccl_op_start(comm, op, at, time_ns);
    }
}

/* When the last of a group was told to be over; 0: nothing was told. */
static uint64_t nccl_group_stop_ns(struct nccl_comm *comm, const struct nccl_op *of,
                                   uint64_t number)
{
    uint64_t group = atomic_load_explicit(&of->group, relaxed);
    uint64_t last_ns = atomic_load_explicit(&of->stop_ns, relaxed);

    for (int way = -1; way <= 1; way += 2) {
        uint64_t at = number;
        struct nccl_op *op;

        while ((op = nccl_group_step(comm, &at, way, group)) != NULL)
            last_ns = MAX(last_ns, atomic_load_explicit(&op->stop_ns, relaxed));
    }
    return last_ns;
}

/* One kernel of a communicator follows the other on its device: when one is over, so are all of earlier groups, whatever
 * was told of them.
 */
static void nccl_comm_settle(struct nccl_comm *comm, const struct nccl_op *over, uint64_t number)
{
    uint64_t group = atomic_load_explicit(&over->group, relaxed);
    uint64_t start_ns = atomic_load_explicit(&over->start_ns, relaxed), stop_ns = 0, of = 0;

    if (number > comm->settled + NCCL_OPS)
        comm->settled = number - NCCL_OPS;
    for (; comm->settled + 1 < number; comm->settled++) {
        struct nccl_op *op = nccl_op_find(comm, comm->settled + 1);

        if (!op || nccl_op_is(op, OP_ENDED))
            continue;
        if (atomic_load_explicit(&op->group, relaxed) >= group)
            return;
        if (atomic_load_explicit(&op->group, relaxed) != of) { /* once a group: it may be long */
            of = atomic_load_explicit(&op->group, relaxed);
            stop_ns = nccl_group_stop_ns(comm, op, comm->settled + 1);
        }
        nccl_op_end(comm, op, comm->settled + 1, stop_ns ? stop_ns : start_ns);
    }
}

static struct nccl_op *nccl_op_of_handle(struct nccl_comm *comm, struct nccl_handle handle)
{
    return comm ? nccl_op_find(comm, handle.number) : NULL;
}

/* The stamps' comparison of the clocks, where there is one: then both tell one time. */
static uint64_t nccl_time_host(struct nccl_comm *comm, uint64_t timer_ns)
{
    uint64_t now_ns = lockstep_clock_ns(), own_ns, stamps_ns;

    own_ns = nccl_clock_host(&comm->clock, timer_ns, now_ns);
    stamps_ns = timer_ns ? stamps_host_ns(timer_ns) : 0;
    if (stamps_ns == 0 || stamps_ns > now_ns || own_ns - MIN(stamps_ns, own_ns) > NS_PER_S)
        return own_ns;
    return stamps_ns;
}

void *nccl_kernel_start(void *task, uint32_t channel, uint64_t timer_ns)
{
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(task, HANDLE_TASK, &handle);
    struct nccl_op *op = nccl_op_of_handle(comm, handle);

    if (!op || channel >= NCCL_CHANNELS)
        return NULL;
    atomic_fetch_add_explicit(&comm->kernels, 1, relaxed);
    atomic_fetch_or_explicit(&op->begun, UINT64_C(1) << channel, relaxed);
    nccl_group_begin(comm, op, handle.number, nccl_time_host(comm, timer_ns));
    handle.kind = HANDLE_KERNEL;
    handle.channel = channel;
    return nccl_handle_pack(handle);
}

static uint32_t nccl_op_channels(const struct nccl_op *op)
{
    uint32_t channels = atomic_load_explicit(&op->channels, relaxed);

    return channels ? channels
                    : (uint32_t)__builtin_popcountll(atomic_load_explicit(&op->begun, relaxed));
}

void nccl_kernel_stop(void *kernel, uint64_t timer_ns)
{
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(kernel, HANDLE_KERNEL, &handle);
    struct nccl_op *op = nccl_op_of_handle(comm, handle);
    uint64_t bit = UINT64_C(1) << handle.channel, stopped, time_ns;

    if (!op)
        return;
    stopped = atomic_fetch_or_explicit(&op->stopped, bit, relaxed);
    if (stopped & bit)
        return;
    time_ns = nccl_time_host(comm, timer_ns);
    time_ns = MAX(time_ns, atomic_load_explicit(&op->stop_ns, relaxed));
    atomic_store_explicit(&op->stop_ns, time_ns, relaxed);
    if ((uint32_t)__builtin_popcountll(stopped | bit) < nccl_op_channels(op))
        return;
    nccl_op_end(comm, op, handle.number, time_ns);
    nccl_comm_settle(comm, op, handle.number);
}

/* ---- a device's times on the host's clock. ---- */

uint64_t nccl_clock_host(struct nccl_clock *clock, uint64_t device_ns, uint64_t now_ns)
{
    int64_t now = (int64_t)now_ns, difference, age, host;

    if (device_ns == 0 || device_ns > INT64_MAX || now_ns > INT64_MAX)
        return now_ns;
    difference = now - (int64_t)device_ns;
    age = now - clock->since_ns;
    if (!clock->set || age >= 2 * NS_PER_S || age < 0) {
        *clock = (struct nccl_clock){
            .since_ns = now, .now = difference, .before = difference, .set = true
        };
    } else if (age >= NS_PER_S) {
        clock->before = clock->now;
        clock->now = difference;
        clock->since_ns = now;
    }
    clock->now = MIN(clock->now, difference);
    host = (int64_t)device_ns + MIN(clock->now, clock->before); /* never after now */
    return host > 0 ? (uint64_t)host : now_ns;
}
