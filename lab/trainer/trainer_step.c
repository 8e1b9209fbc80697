/* trainer_step.c - one training step as its host sees it.
 *
 * The host takes a batch, launches everything that the device has to do (forward and
 * backward of the micro-batches in the order of a 1F1B pipeline, gradient buckets as soon as
 * the backward of their blocks is launched, the optimizer), prepares the next batch while the
 * device works, and then waits for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/trainer_private.h"

/* ---- what a framework's host does between launches ----
 *
 * A fixed amount of arithmetic and not a fixed time: where the CPU is shared or throttled it must take
 * longer, as Python does.
 */

#define WORK_LOOPS 256 /* in a unit: about half a microsecond */

static double trainer_host_work_unit(double value)
{
    for (int i = 0; i < WORK_LOOPS; i++)
        value = value * 0.999 + 0.5 / (1.0 + value);
    return value;
}

void host_work(double units)
{
    volatile double sink = 1; /* or the compiler would see that nobody wants the result */

    for (double done = 0; done < units; done++)
        sink = trainer_host_work_unit(sink);
}

/* CPU time, not wall time, and the best of several: other processes are on this CPU too. */
double host_work_calibrate(void)
{
    double best = 0;

    for (int round = 0; round < 8; round++) {
        int64_t before = time_ns(CLOCK_THREAD_CPUTIME_ID);
        double taken;

        host_work(200);
        taken = (double)(time_ns(CLOCK_THREAD_CPUTIME_ID) - before) / 200;
        if (round == 0 || taken < best)
            best = taken;
    }
    return MAX(best, 1.0);
}

/* ---- the step ---- */

/* Of the host's work.  Most of it is done while the device works, as loaders and loggers do: on
 * a machine with fewer CPUs than ranks, all hosts launch at once at the start of a step, and
 * what they do before the first launch costs every other one of them.
 */
#define SHARE_DATA 0.02
#define SHARE_LAUNCH 0.20 /* over all launches */
#define SHARE_OPTIMIZER 0.03
#define SHARE_MEANWHILE 0.75

/* What the host launched last, for the dependencies of what comes next. */
struct step_launch {
    struct trainer *trainer;
    const struct device_work
        *blocker;                   /* the tensor group's reduction that holds the compute stream */
    const struct device_work *last; /* end of the current micro-batch's chain */
    const struct device_work *recv;
    struct err *err;
    int result;
};

static void trainer_host_work(struct trainer *trainer, double share)
{
    host_work(share * trainer->config->host_work_ms * 1e6 / trainer->work_unit_ns);
}

static void launch_host_work(struct step_launch *launch)
{
    trainer_host_work(launch->trainer, SHARE_LAUNCH / launch->trainer->launches);
}

static struct device_work *launch_work(struct step_launch *launch, struct device_work fresh)
{
    struct trainer *trainer = launch->trainer;
    struct device_work *work = &trainer->work[MIN(trainer->works, trainer->work_room - 1)];

    if (launch->result < 0)
        return work;
    trainer->works++;
    *work = fresh;
    if (!work->ended)
        work->ended = trainer_ended;
    launch->result = device_launch(trainer->device, work, launch->err);
    return work;
}

/* On the stream that computes, which waits here for other work. */
static void launch_stamp(struct step_launch *launch, enum ring_stamp_what what,
                         enum lockstep_phase phase, const struct device_work *wait,
                         const struct device_work *also)
{
    struct trainer *trainer = launch->trainer;

    if (!trainer->config->stamps)
        return;
    launch_work(launch, (struct device_work){ .stream = STREAM_COMPUTE,
                                              .run = trainer_run_stamp,
                                              .ended = trainer_stamp_ended,
                                              .dep = { wait, also },
                                              .key = trainer_stamp_mark(trainer, what, phase) });
}

static void launch_phase(struct step_launch *launch, enum lockstep_phase phase)
{
    launch_stamp(launch, RING_STAMP_PHASE, phase, NULL, NULL);
}

static void launch_wait(struct step_launch *launch, enum lockstep_phase phase,
                        const struct device_work *wait, const struct device_work *also)
{
    if (!wait)
        return;
    launch_stamp(launch, RING_STAMP_WAIT_BEGIN, phase, NULL, NULL);
    launch_stamp(launch, RING_STAMP_WAIT_END, phase, wait, also);
}

static void launch_compute(struct step_launch *launch, enum lockstep_phase phase, uint32_t micro,
                           uint32_t block)
{
    struct trainer *trainer = launch->trainer;
    double work = trainer->load[micro].work * (phase == LOCKSTEP_PHASE_BACKWARD ? 2 : 1);
    int64_t ns = (int64_t)((double)trainer->times.block * work);
    const struct device_work *before = launch->recv ? launch->recv : launch->blocker;

    launch_host_work(launch);
    launch_wait(launch, phase, before, launch->recv ? launch->blocker : NULL);
    /* A fault stretches what the device would have taken, jitter included. */
    ns = trainer_jitter(trainer, trainer->config->rank, trainer->works, ns);
    launch->last = launch_work(
        launch, (struct device_work){ .stream = STREAM_COMPUTE,
                                      .run = trainer_run_compute,
                                      .stalls = trainer_stuck_device(trainer),
                                      .dep = { before, launch->recv ? launch->blocker : NULL },
                                      .model_ns = (int64_t)((double)ns * trainer->slow),
                                      .phase = (int)phase,
                                      .micro = (int)micro,
                                      .block = (int)block });
    launch->recv = NULL;
}

/* As a communication library would tell it: at the first such reduction, and when it is moved otherwise. */
static void trainer_put_method(struct trainer *trainer, enum trainer_comm comm, enum lockstep_op op,
                               uint64_t bytes)
{
    uint32_t channels = trainer_fault_channels(trainer, comm), i = 0;
    struct trainer_method *method = trainer->method;

    while (i < trainer->method_count &&
           (method[i].comm != comm || method[i].op != op || method[i].bytes != bytes))
        i++;
    if (i == TRAINER_METHODS || (i < trainer->method_count && method[i].channels == channels))
        return;
    method[i] = (struct trainer_method){ comm, op, bytes, channels };
    trainer->method_count = MAX(trainer->method_count, i + 1);
    lockstep_coll_method(trainer->probe, trainer->probe_comm[comm], op, bytes, channels,
                         "DOUBLING/SOCKET");
}

static const struct device_work *launch_reduce(struct step_launch *launch, enum trainer_comm comm,
                                               uint16_t stream, uint64_t bytes, int64_t ns,
                                               int block)
{
    struct trainer *trainer = launch->trainer;
    const struct device_work *last = launch->last;
    enum lockstep_op op = LOCKSTEP_OP_ALL_REDUCE;
    bool stalls = trainer_stuck_reduce(trainer, comm, &op, &bytes);

    trainer_put_method(trainer, comm, op, bytes);
    return launch_work(launch, (struct device_work){
                                   .stream = stream,
                                   .run = trainer_run_reduce,
                                   .stalls = stalls,
                                   .dep = { last },
                                   .model_ns = trainer_fault_reduce(trainer, comm, ns),
                                   .comm = comm,
                                   .block = block,
                                   .micro = last ? last->micro : 0,
                                   .phase = last ? last->phase : 0,
                                   .key = lockstep_coll_enqueue(
                                       trainer->probe,
                                       LOCKSTEP_OP_DESC(.comm = trainer->probe_comm[comm], .op = op,
                                                        .bytes = bytes,
                                                        .stream = trainer_op_stream(
                                                            trainer, stream,
                                                            trainer->probe_comm[comm]))) });
}

static void launch_tp(struct step_launch *launch, uint32_t block)
{
    struct trainer *trainer = launch->trainer;

    if (trainer->place.tp_size == 1)
        return;
    launch->blocker = launch->last = launch_reduce(
        launch, COMM_TP, STREAM_TP, TOY_CELLS * sizeof(float), trainer->times.tp, (int)block);
}

/* With the last micro-batch, a bucket's gradients are whole once its first block is through. */
static void launch_bucket(struct step_launch *launch, uint32_t micro, uint32_t block)
{
    struct trainer *trainer = launch->trainer;

    if (trainer->place.dp_size == 1 || micro + 1 != trainer->micros)
        return;
    for (uint32_t bucket = 0; bucket < trainer->buckets; bucket++) {
        uint32_t first = bucket * trainer->blocks / trainer->buckets;
        uint32_t end = (bucket + 1) * trainer->blocks / trainer->buckets;
        size_t count;

        if (first != block)
            continue;
        if (trainer_stuck_order(trainer, bucket)) {
            trainer->swapped = true;
            continue;
        }
        toy_bucket(&trainer->toy, first, end - first, &count);
        launch_reduce(launch, COMM_DP, STREAM_DP, count * sizeof(float), trainer->times.dp,
                      (int)bucket);
    }
}

/* A fault: the last bucket, after what should come behind it. */
static void launch_swapped(struct step_launch *launch)
{
    struct trainer *trainer = launch->trainer;
    size_t count;

    if (!trainer->swapped)
        return;
    trainer->swapped = false;
    toy_bucket(&trainer->toy, 0, trainer->blocks / trainer->buckets, &count);
    launch_reduce(launch, COMM_DP, STREAM_DP, count * sizeof(float), trainer->times.dp, 0);
}

/* A message to (send) or from (receive) the neighbouring stage. */
static const struct device_work *launch_message(struct step_launch *launch, bool send,
                                                enum trainer_way way, uint32_t micro)
{
    struct trainer *trainer = launch->trainer;
    const struct trainer_link *link = send ? &trainer->out[way] : &trainer->in[way];
    uint16_t stream = send ? STREAM_SEND : STREAM_RECV;
    uint32_t other = link->stage, own = trainer->place.pp;
    uint64_t who = ((uint64_t)trainer->place.dp << 32) | MIN(own, other);
    const uint32_t pair[] = { trainer->config->rank, link->rank };
    int64_t ns = trainer_fault_transfer(trainer, pair, COUNT(pair), trainer->times.link);

    return launch_work(
        launch,
        (struct device_work){
            .stream = stream,
            .run = send ? trainer_run_send : trainer_run_recv,
            .dep = { send ? launch->last : NULL },
            .way = (int)way,
            .micro = (int)micro,
            .model_ns = trainer_jitter(trainer, who, ((uint64_t)way << 32) | micro, ns),
            .key = lockstep_p2p_enqueue(
                trainer->probe, LOCKSTEP_OP_DESC(.comm = trainer->probe_pp,
                                                 .op = send ? LOCKSTEP_OP_SEND : LOCKSTEP_OP_RECV,
                                                 .bytes = TOY_CELLS * sizeof(float), .peer = other,
                                                 .stream = trainer_op_stream(
                                                     trainer, stream, trainer->probe_pp))) });
}

static void launch_forward(struct step_launch *launch, uint32_t micro)
{
    struct trainer *trainer = launch->trainer;
    const struct lockstep_layout *place = &trainer->place;

    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_FORWARD);
    launch_phase(launch, LOCKSTEP_PHASE_FORWARD);
    if (micro == 0)
        trainer_fault_phase(trainer, LOCKSTEP_PHASE_FORWARD);
    if (micro == 0)
        trainer_stuck_phase(trainer, LOCKSTEP_PHASE_FORWARD);
    launch->last = NULL;
    launch->recv = place->pp > 0 ? launch_message(launch, false, WAY_UP, micro) : NULL;
    for (uint32_t block = 0; block < trainer->blocks; block++) {
        launch_compute(launch, LOCKSTEP_PHASE_FORWARD, micro, block);
        launch_tp(launch, block);
    }
    if (place->pp + 1 < place->pp_size)
        launch_message(launch, true, WAY_UP, micro);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_FORWARD);
}

static void launch_backward(struct step_launch *launch, uint32_t micro)
{
    struct trainer *trainer = launch->trainer;
    const struct lockstep_layout *place = &trainer->place;

    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_BACKWARD);
    launch_phase(launch, LOCKSTEP_PHASE_BACKWARD);
    if (micro == 0)
        trainer_fault_phase(trainer, LOCKSTEP_PHASE_BACKWARD);
    if (micro == 0)
        trainer_stuck_phase(trainer, LOCKSTEP_PHASE_BACKWARD);
    trainer_fault_die(trainer, micro);
    trainer_stuck_host(trainer, micro);
    launch->recv =
        place->pp + 1 < place->pp_size ? launch_message(launch, false, WAY_DOWN, micro) : NULL;
    for (uint32_t block = trainer->blocks; block-- > 0;) {
        launch_compute(launch, LOCKSTEP_PHASE_BACKWARD, micro, block);
        launch_bucket(launch, micro, block);
        launch_tp(launch, block);
    }
    if (place->pp > 0)
        launch_message(launch, true, WAY_DOWN, micro);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_BACKWARD);
}

/* One forward, one backward: as few micro-batches in flight as the stages after us need. */
static void launch_pipeline(struct step_launch *launch)
{
    struct trainer *trainer = launch->trainer;
    uint32_t behind = trainer->place.pp_size - trainer->place.pp - 1u;
    uint32_t warm = MIN(trainer->micros, behind);

    for (uint32_t micro = 0; micro < warm; micro++)
        launch_forward(launch, micro);
    for (uint32_t micro = 0; micro < trainer->micros; micro++) {
        if (micro + warm < trainer->micros)
            launch_forward(launch, micro + warm);
        launch_backward(launch, micro);
    }
}

static void launch_optimizer(struct step_launch *launch)
{
    struct trainer *trainer = launch->trainer;
    const struct device_work *sum;

    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_OPTIMIZER);
    launch_phase(launch, LOCKSTEP_PHASE_OPTIMIZER);
    trainer_fault_phase(trainer, LOCKSTEP_PHASE_OPTIMIZER);
    trainer_stuck_phase(trainer, LOCKSTEP_PHASE_OPTIMIZER);
    trainer_host_work(trainer, SHARE_OPTIMIZER);
    /* Behind the buckets on their stream: the norm is that of the reduced gradients. */
    sum = launch_reduce(launch, COMM_WORLD, STREAM_DP, SUM_COUNT * sizeof(double),
                        trainer->times.world, 0);
    launch_swapped(launch);
    launch_wait(launch, LOCKSTEP_PHASE_OPTIMIZER, sum, NULL);
    launch_work(
        launch,
        (struct device_work){
            .stream = STREAM_COMPUTE,
            .run = trainer_run_compute,
            .dep = { sum },
            .model_ns = (int64_t)((double)trainer_jitter(trainer, trainer->config->rank,
                                                         trainer->works, trainer->times.optimizer) *
                                  trainer->slow),
            .phase = LOCKSTEP_PHASE_OPTIMIZER });
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_OPTIMIZER);
}

static int trainer_take_batch(struct trainer *trainer, struct err *err)
{
    size_t bytes = trainer->micros * TOY_CELLS * sizeof(float);
    double tokens = 0, squares = 0;
    int result = 0;

    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_DATA);
    trainer_fault_phase(trainer, LOCKSTEP_PHASE_DATA);
    trainer_stuck_phase(trainer, LOCKSTEP_PHASE_DATA);
    trainer_host_work(trainer, SHARE_DATA);
    if (trainer->next_step != trainer->step)
        result = trainer_data_next(trainer, trainer->step, err);
    if (result < 0)
        return result;
    for (uint32_t micro = 0; trainer->place.pp == 0 && micro < trainer->micros; micro++)
        memcpy(toy_input(&trainer->toy, micro), trainer->next_input + micro * TOY_CELLS,
               TOY_CELLS * sizeof(float));
    memcpy(trainer->toy.target, trainer->next_target, bytes);
    trainer_fault_step(trainer);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_DATA);
    for (uint32_t micro = 0; micro < trainer->micros; micro++) {
        tokens += trainer->load[micro].tokens;
        squares += trainer->load[micro].squares;
    }
    lockstep_metric_put(trainer->probe, LOCKSTEP_METRIC_TOKENS, tokens);
    lockstep_metric_put(trainer->probe, LOCKSTEP_METRIC_LENGTH_SQUARES, squares);
    lockstep_metric_put(trainer->probe, LOCKSTEP_METRIC_MICRO_BATCHES, trainer->micros);
    return 0;
}

/* Of the parameters with which the step begins, while the device is idle: on a busy machine a host that looks
 * while it works may come after the optimizer.
 */
static void trainer_put_digest(struct trainer *trainer)
{
    uint64_t digest[2];

    toy_digest(&trainer->toy, digest);
    lockstep_digest_put(trainer->probe, 0, 1, digest[0], digest[1]);
}

/* While the device works: the next batch.  Not all ranks at the same moment: each waits for another
 * piece of the step's first half.
 */
static void trainer_meanwhile(struct trainer *trainer)
{
    uint32_t piece = trainer->config->rank * 5 % MAX(trainer->works / 2, 1u);

    device_await(trainer->device, &trainer->work[piece]);
    trainer_host_work(trainer, SHARE_MEANWHILE);
    if (trainer->step + 1 < trainer->config->steps && trainer_data_ahead(trainer))
        (void)trainer_data_next(trainer, trainer->step + 1, NULL); /* made up: cannot fail */
}

/* Is a checkpoint requested for the end of this step?  Where it cannot be, the answer is given now. */
static bool trainer_save_requested(struct trainer *trainer)
{
    struct lockstep_request request = { .size = sizeof(request) };

    trainer->request = request;
    if (lockstep_request_get(trainer->probe, &request) != 1)
        return false;
    if (!trainer->config->checkpoint_dir)
        lockstep_request_answer(trainer->probe, &request, LOCKSTEP_ANSWER_REFUSED);
    else if (request.step <
             trainer->step) /* too late, unless another rank's request made all save */
        lockstep_request_answer(trainer->probe, &request,
                                request.step + 1 == trainer->saved ? LOCKSTEP_ANSWER_DONE
                                                                   : LOCKSTEP_ANSWER_PAST);
    else if (request.step == trainer->step)
        trainer->request = request;
    return trainer->request.id != 0;
}

static void trainer_read_settings(struct trainer *trainer)
{
    const char *stop = trainer->config->stop_file;

    trainer->sum[SUM_STOP] =
        trainer_elastic_stops(trainer) || (stop && access(stop, F_OK) == 0) ? 1 : 0;
    trainer->sum[SUM_SAVE] = trainer_save_requested(trainer) ? 1 : 0;
}

/* Each rank's own: a mean over the replicas would hide where something went wrong. */
static void trainer_put_values(const struct trainer *trainer)
{
    if (trainer->place.pp + 1 == trainer->place.pp_size)
        lockstep_metric_put(trainer->probe, LOCKSTEP_METRIC_LOSS, trainer->toy.loss);
    lockstep_metric_put(trainer->probe, LOCKSTEP_METRIC_GRAD_NORM,
                        __builtin_sqrt(trainer->own_squares));
}

int trainer_step(struct trainer *trainer, struct err *err)
{
    struct step_launch launch = { .trainer = trainer, .err = err };
    int result;

    lockstep_step_begin(trainer->probe, trainer->step);
    trainer->works = 0;
    launch_stamp(&launch, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER, NULL, NULL);
    trainer->own_squares = 0;
    toy_step_begin(&trainer->toy);
    trainer_read_settings(trainer);
    launch_phase(&launch, LOCKSTEP_PHASE_DATA);
    result = trainer_take_batch(trainer, err);
    if (result < 0)
        return result;
    launch_phase(&launch, LOCKSTEP_PHASE_OTHER);
    trainer_put_digest(trainer);
    launch_pipeline(&launch);
    launch_optimizer(&launch);
    if (launch.result < 0)
        return launch.result;
    launch_phase(&launch, LOCKSTEP_PHASE_OTHER);
    trainer_meanwhile(trainer);
    /* As a program that asks for the loss after each optimizer call does. */
    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_OPTIMIZER);
    result = device_sync(trainer->device, err);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_OPTIMIZER);
    if (result < 0)
        return result;
    trainer_put_values(trainer);
    launch_stamp(&launch, RING_STAMP_STEP_END, LOCKSTEP_PHASE_OTHER, NULL, NULL);
    lockstep_step_end(trainer->probe, trainer->step);
    truth_flush(trainer->truth);
    return 0;
}
