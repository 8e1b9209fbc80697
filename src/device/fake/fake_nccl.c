/* fake_nccl.c - libnccl.so.2 by script.  A rank alone copies what it is given, as if all others gave zero.  An all-reduce of single
 * precision that all ranks of this process begin in one group has the sum of all of them.
 *
 * Send and receive also work between two processes: the one that made the id has the first half of the ranks and listens, on
 * $NCCL_SOCKET_IFNAME or the first interface that is no loopback; the other one connects, rank n + i to rank i.  Bytes go over TCP when
 * they are begun, so a slow network slows the caller.
 *
 * Keys: nccl.R.bad-number (this one of the result of rank R has a wrong bit), nccl.log (text: written to $NCCL_DEBUG_FILE at the end
 * of a group), nccl.bad-byte (of what is received: its first byte is wrong), nccl.version, nccl.init, nccl.destroy, nccl.async-error, nccl.all-reduce, nccl.all-gather, nccl.reduce-scatter,
 * nccl.send, nccl.receive, nccl.group-end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/fake/script.h"

#define EXPORT __attribute__((visibility("default")))

struct fake_id {
    uint32_t pid;
    struct sockaddr_in address;
    char rest[128 - sizeof(uint32_t) - sizeof(struct sockaddr_in)];
};

_Static_assert(sizeof(struct fake_id) == 128, "the library's own size");

#define RANKS_MAX 32
#define SINGLE 7 /* ncclFloat32 */

enum {
    SYSTEM_ERROR = 2,
    REMOTE_ERROR = 6
};

struct fake_comm {
    int ranks, rank;
    int fd;            /* to the rank of another process; 0: none */
    const float *from; /* begun in this group */
    float *to;
    size_t count;
};

static struct fake_comm comms[RANKS_MAX];
static int listen_fd; /* of the process that made the id; 0: none */

static int fake_call(const char *key)
{
    int64_t number;

    return script_number(&number, 0, "%s", key);
}

static size_t fake_bytes(size_t count, int type)
{
    static const unsigned char bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

    return type >= 0 && (size_t)type < sizeof(bytes) ? count * bytes[type] : 0;
}

static int fake_copy(const char *key, const void *from, void *to, size_t bytes)
{
    int result = fake_call(key);

    if (result == 0 && from && to)
        memmove(to, from, bytes);
    return result;
}

EXPORT int ncclGetVersion(int *ret);
EXPORT int ncclGetVersion(int *ret)
{
    int64_t number;
    int result = script_number(&number, 22809, "nccl.version");

    if (result == 0)
        *ret = (int)number;
    return result;
}

EXPORT const char *ncclGetErrorString(int result);
EXPORT const char *ncclGetErrorString(int result)
{
    static const char *const text[] = { "no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress" };

    return result >= 0 && (size_t)result < sizeof(text) / sizeof(text[0]) ? text[result]
                                                                          : "unknown result code";
}

/* ---- between two processes ---- */

static int fake_interface(struct sockaddr_in *ret)
{
    const char *name = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *list = NULL;
    int found = 0;

    if (getifaddrs(&list) < 0)
        return 0;
    for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET)
            continue;
        found = name ? strcmp(name, entry->ifa_name) == 0 : !(entry->ifa_flags & IFF_LOOPBACK);
        if (found)
            memcpy(ret, entry->ifa_addr, sizeof(*ret));
    }
    freeifaddrs(list);
    ret->sin_port = 0;
    return found;
}

static int fake_listen(struct fake_id *id)
{
    socklen_t size = sizeof(id->address);

    if (!fake_interface(&id->address))
        return 0;
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listen_fd, (struct sockaddr *)&id->address, size) < 0 ||
        listen(listen_fd, RANKS_MAX) < 0 ||
        getsockname(listen_fd, (struct sockaddr *)&id->address, &size) < 0)
        return -1;
    return 0;
}

static int fake_connect(struct fake_comm *comm, const struct fake_id *id)
{
    uint32_t rank = (uint32_t)comm->rank;

    comm->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(comm->fd, (const struct sockaddr *)&id->address, sizeof(id->address)) < 0 ||
        send(comm->fd, &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank))
        return -1;
    return 0;
}

/* Its peer has connected, or will. */
static int fake_accept(struct fake_comm *comm)
{
    while (!comm->fd && listen_fd) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        uint32_t rank;

        if (fd < 0 || recv(fd, &rank, sizeof(rank), MSG_WAITALL) != sizeof(rank) ||
            rank >= RANKS_MAX || rank < (uint32_t)comm->ranks / 2)
            return -1;
        comms[rank - (uint32_t)comm->ranks / 2].fd = fd;
    }
    return comm->fd ? 0 : -1;
}

static int fake_move(struct fake_comm *comm, const char *from, char *to, size_t bytes)
{
    while (bytes) {
        ssize_t moved = from ? send(comm->fd, from, bytes, MSG_NOSIGNAL)
                             : recv(comm->fd, to, bytes, MSG_WAITALL);

        if (moved <= 0)
            return -1;
        bytes -= (size_t)moved;
        from = from ? from + moved : NULL;
        to = to ? to + moved : NULL;
    }
    return 0;
}

/* Work that was begun on the stream before, such as filling the memory, comes first. */
static void fake_stream_wait(void *stream)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*wait)(void *stream);

    *(void **)&wait = library ? dlsym(library, "cuStreamSynchronize") : NULL;
    if (wait)
        wait(stream);
    if (library)
        dlclose(library);
}

static int fake_pair(struct fake_comm *comm, const void *from, void *to, size_t bytes, void *stream)
{
    int64_t bad;
    int result = fake_call(from ? "nccl.send" : "nccl.receive");

    if (result)
        return result;
    fake_stream_wait(stream);
    if (fake_accept(comm) < 0 || fake_move(comm, from, to, bytes) < 0)
        return REMOTE_ERROR;
    if (to && bytes > 64 && script_number(&bad, 0, "nccl.bad-byte") == 0 && bad)
        *(unsigned char *)to ^= 1;
    return 0;
}

EXPORT int ncclGetUniqueId(struct fake_id *ret);
EXPORT int ncclGetUniqueId(struct fake_id *ret)
{
    int result = fake_call("nccl.id");

    if (result)
        return result;
    memset(ret, 7, sizeof(*ret));
    ret->pid = (uint32_t)getpid();
    ret->address = (struct sockaddr_in){ .sin_family = AF_INET };
    return fake_listen(ret) < 0 ? SYSTEM_ERROR : 0;
}

EXPORT int ncclCommInitRank(void **ret, int ranks, struct fake_id id, int rank);
EXPORT int ncclCommInitRank(void **ret, int ranks, struct fake_id id, int rank)
{
    int result = fake_call("nccl.init");
    struct fake_comm *comm;

    if (result == 0 && (ranks < 1 || rank < 0 || rank >= ranks))
        result = 4;
    if (result)
        return result;
    comm = &comms[rank % RANKS_MAX];
    *comm = (struct fake_comm){ .ranks = ranks, .rank = rank };
    *ret = comm;
    if (id.pid != (uint32_t)getpid() && fake_connect(comm, &id) < 0)
        return SYSTEM_ERROR;
    return 0;
}

EXPORT int ncclCommDestroy(void *which);
EXPORT int ncclCommDestroy(void *which)
{
    (void)which;
    return fake_call("nccl.destroy");
}

EXPORT int ncclCommAbort(void *which);
EXPORT int ncclCommAbort(void *which)
{
    (void)which;
    return fake_call("nccl.abort");
}

EXPORT int ncclCommGetAsyncError(void *which, int *ret);
EXPORT int ncclCommGetAsyncError(void *which, int *ret)
{
    int64_t number;
    int result = script_number(&number, 0, "nccl.async-error");

    (void)which;
    if (result == 0)
        *ret = (int)number;
    return result;
}

EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupStart(void)
{
    return 0;
}

static void fake_log(void)
{
    const char *path = getenv("NCCL_DEBUG_FILE");
    struct script_answer answer;
    FILE *file;

    script_ask(&answer, "nccl.log");
    file = path && answer.text[0] ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "host:1:1 [0] NCCL INFO %s\n", answer.text);
    fclose(file);
}

static void fake_damage(const struct fake_comm *comm)
{
    int64_t at;
    uint32_t bits;

    if (script_number(&at, -1, "nccl.%d.bad-number", comm->rank) != 0 || at < 0 ||
        (size_t)at >= comm->count)
        return;
    memcpy(&bits, &comm->to[at], sizeof(bits));
    bits ^= 1u << 20;
    memcpy(&comm->to[at], &bits, sizeof(bits));
}

/* What all ranks have begun: without all of them nothing happens. */
static void fake_sum(void)
{
    int ranks = comms[0].ranks;

    for (int r = 0; r < ranks && r < RANKS_MAX; r++) {
        if (!comms[r].from || comms[r].count != comms[0].count)
            return;
    }
    for (size_t i = 0; i < comms[0].count; i++) {
        float sum = 0;

        for (int r = 0; r < ranks; r++)
            sum += comms[r].from[i];
        for (int r = 0; r < ranks; r++)
            comms[r].to[i] = sum;
    }
    for (int r = 0; r < ranks; r++) {
        fake_damage(&comms[r]);
        comms[r].from = NULL;
    }
}

EXPORT int ncclGroupEnd(void);
EXPORT int ncclGroupEnd(void)
{
    int result = fake_call("nccl.group-end");

    if (result == 0 && comms[0].ranks > 1)
        fake_sum();
    if (result == 0)
        fake_log();
    return result;
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *which,
                         void *stream);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *which,
                         void *stream)
{
    struct fake_comm *comm = which;

    (void)op;
    (void)stream;
    if (comm->ranks == 1 || type != SINGLE)
        return fake_copy("nccl.all-reduce", from, to, fake_bytes(count, type));
    comm->from = from;
    comm->to = to;
    comm->count = count;
    return fake_call("nccl.all-reduce");
}

EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, void *which,
                         void *stream);
EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, void *which,
                         void *stream)
{
    (void)which;
    (void)stream;
    return fake_copy("nccl.all-gather", from, to, fake_bytes(count, type));
}

EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op,
                             void *which, void *stream);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op,
                             void *which, void *stream)
{
    (void)op;
    (void)which;
    (void)stream;
    return fake_copy("nccl.reduce-scatter", from, to, fake_bytes(count, type));
}

static int fake_is_alone(const struct fake_comm *comm)
{
    return comm->ranks == 1;
}

EXPORT int ncclSend(const void *from, size_t count, int type, int peer, void *which, void *stream);
EXPORT int ncclSend(const void *from, size_t count, int type, int peer, void *which, void *stream)
{
    (void)peer;
    if (fake_is_alone(which))
        return fake_copy("nccl.send", from, NULL, fake_bytes(count, type));
    return fake_pair(which, from, NULL, fake_bytes(count, type), stream);
}

EXPORT int ncclRecv(void *to, size_t count, int type, int peer, void *which, void *stream);
EXPORT int ncclRecv(void *to, size_t count, int type, int peer, void *which, void *stream)
{
    (void)peer;
    if (fake_is_alone(which))
        return fake_copy("nccl.receive", NULL, to, fake_bytes(count, type));
    return fake_pair(which, NULL, to, fake_bytes(count, type), stream);
}
