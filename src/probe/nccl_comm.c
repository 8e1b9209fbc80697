/* nccl_comm.c - communicators, their places in the ring, and handles.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "probe/nccl_private.h"
#include "wire/facts.h"
#include "wire/ring_format.h"

#define relaxed memory_order_relaxed

static struct {
    pthread_mutex_t lock;
    struct nccl_comm *_Atomic comm[NCCL_COMMS]; /* once made they stay: a late event may come */
    struct lockstep_probe *_Atomic probe;       /* the process has one for good */
    uint32_t opened;         /* epoch of the ring that we opened; 0: others did */
    uint32_t open;           /* communicators */
    struct nccl_group group; /* that is about to be made */
} nccl = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- handles: a bit so that none is NULL, then kind, slot, channel and number ---- */

_Static_assert(sizeof(void *) == 8, "a handle is 64 bits");
_Static_assert(NCCL_COMMS <= 64 && NCCL_CHANNELS <= 64, "six bits each");

void *nccl_handle_pack(struct nccl_handle handle)
{
    return (void *)(uintptr_t)(UINT64_C(1) | (uint64_t)handle.kind << 1 |
                               (uint64_t)handle.slot << 3 | (uint64_t)handle.channel << 9 |
                               handle.number << 15);
}

struct nccl_comm *nccl_handle_comm(const void *handle, enum nccl_handle_kind kind,
                                   struct nccl_handle *ret)
{
    uint64_t word = (uint64_t)(uintptr_t)handle;
    struct nccl_comm *comm;

    *ret = (struct nccl_handle){ .kind = (enum nccl_handle_kind)(word >> 1 & 3),
                                 .slot = (uint32_t)(word >> 3 & 63),
                                 .channel = (uint32_t)(word >> 9 & 63),
                                 .number = word >> 15 };
    if (!(word & 1) || ret->kind != kind)
        return NULL;
    comm = atomic_load_explicit(&nccl.comm[ret->slot], memory_order_acquire);
    if (!comm || !atomic_load_explicit(&comm->open, memory_order_acquire))
        return NULL;
    if (kind == HANDLE_COMM && ret->number != atomic_load_explicit(&comm->number, relaxed))
        return NULL; /* of one that was in this slot before */
    return comm;
}

/* ---- the ring ---- */

enum nccl_mode nccl_mode(void)
{
    const char *text = getenv("LOCKSTEP_NCCL");

    if (text && strcmp(text, "off") == 0)
        return NCCL_MODE_OFF;
    return text && strcmp(text, "how") == 0 ? NCCL_MODE_METHOD : NCCL_MODE_TIMES;
}

static bool nccl_number_from(const char *name, uint64_t *ret)
{
    const char *text = getenv(name);
    char *end;

    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret = strtoul(text, &end, 10);
    return errno == 0 && *end == '\0' && *ret < UINT32_MAX;
}

/* As launchers say it: torchrun and `lockstep run`, Slurm, Open MPI, MPICH. */
static bool nccl_rank_from_environment(uint32_t *ret_rank, uint32_t *ret_world)
{
    static const char *const names[][2] = { { "RANK", "WORLD_SIZE" },
                                            { "SLURM_PROCID", "SLURM_NTASKS" },
                                            { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
                                            { "PMI_RANK", "PMI_SIZE" } };
    uint64_t rank, world;

    if (!getenv("LOCKSTEP_DIR") && !getenv("LOCKSTEP_RUN"))
        return false; /* nobody is there to read a ring */
    for (size_t i = 0; i < COUNT(names); i++) {
        if (nccl_number_from(names[i][0], &rank) && nccl_number_from(names[i][1], &world) &&
            rank < world) {
            *ret_rank = (uint32_t)rank;
            *ret_world = (uint32_t)world;
            return true;
        }
    }
    return false;
}

/* NCCL has no way to hand the reason to the program. */
static void nccl_ring_complain(uint32_t rank, const char *why)
{
    const char *quiet = getenv("LOCKSTEP_QUIET");
    char line[384];
    int size;

    if (quiet && strcmp(quiet, "1") == 0)
        return;
    size = snprintf(line, sizeof(line),
                    "lockstep: rank %u is not observed: %s; training continues\n", rank, why);
    if (write(STDERR_FILENO, line, (size_t)size) < 0)
        return; /* nobody to tell */
}

/* The ring that is open, without holding it: whoever opened it says when it ends.  Else one of our own. */
static struct lockstep_probe *nccl_ring_now(void)
{
    struct lockstep_probe *probe = probe_current();
    uint32_t rank, world;
    char why[256];

    if (probe_epoch(probe) == 0 && nccl_rank_from_environment(&rank, &world)) {
        if (lockstep_probe_open(rank, world, &probe, why, sizeof(why)) == 0)
            nccl.opened = probe_epoch(probe);
        else
            nccl_ring_complain(rank, why);
    }
    if (probe_epoch(probe) == 0)
        return NULL;
    atomic_store(&nccl.probe, probe);
    return probe;
}

struct lockstep_probe *nccl_ring(void)
{
    return atomic_load_explicit(&nccl.probe, relaxed);
}

/* A place for the communicator in the ring that is open now.  With the lock held. */
static bool comm_join(struct nccl_comm *comm)
{
    struct lockstep_probe *probe = nccl_ring_now();
    uint32_t world = probe ? probe->header->world : 0;
    int place = -ENODEV;

    if (probe)
        place =
            lockstep_comm_add(probe, comm->id, comm->ranks, comm->rank,
                              comm->ranks == world ? LOCKSTEP_COMM_WORLD : comm->kind, comm->name);
    if (place < 0)
        return false;
    memset(comm->method, 0, sizeof(comm->method)); /* this ring was told of no way yet */
    atomic_store_explicit(&comm->place, place, relaxed);
    atomic_store_explicit(&comm->epoch, probe_epoch(probe), memory_order_release);
    return true;
}

bool nccl_comm_joined(struct nccl_comm *comm)
{
    uint32_t epoch = probe_epoch(nccl_ring());
    bool joined;

    if (epoch && epoch == atomic_load_explicit(&comm->epoch, memory_order_acquire))
        return true;
    if (epoch == 0)
        return false;
    pthread_mutex_lock(&nccl.lock);
    joined = comm_join(comm);
    pthread_mutex_unlock(&nccl.lock);
    return joined;
}

/* ---- communicators ---- */

static struct nccl_comm *comm_make(uint32_t slot)
{
    struct nccl_comm *comm = atomic_load_explicit(&nccl.comm[slot], memory_order_acquire);

    if (comm)
        return comm;
    comm = mmap(NULL, sizeof(*comm), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (comm == MAP_FAILED)
        return NULL;
    atomic_store_explicit(&nccl.comm[slot], comm, memory_order_release);
    return comm;
}

/* A free one, and its slot.  -1: none, or one of this process's own devices is in this communicator already: one ring
 * is one rank's.
 */
static int comm_slot(uint64_t id)
{
    int slot = -1;

    for (int i = 0; i < NCCL_COMMS; i++) {
        struct nccl_comm *comm = atomic_load_explicit(&nccl.comm[i], memory_order_acquire);
        bool open = comm && atomic_load_explicit(&comm->open, memory_order_acquire);

        if (open && comm->id == id)
            return -1;
        if (!open && slot < 0)
            slot = i;
    }
    return slot;
}

void nccl_group(uint32_t ranks, uint32_t rank, uint32_t kind, const char *name)
{
    pthread_mutex_lock(&nccl.lock);
    nccl.group.ranks = ranks;
    nccl.group.rank = rank;
    nccl.group.kind = kind < LOCKSTEP_COMM_KIND_COUNT ? kind : LOCKSTEP_COMM_OTHER;
    snprintf(nccl.group.name, sizeof(nccl.group.name), "%s", name ? name : "");
    pthread_mutex_unlock(&nccl.lock);
}

struct nccl_group nccl_group_take(void)
{
    struct nccl_group group;

    pthread_mutex_lock(&nccl.lock);
    group = nccl.group;
    nccl.group.ranks = 0;
    pthread_mutex_unlock(&nccl.lock);
    return group;
}

/* NCCL's own word first, if the program gave it one. */
static void comm_name(struct nccl_comm *comm, const char *name, struct nccl_group *group)
{
    bool expected = group->ranks == comm->ranks && group->rank == comm->rank;

    comm->kind = expected ? (enum lockstep_comm_kind)group->kind : LOCKSTEP_COMM_OTHER;
    if (!name || !name[0])
        name = expected && group->name[0] ? group->name : "nccl";
    memset(comm->name, 0, sizeof(comm->name));
    memcpy(comm->name, name, strnlen(name, sizeof(comm->name) - 1));
    if (expected)
        group->ranks = 0; /* it is one communicator's */
}

/* Numbers go on: a handle of the communicator that was here before is none of this one's. */
static void comm_begin(struct nccl_comm *comm, uint64_t id)
{
    comm->id = id;
    comm->times = nccl_mode() == NCCL_MODE_TIMES;
    comm->blurred = false;
    comm->settled = atomic_load_explicit(&comm->launched, relaxed);
    atomic_fetch_add_explicit(&comm->number, 1, relaxed);
    atomic_store_explicit(&comm->first, comm->settled, relaxed);
    atomic_store_explicit(&comm->first_group, atomic_load_explicit(&comm->grouped, relaxed),
                          relaxed);
    comm->first_ns = lockstep_clock_ns();
    comm->clock = (struct nccl_clock){ 0 };
    atomic_store_explicit(&comm->kernels, 0, relaxed);
    atomic_store_explicit(&comm->epoch, 0, relaxed);
}

/* With the lock held. */
static void *comm_open(uint64_t id, const char *name, uint32_t ranks, uint32_t rank,
                       struct nccl_group *group)
{
    int slot = comm_slot(id);
    struct nccl_comm *comm = slot >= 0 ? comm_make((uint32_t)slot) : NULL;

    if (!comm)
        return NULL;
    comm->slot = (uint32_t)slot;
    comm->ranks = ranks;
    comm->rank = rank;
    comm_name(comm, name, group);
    comm_begin(comm, id);
    if (!comm_join(comm))
        return NULL;
    atomic_store_explicit(&comm->open, true, memory_order_release);
    nccl.open++;
    return nccl_handle_pack(
        (struct nccl_handle){ .kind = HANDLE_COMM,
                              .slot = (uint32_t)slot,
                              .number = atomic_load_explicit(&comm->number, relaxed) });
}

/* Alone it moves nothing. */
static bool comm_is_wanted(uint64_t id, uint32_t ranks, uint32_t rank)
{
    return ranks >= 2 && rank < ranks && id != UINT64_MAX && nccl_mode() != NCCL_MODE_OFF;
}

void *nccl_comm_open(uint64_t id, const char *name, int ranks, int rank)
{
    void *context;

    if (ranks < 0 || rank < 0 || !comm_is_wanted(id, (uint32_t)ranks, (uint32_t)rank))
        return NULL;
    pthread_mutex_lock(&nccl.lock);
    context = comm_open(id, name, (uint32_t)ranks, (uint32_t)rank, &nccl.group);
    pthread_mutex_unlock(&nccl.lock);
    return context;
}

void *nccl_comm_open_as(uint64_t id, const char *name, const struct nccl_group *group)
{
    struct nccl_group expected = *group;
    void *context;

    if (!comm_is_wanted(id, group->ranks, group->rank))
        return NULL;
    pthread_mutex_lock(&nccl.lock);
    context = comm_open(id, name, group->ranks, group->rank, &expected);
    pthread_mutex_unlock(&nccl.lock);
    return context;
}

void nccl_comm_close(void *context)
{
    struct nccl_handle handle;
    struct nccl_comm *comm;

    pthread_mutex_lock(&nccl.lock);
    comm = nccl_handle_comm(context, HANDLE_COMM, &handle);
    if (comm) {
        atomic_store_explicit(&comm->open, false, memory_order_release);
        nccl.open--;
        if (nccl.open == 0 && nccl.opened && nccl.opened == probe_epoch(nccl_ring())) {
            nccl.opened = 0;
            lockstep_probe_close(nccl_ring());
        }
    }
    pthread_mutex_unlock(&nccl.lock);
}

/* ---- NCCL's words, and the way by which it moves a collective: told when it changes. ---- */

static const struct nccl_word funcs[] = {
    { "AllReduce", LOCKSTEP_OP_ALL_REDUCE, 0 },
    { "ReduceScatter", LOCKSTEP_OP_REDUCE_SCATTER, 0 },
    { "AllGather", LOCKSTEP_OP_ALL_GATHER, 0 },
    { "Broadcast", LOCKSTEP_OP_BROADCAST, 0 },
    { "Reduce", LOCKSTEP_OP_REDUCE, 0 },
    { "AlltoAll", LOCKSTEP_OP_ALL_TO_ALL, 0 },
    { "Gather", LOCKSTEP_OP_GATHER, 0 },
    { "Scatter", LOCKSTEP_OP_SCATTER, 0 },
    { "Send", LOCKSTEP_OP_SEND, 0 },
    { "Recv", LOCKSTEP_OP_RECV, 0 },
};

static const struct nccl_word datatypes[] = {
    { "ncclFloat32", LOCKSTEP_DTYPE_FLOAT32, 4 },
    { "ncclBfloat16", LOCKSTEP_DTYPE_BFLOAT16, 2 },
    { "ncclFloat16", LOCKSTEP_DTYPE_FLOAT16, 2 },
    { "ncclInt8", LOCKSTEP_DTYPE_INT8, 1 },
    { "ncclUint8", LOCKSTEP_DTYPE_UINT8, 1 },
    { "ncclInt64", LOCKSTEP_DTYPE_INT64, 8 },
    { "ncclInt32", LOCKSTEP_DTYPE_INT32, 4 },
    { "ncclUint64", LOCKSTEP_DTYPE_UINT64, 8 },
    { "ncclUint32", LOCKSTEP_DTYPE_UINT32, 4 },
    { "ncclFloat64", LOCKSTEP_DTYPE_FLOAT64, 8 },
    { "ncclFloat8e4m3", LOCKSTEP_DTYPE_FLOAT8_E4M3, 1 },
    { "ncclFloat8e5m2", LOCKSTEP_DTYPE_FLOAT8_E5M2, 1 },
};

static struct nccl_word nccl_word_find(const struct nccl_word *table, size_t count,
                                       const char *text, struct nccl_word other)
{
    for (size_t i = 0; text && i < count; i++)
        if (strcmp(table[i].text, text) == 0)
            return table[i];
    return other;
}

struct nccl_word nccl_func(const char *text)
{
    return nccl_word_find(funcs, COUNT(funcs), text, (struct nccl_word){ 0 });
}

struct nccl_word nccl_datatype(const char *text)
{
    return nccl_word_find(datatypes, COUNT(datatypes), text,
                          (struct nccl_word){ .number = LOCKSTEP_DTYPE_OTHER, .size = 1 });
}

static struct nccl_method *nccl_method_find(struct nccl_comm *comm, uint32_t op, uint64_t bytes)
{
    uint64_t at = hash64_u64(op, bytes);

    for (size_t i = 0; i < NCCL_METHOD_ROOM; i++) {
        struct nccl_method *method = &comm->method[(at + i) % NCCL_METHOD_ROOM];

        if (method->op == 0) {
            method->op = op;
            method->bytes = bytes;
        }
        if (method->op == op && method->bytes == bytes)
            return method;
    }
    return NULL;
}

void nccl_method_put(struct nccl_comm *comm, uint32_t op, uint64_t bytes,
                     const struct nccl_task *task)
{
    const char *algorithm = task->algorithm ? task->algorithm : "";
    const char *protocol = task->protocol ? task->protocol : "";
    size_t first = strnlen(algorithm, RING_METHOD_TEXT), second;
    struct nccl_method *method = nccl_method_find(comm, op, bytes_round(bytes));
    char text[2 * RING_METHOD_TEXT + 2];

    if (!method || (method->changes && method->channels == task->channels &&
                    method->algorithm == task->algorithm && method->protocol == task->protocol))
        return;
    method->algorithm = task->algorithm;
    method->protocol = task->protocol;
    method->channels = task->channels;
    if (method->changes == NCCL_METHOD_CHANGES)
        return;
    method->changes++;
    second = strnlen(protocol, RING_METHOD_TEXT);
    memcpy(text, algorithm, first);
    text[first] = '/';
    memcpy(text + first + 1, protocol, second);
    text[first + 1 + second] = '\0';
    lockstep_coll_method(nccl_ring(), atomic_load_explicit(&comm->place, memory_order_relaxed),
                         (enum lockstep_op)op, bytes, task->channels, text);
}
