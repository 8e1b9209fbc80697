/* fuzz-step-places.c - any bytes as the file of places: read without harm, or refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/matrix/step_places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t ranks[] = { 0, 1, 7, 262143, UINT32_MAX };
    uint64_t offset[sizeof(ranks) / sizeof(ranks[0])];
    int copy;
    struct step_places *places = NULL;
    struct err err = { "" };
    char path[64];

    snprintf(path, sizeof(path), "/tmp/lockstep-fuzz-places.%d", getpid());
    copy = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(copy >= 0 && write(copy, data, size) == (ssize_t)size);
    close(copy);
    for (uint64_t column = 0; column < 3; column++)
        step_places_read(path, column, ranks, 5, offset, &err);
    step_places_read(path, UINT64_MAX / 8, ranks, 5, offset, &err);
    must(step_places_open(path, 5, 2, &places, &err) == 0);
    must(step_places_put(places, 2, (const uint64_t[5]){ 1, 2, 3, 4, 5 }, &err) == 0);
    step_places_close(places);
    must(step_places_read(path, 2, ranks, 2, offset, &err) == 0 && offset[1] == 2);
    unlink(path);
    return 0;
}
