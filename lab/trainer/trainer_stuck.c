/* trainer_stuck.c - faults after which nothing moves, ways to die, and pauses that are no fault.
 *
 * As in trainer_fault.c the probe gets no information about this, except what a program in that state would
 * have recorded: the phase it is in, and the collective it thinks it is in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/oom.h"
#include "lab/trainer/trainer_private.h"

/* Faults that end an attempt are made in the first one only: the next shall get through. */
static int trainer_fault_due(struct trainer *trainer, enum fault_id id)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];

        if (fault->kind->id != id || trainer->config->attempt != 0 ||
            ((fault->set & FAULT_RANK) && fault->rank != trainer->config->rank) ||
            fault->step != trainer->step || trainer->made & 1u << i)
            continue;
        trainer->made |= 1u << i;
        truth_add(trainer->truth, i, trainer->step, 0);
        truth_flush(trainer->truth);
        return (int)i;
    }
    return -1;
}

static void trainer_sleep_ms(double ms)
{
    struct timespec until = time_spec(time_mono_ns() + (int64_t)(ms * 1e6));

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static void trainer_sleep_forever(void)
{
    for (;;)
        pause();
}

/* A loader that never gives a batch, code that never comes back. */
void trainer_stuck_phase(struct trainer *trainer, enum lockstep_phase phase)
{
    int which;

    if (phase == LOCKSTEP_PHASE_DATA && trainer_fault_due(trainer, FAULT_STUCK_DATA) >= 0)
        trainer_sleep_forever();
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        if (trainer->plan.fault[i].kind->id == FAULT_STUCK_CODE &&
            trainer->plan.fault[i].phase == (int)phase &&
            trainer_fault_due(trainer, FAULT_STUCK_CODE) >= 0)
            trainer_sleep_forever();
    }
    which = phase == LOCKSTEP_PHASE_FORWARD ? trainer_fault_due(trainer, FAULT_COMPILE) : -1;
    if (which >= 0) {
        lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_COMPILE);
        trainer_sleep_ms(trainer->plan.fault[which].ms);
        lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_COMPILE);
    }
}

void trainer_stuck_pause(struct trainer *trainer, enum fault_id id)
{
    int which = trainer_fault_due(trainer, id);

    if (which < 0)
        return;
    if (id == FAULT_EVAL)
        lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_EVAL);
    trainer_sleep_ms(trainer->plan.fault[which].ms);
    if (id == FAULT_EVAL)
        lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_EVAL);
}

/* A start that is slow, in one of its phases. */
void trainer_stuck_start(struct trainer *trainer, enum lockstep_phase phase)
{
    for (uint32_t i = 0; i < trainer->plan.count; i++) {
        const struct fault *fault = &trainer->plan.fault[i];
        int wanted = fault->set & FAULT_PHASE ? fault->phase : LOCKSTEP_PHASE_INIT;

        if (fault->kind->id == FAULT_SLOW_START && wanted == (int)phase)
            trainer_stuck_pause(trainer, FAULT_SLOW_START);
    }
}

static void trainer_fail_loudly(struct trainer *trainer)
{
    static const char text[] = "RuntimeError: the loss of this batch is not a number";

    lockstep_note_put(trainer->probe, text);
    fprintf(stderr, "Traceback (most recent call last):\n  in training step %llu\n%s\n",
            (unsigned long long)trainer->step, text);
    fflush(stderr);
    _exit(1);
}

static void trainer_be_busy(double ms)
{
    int64_t until = time_mono_ns() + (int64_t)(ms * 1e6);

    while (time_mono_ns() < until)
        host_work(1000);
}

/* The host, in the middle of launching a step. */
void trainer_stuck_host(struct trainer *trainer, uint32_t launched)
{
    int which;

    if (launched != trainer->micros / 2)
        return;
    if (trainer_fault_due(trainer, FAULT_STOP) >= 0)
        raise(SIGSTOP);
    if (trainer_fault_due(trainer, FAULT_SEGFAULT) >= 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (trainer_fault_due(trainer, FAULT_ABORT) >= 0)
        abort();
    if (trainer_fault_due(trainer, FAULT_EXCEPTION) >= 0)
        trainer_fail_loudly(trainer);
    if (trainer_fault_due(trainer, FAULT_OOM) >= 0)
        oom_provoke();
    which = trainer_fault_due(trainer, FAULT_BUSY);
    if (which >= 0)
        trainer_be_busy(trainer->plan.fault[which].ms);
}

/* ---- the device ---- */

bool trainer_stuck_device(struct trainer *trainer)
{
    return trainer_fault_due(trainer, FAULT_GPU_HANG) >= 0;
}

bool trainer_stuck_reduce(struct trainer *trainer, enum trainer_comm comm, enum lockstep_op *op,
                          uint64_t *bytes)
{
    if (comm != (trainer->place.dp_size > 1 ? COMM_DP : COMM_WORLD))
        return false;
    if (trainer_fault_due(trainer, FAULT_FROZEN_LINK) >= 0)
        return true;
    if (trainer_fault_due(trainer, FAULT_OTHER_OP) >= 0) {
        *op = LOCKSTEP_OP_ALL_GATHER;
        return true;
    }
    if (trainer_fault_due(trainer, FAULT_OTHER_SIZE) >= 0) {
        *bytes /= 2;
        return true;
    }
    return false;
}

/* The last bucket of the step, which this rank then launches after the world's reduction. */
bool trainer_stuck_order(struct trainer *trainer, uint32_t bucket)
{
    return bucket == 0 && trainer_fault_due(trainer, FAULT_OTHER_ORDER) >= 0;
}

/* As a collective that waits for what never comes: until its timeout, or the end. */
int trainer_stall(struct trainer *trainer, const char *what, struct err *err)
{
    struct pollfd cancel = { .fd = device_cancel_fd(trainer->device), .events = POLLIN };
    int64_t deadline = time_mono_ns() + trainer->config->timeout_ms * NS_PER_MS;

    for (;;) {
        int left_ms = time_poll_ms(deadline, time_mono_ns());

        if (!left_ms)
            return err_set(err, -ETIMEDOUT, "%s: no data for %d ms", what,
                           trainer->config->timeout_ms);
        if (poll(&cancel, 1, left_ms) > 0)
            return -ECANCELED;
    }
}
