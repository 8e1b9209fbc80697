/* gpu_kernels.h - kernels that put a GPU to the test, and the same source as functions of the host.
 *
 * gpu_kernels.c is compiled twice: by clang for the GPU (gpu_kernels.ptx, checked in) and by the C compiler for the host, which gives
 * the known answers and runs inside the scripted driver.
 *
 * Arithmetic: a warp adds up the products of two matrices, GPU_REPEATS times in each round, with new operands in the next.  Every
 * block does the same work, so all blocks of all GPUs have the same answer.
 *
 *     mode exact    operands are whole numbers from -7 to 7: every product and sum is exact in every type and in any order, so the
 *                   answer follows from integer arithmetic alone
 *     mode entropy  all bits of the significands vary: rounding takes part, and for tensor cores the order of the sums, which is
 *                   the same on GPUs of one model
 *
 * Memory: fills words with a pattern of their index and compares them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_KERNEL_GPU_KERNELS_H
#define LOCKSTEP_DEVICE_KERNEL_GPU_KERNELS_H

#include <stdint.h>

#define GPU_WARP 32
#define GPU_WARPS 4 /* of a block: one for each quarter of an SM */
#define GPU_THREADS (GPU_WARP * GPU_WARPS)
#define GPU_REPEATS 16
#define GPU_ROUNDS_MAX 512 /* so that sums of mode exact stay below 2^24 */
#define GPU_ROWS 16
#define GPU_COLUMNS 8
#define GPU_DEPTH_MAX 32

enum gpu_type {
    GPU_FP32,
    GPU_TF32,
    GPU_BF16,
    GPU_FP16,
    GPU_INT8,
    GPU_TYPES
};
enum gpu_mode {
    GPU_EXACT,
    GPU_ENTROPY
};

/* What a thread leaves: four sums as bits of their type, and a digest of them after each round. */
#define GPU_SUMS 4
#define GPU_THREAD_WORDS (GPU_SUMS + 1)
/* What a block leaves: 1 + the SM of each warp, then the threads. */
#define GPU_BLOCK_WORDS (GPU_WARPS + GPU_THREADS * GPU_THREAD_WORDS)
/* What a thread of the comparison leaves: how many words differ, the first of them, all differing bits. */
#define GPU_MEMORY_WORDS 3

#define GPU_FLIP_WARP 1 /* where a flipped bit of a test is put */
#define GPU_FLIP_LANE 7
#define GPU_FLIP_BIT 12

/* ---- operands: the same on host and GPU ---- */

#ifdef __CUDA__
#define GPU_FUNCTION static inline __attribute__((device, always_inline))
#else
#define GPU_FUNCTION static inline
#endif

struct gpu_operand { /* which one: all of it makes up its bits */
    uint32_t seed, round, warp;
    uint32_t matrix; /* 0: the left one */
    uint32_t row, column;
};

GPU_FUNCTION uint32_t gpu_operand_bits(struct gpu_operand at)
{
    uint32_t x = at.seed + at.round * 0x9e3779b9u;

    x ^= (at.warp << 20) + (at.matrix << 16) + (at.row << 8) + at.column;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

GPU_FUNCTION int32_t gpu_operand_exact(struct gpu_operand at)
{
    return (int32_t)(gpu_operand_bits(at) % 15) - 7;
}

GPU_FUNCTION uint32_t gpu_pattern_mix(uint32_t digest, uint32_t bits)
{
    return digest * 0x9e3779b1u + bits;
}

/* The word at an index of memory. */
GPU_FUNCTION uint64_t gpu_pattern(uint64_t index, uint64_t seed)
{
    return (index + seed) * 0x9e3779b97f4a7c15ull;
}

/* ---- names in the module, and the functions of the host ---- */

#ifndef __CUDA__
#include <stdbool.h>
#include <stddef.h>

const char *gpu_type_name(unsigned type);   /* "fp32" */
const char *gpu_kernel_name(unsigned type); /* "arith_fp32" */
unsigned gpu_type_depth(unsigned type);     /* columns of the left matrix */
bool gpu_type_is_known(unsigned type,
                       enum gpu_mode mode); /* the host's answer is that of any GPU */

#define GPU_KERNEL_FILL "memory_fill"
#define GPU_KERNEL_COMPARE "memory_compare"

struct gpu_arith {
    uint32_t seed, rounds;
    uint32_t mode; /* enum gpu_mode */
    uint32_t flip; /* 1 + the SM on which one bit of one sum is flipped half way; 0: none */
};

/* What a block on SM `sm` leaves: GPU_BLOCK_WORDS. */
void gpu_arith_block(unsigned type, const struct gpu_arith *arith, uint32_t sm, uint32_t *out);
void gpu_memory_fill(uint64_t *word, uint64_t words, uint64_t seed, uint64_t invert);
/* As one thread of many: words first, first + step ... */
void gpu_memory_compare(const uint64_t *word, uint64_t words, const uint64_t pattern[2],
                        const uint64_t stride[2], uint64_t out[GPU_MEMORY_WORDS]);

extern const unsigned char gpu_kernels_ptx[]; /* a text, with a zero behind it */
extern const size_t gpu_kernels_ptx_size;
#endif

#endif
