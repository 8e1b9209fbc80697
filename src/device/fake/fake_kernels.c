/* fake_kernels.c - runs kernels of gpu_kernels.c on the host.
 *
 * Every block has the same answer, so one is computed and copied to all others; a block on the SM with a scripted fault is
 * computed by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/fake/fake_kernels.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/stamp_kernel.h"
#include "device/fake/script.h"
#include "device/kernel/gpu_kernels.h"

enum {
    KERNEL_FILL = GPU_TYPES,
    KERNEL_COMPARE,
    KERNEL_STAMP,
    KERNELS
};

static const char kernels[KERNELS]; /* a function is the address of a byte */
static const unsigned char widths[KERNELS][5] = {
    [GPU_FP32] = { 8, 4, 4, 4, 4 },       [GPU_TF32] = { 8, 4, 4, 4, 4 },
    [GPU_BF16] = { 8, 4, 4, 4, 4 },       [GPU_FP16] = { 8, 4, 4, 4, 4 },
    [GPU_INT8] = { 8, 4, 4, 4, 4 },       [KERNEL_FILL] = { 8, 8, 8, 8, 0 },
    [KERNEL_COMPARE] = { 8, 8, 8, 8, 8 }, [KERNEL_STAMP] = { 8, 8, 8, 0, 0 },
};

static const char *fake_kernel_name(unsigned kernel)
{
    return kernel == KERNEL_FILL      ? GPU_KERNEL_FILL
           : kernel == KERNEL_COMPARE ? GPU_KERNEL_COMPARE
           : kernel == KERNEL_STAMP   ? STAMP_KERNEL
                                      : gpu_kernel_name(kernel);
}

const void *fake_kernel_find(const char *ptx, const char *name)
{
    char entry[80];

    snprintf(entry, sizeof(entry), ".entry %s(", name);
    if (!strstr(ptx, entry))
        return NULL;
    for (unsigned i = 0; i < KERNELS; i++) {
        if (strcmp(fake_kernel_name(i), name) == 0)
            return &kernels[i];
    }
    return NULL;
}

bool fake_kernel_is_one(const void *function)
{
    return (const char *)function >= kernels && (const char *)function < kernels + KERNELS;
}

void fake_kernel_arguments(struct fake_launch *launch, void *const *arguments)
{
    const unsigned char *width = widths[(const char *)launch->kernel - kernels];

    memset(launch->argument, 0, sizeof(launch->argument));
    for (size_t i = 0; i < sizeof(widths[0]) && width[i]; i++)
        memcpy(&launch->argument[i], arguments[i], width[i]);
}

static int64_t fake_device_number(int device, const char *what, int64_t usual)
{
    int64_t number;

    return script_number(&number, usual, "cuda.%d.%s", device, what) == 0 ? number : usual;
}

int fake_sm_count(int device)
{
    return (int)fake_device_number(device, "multiprocessors", 132);
}

/* ---- arithmetic ---- */

static uint32_t fake_flip(const struct fake_launch *launch, const char *name)
{
    struct script_answer only;

    script_ask(&only, "cuda.%d.flip-kernel", launch->device);
    if (only.text[0] && strcmp(only.text, name) != 0)
        return 0;
    return (uint32_t)(fake_device_number(launch->device, "flip-sm", -1) + 1);
}

static const uint32_t *fake_block(unsigned type, const struct gpu_arith *arith)
{
    static uint32_t kept[GPU_TYPES][4][GPU_BLOCK_WORDS];
    static struct gpu_arith of[GPU_TYPES][4];
    uint32_t slot = (arith->mode == GPU_ENTROPY) + 2u * (arith->flip != 0);

    if (memcmp(&of[type][slot], arith, sizeof(*arith)) != 0) {
        gpu_arith_block(type, arith, arith->flip ? arith->flip - 1 : 0, kept[type][slot]);
        of[type][slot] = *arith;
    }
    return kept[type][slot];
}

static void fake_arith(const struct fake_launch *launch, unsigned type)
{
    const uint64_t *argument = launch->argument;
    uint32_t *out = (uint32_t *)(uintptr_t)argument[0];
    struct gpu_arith arith = { .seed = (uint32_t)argument[1],
                               .rounds = (uint32_t)argument[2],
                               .mode = (uint32_t)argument[3] };
    uint32_t flip = argument[4] ? (uint32_t)argument[4] : fake_flip(launch, gpu_kernel_name(type));
    uint32_t sms = (uint32_t)fake_sm_count(launch->device);
    int64_t idle = fake_device_number(launch->device, "idle-sm", -1);

    for (unsigned b = 0; b < launch->blocks; b++) {
        uint32_t sm = b % sms, *block = out + (size_t)b * GPU_BLOCK_WORDS;

        if (sm == (uint32_t)idle)
            sm = (sm + 1) % sms;
        arith.flip = flip == sm + 1 ? flip : 0;
        memcpy(block, fake_block(type, &arith), GPU_BLOCK_WORDS * sizeof(*block));
        for (unsigned warp = 0; warp < GPU_WARPS; warp++)
            block[warp] = sm + 1;
    }
}

/* ---- memory ---- */

static void fake_fill(const struct fake_launch *launch)
{
    uint64_t *word = (uint64_t *)(uintptr_t)launch->argument[0], words = launch->argument[1];
    int64_t bad = fake_device_number(launch->device, "bad-word", -1);

    gpu_memory_fill(word, words, launch->argument[2], launch->argument[3]);
    if (bad >= 0 && (uint64_t)bad < words)
        word[bad] |= 1u << 5; /* stuck at one */
}

static void fake_compare(const struct fake_launch *launch)
{
    const uint64_t *word = (const uint64_t *)(uintptr_t)launch->argument[0];
    const uint64_t pattern[2] = { launch->argument[2], launch->argument[3] };
    uint64_t *out = (uint64_t *)(uintptr_t)launch->argument[4];
    uint64_t threads = (uint64_t)launch->blocks * launch->threads;

    for (uint64_t i = 0; i < threads; i++) {
        const uint64_t stride[2] = { i, threads };

        gpu_memory_compare(word, launch->argument[1], pattern, stride, out + i * GPU_MEMORY_WORDS);
    }
}

/* The device's clock is the host's at the time at which the stream gets there, plus cuda.timer-ahead-ns. */
static void fake_stamp(const struct fake_launch *launch)
{
    static uint64_t run[16]; /* by device */
    uint64_t *place = (uint64_t *)(uintptr_t)launch->argument[0], mask = launch->argument[1];
    uint64_t tag = launch->argument[2], count = tag;
    int64_t ahead_ns;

    if (script_number(&ahead_ns, 0, "cuda.timer-ahead-ns") != 0)
        ahead_ns = 0;
    if (mask != STAMP_FIXED) {
        count = run[launch->device]++;
        place += (count & mask) * 4;
        count++;
    }
    stamp_fill(place, count, tag, (uint64_t)(launch->at_ns + ahead_ns));
}

void fake_kernel_run(const struct fake_launch *launch)
{
    unsigned kernel = (unsigned)((const char *)launch->kernel - kernels);

    if (kernel == KERNEL_FILL)
        fake_fill(launch);
    else if (kernel == KERNEL_COMPARE)
        fake_compare(launch);
    else if (kernel == KERNEL_STAMP)
        fake_stamp(launch);
    else
        fake_arith(launch, kernel);
}
