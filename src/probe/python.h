/* python.h - the C half of the Python hooks: above all a bucket of DistributedDataParallel without a line of Python.
 *
 * torch's reducer calls its process group for every bucket, in the middle of a backward that has swept the caches.
 * There a method in Python costs several times what it costs warm: not what it computes, but how much it touches.  So
 * the package puts a builtin in its place, which does what is the same every time; for all else it calls the method in
 * Python that it stands for.
 *
 * For the package `lockstep` alone (bindings/python/lockstep/_fast.py mirrors these structs), so no promise to
 * anybody.  The library is not linked against Python: the few functions it needs, all of its stable ABI since 3.9,
 * come as pointers.  Everything here is called with the interpreter's lock held.  Memory is the package's; pointers to
 * objects are borrowed from it, except those of works, which are ours from a launch to its end.
 */
#ifndef LOCKSTEP_PROBE_PYTHON_H
#define LOCKSTEP_PROBE_PYTHON_H

#include <stdint.h>

#include "lockstep/probe.h"

struct python_object; /* PyObject */

struct python_method { /* PyMethodDef */
    const char *name;
    void *call;
    int flags;
    const char *text;
};

struct python_functions {
    void *(*capsule_pointer)(struct python_object *capsule, const char *name);
    struct python_object *(*tuple_pack)(intptr_t count, ...);
    intptr_t (*list_size)(struct python_object *list);
    struct python_object *(*list_item)(struct python_object *list, intptr_t index);
    struct python_object *(*call)(struct python_object *callable, struct python_object *args,
                                  struct python_object *kwargs);
    void (*incref)(struct python_object *object);
    void (*decref)(struct python_object *object);
    void (*error_clear)(void);
    void (*error_set)(struct python_object *kind, const char *text);
    long (*number)(struct python_object *object);
    double (*real)(struct python_object *object);
    struct python_object *(*error)(void);
    struct python_object *none, *yes, *type_error; /* None, True, TypeError */
};

/* A bucket's tensor, once the reducer has settled: the same object every time. */
struct python_bucket {
    struct python_object *tensor;
    uint64_t bytes;
    uint32_t dtype; /* enum lockstep_dtype */
    uint32_t unused;
};

/* Launched, and not seen to be over. */
struct python_open {
    struct python_object *work;
    struct lockstep_probe *probe;
    uint64_t key;
    int32_t comm;
    uint32_t epoch; /* of the ring that has its launch */
};

#define PYTHON_OPEN_ROOM 256

/* All groups of a process. */
struct python_buckets {
    struct python_object *is_completed; /* of torch's Work */
    uint64_t first, end;                /* open[first % ROOM] is the oldest */
    int64_t look_after_ns,
        looked_ns; /* they are not looked at more often than that; when they were */
    struct python_object *wake,
        *end_others;        /* of Python: wakes who looks now and then; ends what Python launched */
    uint64_t backwards;     /* that are over */
    uint32_t awake, others; /* who looks now and then is; Python has launched some */
    struct python_open open[PYTHON_OPEN_ROOM];
};

/* One reducer's group. */
struct python_group {
    struct python_buckets *buckets;
    struct lockstep_probe *probe;
    struct python_object *original,
        *group; /* original(group, tensors, options) is what torch would have called */
    struct python_object *method, *self; /* method(self, tensors, options) is ours, in Python */
    struct python_bucket *known;
    uint32_t known_count, next; /* where the next one is expected */
    int32_t comm;
    uint32_t epoch; /* of the ring that comm is a place in; 0: none */
    uint32_t stream;
    uint32_t unused;
};

/* Must be called first, once: sizes of the structs above as the package has them.  0, or -EINVAL. */
int lockstep_python_use(const struct python_functions *functions, uint64_t buckets_size,
                        uint64_t group_size);

/* The ring's epoch, which no other ring of this process has; 0: closed, or not this process's. */
uint32_t lockstep_python_epoch(struct lockstep_probe *probe);

/* What Python makes a builtin of, by its name (PyMethodDef *); NULL: there is none.  Each has a capsule without a name
 * as its self:
 *   allreduce(tensors, options)  around a python_group: a bucket
 *   over()                       around python_buckets: ends all, since the reducer has waited for them
 *   backward(original, args, kwargs)  around python_buckets: calls it, with signals put off, and ends all
 *   phase_begin(number), phase_end(number), step_begin(number), step_end(number), metric(number, value)  around the
 *                                probe.  Through ctypes one costs 10 us after a pause, so much does that touch.
 */
const struct python_method *lockstep_python_method(const char *name);

/* Ends what is seen to be over, oldest first.  Not a builtin: a thread that has time calls it. */
void lockstep_python_look(struct python_buckets *buckets);

#endif
