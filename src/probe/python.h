/* python.h - the C half of the Python hooks: marks without a line of Python.
 *
 * A hook runs between two parts of a step that each sweep the caches.  There a call through ctypes costs 10 us: not what
 * it computes, but how much it touches.  So the package makes builtins of these functions.
 *
 * For the package `lockstep` alone (bindings/python/lockstep/_fast.py mirrors the struct), so no promise to anybody.
 * The library is not linked against Python: the few functions it needs, all of its stable ABI since 3.9, come as
 * pointers.  Everything here is called with the interpreter's lock held.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_PYTHON_H
#define LOCKSTEP_PROBE_PYTHON_H

#include <stdbool.h>
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
    struct python_object *(*call)(struct python_object *callable, struct python_object *args,
                                  struct python_object *kwargs);
    void (*incref)(struct python_object *object);
    void (*error_clear)(void);
    void (*error_set)(struct python_object *kind, const char *text);
    long (*number)(struct python_object *object);
    double (*real)(struct python_object *object);
    struct python_object *(*error)(void);
    void (*decref)(struct python_object *object);
    void *(*lock_give)(void); /* PyEval_SaveThread() */
    void (*lock_take)(void *thread);
    struct python_object *none, *type_error; /* None, TypeError */
};

/* Must be called first, once: with the size of the struct as the package has it.  0, or -EINVAL. */
int python_use(const struct python_functions *functions, uint64_t size);

/* What Python makes a builtin of, by its name (PyMethodDef *); NULL: there is none.  Each has a capsule without a name
 * around the probe as its self:
 *   phase_begin(number), phase_end(number), step_begin(number), step_end(number), metric(number, value)
 *   stamp(what, comm, colls, messages)  one of enum ring_stamp_what, in the phase that is open; comm -1: not known
 *   stamp_stream(callable, args)   what tells the stream that the caller's kernels go to; until then none is stamped
 *   over()                         gloo_over()
 *   aside(callable, args, kwargs)  calls it, between gloo_aside(1) and (-1)
 */
const struct python_method *python_method(const char *name);

/* The host is about to wait for what this stream was given: stamps it, if it is the one that computes and this
 * is the thread that began the step.  From any thread, with or
 * without the interpreter's lock.  False: it was not stamped.
 */
bool python_host_wait(void *stream);

#endif
