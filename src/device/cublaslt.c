/* cublaslt.c - the names of cuBLASLt's functions, and one product by them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/cublaslt.h"

#include <errno.h>
#include <stdbool.h>

#include "core/clean.h"
#include "device/cuda/symbols.h"
#include "device/library.h"

/* Newest first.  The first four arguments of each function are the same in all of them. */
static const char *const names[] = { CUBLASLT_LIBRARY, "libcublasLt.so.12", "libcublasLt.so.11" };

enum { /* of cublasLt.h, cublas_api.h and library_types.h */
    COMPUTE_SINGLE = 68,
    TYPE_SINGLE = 0,
    TYPE_BFLOAT16 = 14,
    ATTRIBUTE_TRANSPOSE_A = 3,
    PREFERENCE_WORKSPACE_BYTES = 1,
    TRANSPOSED = 1,
    NOT_SUPPORTED = 15,
};

_Static_assert(sizeof(struct cublaslt_algorithm) == 96, "the library's own size");

static const struct symbol symbols[] = {
    SYMBOL(struct cublaslt, version, "cublasLtGetVersion"),
    SYMBOL(struct cublaslt, create, "cublasLtCreate"),
    SYMBOL(struct cublaslt, destroy, "cublasLtDestroy"),
    SYMBOL(struct cublaslt, product_create, "cublasLtMatmulDescCreate"),
    SYMBOL(struct cublaslt, product_destroy, "cublasLtMatmulDescDestroy"),
    SYMBOL(struct cublaslt, product_set, "cublasLtMatmulDescSetAttribute"),
    SYMBOL(struct cublaslt, layout_create, "cublasLtMatrixLayoutCreate"),
    SYMBOL(struct cublaslt, layout_destroy, "cublasLtMatrixLayoutDestroy"),
    SYMBOL(struct cublaslt, preference_create, "cublasLtMatmulPreferenceCreate"),
    SYMBOL(struct cublaslt, preference_destroy, "cublasLtMatmulPreferenceDestroy"),
    SYMBOL(struct cublaslt, preference_set, "cublasLtMatmulPreferenceSetAttribute"),
    SYMBOL(struct cublaslt, heuristic, "cublasLtMatmulAlgoGetHeuristic"),
    SYMBOL(struct cublaslt, multiply, "cublasLtMatmul"),
    { NULL, 0, false },
};

int cublaslt_open(struct cublaslt *lt, const char *library, struct err *err)
{
    struct cublaslt fresh = { .library = NULL };
    int result = -ENOENT;

    if (library)
        result = library_open(library, &fresh.library, err);
    for (size_t i = 0; !library && i < COUNT(names) && result == -ENOENT; i++)
        result = library_open(names[i], &fresh.library, err);
    if (result == 0)
        result = symbols_fill(&fresh, symbols, library_find, fresh.library, err);
    if (result < 0) {
        library_close(fresh.library);
        return result;
    }
    *lt = fresh;
    return 0;
}

void cublaslt_close(struct cublaslt *lt)
{
    library_close(lt->library);
    *lt = (struct cublaslt){ .library = NULL };
}

/* cublasLtGetStatusName() came late, so the number alone. */
static int cublaslt_check(int status, const char *what, struct err *err)
{
    if (status == 0)
        return 0;
    return err_set(err, status == NOT_SUPPORTED ? -ENOTSUP : -EIO, "%s: cuBLAS status %d%s", what,
                   status, status == NOT_SUPPORTED ? " (not supported)" : "");
}

void cublaslt_product_close(struct cublaslt_product *product)
{
    const struct cublaslt *lt = product->lt;

    if (product->output)
        lt->layout_destroy(product->output);
    if (product->input)
        lt->layout_destroy(product->input);
    if (product->product)
        lt->product_destroy(product->product);
    if (product->handle)
        lt->destroy(product->handle);
    *product = (struct cublaslt_product){ .lt = NULL };
}

static int cublaslt_algorithm_find(struct cublaslt_product *product, size_t workspace_bytes,
                                   struct err *err)
{
    const struct cublaslt *lt = product->lt;
    uint64_t bytes = workspace_bytes;
    void *preference = NULL;
    int count = 0;
    int result =
        cublaslt_check(lt->preference_create(&preference), "cublasLtMatmulPreferenceCreate", err);

    if (result < 0)
        return result;
    result = cublaslt_check(
        lt->preference_set(preference, PREFERENCE_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
        "cublasLtMatmulPreferenceSetAttribute", err);
    if (result == 0)
        result = cublaslt_check(lt->heuristic(product->handle, product->product, product->input,
                                              product->input, product->output, product->output,
                                              preference, 1, &product->algorithm, &count),
                                "cublasLtMatmulAlgoGetHeuristic", err);
    lt->preference_destroy(preference);
    if (result == 0 && count < 1)
        return err_set(err, -ENOTSUP, "cuBLASLt has no algorithm for bfloat16 on this GPU");
    return result;
}

int cublaslt_product_open(const struct cublaslt *lt, uint64_t rows, size_t workspace_bytes,
                          struct cublaslt_product *ret, struct err *err)
{
    struct cublaslt_product made = { .lt = lt };
    int32_t transposed = TRANSPOSED;
    int result = cublaslt_check(lt->create(&made.handle), "cublasLtCreate", err);

    if (result == 0)
        result = cublaslt_check(lt->product_create(&made.product, COMPUTE_SINGLE, TYPE_SINGLE),
                                "cublasLtMatmulDescCreate", err);
    if (result == 0)
        result = cublaslt_check(
            lt->product_set(made.product, ATTRIBUTE_TRANSPOSE_A, &transposed, sizeof(transposed)),
            "cublasLtMatmulDescSetAttribute", err);
    if (result == 0)
        result =
            cublaslt_check(lt->layout_create(&made.input, TYPE_BFLOAT16, rows, rows, (int64_t)rows),
                           "cublasLtMatrixLayoutCreate", err);
    if (result == 0)
        result =
            cublaslt_check(lt->layout_create(&made.output, TYPE_SINGLE, rows, rows, (int64_t)rows),
                           "cublasLtMatrixLayoutCreate", err);
    if (result == 0)
        result = cublaslt_algorithm_find(&made, workspace_bytes, err);
    if (result < 0) {
        cublaslt_product_close(&made);
        return result;
    }
    *ret = made;
    return 0;
}

int cublaslt_product_run(const struct cublaslt_product *product, const uint64_t memory[4],
                         void *stream, struct err *err)
{
    const float alpha = 1, beta = 0;
    void *d = (void *)(uintptr_t)memory[2];

    return cublaslt_check(
        product->lt->multiply(
            product->handle, product->product, &alpha, (const void *)(uintptr_t)memory[0],
            product->input, (const void *)(uintptr_t)memory[1], product->input, &beta, d,
            product->output, d, product->output, &product->algorithm, (void *)(uintptr_t)memory[3],
            memory[3] ? product->algorithm.workspace_bytes : 0, stream),
        "cublasLtMatmul", err);
}
