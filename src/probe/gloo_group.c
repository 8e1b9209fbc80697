/* gloo_group.c - groups and works of gloo with tables of virtual functions of ours.
 *
 * All memory is here and none is ever given back: a thread may be in any of it.  Tables of ours are copied with more
 * words than torch's have: what lies behind those is read and never used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/gloo_open.h"
#include "probe/probe_private.h"

#include "probe/gloo.h"

#define GROUPS RING_COMMS
#define GROUP_WORDS 256
#define WORK_WORDS 64
#define WORK_CLASSES 16
#define HEAD_WORDS 2 /* before the functions: offset to the whole object, and its type */

struct object { /* of C++, with virtual functions */
    _Atomic(void **) table;
};

struct tensors { /* std::vector<at::Tensor>; a tensor is one pointer */
    const unsigned char *const *begin, *const *end;
};

/* A function that returns an object gets the place for it as its first argument, and returns that. */
typedef struct object **allreduce_function(struct object **ret, struct object *group,
                                           struct tensors *tensors, const void *options);
typedef void delete_function(struct object *object);

static struct gloo_torch torch;
static _Atomic bool usable;

static _Thread_local __attribute__((tls_model("initial-exec"))) int aside;

void gloo_aside(int change)
{
    aside += change;
}

uint32_t gloo_look(void)
{
    return gloo_open_flush(NULL);
}

void gloo_over(void)
{
    gloo_open_flush(&aside);
}

/* ---- works ---- */

struct work_class {
    _Atomic(void **) theirs; /* NULL: no class yet */
    void *words[HEAD_WORDS + WORK_WORDS];
};

static struct work_class classes[WORK_CLASSES];
static atomic_flag classes_busy = ATOMIC_FLAG_INIT;

static void work_delete(struct object *work)
{
    void **ours = atomic_load_explicit(&work->table, memory_order_relaxed);
    struct work_class *class =
        (struct work_class *)((char *)(ours - HEAD_WORDS) - offsetof(struct work_class, words));
    void **theirs = atomic_load_explicit(&class->theirs, memory_order_relaxed);

    gloo_open_over(work, (uint64_t)time_mono_ns());
    atomic_store_explicit(&work->table, theirs, memory_order_relaxed);
    ((delete_function *)theirs[torch.work_delete])(work);
}

static struct work_class *class_find(void **theirs)
{
    for (size_t i = 0; i < COUNT(classes); i++) {
        void **known = atomic_load_explicit(&classes[i].theirs, memory_order_acquire);

        if (known == theirs)
            return &classes[i];
        if (!known)
            break;
    }
    return NULL;
}

static bool gloo_table_is_complete(void **table, size_t words)
{
    uintptr_t first = (uintptr_t)(table - HEAD_WORDS), end = (uintptr_t)(table + words);

    return torch.data_begin <= first && first < end && end <= torch.data_end;
}

static bool gloo_table_is_ours(void *const *table)
{
    uintptr_t at = (uintptr_t)table;

    return (uintptr_t)classes <= at && at < (uintptr_t)(classes + COUNT(classes));
}

/* Once for each class, of which gloo has a dozen. */
static struct work_class *class_add(void **theirs)
{
    struct work_class *class = NULL;

    if (!gloo_table_is_complete(theirs, WORK_WORDS) ||
        atomic_flag_test_and_set_explicit(&classes_busy, memory_order_acquire))
        return NULL;
    for (size_t i = 0; i < COUNT(classes) && !class; i++)
        if (!atomic_load_explicit(&classes[i].theirs, memory_order_relaxed))
            class = &classes[i];
    if (class && !class_find(theirs)) {
        memcpy(class->words, theirs - HEAD_WORDS, sizeof(class->words));
        class->words[HEAD_WORDS + torch.work_delete] = (void *)work_delete;
        atomic_store_explicit(&class->theirs, theirs, memory_order_release);
    }
    atomic_flag_clear_explicit(&classes_busy, memory_order_release);
    return class_find(theirs);
}

/* The caller has a reference to it, so nobody deletes it meanwhile. */
static bool work_watch(struct object *work)
{
    void **theirs = atomic_load_explicit(&work->table, memory_order_relaxed);
    struct work_class *class = class_find(theirs);

    if (!class && !gloo_table_is_ours(theirs))
        class = class_add(theirs);
    if (!class)
        return false;
    atomic_store_explicit(&work->table, class->words + HEAD_WORDS, memory_order_relaxed);
    return true;
}

int gloo_work(void *pointer, struct lockstep_probe *probe, int comm, uint64_t key)
{
    struct gloo_op op = { .epoch = probe_epoch(probe), .comm = comm, .key = key };

    if (!atomic_load_explicit(&usable, memory_order_acquire) || !pointer || op.epoch == 0 ||
        (unsigned)comm >= RING_COMMS)
        return -EINVAL;
    if (!gloo_open_add(pointer, op, pointer)) /* no thread has that address */
        return -ENOSPC;
    if (work_watch(pointer))
        return 0;
    gloo_open_forget(pointer);
    return -EINVAL;
}

void gloo_done(void *work)
{
    gloo_open_over(work, (uint64_t)time_mono_ns());
    gloo_open_flush(NULL);
}

/* ---- groups ---- */

struct watched {
    _Atomic(struct object *) group; /* NULL: free */
    _Atomic uint64_t place;         /* in the ring: epoch, communicator, stream */
};

static struct watched groups[GROUPS];
static void *group_words[HEAD_WORDS + GROUP_WORDS];
static void **const group_table = group_words + HEAD_WORDS; /* ours */

static uint64_t gloo_place_pack(uint32_t epoch, int comm, uint16_t stream)
{
    return (uint64_t)epoch << 32 | (uint64_t)(uint16_t)comm << 16 | stream;
}

static struct watched *group_find(const struct object *group)
{
    for (size_t i = 0; i < COUNT(groups); i++)
        if (atomic_load_explicit(&groups[i].group, memory_order_acquire) == group)
            return &groups[i];
    return NULL;
}

static uint64_t tensors_measure(const struct tensors *tensors, enum lockstep_dtype *ret)
{
    uint64_t bytes = 0;

    *ret = LOCKSTEP_DTYPE_UNKNOWN;
    for (const unsigned char *const *one = tensors->begin; one < tensors->end; one++) {
        uint64_t elements;
        uint16_t dtype;

        memcpy(&elements, *one + torch.elements_at, sizeof(elements));
        memcpy(&dtype, *one + torch.dtype_at, sizeof(dtype));
        if (dtype >= GLOO_DTYPES)
            continue;
        bytes += elements * torch.dtypes[dtype].bytes;
        *ret = (enum lockstep_dtype)torch.dtypes[dtype].dtype; /* an op has one */
    }
    return bytes;
}

static void group_launched(struct object *group, const struct tensors *tensors, struct object *work,
                           uint64_t begin_ns)
{
    struct lockstep_probe *probe = probe_current();
    struct watched *watched = group_find(group);
    uint64_t place = watched ? atomic_load_explicit(&watched->place, memory_order_relaxed) : 0,
             bytes;
    struct gloo_op op = { .epoch = (uint32_t)(place >> 32), .comm = (uint16_t)(place >> 16) };
    enum lockstep_dtype dtype;

    if (op.epoch == 0 || op.epoch != probe_epoch(probe))
        return;
    bytes = tensors_measure(tensors, &dtype);
    op.key = probe_coll_launch_at(probe, op.comm, LOCKSTEP_OP_ALL_REDUCE, bytes, (uint16_t)place,
                                  dtype, begin_ns);
    if (!gloo_open_add(work, op, &aside))
        lockstep_coll_end(probe, op.comm, op.key, 0);
    else
        work_watch(work); /* one that cannot be is over when the reducer has waited for it */
}

/* Recorded after the call: one that throws passes through here and has launched nothing. */
static struct object **group_allreduce(struct object **ret, struct object *group,
                                       struct tensors *tensors, const void *options)
{
    allreduce_function *theirs = (allreduce_function *)torch.group_table[torch.group_allreduce];
    uint64_t begin_ns;

    if (aside)
        return theirs(ret, group, tensors, options);
    begin_ns = (uint64_t)time_mono_ns();
    theirs(ret, group, tensors, options);
    if (*ret)
        group_launched(group, tensors, *ret, begin_ns);
    return ret;
}

static void group_forget(struct object *group)
{
    struct watched *watched = group_find(group);

    if (watched)
        atomic_store_explicit(&watched->group, NULL, memory_order_release);
}

static void group_delete(struct object *group)
{
    group_forget(group);
    atomic_store_explicit(&group->table, torch.group_table, memory_order_relaxed);
    ((delete_function *)torch.group_table[torch.group_delete])(group);
}

int gloo_use(const struct gloo_torch *given, uint64_t size)
{
#if defined(__x86_64__)
    if (atomic_load_explicit(&usable, memory_order_acquire))
        return 0;
    if (size != sizeof(torch) || given->group_allreduce >= GROUP_WORDS ||
        given->group_delete >= GROUP_WORDS || given->work_delete >= WORK_WORDS)
        return -EINVAL;
    torch = *given;
    if (!gloo_table_is_complete(torch.group_table, GROUP_WORDS))
        return -EINVAL;
    memcpy(group_words, torch.group_table - HEAD_WORDS, sizeof(group_words));
    group_table[torch.group_allreduce] = (void *)group_allreduce;
    group_table[torch.group_delete] = (void *)group_delete;
    atomic_store_explicit(&usable, true, memory_order_release);
    return 0;
#else
    (void)given;
    (void)size;
    (void)group_allreduce;
    (void)group_delete;
    return -ENOTSUP;
#endif
}

static int group_place(struct object *group, uint64_t place)
{
    struct watched *watched = group_find(group);

    if (!watched)
        watched = group_find(NULL);
    if (!watched)
        return -ENOSPC;
    atomic_store_explicit(&watched->place, place, memory_order_relaxed);
    atomic_store_explicit(&watched->group, group, memory_order_release);
    return 0;
}

int gloo_watch(void *pointer, struct lockstep_probe *probe, int comm, uint16_t stream)
{
    struct object *group = pointer;
    void **table;
    int r;

    if (!atomic_load_explicit(&usable, memory_order_acquire) || !group || comm >= RING_COMMS)
        return -EINVAL;
    table = atomic_load_explicit(&group->table, memory_order_relaxed);
    if (table != torch.group_table && table != group_table)
        return -EINVAL;
    if (comm < 0) {
        atomic_store_explicit(&group->table, torch.group_table, memory_order_relaxed);
        group_forget(group);
        return 0;
    }
    r = group_place(group, gloo_place_pack(probe_epoch(probe), comm, stream));
    if (r >= 0)
        atomic_store_explicit(&group->table, group_table, memory_order_release);
    return r;
}
