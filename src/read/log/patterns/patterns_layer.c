/* patterns_layer.c - which layer the words of an error name that no row knows.
 *
 * A wrong layer is worse than none: only words that mean one thing in any program count.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>

#include "core/clean.h"
#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"

/* A word, not a part of a name: "num_rdma_ranks" says nothing of the network. */
static bool layer_word_fits(const char *pattern, const char *text, const char *end)
{
    const char *found;

    for (const char *at = text; pattern_fits(pattern, at, end, &found); at = found + 1) {
        if (found == text || (!isalnum((unsigned char)found[-1]) && found[-1] != '_'))
            return true;
    }
    return false;
}

unsigned pattern_layer(const char *text, const char *end, unsigned otherwise)
{
    static const struct {
        const char *pattern;
        uint8_t layer;
    } layers[] = {
        { "no space", LAYER_STORAGE },
        { "disk space", LAYER_STORAGE },
        { "disk full", LAYER_STORAGE },
        { "disk is full", LAYER_STORAGE },
        { "quota", LAYER_STORAGE },
        { "read-only file", LAYER_STORAGE },
        { "ephemeral-storage", LAYER_STORAGE },
        { "cuda*out of memory", LAYER_GPU_MEMORY },
        { "gpu*out of memory", LAYER_GPU_MEMORY },
        { "out of gpu memory", LAYER_GPU_MEMORY },
        { "out of device memory", LAYER_GPU_MEMORY },
        { "low on resource: memory", LAYER_HOST_MEMORY },
        { "memory limit", LAYER_HOST_MEMORY },
        { "killed by signal: killed", LAYER_HOST_MEMORY },
        { "memory low", LAYER_HOST_MEMORY },
        { "low memory", LAYER_HOST_MEMORY },
        { "cannot allocate memory", LAYER_HOST_MEMORY },
        { "shared object", LAYER_FRAMEWORK },
        { "undefined symbol", LAYER_FRAMEWORK },
        { "infiniband", LAYER_FABRIC },
        { "ibv_", LAYER_FABRIC },
        { "rdma", LAYER_FABRIC },
        { "mlx5", LAYER_FABRIC },
        { "net/ib", LAYER_FABRIC },
        { "net/ofi", LAYER_FABRIC },
        { "libfabric", LAYER_FABRIC },
        { "no route to host", LAYER_FABRIC },
        { "network is unreachable", LAYER_FABRIC },
        /* The device, its driver, a library or the call: the words do not show which. */
        { "cuda", LAYER_UNKNOWN },
        { "cudnn", LAYER_UNKNOWN },
        { "cublas", LAYER_UNKNOWN },
        { "nccl", LAYER_UNKNOWN },
        { "hip error", LAYER_UNKNOWN },
        { "rocm", LAYER_UNKNOWN },
        { "miopen", LAYER_UNKNOWN },
        { "driver", LAYER_UNKNOWN },
        { "nvml", LAYER_UNKNOWN },
        { "acl", LAYER_UNKNOWN },
        { "hccl", LAYER_UNKNOWN },
        { "npu", LAYER_UNKNOWN },
        { "tpu", LAYER_UNKNOWN },
        { "nrt_", LAYER_UNKNOWN },
        { "neuron", LAYER_UNKNOWN },
        { "killed by signal", LAYER_UNKNOWN },
        { "bus error", LAYER_UNKNOWN },
        { "xlaruntime", LAYER_UNKNOWN },
        { "connection", LAYER_UNKNOWN },
        { "timed out", LAYER_UNKNOWN },
        { "timeout", LAYER_UNKNOWN },
        { "http", LAYER_UNKNOWN },
    };

    for (size_t i = 0; i < COUNT(layers); i++) {
        if (layer_word_fits(layers[i].pattern, text, end))
            return layers[i].layer;
    }
    return otherwise;
}
