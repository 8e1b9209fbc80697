/* fuzz-ckpt-held.c - the record of memory that a writer holds: what is taken makes the same bytes again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/store/held.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *exact = malloc(size ? size : 1); /* exactly as large, for the sanitizer */
    struct buf again = { .data = NULL };
    struct held_image held;

    if (!exact)
        abort();
    memcpy(exact, data, size);
    if (held_parse(exact, size, &held, NULL) == 0) {
        held_encode(&held, &again);
        if (again.failed || again.size != size || memcmp(again.data, exact, size) != 0)
            abort();
    }
    buf_fini(&again);
    free(exact);
    return 0;
}
