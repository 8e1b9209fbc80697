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
    if (python_number_of(phase, &number))
        mark(probe, (enum lockstep_phase)MIN(number, (long)LOCKSTEP_PHASE_COUNT));
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
    if (python_number_of(step, &number))
        mark(probe, (uint64_t)number);
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
