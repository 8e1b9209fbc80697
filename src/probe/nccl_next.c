/* nccl_next.c - loads the other plugin, and gives each event to it as well.
 *
 * An event's parent is a handle, too: it is replaced by that of whose turn it is, and put back for NCCL.  The descriptor is
 * NCCL's own and may be longer than what we know of it, so it is changed in its place and never copied.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/nccl_next.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "probe/nccl_plugin.h"
#include "probe/nccl_private.h"

#define NEXT_EVENTS 65536u /* whose stop may still come; a power of two */
#define NEXT_COMMS 1024u

#define relaxed memory_order_relaxed

/* By their oldest names: libc gave them a newer one when it took in libdl.  NULL in a program without shared libraries. */
#if defined(__x86_64__)
#define NEXT_LIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define NEXT_LIBC "GLIBC_2.17"
#endif
#ifdef NEXT_LIBC
__asm__(".symver nccl_next_dlopen, dlopen@" NEXT_LIBC);
__asm__(".symver nccl_next_dlsym, dlsym@" NEXT_LIBC);
extern void *nccl_next_dlopen(const char *name, int flags) __attribute__((weak));
extern void *nccl_next_dlsym(void *library, const char *name) __attribute__((weak));
#else
static void *(*const nccl_next_dlopen)(const char *name, int flags);
static void *(*const nccl_next_dlsym)(void *library, const char *name);
#endif

struct nccl_pair {
    _Atomic uint64_t number; /* 0: none */
    void *_Atomic ours, *_Atomic theirs;
};

struct nccl_both { /* a pair as it was found */
    void *ours, *theirs;
};

static struct {
    pthread_mutex_t lock;
    bool tried;
    _Atomic bool on; /* loaded: the rest counts */
    int version;     /* of its table */
    union {
        const void *any;
        const struct nccl_profiler_v3 *v3;
        const struct nccl_profiler_v4 *v4;
        const struct nccl_profiler_v5 *v5;
        const struct nccl_profiler_v6 *v6;
    } table;
    int (*stop)(void *handle); /* these are called alike in all versions */
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
    struct nccl_pair *event;
    _Atomic uint64_t events;
    struct {
        _Atomic bool used, added; /* added: the other plugin knows it */
        void *ours, *theirs;
    } comm[NEXT_COMMS];
    int mask, own_mask;    /* what each wants; the other's is given away by address */
    _Atomic(int *) merged; /* NCCL's own */
} next = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- loading ---- */

static void next_complain(const char *name, const char *why)
{
    const char *quiet = getenv("LOCKSTEP_QUIET");
    char line[512];
    int size;

    if (quiet && strcmp(quiet, "1") == 0)
        return;
    size = snprintf(line, sizeof(line),
                    "lockstep: the NCCL profiler plugin '%.200s' is not called: %s; training "
                    "continues\n",
                    name, why);
    if (write(STDERR_FILENO, line, (size_t)size) < 0)
        return; /* nobody to tell */
}

/* As NCCL looks for it: a file, else the name in the middle of one. */
static void *next_library(const char *name)
{
    char file[256];
    void *library = nccl_next_dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library ||
        snprintf(file, sizeof(file), "libnccl-profiler-%s.so", name) >= (int)sizeof(file))
        return library;
    return nccl_next_dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static const void *next_table_of_ours(int version)
{
    return version == 3   ? (const void *)&ncclProfiler_v3
           : version == 4 ? (const void *)&ncclProfiler_v4
           : version == 5 ? (const void *)&ncclProfiler_v5
                          : (const void *)&ncclProfiler_v6;
}

/* The newest table that can be served by what NCCL tells us; NULL: none. */
static const void *next_table(void *library, int called, int *ret_version)
{
    for (int version = called; version >= MIN(called, 4); version--) {
        char symbol[32];
        const void *table;

        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
        table = nccl_next_dlsym(library, symbol);
        if (table) {
            *ret_version = version;
            return table;
        }
    }
    return NULL;
}

#define NEXT_ALIKE(of)                                                                             \
    next.stop = (of)->stop, next.record = (of)->record, next.finalize = (of)->finalize

static void next_table_take(int version)
{
    if (version == 3)
        NEXT_ALIKE(next.table.v3);
    else if (version == 4)
        NEXT_ALIKE(next.table.v4);
    else if (version == 5)
        NEXT_ALIKE(next.table.v5);
    else
        NEXT_ALIKE(next.table.v6);
    next.version = version;
    atomic_store_explicit(&next.on, true, memory_order_release);
}

static void next_load(int called)
{
    const char *name = getenv("LOCKSTEP_NCCL_NEXT");
    void *library = NULL;
    int version = 0;

    if (!name || !name[0])
        return;
    if (!nccl_next_dlopen || !nccl_next_dlsym) {
        next_complain(name, "this program loads no libraries");
        return;
    }
    library = next_library(name);
    if (!library) {
        next_complain(name, "no such library can be loaded; LOCKSTEP_NCCL_NEXT is a path, or NAME "
                            "of libnccl-profiler-NAME.so");
        return;
    }
    next.table.any = next_table(library, called, &version);
    if (!next.table.any) {
        next_complain(name, "it has no table of a version that this NCCL can serve");
        return;
    }
    if (next.table.any == next_table_of_ours(version))
        return; /* it is called already */
    next.event = mmap(NULL, NEXT_EVENTS * sizeof(*next.event), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (next.event == MAP_FAILED) {
        next_complain(name, "no memory");
        return;
    }
    next_table_take(version);
}

bool nccl_next_is_there(int version)
{
    pthread_mutex_lock(&next.lock);
    if (!next.tried)
        next_load(version);
    next.tried = true;
    pthread_mutex_unlock(&next.lock);
    return nccl_next_is_on();
}

bool nccl_next_is_on(void)
{
    return atomic_load_explicit(&next.on, memory_order_acquire);
}

/* ---- pairs: what NCCL holds is twice their number, so it is never one of our own handles ---- */

static void *next_pair_put(void *ours, void *theirs)
{
    uint64_t number;
    struct nccl_pair *pair;

    if (!ours && !theirs)
        return NULL;
    number = atomic_fetch_add_explicit(&next.events, 1, relaxed) + 1;
    pair = &next.event[number % NEXT_EVENTS];
    atomic_store_explicit(&pair->number, 0, relaxed); /* what was there is let go */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&pair->ours, ours, relaxed);
    atomic_store_explicit(&pair->theirs, theirs, relaxed);
    atomic_store_explicit(&pair->number, number, memory_order_release);
    return (void *)(uintptr_t)(number << 1);
}

static struct nccl_both next_pair_get(const void *handle)
{
    uint64_t number = (uint64_t)(uintptr_t)handle >> 1;
    struct nccl_pair *pair = &next.event[number % NEXT_EVENTS];
    struct nccl_both both;

    if (number == 0 || ((uintptr_t)handle & 1) ||
        atomic_load_explicit(&pair->number, memory_order_acquire) != number)
        return (struct nccl_both){ 0 };
    both = (struct nccl_both){ .ours = atomic_load_explicit(&pair->ours, relaxed),
                               .theirs = atomic_load_explicit(&pair->theirs, relaxed) };
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&pair->number, relaxed) != number)
        return (struct nccl_both){ 0 };
    return both;
}

/* ---- what the other one wants ---- */

/* An event and all that may hang below it: who asks for one of those is given their parents. */
static const struct {
    int event, below;
} next_families[] = {
    { NCCL_EVENT_GROUP, NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP |
                            NCCL_EVENT_PROXY_STEP | NCCL_EVENT_KERNEL | NCCL_EVENT_NET },
    { NCCL_EVENT_COLL | NCCL_EVENT_P2P,
      NCCL_EVENT_PROXY_OP | NCCL_EVENT_PROXY_STEP | NCCL_EVENT_KERNEL | NCCL_EVENT_NET },
    { NCCL_EVENT_PROXY_OP, NCCL_EVENT_PROXY_STEP | NCCL_EVENT_NET },
    { NCCL_EVENT_PROXY_STEP, NCCL_EVENT_NET },
    { NCCL_EVENT_CALLS, NCCL_EVENT_CALLS | NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP |
                            NCCL_EVENT_PROXY_STEP | NCCL_EVENT_KERNEL | NCCL_EVENT_NET },
};

/* The first kind of event that its version does not know. */
static uint64_t next_events_end(void)
{
    return next.version >= 6 ? UINT64_MAX : next.version == 5 ? 1 << 12 : 1 << 8;
}

static bool next_wants(uint64_t type)
{
    int mask = __atomic_load_n(&next.mask, __ATOMIC_RELAXED);

    if (type >= next_events_end())
        return false;
    if ((uint64_t)(unsigned)mask & type)
        return true;
    for (size_t i = 0; i < COUNT(next_families); i++)
        if (((uint64_t)(unsigned)next_families[i].event & type) && (next_families[i].below & mask))
            return true;
    return false;
}

/* The other one may change its mind at any time, by its address of the mask. */
static void next_mask_merge(void)
{
    int *merged = atomic_load(&next.merged);
    int mask = next.own_mask | __atomic_load_n(&next.mask, __ATOMIC_RELAXED);

    if (merged && __atomic_load_n(merged, __ATOMIC_RELAXED) != mask)
        __atomic_store_n(merged, mask, __ATOMIC_RELAXED);
}

/* ---- communicators ---- */

static int next_init(void **context, const struct nccl_next_comm *comm)
{
    switch (next.version) {
    case 3:
        return next.table.v3->init(context, &next.mask);
    case 4:
        return next.table.v4->init(context, &next.mask, comm->name, comm->id, comm->nodes,
                                   comm->ranks, comm->rank, comm->log);
    case 5:
        return next.table.v5->init(context, comm->id, &next.mask, comm->name, comm->nodes,
                                   comm->ranks, comm->rank, comm->log);
    default:
        return next.table.v6->init(context, comm->id, &next.mask, comm->name, comm->nodes,
                                   comm->ranks, comm->rank, comm->log);
    }
}

static uint32_t next_comm_take(void)
{
    for (uint32_t i = 0; i < NEXT_COMMS; i++) {
        bool used = false;

        if (atomic_compare_exchange_strong(&next.comm[i].used, &used, true))
            return i;
    }
    return NEXT_COMMS;
}

void nccl_next_open(void **context, int *mask, const struct nccl_next_comm *comm)
{
    uint32_t slot = next_comm_take();
    void *ours = *context, *theirs = NULL;

    if (slot == NEXT_COMMS)
        return; /* ours alone, whose handles are known from those of pairs */
    *context = NULL;
    if (ours)
        next.own_mask = *mask;
    next.comm[slot].ours = ours;
    atomic_store(&next.comm[slot].added, next_init(&theirs, comm) == NCCL_SUCCESS);
    next.comm[slot].theirs = theirs;
    atomic_store(&next.merged, mask);
    next_mask_merge();
    *context = (void *)((uintptr_t)(slot + 1) << 1);
}

/* Handles of ours are odd, those of pairs even. */
static bool next_is_ours_alone(const void *handle)
{
    return (uintptr_t)handle & 1;
}

static uint32_t next_comm_find(const void *context)
{
    uint64_t slot = ((uint64_t)(uintptr_t)context >> 1) - 1;

    if (!context || next_is_ours_alone(context) || slot >= NEXT_COMMS ||
        !atomic_load(&next.comm[slot].used))
        return NEXT_COMMS;
    return (uint32_t)slot;
}

int nccl_next_finalize(const struct nccl_own *own, void *context)
{
    uint32_t slot = next_comm_find(context);

    if (next_is_ours_alone(context))
        return own->finalize(context);
    if (slot == NEXT_COMMS)
        return NCCL_SUCCESS;
    own->finalize(next.comm[slot].ours);
    if (atomic_load(&next.comm[slot].added))
        next.finalize(next.comm[slot].theirs);
    atomic_store(&next.comm[slot].used, false);
    return NCCL_SUCCESS;
}

/* ---- events ---- */

struct next_links { /* where an event says to what it belongs */
    uint64_t type;
    void **parent, **group;
};

static struct next_links next_links_of(int version, void *descr)
{
    struct nccl_descr_v5 *v5 = descr;
    struct nccl_descr_v4 *v4 = descr;
    struct next_links links = { .parent = &v4->parent };

    links.type = version >= 5 ? v5->type : v4->type;
    if (version >= 5 && links.type == NCCL_EVENT_COLL)
        links.group = &v5->coll.group;
    if (version >= 5 && links.type == NCCL_EVENT_P2P)
        links.group = &v5->p2p.group;
    return links;
}

_Static_assert(offsetof(struct nccl_descr_v3, parent) == offsetof(struct nccl_descr_v4, parent) &&
                   offsetof(struct nccl_descr_v5, parent) == offsetof(struct nccl_descr_v4, parent),
               "an event's parent is at one place in all versions");

/* An operation of a proxy may be another process's: its parent is then a word of that process, and nobody's here. */
static bool next_parent_is_here(const struct next_links *links, const struct nccl_descr_v4 *descr)
{
    return links->type != NCCL_EVENT_PROXY_OP || descr->pid == (int)getpid();
}

static int next_call_start(void *theirs, void **handle, void *descr)
{
    switch (next.version) {
    case 3:
        return next.table.v3->start(theirs, handle, descr);
    case 4:
        return next.table.v4->start(theirs, handle, descr);
    case 5:
        return next.table.v5->start(theirs, handle, descr);
    default:
        return next.table.v6->start(theirs, handle, descr);
    }
}

/* Before version 5 the group itself was the parent of what is launched. */
static void *next_start_theirs(void *context, void *descr, const struct next_links *links,
                               struct nccl_both parent, struct nccl_both group)
{
    bool older = links->group && next.version < 5;
    void *handle = NULL;

    *links->parent = older ? group.theirs : parent.theirs;
    if (links->group)
        *links->group = group.theirs;
    if (next_call_start(context, &handle, descr) != NCCL_SUCCESS)
        return NULL;
    return handle;
}

int nccl_next_start(const struct nccl_own *own, void *context, void **handle, void *descr)
{
    struct next_links links = next_links_of(own->version, descr);
    void *parent = *links.parent, *group = links.group ? *links.group : NULL;
    struct nccl_both parents = { parent, parent }, groups = next_pair_get(group);
    void *ours = NULL, *theirs = NULL;
    uint32_t slot = next_comm_find(context);

    *handle = NULL;
    if (next_is_ours_alone(context))
        return own->start(context, handle, descr);
    if (slot == NEXT_COMMS)
        return NCCL_SUCCESS;
    if (next_parent_is_here(&links, descr))
        parents = next_pair_get(parent);
    *links.parent = parents.ours;
    if (links.group)
        *links.group = groups.ours;
    own->start(next.comm[slot].ours, &ours, descr);
    if (atomic_load(&next.comm[slot].added) && next_wants(links.type))
        theirs = next_start_theirs(next.comm[slot].theirs, descr, &links, parents, groups);
    *links.parent = parent;
    if (links.group)
        *links.group = group;
    next_mask_merge();
    *handle = next_pair_put(ours, theirs);
    return NCCL_SUCCESS;
}

int nccl_next_stop(const struct nccl_own *own, void *handle)
{
    struct nccl_both both = next_pair_get(handle);

    if (next_is_ours_alone(handle))
        return own->stop(handle);
    if (both.ours)
        own->stop(both.ours);
    if (both.theirs)
        next.stop(both.theirs);
    return NCCL_SUCCESS;
}

int nccl_next_record(const struct nccl_own *own, void *handle, int state, union nccl_state *args)
{
    struct nccl_both both = next_pair_get(handle);

    if (next_is_ours_alone(handle))
        return own->record(handle, state, args);
    if (both.ours)
        own->record(both.ours, state, args);
    if (both.theirs)
        next.record(both.theirs, state, args);
    return NCCL_SUCCESS;
}
