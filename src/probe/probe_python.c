/* probe_python.c - phases, steps and metrics marked by builtins of Python's, and what _gloo.py needs of them.
 *
 * No exception of ours ever leaves, and what a callable raises passes through untouched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/clean.h"
#include "probe/probe_private.h"

#include "probe/gloo.h"
#include "probe/python.h"
#include "probe/stamp.h"

static struct python_functions python; /* set once, before there is any builtin */

int python_use(const struct python_functions *functions, uint64_t size)
{
    void *const *each = (void *const *)functions;

    if (size != sizeof(*functions))
        return -EINVAL;
    for (size_t i = 0; i < sizeof(*functions) / sizeof(*each); i++)
        if (!each[i])
            return -EINVAL;
    python = *functions;
    return 0;
}

static struct python_object *python_answer_none(void)
{
    python.incref(python.none);
    return python.none;
}

/* ---- stamps ---- */

/* What the main thread is in, as its marks say; threads of autograd work for the same phase. */
#define PHASES_DEEP 16
static struct {
    struct python_object *stream_of, *args; /* set once */
    uint8_t phase[PHASES_DEEP];
    unsigned phases;
    _Atomic uint8_t now;
} stamping;

static bool python_stream(void **ret)
{
    struct python_object *answer = python.call(stamping.stream_of, stamping.args, NULL);
    long number;

    if (!answer) {
        python.error_clear();
        return false;
    }
    number = python.number(answer);
    python.decref(answer);
    if (number == -1 && python.error()) {
        python.error_clear();
        return false;
    }
    *ret = (void *)(uintptr_t)
        number; /* NOLINT(performance-no-int-to-ptr): a handle, as torch gives it */
    return true;
}

/* Without the interpreter's lock: the driver waits when its queue is full, and what it waits for may need another thread. */
static void python_stamp_put(struct lockstep_probe *probe, enum ring_stamp_what what, int comm,
                             uint64_t colls, uint64_t messages)
{
    uint8_t phase = atomic_load_explicit(&stamping.now, memory_order_relaxed);
    void *stream, *thread;

    if (!stamping.stream_of || !stamps_are_on() || !python_stream(&stream))
        return;
    thread = python.lock_give();
    stamp_put(probe, stream,
              &(struct stamp){ .what = what,
                               .phase = phase ? (enum lockstep_phase)phase : LOCKSTEP_PHASE_OTHER,
                               .comm = comm,
                               .colls = colls,
                               .messages = messages });
    python.lock_take(thread);
}

bool python_host_wait(void *stream)
{
    uint8_t phase = atomic_load_explicit(&stamping.now, memory_order_relaxed);

    return stamps_are_on() && stream == stamps_stream() && stamps_thread_is_this() &&
           stamp_put(
               probe_current(), stream,
               &(struct stamp){ .what = RING_STAMP_HOST_WAIT,
                                .phase = phase ? (enum lockstep_phase)phase : LOCKSTEP_PHASE_OTHER,
                                .comm = -1 });
}

static bool python_phase_is_stamped(unsigned phase)
{
    const unsigned those = 1u << LOCKSTEP_PHASE_DATA | 1u << LOCKSTEP_PHASE_FORWARD |
                           1u << LOCKSTEP_PHASE_BACKWARD | 1u << LOCKSTEP_PHASE_OPTIMIZER |
                           1u << LOCKSTEP_PHASE_CHECKPOINT | 1u << LOCKSTEP_PHASE_EVAL;

    return phase < LOCKSTEP_PHASE_COUNT && those >> phase & 1;
}

static void python_phase_enter(struct lockstep_probe *probe, unsigned phase)
{
    if (!python_phase_is_stamped(phase))
        return;
    if (stamping.phases < PHASES_DEEP)
        stamping.phase[stamping.phases] = (uint8_t)phase;
    stamping.phases++;
    atomic_store_explicit(&stamping.now, (uint8_t)phase, memory_order_relaxed);
    python_stamp_put(probe, RING_STAMP_PHASE, -1, 0, 0);
}

static void python_phase_leave(struct lockstep_probe *probe, unsigned phase)
{
    unsigned below;

    if (!python_phase_is_stamped(phase) || stamping.phases == 0)
        return;
    below = --stamping.phases;
    atomic_store_explicit(&stamping.now,
                          below && below <= PHASES_DEEP ? stamping.phase[below - 1] : 0,
                          memory_order_relaxed);
    python_stamp_put(probe, RING_STAMP_PHASE, -1, 0, 0);
}

/* ---- marks ---- */

static bool python_number_of(struct python_object *object, long *ret)
{
    *ret = python.number(object);
    if (*ret >= 0)
        return true;
    python.error_clear(); /* not a number, or none that a mark has */
    return false;
}

static struct python_object *python_phase_mark(struct python_object *self,
                                               struct python_object *phase,
                                               void (*mark)(struct lockstep_probe *,
                                                            enum lockstep_phase))
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    long number;

    if (!probe)
        return NULL;
    if (!python_number_of(phase, &number))
        return python_answer_none();
    number = MIN(number, (long)LOCKSTEP_PHASE_COUNT);
    mark(probe, (enum lockstep_phase)number);
    (mark == lockstep_phase_begin ? python_phase_enter : python_phase_leave)(probe,
                                                                             (unsigned)number);
    return python_answer_none();
}

static struct python_object *python_phase_begin(struct python_object *self,
                                                struct python_object *phase)
{
    return python_phase_mark(self, phase, lockstep_phase_begin);
}

static struct python_object *python_phase_end(struct python_object *self,
                                              struct python_object *phase)
{
    return python_phase_mark(self, phase, lockstep_phase_end);
}

static struct python_object *python_step_mark(struct python_object *self,
                                              struct python_object *step,
                                              void (*mark)(struct lockstep_probe *, uint64_t))
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    long number;

    if (!probe)
        return NULL;
    if (!python_number_of(step, &number))
        return python_answer_none();
    if (mark == lockstep_step_end)
        python_stamp_put(probe, RING_STAMP_STEP_END, -1, 0, 0);
    mark(probe, (uint64_t)number);
    if (mark == lockstep_step_begin)
        python_stamp_put(probe, RING_STAMP_STEP_BEGIN, -1, 0, 0);
    return python_answer_none();
}

static struct python_object *python_step_begin(struct python_object *self,
                                               struct python_object *step)
{
    return python_step_mark(self, step, lockstep_step_begin);
}

static struct python_object *python_step_end(struct python_object *self, struct python_object *step)
{
    return python_step_mark(self, step, lockstep_step_end);
}

static struct python_object *python_metric(struct python_object *self,
                                           struct python_object *const *args, intptr_t count)
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    double value;
    long number;

    if (!probe)
        return NULL;
    if (count == 2 && python_number_of(args[0], &number)) {
        value = python.real(args[1]);
        if (python.error())
            python.error_clear(); /* not a number */
        else
            lockstep_metric_put(
                probe, (enum lockstep_metric)MIN(number, (long)LOCKSTEP_METRIC_COUNT), value);
    }
    return python_answer_none();
}

static struct python_object *python_stamp(struct python_object *self,
                                          struct python_object *const *args, intptr_t count)
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    long number[4] = { 0, -1, 0, 0 };

    if (!probe)
        return NULL;
    for (intptr_t i = 0; i < count && i < (intptr_t)COUNT(number); i++)
        if (!python_number_of(args[i], &number[i]))
            number[i] = i == 1 ? -1 : 0;
    if (number[0] > 0 && number[0] < RING_STAMP_WHAT_COUNT)
        python_stamp_put(probe, (enum ring_stamp_what)number[0],
                         number[1] < RING_COMMS ? (int)number[1] : -1, (uint64_t)number[2],
                         (uint64_t)number[3]);
    return python_answer_none();
}

static struct python_object *python_stamp_stream(struct python_object *self,
                                                 struct python_object *const *args, intptr_t count)
{
    (void)self;
    if (count == 2 && !stamping.stream_of) {
        python.incref(args[0]);
        python.incref(args[1]);
        stamping.args = args[1];
        stamping.stream_of = args[0];
    }
    return python_answer_none();
}

/* ---- all-reduces of gloo ---- */

static struct python_object *python_over(struct python_object *self, struct python_object *unused)
{
    (void)self;
    (void)unused;
    gloo_over();
    return python_answer_none();
}

static struct python_object *python_call_aside(struct python_object *self,
                                               struct python_object *const *args, intptr_t count)
{
    struct python_object *result;

    (void)self;
    if (count != 3) {
        python.error_set(python.type_error, "aside() takes a callable, its arguments and keywords");
        return NULL;
    }
    gloo_aside(1);
    result = python.call(args[0], args[1], args[2]);
    gloo_aside(-1);
    return result;
}

/* ---- the builtins ---- */

#define METH_NOARGS 0x04
#define METH_O 0x08
#define METH_FASTCALL 0x80 /* in the stable ABI since 3.10, and the same in 3.9 */

/* The interpreter keeps their addresses until it is gone: so they are here and not in memory of the package. */
static const struct python_method methods[] = {
    { "aside", (void *)python_call_aside, METH_FASTCALL, NULL },
    { "metric", (void *)python_metric, METH_FASTCALL, NULL },
    { "over", (void *)python_over, METH_NOARGS, NULL },
    { "phase_begin", (void *)python_phase_begin, METH_O, NULL },
    { "phase_end", (void *)python_phase_end, METH_O, NULL },
    { "stamp", (void *)python_stamp, METH_FASTCALL, NULL },
    { "stamp_stream", (void *)python_stamp_stream, METH_FASTCALL, NULL },
    { "step_begin", (void *)python_step_begin, METH_O, NULL },
    { "step_end", (void *)python_step_end, METH_O, NULL },
};

const struct python_method *python_method(const char *name)
{
    for (size_t i = 0; i < COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}
