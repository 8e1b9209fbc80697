/* cublaslt.h - the part of cuBLASLt that checks use: the product of two square matrices of bfloat16, summed in single precision.
 *
 * It is the library that training programs multiply with.  Opened at run time like the others; torch's wheels bring their own,
 * which is found where the loader's search path has it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_CUBLASLT_H
#define LOCKSTEP_DEVICE_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define CUBLASLT_LIBRARY "libcublasLt.so.13"

struct library;

#define CUBLASLT_ALGORITHM_WORDS 8

struct cublaslt_algorithm { /* as the library's heuristic gives it */
    uint64_t word[CUBLASLT_ALGORITHM_WORDS];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

struct cublaslt {
    struct library *library;
    size_t (*version)(void);
    int (*create)(void **ret);
    int (*destroy)(void *handle);
    int (*product_create)(void **ret, int compute, int scale);
    int (*product_destroy)(void *product);
    int (*product_set)(void *product, int attribute, const void *value, size_t bytes);
    int (*layout_create)(void **ret, int type, uint64_t rows, uint64_t columns, int64_t leading);
    int (*layout_destroy)(void *layout);
    int (*preference_create)(void **ret);
    int (*preference_destroy)(void *preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
    int (*heuristic)(void *handle, void *product, void *a, void *b, void *c, void *d,
                     void *preference, int wanted, struct cublaslt_algorithm *ret, int *ret_count);
    int (*multiply)(void *handle, void *product, const void *alpha, const void *a, void *a_layout,
                    const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                    void *d, void *d_layout, const struct cublaslt_algorithm *algorithm,
                    void *workspace, size_t workspace_bytes, void *stream);
};

/* NULL: the newest that the loader finds.  -ENOENT: it is not there. */
int cublaslt_open(struct cublaslt *lt, const char *library, struct err *err);
void cublaslt_close(struct cublaslt *lt);

/* D = transpose(A) * B, all with `rows` rows and columns, each column of A, B and D one behind the other: element (i, j) of D is the
 * sum over k of A[i * rows + k] * B[j * rows + k], at D[i + j * rows].
 */
struct cublaslt_product {
    const struct cublaslt *lt;
    void *handle, *product, *input, *output;
    struct cublaslt_algorithm algorithm;
};

#define CUBLASLT_WORKSPACE_BYTES ((size_t)32 << 20) /* at most */

/* For the current context.  -ENOTSUP: it has no algorithm for this on this GPU. */
int cublaslt_product_open(const struct cublaslt *lt, uint64_t rows, size_t workspace_bytes,
                          struct cublaslt_product *ret, struct err *err);
void cublaslt_product_close(struct cublaslt_product *product);
/* Begins it.  `memory`: addresses on the GPU of A, B, D and the workspace. */
int cublaslt_product_run(const struct cublaslt_product *product, const uint64_t memory[4],
                         void *stream, struct err *err);

#endif
