/* fake_cublaslt.c - libcublasLt.so.13 by script: it multiplies on the host, and takes as long as the script says.
 *
 * Keys: cublaslt.N.gflops (of device N: how long a product keeps its stream busy), cublaslt.N.bad-number (this element of each result
 * has a wrong bit), cublaslt.algorithms (how many the heuristic finds), cublaslt.create, cublaslt.heuristic, cublaslt.multiply for
 * errors.  The scripted driver has to be loaded as libcuda.so.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/fake/script.h"

#define EXPORT __attribute__((visibility("default")))
#define ALGORITHM_BYTES 96
#define FAILED 13     /* execution failed */
#define ROWS_MAX 2048 /* more would take minutes here */

struct fake_layout {
    int type;
    uint64_t rows, columns;
};

struct fake_driver {
    int (*device)(void);
    int (*work)(void *stream, int64_t us);
    int (*wait)(void *stream);
};

static int fake_call(const char *key)
{
    int64_t number;

    return script_number(&number, 0, "%s", key);
}

/* A symbol is no object pointer to C; this is how POSIX converts it. */
static void fake_symbol(void *library, const char *name, void *ret)
{
    *(void **)ret = library ? dlsym(library, name) : NULL;
}

static struct fake_driver fake_driver_find(void)
{
    struct fake_driver driver = { NULL, NULL, NULL };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    fake_symbol(library, "fake_cuda_device", &driver.device);
    fake_symbol(library, "fake_cuda_work", &driver.work);
    fake_symbol(library, "cuStreamSynchronize", &driver.wait);
    if (library)
        dlclose(library);
    return driver;
}

EXPORT size_t cublasLtGetVersion(void);
EXPORT size_t cublasLtGetVersion(void)
{
    return 130000;
}

static int fake_object(void **ret, size_t bytes)
{
    *ret = calloc(1, bytes);
    return *ret ? 0 : 3;
}

static int fake_free(void *object)
{
    free(object);
    return 0;
}

EXPORT int cublasLtCreate(void **ret);
EXPORT int cublasLtCreate(void **ret)
{
    int result = fake_call("cublaslt.create");

    return result ? result : fake_object(ret, 1);
}

EXPORT int cublasLtDestroy(void *handle);
EXPORT int cublasLtDestroy(void *handle)
{
    return fake_free(handle);
}

EXPORT int cublasLtMatmulDescCreate(void **ret, int compute, int scale);
EXPORT int cublasLtMatmulDescCreate(void **ret, int compute, int scale)
{
    return compute == 68 && scale == 0 ? fake_object(ret, sizeof(int32_t)) : 7;
}

EXPORT int cublasLtMatmulDescDestroy(void *product);
EXPORT int cublasLtMatmulDescDestroy(void *product)
{
    return fake_free(product);
}

EXPORT int cublasLtMatmulDescSetAttribute(void *product, int attribute, const void *value,
                                          size_t bytes);
EXPORT int cublasLtMatmulDescSetAttribute(void *product, int attribute, const void *value,
                                          size_t bytes)
{
    if (attribute != 3 || bytes != sizeof(int32_t))
        return 7;
    memcpy(product, value, bytes);
    return 0;
}

EXPORT int cublasLtMatrixLayoutCreate(void **ret, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading);
EXPORT int cublasLtMatrixLayoutCreate(void **ret, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading)
{
    struct fake_layout *layout = malloc(sizeof(*layout));

    if (!layout || leading != (int64_t)rows) {
        free(layout);
        return 7;
    }
    *layout = (struct fake_layout){ type, rows, columns };
    *ret = layout;
    return 0;
}

EXPORT int cublasLtMatrixLayoutDestroy(void *layout);
EXPORT int cublasLtMatrixLayoutDestroy(void *layout)
{
    return fake_free(layout);
}

EXPORT int cublasLtMatmulPreferenceCreate(void **ret);
EXPORT int cublasLtMatmulPreferenceCreate(void **ret)
{
    return fake_object(ret, 1);
}

EXPORT int cublasLtMatmulPreferenceDestroy(void *preference);
EXPORT int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return fake_free(preference);
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                                size_t bytes);
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                                size_t bytes)
{
    (void)preference;
    return attribute == 1 && value && bytes == sizeof(uint64_t) ? 0 : 7;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c,
                                          void *d, void *preference, int wanted, void *algorithms,
                                          int *ret_count);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c,
                                          void *d, void *preference, int wanted, void *algorithms,
                                          int *ret_count)
{
    int64_t count;
    int result = script_number(&count, 1, "cublaslt.algorithms");

    (void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference;
    if (result == 0)
        result = fake_call("cublaslt.heuristic");
    if (result)
        return result;
    memset(algorithms, 0, (size_t)wanted * ALGORITHM_BYTES);
    *ret_count = (int)(count < wanted ? count : wanted);
    return 0;
}

/* ---- the product ---- */

static float fake_number(uint16_t bfloat16)
{
    uint32_t bits = (uint32_t)bfloat16 << 16;
    float number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

static void fake_multiply(uint64_t rows, const uint16_t *a, const uint16_t *b, float *d)
{
    float *left = malloc(rows * rows * sizeof(*left)), *right = malloc(rows * sizeof(*right));

    for (uint64_t i = 0; left && right && i < rows * rows; i++)
        left[i] = fake_number(a[i]);
    for (uint64_t j = 0; left && right && j < rows; j++) {
        for (uint64_t k = 0; k < rows; k++)
            right[k] = fake_number(b[j * rows + k]);
        for (uint64_t i = 0; i < rows; i++) {
            float sum = 0;

            for (uint64_t k = 0; k < rows; k++)
                sum += left[i * rows + k] * right[k];
            d[i + j * rows] = sum;
        }
    }
    free(left);
    free(right);
}

static uint64_t fake_digest(uint64_t rows, const uint16_t *a, const uint16_t *b)
{
    uint64_t digest = rows;

    for (uint64_t i = 0; i < rows * rows; i++)
        digest = digest * 0x9e3779b97f4a7c15ull + a[i] + ((uint64_t)b[i] << 16);
    return digest;
}

/* The same operands give the same result: it is computed once. */
static void fake_result(uint64_t rows, const uint16_t *a, const uint16_t *b, float *d)
{
    static uint64_t digest_kept;
    static float *kept;
    uint64_t digest = fake_digest(rows, a, b);

    if (!kept || digest != digest_kept) {
        free(kept);
        kept = malloc(rows * rows * sizeof(*kept));
        if (!kept)
            return;
        fake_multiply(rows, a, b, kept);
        digest_kept = digest;
    }
    memcpy(d, kept, rows * rows * sizeof(*d));
}

static void fake_damage(int device, uint64_t rows, float *d)
{
    uint32_t bits;
    int64_t at;

    if (script_number(&at, -1, "cublaslt.%d.bad-number", device) != 0 || at < 0 ||
        (uint64_t)at >= rows * rows)
        return;
    memcpy(&bits, &d[at], sizeof(bits));
    bits ^= 1; /* the last bit of the significand */
    memcpy(&d[at], &bits, sizeof(bits));
}

EXPORT int cublasLtMatmul(void *handle, void *product, const void *alpha, const void *a,
                          const struct fake_layout *a_layout, const void *b,
                          const struct fake_layout *b_layout, const void *beta, const void *c,
                          const struct fake_layout *c_layout, void *d,
                          const struct fake_layout *d_layout, const void *algorithm,
                          void *workspace, size_t workspace_bytes, void *stream);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int cublasLtMatmul(void *handle, void *product, const void *alpha, const void *a,
                          const struct fake_layout *a_layout, const void *b,
                          const struct fake_layout *b_layout, const void *beta, const void *c,
                          const struct fake_layout *c_layout, void *d,
                          const struct fake_layout *d_layout, const void *algorithm,
                          void *workspace, size_t workspace_bytes, void *stream)
{
    static const void *place; /* of the newest result */
    struct fake_driver driver = fake_driver_find();
    uint64_t rows = a_layout->rows;
    int64_t gflops = 1000;
    int32_t transposed;
    int result = fake_call("cublaslt.multiply"), device;

    (void)handle, (void)beta, (void)c, (void)c_layout, (void)workspace, (void)workspace_bytes;
    memcpy(&transposed, product, sizeof(transposed));
    if (result)
        return result;
    if (!driver.device || !driver.work || !driver.wait || !algorithm ||
        *(const float *)alpha != 1 || transposed != 1 || a_layout->type != 14 ||
        b_layout->type != 14 || d_layout->type != 0 || b_layout->rows != rows ||
        d_layout->rows != rows)
        return FAILED;
    device = driver.device();
    script_number(&gflops, gflops, "cublaslt.%d.gflops", device);
    /* What was begun before, such as copies of the operands, comes first. */
    if (device < 0 || (d != place && driver.wait(stream)) ||
        driver.work(stream, (int64_t)(2.0 * (double)(rows * rows * rows) / (double)gflops / 1e3)))
        return FAILED;
    place = d;
    fake_result(rows, a, b, d);
    fake_damage(device, rows, d);
    return 0;
}
