/* names.c - names of phases, operations and element types.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/names.h"

#include <string.h>

#include "core/clean.h"
#include "wire/numbers.h"

static const char *const phases[LOCKSTEP_PHASE_COUNT] = {
    "no phase", "init",      "comm-init",  "compile",    "data", "forward",
    "backward", "optimizer", "checkpoint", "evaluation", "gc",   "other",
};

static const char *const ops[LOCKSTEP_OP_COUNT] = {
    "operation", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce",  "all-to-all",
    "barrier",   "gather",     "scatter",        "operation",  "send",      "receive",
};

/* As torch calls them. */
static const char *const dtypes[LOCKSTEP_DTYPE_COUNT] = {
    "no type", "float32", "bfloat16",  "float16",    "float64",      "float8_e4m3",   "float8_e5m2",
    "int8",    "int16",   "int32",     "int64",      "uint8",        "uint16",        "uint32",
    "uint64",  "bool",    "complex64", "complex128", "another type", "several types",
};

const char *name_of_phase(unsigned phase)
{
    return phase < LOCKSTEP_PHASE_COUNT ? phases[phase] : "unknown";
}

const char *name_of_op(unsigned op)
{
    return op < LOCKSTEP_OP_COUNT ? ops[op] : "operation";
}

const char *name_of_dtype(unsigned dtype)
{
    return dtype < LOCKSTEP_DTYPE_COUNT ? dtypes[dtype] : "another type";
}

/* Words of Linux's functions.  FUSE waits in request_wait_answer(), interruptibly, so that its clients are not in
 * state D; NFS in rpc_wait_bit_killable().
 */
static bool names_have_word(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(text, words[i]))
            return true;
    }
    return false;
}

bool name_is_storage_wait(const char *kernel)
{
    static const char *const words[] = { "nfs",           "fuse",         "request_wait_answer",
                                         "ext4",          "xfs",          "btrfs",
                                         "lustre",        "ceph",         "gpfs",
                                         "folio",         "page_bit",     "io_schedule",
                                         "blk_",          "rpc_wait_bit", "jbd2",
                                         "wait_on_buffer" };

    return names_have_word(kernel, words, COUNT(words));
}

/* Functions of CUDA, HIP and torch that return when the device has come so far.  They spin by default, so the process uses
 * a whole CPU.
 */
bool name_is_device_wait(const char *stack)
{
    static const char *const words[] = {
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize",
        "cuStreamSynchronize",   "cuCtxSynchronize",      "cuEventSynchronize",
        "cuMemcpyDtoH",          "hipStreamSynchronize",  "hipDeviceSynchronize",
        "hipEventSynchronize",   "stream_synchronize",    "_local_scalar_dense_cuda",
        "synchronize (/",        "synchronize (torch/",
    };

    return names_have_word(stack, words, COUNT(words));
}
