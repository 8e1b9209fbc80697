/* gpu_product.h - a large product of matrices on a GPU, as training computes it: by cuBLASLt where that is present.
 *
 * All operands are small whole numbers, so that every sum is exact in any order and the result can be proved right.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_GPU_GPU_PRODUCT_H
#define LOCKSTEP_VERIFY_GPU_GPU_PRODUCT_H

#include "device/cublaslt.h"
#include "verify/gpu/gpu_devices.h"

struct gpu_product {
    struct gpu_device *device;
    struct cublaslt_product product;
    uint32_t rows;
    uint64_t memory[4]; /* A, B, D, workspace */
};

/* cuBLASLt of a place.  -ENOENT: it is not there. */
int gpu_product_library(struct cublaslt *lt, const struct verify_place *place, struct err *err);

/* The device is open and current.  -ENOTSUP: this GPU has too little memory, or cuBLASLt no algorithm. */
int gpu_product_open(struct gpu_product *product, const struct cublaslt *lt,
                     struct gpu_device *device, struct err *err);
void gpu_product_close(struct gpu_product *product);
int gpu_product_begin(struct gpu_product *product, struct err *err); /* one more */
double gpu_product_operations(const struct gpu_product *product);    /* of one */

/* Of the newest result, when all has ended: 1: right; 0: wrong, with the first wrong row; -errno. */
int gpu_product_check(struct gpu_product *product, uint32_t *ret_row, struct err *err);

#endif
