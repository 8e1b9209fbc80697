/* gpu_kernels.c - the kernels: one source for the GPU (CUDA's C dialect, made into PTX by tools/ptx) and for the host.
 *
 * A function of a warp works on all lanes that it has: 32 on the host, one on the GPU, where the other lanes are other threads.
 * Which lane has which elements of a matrix is fixed by the instruction mma.sync (PTX ISA, "Warp Level Matrix Multiply-Accumulate").
 *
 * No shared memory, no atomics and no library: what a fault can touch is registers, the arithmetic units and the stores.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/kernel/gpu_kernels.h"

#ifdef __CUDA__
#define LANES 1
#define UNROLL _Pragma("unroll") /* an array with a variable index would be memory, not registers */
#define LANE_OF(i) ((uint32_t)__nvvm_read_ptx_sreg_tid_x() % GPU_WARP)
#define WARP_OF(warp) ((uint32_t)__nvvm_read_ptx_sreg_tid_x() / GPU_WARP)
#else
#include <string.h>

#define LANES GPU_WARP
#define UNROLL
#define LANE_OF(i) (i)
#define WARP_OF(warp) (warp)
#endif

#define LEFT_WORDS 4 /* registers of a lane, at most */
#define RIGHT_WORDS 2

struct warp {
    uint32_t seed, mode, warp;
    uint32_t left[LANES][LEFT_WORDS], right[LANES][RIGHT_WORDS];
    uint32_t sum[LANES][GPU_SUMS]; /* bits of float, or int32_t */
    uint32_t digest[LANES];
};

/* ---- numbers ---- */

GPU_FUNCTION uint32_t float_bits(float number)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &number, sizeof(bits));
    return bits;
}

GPU_FUNCTION float float_of(uint32_t bits)
{
    float number;

    __builtin_memcpy(&number, &bits, sizeof(number));
    return number;
}

/* A float in mode entropy: of any sign, from 0.5 to 2, so that no sum overflows. */
GPU_FUNCTION uint32_t float_any(uint32_t bits)
{
    return (bits & 0x807fffffu) | (bits >> 23 & 1 ? 0x3f800000u : 0x3f000000u);
}

GPU_FUNCTION uint32_t half_of_float(uint32_t bits) /* exact for what is used here */
{
    uint32_t exponent = bits >> 23 & 0xff;

    return exponent ? (bits >> 16 & 0x8000u) | (exponent - 112) << 10 | (bits >> 13 & 0x3ffu) : 0;
}

/* An operand as the bits of its type. */
GPU_FUNCTION uint32_t operand(unsigned type, uint32_t mode, struct gpu_operand at)
{
    uint32_t bits;

    if (type == GPU_INT8)
        return (mode == GPU_EXACT ? (uint32_t)gpu_operand_exact(at) : gpu_operand_bits(at)) & 0xff;
    bits = mode == GPU_EXACT ? float_bits((float)gpu_operand_exact(at))
                             : float_any(gpu_operand_bits(at));
    switch (type) {
    case GPU_TF32:
        return bits & 0xffffe000u;
    case GPU_BF16:
        return bits >> 16;
    case GPU_FP16:
        return half_of_float(bits & 0xffffe000u);
    default:
        return bits;
    }
}

/* ---- which lane has which elements ---- */

/* Elements in a register, and how many columns of the left matrix there are. */
GPU_FUNCTION uint32_t type_packed(unsigned type)
{
    return type == GPU_INT8 ? 4 : type == GPU_BF16 || type == GPU_FP16 ? 2 : 1;
}

GPU_FUNCTION uint32_t type_depth(unsigned type)
{
    return 8 * type_packed(type);
}

/* Element `part` of register `word` of the left matrix: row and column. */
GPU_FUNCTION struct gpu_operand left_at(const struct warp *w, uint32_t round, unsigned type,
                                        uint32_t lane, uint32_t word, uint32_t part)
{
    uint32_t packed = type_packed(type);
    struct gpu_operand at;

    at.seed = w->seed;
    at.round = round;
    at.warp = w->warp;
    at.matrix = 0;
    at.row = lane / 4 + 8 * (word % 2);
    at.column = lane % 4 * packed + part + 4 * packed * (word / 2);
    return at;
}

GPU_FUNCTION struct gpu_operand right_at(const struct warp *w, uint32_t round, unsigned type,
                                         uint32_t lane, uint32_t word, uint32_t part)
{
    uint32_t packed = type_packed(type);
    struct gpu_operand at;

    at.seed = w->seed;
    at.round = round;
    at.warp = w->warp;
    at.matrix = 1;
    at.row = lane % 4 * packed + part + 4 * packed * word;
    at.column = lane / 4;
    return at;
}

GPU_FUNCTION void warp_operands(struct warp *w, unsigned type, uint32_t round)
{
    uint32_t packed = type_packed(type), width = 32 / packed;

    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        UNROLL
        for (uint32_t word = 0; word < LEFT_WORDS; word++) {
            w->left[i][word] = 0;
            UNROLL
            for (uint32_t part = 0; part < packed; part++)
                w->left[i][word] |=
                    operand(type, w->mode, left_at(w, round, type, LANE_OF(i), word, part))
                    << part * width % 32;
        }
        UNROLL
        for (uint32_t word = 0; word < RIGHT_WORDS; word++) {
            w->right[i][word] = 0;
            UNROLL
            for (uint32_t part = 0; part < packed; part++)
                w->right[i][word] |=
                    operand(type, w->mode, right_at(w, round, type, LANE_OF(i), word, part))
                    << part * width % 32;
        }
    }
}

/* ---- products ---- */

/* On the units for single numbers: a lane computes its own sums, from operands that it makes itself. */
GPU_FUNCTION void warp_multiply_fp32(struct warp *w, uint32_t round)
{
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        UNROLL
        for (uint32_t s = 0; s < GPU_SUMS; s++) {
            float sum = float_of(w->sum[i][s]);
            struct gpu_operand left, right;

            left.seed = right.seed = w->seed;
            left.round = right.round = round;
            left.warp = right.warp = w->warp;
            left.matrix = 0;
            right.matrix = 1;
            left.row = LANE_OF(i) / 4 + 8 * (s / 2);
            right.column = LANE_OF(i) % 4 * 2 + s % 2;
            for (uint32_t k = 0; k < type_depth(GPU_FP32); k++) {
                float a, b;

                left.column = right.row = k;
                a = float_of(operand(GPU_FP32, w->mode, left));
                b = float_of(operand(GPU_FP32, w->mode, right));
                UNROLL
                for (uint32_t again = 0; again < GPU_REPEATS; again++)
                    sum = __builtin_fmaf(a, b, sum);
            }
            w->sum[i][s] = float_bits(sum);
        }
    }
}

#ifdef __CUDA__

#define MMA(shape, types, accumulator)                                                             \
    __asm__ volatile("mma.sync.aligned." shape ".row.col." types                                   \
                     " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
                     : "+" accumulator(sum[0]), "+" accumulator(sum[1]), "+" accumulator(sum[2]),  \
                       "+" accumulator(sum[3])                                                     \
                     : "r"(w->left[0][0]), "r"(w->left[0][1]), "r"(w->left[0][2]),                 \
                       "r"(w->left[0][3]), "r"(w->right[0][0]), "r"(w->right[0][1]))

GPU_FUNCTION void warp_multiply_once(struct warp *w, unsigned type)
{
    if (type == GPU_INT8) {
        uint32_t *sum = w->sum[0];

        MMA("m16n8k32", "s32.s8.s8.s32", "r");
    } else {
        float sum[GPU_SUMS];

        UNROLL
        for (uint32_t s = 0; s < GPU_SUMS; s++)
            sum[s] = float_of(w->sum[0][s]);
        if (type == GPU_TF32)
            MMA("m16n8k8", "f32.tf32.tf32.f32", "f");
        else if (type == GPU_BF16)
            MMA("m16n8k16", "f32.bf16.bf16.f32", "f");
        else
            MMA("m16n8k16", "f32.f16.f16.f32", "f");
        UNROLL
        for (uint32_t s = 0; s < GPU_SUMS; s++)
            w->sum[0][s] = float_bits(sum[s] + 0.0f); /* zero has one sign */
    }
}

#else

static float gpu_element_float(unsigned type, uint32_t bits)
{
    if (type == GPU_BF16)
        return float_of(bits << 16);
    if (type == GPU_FP16)
        return bits & 0x7fff ? float_of((bits & 0x8000) << 16 | ((bits >> 10 & 0x1f) + 112) << 23 |
                                        (bits & 0x3ff) << 13)
                             : 0;
    return float_of(bits);
}

/* The matrices that the registers of all lanes make up. */
struct warp_matrices {
    uint32_t left[GPU_ROWS][GPU_DEPTH_MAX], right[GPU_DEPTH_MAX][GPU_COLUMNS];
};

static void warp_gather(const struct warp *w, unsigned type, struct warp_matrices *ret)
{
    uint32_t packed = type_packed(type), width = 32 / packed;
    uint32_t mask = packed == 1 ? UINT32_MAX : (1u << width) - 1;

    for (uint32_t lane = 0; lane < GPU_WARP; lane++) {
        for (uint32_t part = 0; part < packed; part++) {
            for (uint32_t word = 0; word < LEFT_WORDS; word++) {
                struct gpu_operand at = left_at(w, 0, type, lane, word, part);

                ret->left[at.row][at.column] = w->left[lane][word] >> part * width % 32 & mask;
            }
            for (uint32_t word = 0; word < RIGHT_WORDS; word++) {
                struct gpu_operand at = right_at(w, 0, type, lane, word, part);

                ret->right[at.row][at.column] = w->right[lane][word] >> part * width % 32 & mask;
            }
        }
    }
}

static uint32_t warp_sum(const struct warp_matrices *m, unsigned type, uint32_t row,
                         uint32_t column, uint32_t sum)
{
    float number = type == GPU_INT8 ? 0 : float_of(sum);

    for (uint32_t k = 0; k < type_depth(type); k++) {
        if (type == GPU_INT8)
            sum += (uint32_t)((int8_t)m->left[row][k] * (int8_t)m->right[k][column]);
        else
            number += gpu_element_float(type, m->left[row][k]) * /* exact: 11 bits each, at most */
                      gpu_element_float(type, m->right[k][column]);
    }
    return type == GPU_INT8 ? sum : float_bits(number);
}

static void warp_multiply_once(struct warp *w, unsigned type)
{
    struct warp_matrices m;

    warp_gather(w, type, &m);
    for (uint32_t lane = 0; lane < GPU_WARP; lane++) {
        for (uint32_t s = 0; s < GPU_SUMS; s++)
            w->sum[lane][s] =
                warp_sum(&m, type, lane / 4 + 8 * (s / 2), lane % 4 * 2 + s % 2, w->sum[lane][s]);
    }
}

#endif

GPU_FUNCTION void warp_multiply(struct warp *w, unsigned type, uint32_t round)
{
    if (type == GPU_FP32) {
        warp_multiply_fp32(w, round);
        return;
    }
    warp_operands(w, type, round);
    UNROLL
    for (uint32_t again = 0; again < GPU_REPEATS; again++)
        warp_multiply_once(w, type);
}

/* ---- a warp from begin to end ---- */

GPU_FUNCTION void warp_flip(struct warp *w)
{
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        if (LANE_OF(i) == GPU_FLIP_LANE)
            w->sum[i][0] ^= 1u << GPU_FLIP_BIT;
    }
}

GPU_FUNCTION void warp_run(struct warp *w, unsigned type, uint32_t rounds, bool flips)
{
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        w->digest[i] = 0;
        UNROLL
        for (uint32_t s = 0; s < GPU_SUMS; s++)
            w->sum[i][s] = 0;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        warp_multiply(w, type, round);
        if (flips && round == rounds / 2)
            warp_flip(w);
        UNROLL
        for (uint32_t i = 0; i < LANES; i++) {
            UNROLL
            for (uint32_t s = 0; s < GPU_SUMS; s++)
                w->digest[i] = gpu_pattern_mix(w->digest[i], w->sum[i][s]);
        }
    }
}

/* `out`: what the block leaves. */
GPU_FUNCTION void warp_store(const struct warp *w, uint32_t sm, uint32_t *out)
{
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t thread = w->warp * GPU_WARP + LANE_OF(i);
        uint32_t *own = out + GPU_WARPS + thread * GPU_THREAD_WORDS;

        if (LANE_OF(i) == 0)
            out[w->warp] = sm + 1;
        UNROLL
        for (uint32_t s = 0; s < GPU_SUMS; s++)
            own[s] = w->sum[i][s];
        own[GPU_SUMS] = w->digest[i];
    }
}

#ifdef __CUDA__

#define KERNEL extern "C" __attribute__((global)) void

GPU_FUNCTION uint32_t sm_id(void)
{
    uint32_t sm;

    __asm__ volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

GPU_FUNCTION void arith(unsigned type, uint32_t *out, uint32_t seed, uint32_t rounds, uint32_t mode,
                        uint32_t flip)
{
    struct warp w;
    uint32_t sm = sm_id();

    w.seed = seed;
    w.mode = mode;
    w.warp = WARP_OF(0);
    warp_run(&w, type, rounds, flip == sm + 1 && w.warp == GPU_FLIP_WARP);
    warp_store(&w, sm, out + (uint64_t)__nvvm_read_ptx_sreg_ctaid_x() * GPU_BLOCK_WORDS);
}

#define ARITH_KERNEL(name, type)                                                                   \
    KERNEL name(uint32_t *out, uint32_t seed, uint32_t rounds, uint32_t mode, uint32_t flip)       \
    {                                                                                              \
        arith(type, out, seed, rounds, mode, flip);                                                \
    }

ARITH_KERNEL(arith_fp32, GPU_FP32)
ARITH_KERNEL(arith_tf32, GPU_TF32)
ARITH_KERNEL(arith_bf16, GPU_BF16)
ARITH_KERNEL(arith_fp16, GPU_FP16)
ARITH_KERNEL(arith_int8, GPU_INT8)

GPU_FUNCTION uint64_t thread_of_all(void)
{
    return (uint64_t)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
           __nvvm_read_ptx_sreg_tid_x();
}

GPU_FUNCTION uint64_t threads_of_all(void)
{
    return (uint64_t)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

KERNEL memory_fill(uint64_t *word, uint64_t words, uint64_t seed, uint64_t invert)
{
    for (uint64_t i = thread_of_all(); i < words; i += threads_of_all())
        word[i] = gpu_pattern(i, seed) ^ invert;
}

KERNEL memory_compare(const uint64_t *word, uint64_t words, uint64_t seed, uint64_t invert,
                      uint64_t *out)
{
    uint64_t wrong = 0, first = 0, bits = 0, *own = out + thread_of_all() * GPU_MEMORY_WORDS;

    for (uint64_t i = thread_of_all(); i < words; i += threads_of_all()) {
        uint64_t differs = word[i] ^ gpu_pattern(i, seed) ^ invert;

        if (differs && !wrong)
            first = i;
        wrong += differs != 0;
        bits |= differs;
    }
    own[0] = wrong;
    own[1] = first;
    own[2] = bits;
}

#else

static const char *const type_names[GPU_TYPES] = { "fp32", "tf32", "bf16", "fp16", "int8" };
static const char *const kernel_names[GPU_TYPES] = { "arith_fp32", "arith_tf32", "arith_bf16",
                                                     "arith_fp16", "arith_int8" };

const char *gpu_type_name(unsigned type)
{
    return type < GPU_TYPES ? type_names[type] : "unknown";
}

const char *gpu_kernel_name(unsigned type)
{
    return kernel_names[type];
}

unsigned gpu_type_depth(unsigned type)
{
    return type_depth(type);
}

/* Tensor cores add the products of floats in an order and with a precision of their own. */
bool gpu_type_is_known(unsigned type, enum gpu_mode mode)
{
    return mode == GPU_EXACT || type == GPU_FP32 || type == GPU_INT8;
}

void gpu_arith_block(unsigned type, const struct gpu_arith *arith, uint32_t sm, uint32_t *out)
{
    for (uint32_t warp = 0; warp < GPU_WARPS; warp++) {
        struct warp w = { .seed = arith->seed, .mode = arith->mode, .warp = WARP_OF(warp) };

        warp_run(&w, type, arith->rounds, arith->flip == sm + 1 && warp == GPU_FLIP_WARP);
        warp_store(&w, sm, out);
    }
}

void gpu_memory_fill(uint64_t *word, uint64_t words, uint64_t seed, uint64_t invert)
{
    for (uint64_t i = 0; i < words; i++)
        word[i] = gpu_pattern(i, seed) ^ invert;
}

void gpu_memory_compare(const uint64_t *word, uint64_t words, const uint64_t pattern[2],
                        const uint64_t stride[2], uint64_t out[GPU_MEMORY_WORDS])
{
    memset(out, 0, GPU_MEMORY_WORDS * sizeof(*out));
    for (uint64_t i = stride[0]; i < words; i += stride[1]) {
        uint64_t differs = word[i] ^ gpu_pattern(i, pattern[0]) ^ pattern[1];

        if (differs && !out[0])
            out[1] = i;
        out[0] += differs != 0;
        out[2] |= differs;
    }
}

#endif
