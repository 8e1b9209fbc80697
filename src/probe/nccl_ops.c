/* nccl_ops.c - launches, and what the device tells of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/nccl.h"
#include "probe/nccl_private.h"

#define relaxed memory_order_relaxed
#define DEAF_LAUNCHES 256
#define DEAF_NS (120 * (uint64_t)NS_PER_S)

/* ---- launches ---- */

static uint64_t group_next(struct nccl_comm *comm)
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
    handle.number = group_next(comm);
    return nccl_handle_pack(handle);
}

static uint64_t group_of(struct nccl_comm *comm, const void *group)
{
    struct nccl_handle handle;

    if (nccl_handle_comm(group, HANDLE_GROUP, &handle) == comm &&
        handle.number > atomic_load_explicit(&comm->first_group, relaxed) &&
        handle.number <= atomic_load_explicit(&comm->grouped, relaxed))
        return handle.number;
    return group_next(comm);
}

static void *op_launch(struct nccl_comm *comm, const struct nccl_task *task, uint32_t op,
                       uint64_t bytes, uint32_t dtype)
{
    uint64_t number = atomic_fetch_add_explicit(&comm->launched, 1, relaxed) + 1;
    struct nccl_op *at = &comm->op[number % NCCL_OPS];
    int place = atomic_load_explicit(&comm->place, relaxed);
    /* The device runs a communicator's ops in order. */
    const struct lockstep_op_desc desc = { .size = sizeof(desc),
                                           .comm = place,
                                           .op = op,
                                           .bytes = bytes,
                                           .dtype = dtype,
                                           .peer = task->peer,
                                           .stream = (uint16_t)(LOCKSTEP_DEVICE_OPS + place) };
    uint64_t key;

    atomic_store_explicit(&at->word, 0, relaxed); /* what was there is let go */
    key = task->p2p ? lockstep_p2p_enqueue(nccl_ring(), &desc)
                    : lockstep_coll_enqueue(nccl_ring(), &desc);
    atomic_store_explicit(&at->key, key, memory_order_release); /* after that */
    atomic_store_explicit(&at->group, group_of(comm, task->group), relaxed);
    atomic_store_explicit(&at->enqueue_ns, lockstep_clock_ns(), relaxed);
    atomic_store_explicit(&at->start_ns, 0, relaxed);
    atomic_store_explicit(&at->stop_ns, 0, relaxed);
    atomic_store_explicit(&at->stopped, 0, relaxed);
    atomic_store_explicit(&at->channels, MIN(task->channels, NCCL_CHANNELS), relaxed);
    atomic_store_explicit(&at->epoch, atomic_load_explicit(&comm->epoch, relaxed), relaxed);
    atomic_store_explicit(&at->p2p, task->p2p, relaxed);
    atomic_store_explicit(&at->word, number << OP_STATE_BITS, memory_order_release);
    return nccl_handle_pack(
        (struct nccl_handle){ .kind = HANDLE_TASK, .slot = comm->slot, .number = number });
}

/* An NCCL that never tells of kernels, for whatever reason, would leave ops that seem never to begin.  It must be
 * beyond doubt, since from then on this rank's count of launches stands still.
 */
static bool comm_is_deaf(const struct nccl_comm *comm)
{
    return atomic_load_explicit(&comm->heard, relaxed) == 0 &&
           atomic_load_explicit(&comm->launched, relaxed) -
                   atomic_load_explicit(&comm->first, relaxed) >=
               DEAF_LAUNCHES &&
           lockstep_clock_ns() - comm->first_ns >= DEAF_NS;
}

void *nccl_task_start(void *context, const struct nccl_task *task)
{
    struct nccl_word func = nccl_func(task->func), type = nccl_datatype(task->datatype);
    bool message = func.number == LOCKSTEP_OP_SEND || func.number == LOCKSTEP_OP_RECV;
    uint64_t bytes = task->count * type.size;
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(context, HANDLE_COMM, &handle);

    if (!comm || task->p2p != message || !nccl_comm_joined(comm))
        return NULL;
    if (func.number == 0)
        func.number = LOCKSTEP_OP_OTHER;
    if (!task->p2p)
        nccl_method_tell(comm, func.number, bytes, task);
    /* A message to itself, as in every all-to-all, puts NCCL's count of kernels out of step with the device's: from then on
     * it tells of one what was another's (seen with 2.28.9).  All members make that call at the same place, so their
     * counts of launches stay alike.
     */
    comm->blurred |= task->p2p && task->peer == comm->rank;
    /* Without channels no kernel is told. */
    if (!comm->times || comm->blurred || task->channels == 0 || comm_is_deaf(comm))
        return NULL;
    return op_launch(comm, task, func.number, bytes, type.number);
}

/* ---- kernels ---- */

static struct nccl_op *op_find(struct nccl_comm *comm, uint64_t number)
{
    struct nccl_op *op = &comm->op[number % NCCL_OPS];

    if (number <= atomic_load_explicit(&comm->first, relaxed) ||
        atomic_load_explicit(&op->word, memory_order_acquire) >> OP_STATE_BITS != number ||
        atomic_load_explicit(&op->epoch, relaxed) != probe_epoch(nccl_ring()))
        return NULL;
    return op;
}

static bool op_is(const struct nccl_op *op, unsigned state)
{
    return (atomic_load_explicit(&op->word, relaxed) & state) != 0;
}

/* False: it was so already, or another has taken its place. */
static bool op_turn(struct nccl_op *op, uint64_t number, unsigned from, unsigned to)
{
    uint64_t word = number << OP_STATE_BITS | from;

    return atomic_compare_exchange_strong_explicit(&op->word, &word, number << OP_STATE_BITS | to,
                                                   memory_order_acq_rel, relaxed);
}

static void op_start(struct nccl_comm *comm, struct nccl_op *op, uint64_t number, uint64_t time_ns)
{
    int place = atomic_load_explicit(&comm->place, relaxed);
    uint64_t key = atomic_load_explicit(&op->key, memory_order_acquire);
    bool p2p = atomic_load_explicit(&op->p2p, relaxed);

    time_ns = MAX(time_ns, atomic_load_explicit(&op->enqueue_ns, relaxed));
    if (!op_turn(op, number, 0, OP_STARTED))
        return;
    atomic_store_explicit(&op->start_ns, time_ns, relaxed);
    if (p2p)
        lockstep_p2p_start(nccl_ring(), place, key, time_ns);
    else
        lockstep_coll_start(nccl_ring(), place, key, time_ns);
}

static void op_end(struct nccl_comm *comm, struct nccl_op *op, uint64_t number, uint64_t time_ns)
{
    int place = atomic_load_explicit(&comm->place, relaxed);
    uint64_t key = atomic_load_explicit(&op->key, memory_order_acquire);
    bool p2p = atomic_load_explicit(&op->p2p, relaxed);

    op_start(comm, op, number, time_ns); /* where nothing was told: it was over by then */
    time_ns = MAX(time_ns, atomic_load_explicit(&op->start_ns, relaxed));
    if (!op_turn(op, number, OP_STARTED, OP_STARTED | OP_ENDED))
        return;
    if (p2p)
        lockstep_p2p_end(nccl_ring(), place, key, time_ns);
    else
        lockstep_coll_end(nccl_ring(), place, key, time_ns);
}

/* The next of a group, which is one kernel and lies together: `way` is 1 or -1.  NULL: that was all. */
static struct nccl_op *group_step(struct nccl_comm *comm, uint64_t *number, int way, uint64_t group)
{
    struct nccl_op *op;

    *number += (uint64_t)(int64_t)way;
    op = op_find(comm, *number);
    return op && atomic_load_explicit(&op->group, relaxed) == group ? op : NULL;
}

/* A kernel has begun, and with it all of its group, also those of which NCCL tells nothing. */
static void group_begin(struct nccl_comm *comm, struct nccl_op *first, uint64_t number,
                        uint64_t time_ns)
{
    uint64_t group = atomic_load_explicit(&first->group, relaxed);

    if (op_is(first, OP_STARTED))
        return;
    op_start(comm, first, number, time_ns);
    for (int way = -1; way <= 1; way += 2) {
        uint64_t at = number;
        struct nccl_op *op;

        while ((op = group_step(comm, &at, way, group)) != NULL)
            op_start(comm, op, at, time_ns);
    }
}

/* When the last of a group was told to be over; 0: nothing was told. */
static uint64_t group_stop_ns(struct nccl_comm *comm, const struct nccl_op *of, uint64_t number)
{
    uint64_t group = atomic_load_explicit(&of->group, relaxed);
    uint64_t last_ns = atomic_load_explicit(&of->stop_ns, relaxed);

    for (int way = -1; way <= 1; way += 2) {
        uint64_t at = number;
        struct nccl_op *op;

        while ((op = group_step(comm, &at, way, group)) != NULL)
            last_ns = MAX(last_ns, atomic_load_explicit(&op->stop_ns, relaxed));
    }
    return last_ns;
}

/* One kernel of a communicator follows the other on its device: when one is over, so are all of earlier groups, whatever
 * was told of them.
 */
static void comm_settle(struct nccl_comm *comm, const struct nccl_op *over, uint64_t number)
{
    uint64_t group = atomic_load_explicit(&over->group, relaxed);
    uint64_t start_ns = atomic_load_explicit(&over->start_ns, relaxed), stop_ns = 0, of = 0;

    if (number > comm->settled + NCCL_OPS)
        comm->settled = number - NCCL_OPS;
    for (; comm->settled + 1 < number; comm->settled++) {
        struct nccl_op *op = op_find(comm, comm->settled + 1);

        if (!op || op_is(op, OP_ENDED))
            continue;
        if (atomic_load_explicit(&op->group, relaxed) >= group)
            return;
        if (atomic_load_explicit(&op->group, relaxed) != of) { /* once a group: it may be long */
            of = atomic_load_explicit(&op->group, relaxed);
            stop_ns = group_stop_ns(comm, op, comm->settled + 1);
        }
        op_end(comm, op, comm->settled + 1, stop_ns ? stop_ns : start_ns);
    }
}

static struct nccl_op *op_told(struct nccl_comm *comm, struct nccl_handle handle)
{
    return comm ? op_find(comm, handle.number) : NULL;
}

void *nccl_kernel_start(void *task, uint32_t channel, uint64_t timer_ns)
{
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(task, HANDLE_TASK, &handle);
    struct nccl_op *op = op_told(comm, handle);

    if (!op || channel >= NCCL_CHANNELS)
        return NULL;
    atomic_fetch_add_explicit(&comm->heard, 1, relaxed);
    group_begin(comm, op, handle.number,
                nccl_clock_host(&comm->clock, timer_ns, lockstep_clock_ns()));
    handle.kind = HANDLE_KERNEL;
    handle.channel = channel;
    return nccl_handle_pack(handle);
}

void nccl_kernel_stop(void *kernel, uint64_t timer_ns)
{
    struct nccl_handle handle;
    struct nccl_comm *comm = nccl_handle_comm(kernel, HANDLE_KERNEL, &handle);
    struct nccl_op *op = op_told(comm, handle);
    uint64_t bit = UINT64_C(1) << handle.channel, stopped, time_ns;

    if (!op)
        return;
    stopped = atomic_fetch_or_explicit(&op->stopped, bit, relaxed);
    if (stopped & bit)
        return;
    time_ns = nccl_clock_host(&comm->clock, timer_ns, lockstep_clock_ns());
    time_ns = MAX(time_ns, atomic_load_explicit(&op->stop_ns, relaxed));
    atomic_store_explicit(&op->stop_ns, time_ns, relaxed);
    if ((uint32_t)__builtin_popcountll(stopped | bit) <
        atomic_load_explicit(&op->channels, relaxed))
        return;
    op_end(comm, op, handle.number, time_ns);
    comm_settle(comm, op, handle.number);
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
