/* trainer_ops.c - what the streams run: arithmetic, reductions, messages between stages.
 *
 * Times are the device's (device.h).  A reduction ends a modelled transfer after its last
 * member came in, which each message tells; when the sockets took longer than that, it ends
 * when they were done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/trainer/trainer_private.h"

#define JITTER 0.003

/* Equal for all that give the same `who` and `what`. */
int64_t trainer_jitter(const struct trainer *trainer, uint64_t who, uint64_t what, int64_t ns)
{
    uint64_t seed = hash64_u64(trainer->config->seed, 0x6a69747465720000 + trainer->step);
    struct rand rand = { hash64_u64(hash64_u64(seed, who), what) };

    return (int64_t)((double)ns * (1 + JITTER * rand_normal(&rand)));
}

/* When this rank is said to have come in: as its device was ready, unless our thread was so late
 * that it held up the others; then that is what happened.
 */
static int64_t trainer_op_start(const struct device_work *work)
{
    int64_t now = time_mono_ns();

    return now - work->begin_ns > work->model_ns / 2 ? now : work->begin_ns;
}

int trainer_run_compute(struct device_work *work, void *context, struct err *err)
{
    struct trainer *trainer = context;
    struct toy_model *toy = &trainer->toy;
    uint32_t micro = (uint32_t)work->micro, block = (uint32_t)work->block;
    bool last = trainer->place.pp + 1 == trainer->place.pp_size;

    if (work->stalls)
        return trainer_stall(trainer, "the device", err);
    if (work->phase == LOCKSTEP_PHASE_FORWARD) {
        toy_forward(toy, micro, block);
        if (trainer->place.tp_size == 1)
            toy_forward_absorb(toy, micro, block);
    } else if (work->phase == LOCKSTEP_PHASE_BACKWARD) {
        if (last && block + 1 == trainer->blocks)
            toy_loss(toy, micro);
        toy_backward(toy, micro, block);
        if (trainer->place.tp_size == 1)
            toy_backward_absorb(toy, micro);
    } else {
        double norm = trainer->sum[SUM_NORM];

        /* As large models do: a step whose gradient is longer than 1 is shortened to 1. */
        if (!trainer_fault_frozen(trainer))
            toy_update(toy, 1.0 / (trainer->place.dp_size * (norm > 1 ? norm : 1)));
    }
    work->end_ns = work->begin_ns + work->model_ns;
    return 0;
}

/* What a reduction reduces, and with which arithmetic. */
static void *trainer_reduce_data(struct trainer *trainer, const struct device_work *work,
                                 enum group_op *op, size_t *count)
{
    *op = work->comm == COMM_WORLD ? GROUP_SUM_F64 : GROUP_SUM_F32;
    if (work->comm == COMM_TP) {
        *count = TOY_CELLS;
        return trainer->toy.part;
    }
    if (work->comm == COMM_DP) {
        uint32_t first = (uint32_t)work->block * trainer->blocks / trainer->buckets;
        uint32_t end = ((uint32_t)work->block + 1) * trainer->blocks / trainer->buckets;

        return toy_bucket(&trainer->toy, first, end - first, count);
    }
    *count = SUM_COUNT;
    return trainer->sum;
}

/* This rank's gradient as it is before the reduction: after it, all have the same. */
static void trainer_own_gradient(struct trainer *trainer, const struct device_work *work)
{
    struct toy_model *toy = &trainer->toy;
    enum group_op op;
    size_t count = toy->params;
    float *gradient =
        work->comm == COMM_DP ? trainer_reduce_data(trainer, work, &op, &count) : toy->grad;

    if (work->block == 0)
        trainer_fault_gradient(trainer, gradient);
    for (size_t i = 0; i < count; i++)
        trainer->own_squares += (double)gradient[i] * (double)gradient[i];
}

static void trainer_reduce_before(struct trainer *trainer, const struct device_work *work)
{
    const struct lockstep_layout *place = &trainer->place;
    bool counts = place->tp == 0 && place->pp + 1 == place->pp_size; /* one rank a replica */

    if (work->comm == COMM_DP || (work->comm == COMM_WORLD && place->dp_size == 1))
        trainer_own_gradient(trainer, work);
    if (work->comm != COMM_WORLD)
        return;
    trainer->sum[SUM_LOSS] = counts ? trainer->toy.loss : 0;
    trainer->sum[SUM_NORM] = toy_norm_squared(&trainer->toy, 1.0 / place->dp_size);
}

static void trainer_reduce_after(struct trainer *trainer, const struct device_work *work)
{
    if (work->comm == COMM_TP && work->phase == LOCKSTEP_PHASE_FORWARD)
        toy_forward_absorb(&trainer->toy, (uint32_t)work->micro, (uint32_t)work->block);
    else if (work->comm == COMM_TP)
        toy_backward_absorb(&trainer->toy, (uint32_t)work->micro);
    else if (work->comm == COMM_WORLD) {
        trainer->sum[SUM_LOSS] /= trainer->place.dp_size;
        trainer->sum[SUM_NORM] = __builtin_sqrt(trainer->sum[SUM_NORM] / trainer->place.dp_size);
    }
}

int trainer_run_reduce(struct device_work *work, void *context, struct err *err)
{
    struct trainer *trainer = context;
    struct group *group = &trainer->comm[work->comm];
    int64_t latest_ns;
    enum group_op op;
    size_t count;
    void *data;
    int result;

    trainer_reduce_before(trainer, work);
    data = trainer_reduce_data(trainer, work, &op, &count);
    latest_ns = work->begin_ns = trainer_op_start(work);
    lockstep_coll_start(trainer->probe, trainer->probe_comm[work->comm], work->key,
                        (uint64_t)work->begin_ns);
    if (work->stalls)
        return trainer_stall(trainer, group->name, err);
    result = group_reduce(group, op, data, count, &latest_ns, err);
    if (result < 0)
        return result;
    trainer_reduce_after(trainer, work);
    work->end_ns = latest_ns + trainer_jitter(trainer, group->id, work->key, work->model_ns);
    work->end_ns = MAX(work->end_ns, time_mono_ns());
    return 0;
}

int trainer_host_reduce(struct trainer *trainer, enum trainer_comm comm, enum group_op op,
                        void *data, uint32_t count, struct err *err)
{
    int64_t now = time_mono_ns();
    int handle = trainer->probe_comm[comm], result;
    uint64_t key = lockstep_coll_enqueue(
        trainer->probe, LOCKSTEP_OP_DESC(.comm = handle, .op = LOCKSTEP_OP_ALL_REDUCE,
                                         .bytes = count * 8ull, .stream = LOCKSTEP_HOST_STREAM));

    lockstep_coll_start(trainer->probe, handle, key, 0);
    result = group_reduce(&trainer->comm[comm], op, data, count, &now, err);
    if (result == 0)
        lockstep_coll_end(trainer->probe, handle, key, 0);
    return result;
}

struct link_head {
    uint64_t count;
    int64_t start_ns;
};

static int link_lost(const struct trainer_link *link, const char *what, int result, struct err *err)
{
    if (result == -ECANCELED)
        return result;
    errno = -result;
    return err_set(err, result, "lost rank %u in %s %llu of %s: %m", link->rank, what,
                   (unsigned long long)link->count, link->name);
}

int trainer_run_send(struct device_work *work, void *context, struct err *err)
{
    struct trainer *trainer = context;
    struct trainer_link *link = &trainer->out[work->way];
    struct socket_wait wait = trainer->comm[COMM_WORLD].wait;
    struct link_head head = { link->count, trainer_op_start(work) };
    const float *data = work->way == WAY_UP ? toy_output(&trainer->toy, (uint32_t)work->micro)
                                            : toy_gradient(&trainer->toy, (uint32_t)work->micro);
    int result;

    work->begin_ns = head.start_ns;
    lockstep_p2p_start(trainer->probe, trainer->probe_pp, work->key, (uint64_t)head.start_ns);
    result = socket_send(link->fd, &head, sizeof(head), &wait);
    if (result == 0)
        result = socket_send(link->fd, data, TOY_CELLS * sizeof(*data), &wait);
    if (result < 0)
        return link_lost(link, "send", result, err);
    link->count++;
    work->end_ns = MAX(head.start_ns + work->model_ns, time_mono_ns());
    return 0;
}

/* The transfer begins when both sides are there, and takes what the sender says it takes. */
int trainer_run_recv(struct device_work *work, void *context, struct err *err)
{
    struct trainer *trainer = context;
    struct trainer_link *link = &trainer->in[work->way];
    struct socket_wait wait = trainer->comm[COMM_WORLD].wait;
    struct link_head head;
    float *data = work->way == WAY_UP ? toy_input(&trainer->toy, (uint32_t)work->micro)
                                      : toy_gradient(&trainer->toy, (uint32_t)work->micro);
    int result;

    lockstep_p2p_start(trainer->probe, trainer->probe_pp, work->key, (uint64_t)work->begin_ns);
    result = socket_recv(link->fd, &head, sizeof(head), &wait);
    if (result == 0 && head.count != link->count)
        return err_set(err, -EPROTO, "rank %u sent message %llu, expected %llu", link->rank,
                       (unsigned long long)head.count, (unsigned long long)link->count);
    if (result == 0)
        result = socket_recv(link->fd, data, TOY_CELLS * sizeof(*data), &wait);
    if (result < 0)
        return link_lost(link, "receive", result, err);
    link->count++;
    work->end_ns = MAX(MAX(head.start_ns, work->begin_ns) + work->model_ns, time_mono_ns());
    return 0;
}

void trainer_ended(struct device_work *work, void *context)
{
    struct trainer *trainer = context;

    if (work->stream == STREAM_COMPUTE && trainer->config->stamps)
        return;
    if (work->stream == STREAM_COMPUTE)
        lockstep_device_span(trainer->probe, STREAM_COMPUTE, (enum lockstep_phase)work->phase,
                             (uint64_t)work->enqueue_ns, (uint64_t)work->begin_ns,
                             (uint64_t)work->end_ns);
    else if (work->stream == STREAM_DP || work->stream == STREAM_TP)
        lockstep_coll_end(trainer->probe, trainer->probe_comm[work->comm], work->key,
                          (uint64_t)work->end_ns);
    else
        lockstep_p2p_end(trainer->probe, trainer->probe_pp, work->key, (uint64_t)work->end_ns);
}
