/* fake_nccl.c - libnccl.so.2 by script.  A rank alone copies what it is given, as if all others gave zero.  An all-reduce of single
 * precision that all ranks of this process begin in one group has the sum of all of them.
 *
 * Keys: nccl.R.bad-number (this one of the result of rank R has a wrong bit), nccl.log (text: written to $NCCL_DEBUG_FILE at the end
 * of a group), nccl.version, nccl.init, nccl.destroy, nccl.async-error, nccl.all-reduce, nccl.all-gather, nccl.reduce-scatter,
 * nccl.send, nccl.receive, nccl.group-end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/fake/script.h"

#define EXPORT __attribute__((visibility("default")))

struct fake_id {
    char byte[128];
};

#define RANKS_MAX 32
#define SINGLE 7 /* ncclFloat32 */

struct fake_comm {
    int ranks, rank;
    const float *from; /* begun in this group */
    float *to;
    size_t count;
};

static struct fake_comm comms[RANKS_MAX];

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

EXPORT int ncclGetUniqueId(struct fake_id *ret);
EXPORT int ncclGetUniqueId(struct fake_id *ret)
{
    memset(ret, 7, sizeof(*ret));
    return fake_call("nccl.id");
}

EXPORT int ncclCommInitRank(void **ret, int ranks, struct fake_id id, int rank);
EXPORT int ncclCommInitRank(void **ret, int ranks, struct fake_id id, int rank)
{
    int result = fake_call("nccl.init");

    (void)id;
    if (result == 0 && (ranks < 1 || rank < 0 || rank >= ranks))
        result = 4;
    if (result == 0) {
        comms[rank % RANKS_MAX] = (struct fake_comm){ .ranks = ranks, .rank = rank };
        *ret = &comms[rank % RANKS_MAX];
    }
    return result;
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

EXPORT int ncclSend(const void *from, size_t count, int type, int peer, void *which, void *stream);
EXPORT int ncclSend(const void *from, size_t count, int type, int peer, void *which, void *stream)
{
    (void)peer;
    (void)which;
    (void)stream;
    return fake_copy("nccl.send", from, NULL, fake_bytes(count, type));
}

EXPORT int ncclRecv(void *to, size_t count, int type, int peer, void *which, void *stream);
EXPORT int ncclRecv(void *to, size_t count, int type, int peer, void *which, void *stream)
{
    (void)peer;
    (void)which;
    (void)stream;
    return fake_copy("nccl.receive", NULL, to, fake_bytes(count, type));
}
