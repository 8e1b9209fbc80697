/* gpu_product.c - operands, memory and proof of a product of matrices.
 *
 * The proof is Freivalds': for a vector x without a zero, D x must be A (B x).  That takes a few million operations where the product
 * takes a hundred thousand million, and a single wrong element always shows.  Everything is a whole number below 2^53, so it is exact.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/gpu/gpu_product.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define ROWS_MAX 8192 /* where a GPU of today is at its full rate */
#define ROWS_MIN 128
#define ROWS_STEP 64 /* that tiles divide */
#define FREE_SHARE 4 /* of what is free, one part in so many may be used */
#define OPERAND_MOST 4

enum {
    PRODUCT_A,
    PRODUCT_B,
    PRODUCT_D,
    PRODUCT_WORKSPACE
};

/* From -4 to 4: with 8,192 rows sums stay below 2^24. */
static int product_operand(unsigned which, size_t at)
{
    uint32_t bits = ((uint32_t)at + which * 0x7feb352du) * 2654435761u;

    return (int)((bits >> 20) % (2 * OPERAND_MOST + 1)) - OPERAND_MOST;
}

static uint16_t product_bfloat16(int value)
{
    float number = (float)value;
    uint32_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

int gpu_product_library(struct cublaslt *lt, const struct verify_place *place, struct err *err)
{
    char path[PATH_MAX];

    return cublaslt_open(lt, gpu_library_path(place, place->cublaslt, CUBLASLT_LIBRARY, path), err);
}

static uint32_t product_rows(const struct gpu_device *device)
{
    /* A, B and D need 8 bytes for each element. */
    double room = (double)device->free_bytes / FREE_SHARE / 8;
    uint32_t rows = (uint32_t)MIN(sqrt(room), (double)ROWS_MAX);

    return rows - rows % ROWS_STEP;
}

static int product_fill(struct gpu_product *product, unsigned which, struct err *err)
{
    struct gpu_device *device = product->device;
    size_t count = (size_t)product->rows * product->rows;
    CLEAN(free_clean) uint16_t *host = malloc(count * sizeof(*host));
    int result;

    if (!host)
        return err_nomem(err);
    for (size_t i = 0; i < count; i++)
        host[i] = product_bfloat16(product_operand(which, i));
    result = gpu_device_check(device,
                              device->cuda->copy_to_device(product->memory[which], host,
                                                           count * sizeof(*host), device->stream),
                              "cuMemcpyHtoDAsync", err);
    return result < 0 ? result : gpu_device_wait(device, err);
}

int gpu_product_open(struct gpu_product *product, const struct cublaslt *lt,
                     struct gpu_device *device, struct err *err)
{
    struct gpu_product made = { .device = device, .rows = product_rows(device) };
    size_t count = (size_t)made.rows * made.rows;
    size_t workspace = MIN(CUBLASLT_WORKSPACE_BYTES, device->free_bytes / FREE_SHARE);
    const size_t bytes[4] = { 2 * count, 2 * count, 4 * count, workspace };
    int result = 0;

    if (made.rows < ROWS_MIN)
        return err_set(err, -ENOTSUP, "too little memory is free for a product of matrices");
    for (int i = 0; i < 4 && result == 0; i++)
        result = gpu_device_memory(device, bytes[i], &made.memory[i], err);
    if (result == 0)
        result = cublaslt_product_open(lt, made.rows, workspace, &made.product, err);
    for (unsigned i = PRODUCT_A; i <= PRODUCT_B && result == 0; i++)
        result = product_fill(&made, i, err);
    if (result == 0)
        result = gpu_device_check(
            device,
            device->cuda->set_bytes(made.memory[PRODUCT_D], 0xff, 4 * count, device->stream),
            "cuMemsetD8Async", err); /* or an old result would count */
    if (result < 0) {
        gpu_product_close(&made);
        return result;
    }
    *product = made;
    return 0;
}

void gpu_product_close(struct gpu_product *product)
{
    if (!product->device)
        return;
    if (product->product.lt)
        cublaslt_product_close(&product->product);
    for (size_t i = 0; i < COUNT(product->memory); i++)
        gpu_device_free(product->device, product->memory[i]);
    *product = (struct gpu_product){ .device = NULL };
}

int gpu_product_begin(struct gpu_product *product, struct err *err)
{
    return cublaslt_product_run(&product->product, product->memory, product->device->stream, err);
}

double gpu_product_operations(const struct gpu_product *product)
{
    return 2.0 * product->rows * product->rows * product->rows;
}

/* ---- the proof ---- */

static int product_weight(size_t at)
{
    return (int)(((uint32_t)at * 0x846ca68bu) >> 29) + 1; /* 1 to 8 */
}

/* A (B x). */
static void product_expected(uint32_t rows, double *between, double *expected)
{
    for (uint32_t k = 0; k < rows; k++)
        between[k] = 0;
    for (size_t j = 0; j < rows; j++) {
        for (size_t k = 0; k < rows; k++)
            between[k] += product_weight(j) * product_operand(PRODUCT_B, j * rows + k);
    }
    for (size_t i = 0; i < rows; i++) {
        expected[i] = 0;
        for (size_t k = 0; k < rows; k++)
            expected[i] += product_operand(PRODUCT_A, i * rows + k) * between[k];
    }
}

int gpu_product_check(struct gpu_product *product, uint32_t *ret_row, struct err *err)
{
    size_t rows = product->rows, count = rows * rows;
    CLEAN(free_clean) float *d = malloc(count * sizeof(*d));
    CLEAN(free_clean) double *sum = calloc(3 * rows, sizeof(*sum));
    double *expected, *between;
    int result;

    if (!d || !sum)
        return err_nomem(err);
    expected = sum + rows;
    between = expected + rows;
    result =
        gpu_device_fetch(product->device, d, product->memory[PRODUCT_D], count * sizeof(*d), err);
    if (result < 0)
        return result;
    product_expected(product->rows, between, expected);
    for (size_t j = 0; j < rows; j++) {
        for (size_t i = 0; i < rows; i++)
            sum[i] += product_weight(j) * (double)d[i + j * rows];
    }
    for (uint32_t i = 0; i < rows; i++) {
        if (sum[i] == expected[i]) /* false also for what is no number */
            continue;
        *ret_row = i;
        return 0;
    }
    return 1;
}
