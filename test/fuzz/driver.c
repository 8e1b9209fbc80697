/* driver.c - runs a fuzz target over its seeds, without libFuzzer.
 *
 * gcc has no libFuzzer; so that the seeds are tests in every build, each is given whole, cut at
 * every length (or at 4096 lengths of a long one) and with single bits turned.  An input that once
 * broke a target is kept as a seed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/rand.h"

#define DRIVER_CUTS 4096
#define DRIVER_BENDS 4096
#define DRIVER_SEED_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A fresh block of exactly this size, so that the sanitizers see a byte read beyond it. */
static void driver_feed(const uint8_t *data, size_t size, size_t bend_at, unsigned bend)
{
    CLEAN(free_clean) uint8_t *copy = calloc(size ? size : 1, 1);

    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (bend)
        copy[bend_at] ^= (uint8_t)bend;
    LLVMFuzzerTestOneInput(copy, size);
}

static void driver_try(const uint8_t *data, size_t size)
{
    size_t stride = size / DRIVER_CUTS + 1;
    struct rand rand = { .state = size };

    for (size_t cut = 0; cut < size; cut += stride)
        driver_feed(data, cut, 0, 0);
    driver_feed(data, size, 0, 0);
    for (size_t i = 0; size && i < DRIVER_BENDS; i++)
        driver_feed(data, size, rand_below(&rand, (uint32_t)size), 1u << rand_below(&rand, 8));
}

static int driver_file(const char *path)
{
    CLEAN(file_clean) FILE *file = fopen(path, "rb");
    CLEAN(free_clean) uint8_t *data = malloc(DRIVER_SEED_MAX);
    size_t size;

    if (!file || !data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size = fread(data, 1, DRIVER_SEED_MAX, file);
    driver_try(data, size);
    return 0;
}

static int driver_directory(const char *path)
{
    DIR *dir = opendir(path);
    int failed = 0, count = 0;

    if (!dir && errno == ENOENT) {
        driver_try((const uint8_t *)"", 0);
        printf("%s: no seeds; tried nothing but the empty input\n", path);
        return 0;
    }
    if (!dir) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        failed |= driver_file(file);
        count++;
    }
    closedir(dir);
    printf("%s: %d seeds\n", path, count);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= driver_directory(argv[i]);
    return failed;
}
