/* nccl_how.c - NCCL's words, and the way by which it moves a collective: told when it changes. */
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "probe/nccl_private.h"
#include "wire/facts.h"
#include "wire/ring_format.h"

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

static struct nccl_word word_find(const struct nccl_word *table, size_t count, const char *text,
                                  struct nccl_word other)
{
    for (size_t i = 0; text && i < count; i++)
        if (strcmp(table[i].text, text) == 0)
            return table[i];
    return other;
}

struct nccl_word nccl_func(const char *text)
{
    return word_find(funcs, COUNT(funcs), text, (struct nccl_word){ 0 });
}

struct nccl_word nccl_datatype(const char *text)
{
    return word_find(datatypes, COUNT(datatypes), text,
                     (struct nccl_word){ .number = LOCKSTEP_DTYPE_OTHER, .size = 1 });
}

static struct nccl_method *method_find(struct nccl_comm *comm, uint32_t op, uint64_t bytes)
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

void nccl_method_tell(struct nccl_comm *comm, uint32_t op, uint64_t bytes,
                      const struct nccl_task *task)
{
    const char *algorithm = task->algorithm ? task->algorithm : "";
    const char *protocol = task->protocol ? task->protocol : "";
    size_t first = strnlen(algorithm, RING_METHOD_TEXT), second;
    struct nccl_method *method = method_find(comm, op, bytes_round(bytes));
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
