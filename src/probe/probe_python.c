/* probe_python.c - buckets of DistributedDataParallel, its backward, phases, steps and metrics, marked from C.
 *
 * No exception of ours ever leaves: what cannot be done here is left to the method in Python, and what the original
 * raises passes through untouched.  Any call into Python may let another thread run, so nothing is kept over one but
 * what is checked again.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/probe.h"

#pragma GCC visibility push(default)
#include "probe/python.h"
#pragma GCC visibility pop

static struct python_functions python; /* set once, before there is any group */

int lockstep_python_use(const struct python_functions *functions, uint64_t buckets_size,
                        uint64_t group_size)
{
    void *const *each = (void *const *)functions;

    if (buckets_size != sizeof(struct python_buckets) || group_size != sizeof(struct python_group))
        return -EINVAL;
    for (size_t i = 0; i < sizeof(*functions) / sizeof(*each); i++)
        if (!each[i])
            return -EINVAL;
    python = *functions;
    return 0;
}

uint32_t lockstep_python_epoch(struct lockstep_probe *probe)
{
    return probe_epoch(probe);
}

/* ---- ends ---- */

/* Takes the oldest out before anything else: whatever letting go of it runs finds it gone. */
static void open_end(struct python_buckets *buckets)
{
    struct python_open *slot = &buckets->open[buckets->first % PYTHON_OPEN_ROOM];
    struct python_open one = *slot;

    slot->work = NULL;
    buckets->first++;
    if (one.epoch == lockstep_python_epoch(one.probe))
        lockstep_coll_end(one.probe, one.comm, one.key, 0);
    python.decref(one.work);
}

static bool work_is_over(struct python_buckets *buckets, struct python_object *work)
{
    struct python_object *args = python.tuple_pack(1, work), *answer;
    bool over = true; /* one that cannot say is not asked again */

    if (!args) {
        python.error_clear();
        return over;
    }
    answer = python.call(buckets->is_completed, args, NULL);
    python.decref(args);
    if (answer) {
        over = answer == python.yes;
        python.decref(answer);
    } else {
        python.error_clear();
    }
    return over;
}

void lockstep_python_look(struct python_buckets *buckets)
{
    while (buckets->first != buckets->end) {
        uint64_t first = buckets->first;

        if (!work_is_over(buckets, buckets->open[first % PYTHON_OPEN_ROOM].work))
            return;
        if (buckets->first != first) /* another thread has looked meanwhile */
            return;
        open_end(buckets);
    }
}

/* Asking costs as much as marking, and small buckets come so fast that it would tell nothing more. */
static void buckets_look_again(struct python_buckets *buckets)
{
    int64_t now_ns = time_mono_ns();

    if (now_ns - buckets->looked_ns < buckets->look_after_ns)
        return;
    buckets->looked_ns = now_ns;
    lockstep_python_look(buckets);
}

static struct python_object *answer_none(void)
{
    python.incref(python.none);
    return python.none;
}

static struct python_object *buckets_over(struct python_object *self, struct python_object *unused)
{
    struct python_buckets *buckets = python.capsule_pointer(self, NULL);

    (void)unused;
    if (!buckets)
        return NULL;
    while (buckets->first != buckets->end)
        open_end(buckets);
    return answer_none();
}

/* ---- launches ---- */

/* Buckets come in the same order every time. */
static const struct python_bucket *group_known(struct python_group *group,
                                               const struct python_object *tensor)
{
    uint32_t next = group->next < group->known_count ? group->next : 0;

    for (uint32_t i = 0; i < group->known_count; i++) {
        if (group->known[next].tensor == tensor) {
            group->next = next + 1;
            return &group->known[next];
        }
        next = next + 1 < group->known_count ? next + 1 : 0;
    }
    return NULL;
}

static const struct python_bucket *group_bucket(struct python_group *group,
                                                struct python_object *tensors)
{
    intptr_t count;

    if (group->epoch == 0 || group->epoch != lockstep_python_epoch(group->probe))
        return NULL;
    if (group->buckets->end - group->buckets->first >= PYTHON_OPEN_ROOM)
        return NULL;
    count = python.list_size(tensors);
    if (count < 0)
        python.error_clear(); /* not a list */
    return count == 1 ? group_known(group, python.list_item(tensors, 0)) : NULL;
}

static struct python_object *call_with(struct python_object *callable, struct python_object *first,
                                       struct python_object *tensors, struct python_object *options)
{
    struct python_object *args = python.tuple_pack(3, first, tensors, options), *result;

    if (!args)
        return NULL; /* out of memory, as torch would say */
    result = python.call(callable, args, NULL);
    python.decref(args);
    return result;
}

static void open_add(struct python_buckets *buckets, struct python_open one)
{
    if (buckets->end - buckets->first >= PYTHON_OPEN_ROOM) { /* another thread's were faster */
        lockstep_coll_end(one.probe, one.comm, one.key, 0);
        return;
    }
    python.incref(one.work);
    buckets->open[buckets->end % PYTHON_OPEN_ROOM] = one;
    buckets->end++;
}

static struct python_object *group_launch(struct python_group *group,
                                          const struct python_bucket *known,
                                          struct python_object *tensors,
                                          struct python_object *options)
{
    struct python_open one = { .probe = group->probe, .comm = group->comm, .epoch = group->epoch };

    one.key = lockstep_coll_launch(group->probe, group->comm, LOCKSTEP_OP_ALL_REDUCE, known->bytes,
                                   (uint16_t)group->stream, (enum lockstep_dtype)known->dtype);
    one.work = call_with(group->original, group->group, tensors, options);
    if (!one.work) {
        lockstep_coll_end(one.probe, one.comm, one.key, 0);
        return NULL;
    }
    buckets_look_again(group->buckets);
    open_add(group->buckets, one);
    return one.work;
}

static struct python_object *group_allreduce(struct python_object *self,
                                             struct python_object *const *args, intptr_t count)
{
    struct python_group *group = python.capsule_pointer(self, NULL);
    const struct python_bucket *known;

    if (!group)
        return NULL;
    if (count != 2) {
        python.error_set(python.type_error, "allreduce() takes tensors and options");
        return NULL;
    }
    known = group_bucket(group, args[0]);
    return known ? group_launch(group, known, args[0], args[1])
                 : call_with(group->method, group->self, args[0], args[1]);
}

/* ---- backward ---- */

/* A callable of Python's without arguments; what it raises is its own affair. */
static void call_aside(struct python_object *callable)
{
    struct python_object *args = python.tuple_pack(0), *answer = NULL;

    if (args) {
        answer = python.call(callable, args, NULL);
        python.decref(args);
    }
    if (answer)
        python.decref(answer);
    else
        python.error_clear();
}

static void buckets_end_all(struct python_buckets *buckets)
{
    buckets->backwards++;
    while (buckets->first != buckets->end)
        open_end(buckets);
    if (buckets->others) {
        buckets->others = 0;
        call_aside(buckets->end_others);
    }
}

static struct python_object *buckets_backward(struct python_object *self,
                                              struct python_object *const *args, intptr_t count)
{
    struct python_buckets *buckets = python.capsule_pointer(self, NULL);
    struct python_object *result;

    if (!buckets)
        return NULL;
    if (count != 3) {
        python.error_set(python.type_error,
                         "backward() takes a function, its arguments and keywords");
        return NULL;
    }
    if (!buckets->awake)
        call_aside(buckets->wake);
    result = python.call(args[0], args[1], args[2]);
    if (result)
        buckets_end_all(buckets);
    return result;
}

/* ---- marks ---- */

static bool number_of(struct python_object *object, long *ret)
{
    *ret = python.number(object);
    if (*ret >= 0)
        return true;
    python.error_clear(); /* not a number, or none that a mark has */
    return false;
}

static struct python_object *phase_mark(struct python_object *self, struct python_object *phase,
                                        void (*mark)(struct lockstep_probe *, enum lockstep_phase))
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    long number;

    if (!probe)
        return NULL;
    if (number_of(phase, &number))
        mark(probe, (enum lockstep_phase)MIN(number, (long)LOCKSTEP_PHASE_COUNT));
    return answer_none();
}

static struct python_object *phase_begin(struct python_object *self, struct python_object *phase)
{
    return phase_mark(self, phase, lockstep_phase_begin);
}

static struct python_object *phase_end(struct python_object *self, struct python_object *phase)
{
    return phase_mark(self, phase, lockstep_phase_end);
}

static struct python_object *step_mark(struct python_object *self, struct python_object *step,
                                       void (*mark)(struct lockstep_probe *, uint64_t))
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    long number;

    if (!probe)
        return NULL;
    if (number_of(step, &number))
        mark(probe, (uint64_t)number);
    return answer_none();
}

static struct python_object *step_begin(struct python_object *self, struct python_object *step)
{
    return step_mark(self, step, lockstep_step_begin);
}

static struct python_object *step_end(struct python_object *self, struct python_object *step)
{
    return step_mark(self, step, lockstep_step_end);
}

static struct python_object *metric(struct python_object *self, struct python_object *const *args,
                                    intptr_t count)
{
    struct lockstep_probe *probe = python.capsule_pointer(self, NULL);
    double value;
    long number;

    if (!probe)
        return NULL;
    if (count == 2 && number_of(args[0], &number)) {
        value = python.real(args[1]);
        if (python.error())
            python.error_clear(); /* not a number */
        else
            lockstep_metric_put(
                probe, (enum lockstep_metric)MIN(number, (long)LOCKSTEP_METRIC_COUNT), value);
    }
    return answer_none();
}

/* ---- the builtins ---- */

#define METH_NOARGS 0x04
#define METH_O 0x08
#define METH_FASTCALL 0x80 /* in the stable ABI since 3.10, and the same in 3.9 */

/* The interpreter keeps their addresses until it is gone: so they are here and not in memory of the package. */
static const struct python_method methods[] = {
    { "allreduce", (void *)group_allreduce, METH_FASTCALL, NULL },
    { "backward", (void *)buckets_backward, METH_FASTCALL, NULL },
    { "metric", (void *)metric, METH_FASTCALL, NULL },
    { "over", (void *)buckets_over, METH_NOARGS, NULL },
    { "phase_begin", (void *)phase_begin, METH_O, NULL },
    { "phase_end", (void *)phase_end, METH_O, NULL },
    { "step_begin", (void *)step_begin, METH_O, NULL },
    { "step_end", (void *)step_end, METH_O, NULL },
};

const struct python_method *lockstep_python_method(const char *name)
{
    for (size_t i = 0; i < COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}
