/* probe-inline.h - the functions of probe.h for a program that does not link to liblockstep.
 *
 * Header only.  Each function here has the name of one in probe.h with "lockstep_inline_" in
 * place of "lockstep_", the same arguments and the same result.  The first open loads the library
 * with dlopen(): the file that $LOCKSTEP_LIB names; else liblockstep.so.0 as the process has it
 * loaded already; else the file that `lockstep run` names in $LOCKSTEP_LAUNCHER_LIB; else
 * liblockstep.so.0 of the system.  Where the library is missing, lockstep_inline_probe_open()
 * returns -ENOENT and every other function does nothing; a call then costs one comparison.
 *
 *     #include <lockstep/probe-inline.h>
 *
 *     struct lockstep_probe *probe = NULL;
 *
 *     lockstep_inline_probe_open(rank, world, &probe, NULL, 0);
 *     lockstep_inline_step_begin(probe, step);
 *
 * Works in C and C++ with gcc and clang.  Before glibc 2.34 the program must link with -ldl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_INLINE_H
#define LOCKSTEP_PROBE_INLINE_H

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/probe.h"

#define LOCKSTEP_INLINE static inline __attribute__((unused))

/* One pointer for each function of probe.h, in the order of the names below. */
struct lockstep_inline_library {
    __typeof__(lockstep_version) *version;
    __typeof__(lockstep_probe_open) *probe_open;
    __typeof__(lockstep_probe_close) *probe_close;
    __typeof__(lockstep_clock_ns) *clock_ns;
    __typeof__(lockstep_layout_set) *layout_set;
    __typeof__(lockstep_step_begin) *step_begin;
    __typeof__(lockstep_step_end) *step_end;
    __typeof__(lockstep_phase_begin) *phase_begin;
    __typeof__(lockstep_phase_end) *phase_end;
    __typeof__(lockstep_device_span) *device_span;
    __typeof__(lockstep_comm_add) *comm_add;
    __typeof__(lockstep_coll_enqueue) *coll_enqueue;
    __typeof__(lockstep_coll_start) *coll_start;
    __typeof__(lockstep_coll_end) *coll_end;
    __typeof__(lockstep_coll_method) *coll_method;
    __typeof__(lockstep_p2p_enqueue) *p2p_enqueue;
    __typeof__(lockstep_p2p_start) *p2p_start;
    __typeof__(lockstep_p2p_end) *p2p_end;
    __typeof__(lockstep_metric_put) *metric_put;
    __typeof__(lockstep_digest_put) *digest_put;
    __typeof__(lockstep_note_put) *note_put;
    __typeof__(lockstep_request_get) *request_get;
    __typeof__(lockstep_request_answer) *request_answer;
};

/* The state of one source file; the library itself is loaded once per process. */
struct lockstep_inline_state {
    int stage; /* 0: not tried, 1: being loaded, 2: loaded, 3: there is none */
    char why[256];
    struct lockstep_inline_library library;
};

LOCKSTEP_INLINE struct lockstep_inline_state *lockstep_inline_here(void)
{
    static struct lockstep_inline_state state;

    return &state;
}

/* Returns 1 when all functions were found. */
LOCKSTEP_INLINE int lockstep_inline_find(void *handle, struct lockstep_inline_library *library)
{
    static const char *const names[] = {
        "lockstep_version",     "lockstep_probe_open",     "lockstep_probe_close",
        "lockstep_clock_ns",    "lockstep_layout_set",     "lockstep_step_begin",
        "lockstep_step_end",    "lockstep_phase_begin",    "lockstep_phase_end",
        "lockstep_device_span", "lockstep_comm_add",       "lockstep_coll_enqueue",
        "lockstep_coll_start",  "lockstep_coll_end",       "lockstep_coll_method",
        "lockstep_p2p_enqueue", "lockstep_p2p_start",      "lockstep_p2p_end",
        "lockstep_metric_put",  "lockstep_digest_put",     "lockstep_note_put",
        "lockstep_request_get", "lockstep_request_answer",
    };
    const size_t count = sizeof(names) / sizeof(names[0]);

    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, names[i]);

        if (!address)
            return 0;
        memcpy((char *)library + i * sizeof(address), &address, sizeof(address));
    }
    return count * sizeof(void *) == sizeof(*library);
}

/* A process has one ring, so a library that is loaded already is preferred to a second one. */
LOCKSTEP_INLINE void *lockstep_inline_library_open(void)
{
    const char *given = getenv("LOCKSTEP_LIB"), *launcher = getenv("LOCKSTEP_LAUNCHER_LIB");
    void *handle;

    if (given && given[0])
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    handle = dlopen("liblockstep.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle && launcher && launcher[0])
        handle = dlopen(launcher, RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("liblockstep.so.0", RTLD_NOW | RTLD_LOCAL);
}

LOCKSTEP_INLINE int lockstep_inline_load(struct lockstep_inline_state *state)
{
    void *handle = lockstep_inline_library_open();
    const char *why;

    if (handle && lockstep_inline_find(handle, &state->library))
        return 2;
    why = dlerror();
    snprintf(state->why, sizeof(state->why), "%s", why ? why : "liblockstep: wrong version");
    return 3; /* an unusable library stays loaded: it cannot be unloaded */
}

/* The functions of the library; NULL when it is missing. */
LOCKSTEP_INLINE const struct lockstep_inline_library *lockstep_inline_get(void)
{
    struct lockstep_inline_state *state = lockstep_inline_here();
    int stage = __atomic_load_n(&state->stage, __ATOMIC_ACQUIRE), none = 0;

    if (stage == 0 &&
        __atomic_compare_exchange_n(&state->stage, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        __atomic_store_n(&state->stage, lockstep_inline_load(state), __ATOMIC_RELEASE);
    while ((stage = __atomic_load_n(&state->stage, __ATOMIC_ACQUIRE)) == 1)
        sched_yield(); /* another thread is loading it */
    return stage == 2 ? &state->library : NULL;
}

/* For the functions that return nothing. */
#define LOCKSTEP_INLINE_CALL(probe, call)                                                          \
    do {                                                                                           \
        const struct lockstep_inline_library *library = (probe) ? lockstep_inline_get() : NULL;    \
                                                                                                   \
        if (library)                                                                               \
            library->call;                                                                         \
    } while (0)

/* Returns NULL when the library is missing. */
LOCKSTEP_INLINE const char *lockstep_inline_version(void)
{
    const struct lockstep_inline_library *library = lockstep_inline_get();

    return library ? library->version() : NULL;
}

LOCKSTEP_INLINE int lockstep_inline_probe_open(uint32_t rank, uint32_t world,
                                               struct lockstep_probe **ret, char *error,
                                               size_t error_size)
{
    const struct lockstep_inline_library *library = lockstep_inline_get();

    if (library)
        return library->probe_open(rank, world, ret, error, error_size);
    if (error && error_size > 0)
        snprintf(error, error_size, "%s", lockstep_inline_here()->why);
    return -ENOENT;
}

LOCKSTEP_INLINE void lockstep_inline_probe_close(struct lockstep_probe *probe)
{
    LOCKSTEP_INLINE_CALL(probe, probe_close(probe));
}

/* Returns 0 when the library is missing. */
LOCKSTEP_INLINE uint64_t lockstep_inline_clock_ns(void)
{
    const struct lockstep_inline_library *library = lockstep_inline_get();

    return library ? library->clock_ns() : 0;
}

LOCKSTEP_INLINE int lockstep_inline_layout_set(struct lockstep_probe *probe,
                                               const struct lockstep_layout *layout)
{
    const struct lockstep_inline_library *library = probe ? lockstep_inline_get() : NULL;

    return library ? library->layout_set(probe, layout) : -ENODEV;
}

LOCKSTEP_INLINE void lockstep_inline_step_begin(struct lockstep_probe *probe, uint64_t step)
{
    LOCKSTEP_INLINE_CALL(probe, step_begin(probe, step));
}

LOCKSTEP_INLINE void lockstep_inline_step_end(struct lockstep_probe *probe, uint64_t step)
{
    LOCKSTEP_INLINE_CALL(probe, step_end(probe, step));
}

LOCKSTEP_INLINE void lockstep_inline_phase_begin(struct lockstep_probe *probe,
                                                 enum lockstep_phase phase)
{
    LOCKSTEP_INLINE_CALL(probe, phase_begin(probe, phase));
}

LOCKSTEP_INLINE void lockstep_inline_phase_end(struct lockstep_probe *probe,
                                               enum lockstep_phase phase)
{
    LOCKSTEP_INLINE_CALL(probe, phase_end(probe, phase));
}

LOCKSTEP_INLINE void lockstep_inline_device_span(struct lockstep_probe *probe, uint16_t stream,
                                                 enum lockstep_phase phase, uint64_t enqueue_ns,
                                                 uint64_t begin_ns, uint64_t end_ns)
{
    LOCKSTEP_INLINE_CALL(probe, device_span(probe, stream, phase, enqueue_ns, begin_ns, end_ns));
}

LOCKSTEP_INLINE int lockstep_inline_comm_add(struct lockstep_probe *probe, uint64_t id,
                                             uint32_t size, uint32_t index,
                                             enum lockstep_comm_kind kind, const char *name)
{
    const struct lockstep_inline_library *library = probe ? lockstep_inline_get() : NULL;

    return library ? library->comm_add(probe, id, size, index, kind, name) : -ENODEV;
}

LOCKSTEP_INLINE uint64_t lockstep_inline_coll_enqueue(struct lockstep_probe *probe,
                                                      const struct lockstep_op_desc *desc)
{
    const struct lockstep_inline_library *library = probe ? lockstep_inline_get() : NULL;

    return library ? library->coll_enqueue(probe, desc) : 0;
}

LOCKSTEP_INLINE void lockstep_inline_coll_start(struct lockstep_probe *probe, int comm,
                                                uint64_t key, uint64_t time_ns)
{
    LOCKSTEP_INLINE_CALL(probe, coll_start(probe, comm, key, time_ns));
}

LOCKSTEP_INLINE void lockstep_inline_coll_end(struct lockstep_probe *probe, int comm, uint64_t key,
                                              uint64_t time_ns)
{
    LOCKSTEP_INLINE_CALL(probe, coll_end(probe, comm, key, time_ns));
}

LOCKSTEP_INLINE void lockstep_inline_coll_method(struct lockstep_probe *probe, int comm,
                                                 enum lockstep_op op, uint64_t bytes,
                                                 uint32_t channels, const char *method)
{
    LOCKSTEP_INLINE_CALL(probe, coll_method(probe, comm, op, bytes, channels, method));
}

LOCKSTEP_INLINE uint64_t lockstep_inline_p2p_enqueue(struct lockstep_probe *probe,
                                                     const struct lockstep_op_desc *desc)
{
    const struct lockstep_inline_library *library = probe ? lockstep_inline_get() : NULL;

    return library ? library->p2p_enqueue(probe, desc) : 0;
}

LOCKSTEP_INLINE void lockstep_inline_p2p_start(struct lockstep_probe *probe, int comm, uint64_t key,
                                               uint64_t time_ns)
{
    LOCKSTEP_INLINE_CALL(probe, p2p_start(probe, comm, key, time_ns));
}

LOCKSTEP_INLINE void lockstep_inline_p2p_end(struct lockstep_probe *probe, int comm, uint64_t key,
                                             uint64_t time_ns)
{
    LOCKSTEP_INLINE_CALL(probe, p2p_end(probe, comm, key, time_ns));
}

LOCKSTEP_INLINE void lockstep_inline_metric_put(struct lockstep_probe *probe,
                                                enum lockstep_metric metric, double value)
{
    LOCKSTEP_INLINE_CALL(probe, metric_put(probe, metric, value));
}

LOCKSTEP_INLINE void lockstep_inline_digest_put(struct lockstep_probe *probe, uint32_t part,
                                                uint32_t parts, uint64_t low, uint64_t high)
{
    LOCKSTEP_INLINE_CALL(probe, digest_put(probe, part, parts, low, high));
}

LOCKSTEP_INLINE void lockstep_inline_note_put(struct lockstep_probe *probe, const char *text)
{
    LOCKSTEP_INLINE_CALL(probe, note_put(probe, text));
}

LOCKSTEP_INLINE int lockstep_inline_request_get(struct lockstep_probe *probe,
                                                struct lockstep_request *ret)
{
    const struct lockstep_inline_library *library = probe ? lockstep_inline_get() : NULL;

    return library ? library->request_get(probe, ret) : 0;
}

LOCKSTEP_INLINE void lockstep_inline_request_answer(struct lockstep_probe *probe,
                                                    const struct lockstep_request *request,
                                                    enum lockstep_answer answer)
{
    LOCKSTEP_INLINE_CALL(probe, request_answer(probe, request, answer));
}

#endif
