/* gpu_reference.c - multiplies the matrices of the exact test as whole numbers.
 *
 * It shares only the operands with the kernels: neither their order of sums nor the places of elements in registers of the
 * operands, so a mistake there cannot hide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/gpu/gpu_reference.h"

#include <string.h>

#include "device/kernel/gpu_kernels.h"

static void reference_round(unsigned type, struct gpu_operand at,
                            int32_t sum[GPU_ROWS][GPU_COLUMNS])
{
    int32_t left[GPU_ROWS][GPU_DEPTH_MAX], right[GPU_DEPTH_MAX][GPU_COLUMNS];
    uint32_t depth = gpu_type_depth(type);

    for (uint32_t k = 0; k < depth; k++) {
        for (uint32_t row = 0; row < GPU_ROWS; row++) {
            at.matrix = 0, at.row = row, at.column = k;
            left[row][k] = gpu_operand_exact(at);
        }
        for (uint32_t column = 0; column < GPU_COLUMNS; column++) {
            at.matrix = 1, at.row = k, at.column = column;
            right[k][column] = gpu_operand_exact(at);
        }
    }
    for (uint32_t row = 0; row < GPU_ROWS; row++) {
        for (uint32_t column = 0; column < GPU_COLUMNS; column++) {
            for (uint32_t k = 0; k < depth; k++)
                sum[row][column] += GPU_REPEATS * left[row][k] * right[k][column];
        }
    }
}

static uint32_t reference_bits(unsigned type, int32_t number)
{
    float as_float = (float)number;
    uint32_t bits;

    if (type == GPU_INT8)
        return (uint32_t)number;
    memcpy(&bits, &as_float, sizeof(bits));
    return bits;
}

void gpu_reference_exact(unsigned type, uint32_t seed, uint32_t rounds, uint32_t *out)
{
    for (uint32_t warp = 0; warp < GPU_WARPS; warp++) {
        int32_t sum[GPU_ROWS][GPU_COLUMNS] = { { 0 } };
        uint32_t *own = out + (size_t)warp * GPU_WARP * GPU_THREAD_WORDS;

        memset(own, 0, sizeof(*own) * GPU_WARP * GPU_THREAD_WORDS);
        for (uint32_t round = 0; round < rounds; round++) {
            reference_round(type, (struct gpu_operand){ seed, round, warp, 0, 0, 0 }, sum);
            /* Thread 4r + c has columns 2c and 2c + 1 of rows r and r + 8. */
            for (uint32_t t = 0; t < GPU_WARP * GPU_SUMS; t++) {
                uint32_t lane = t / GPU_SUMS, s = t % GPU_SUMS;
                uint32_t *thread = own + (size_t)lane * GPU_THREAD_WORDS;

                thread[s] = reference_bits(type, sum[lane / 4 + s / 2 * 8][lane % 4 * 2 + s % 2]);
                thread[GPU_SUMS] = gpu_pattern_mix(thread[GPU_SUMS], thread[s]);
            }
        }
    }
}
