/* fake_nccl.c - libnccl.so.2 by script.  Ranks are alone: a collective copies what it is given, as if all gave zero.
 *
 * Keys: nccl.version, nccl.init, nccl.destroy, nccl.async-error, nccl.all-reduce, nccl.all-gather, nccl.reduce-scatter,
 * nccl.send, nccl.receive, nccl.group-end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <string.h>

#include "device/fake/script.h"

#define EXPORT __attribute__((visibility("default")))

struct fake_id {
    char byte[128];
};

static char comm;

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
    if (result == 0)
        *ret = &comm;
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

EXPORT int ncclGroupEnd(void);
EXPORT int ncclGroupEnd(void)
{
    return fake_call("nccl.group-end");
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *which,
                         void *stream);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *which,
                         void *stream)
{
    (void)op;
    (void)which;
    (void)stream;
    return fake_copy("nccl.all-reduce", from, to, fake_bytes(count, type));
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
