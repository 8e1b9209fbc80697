/* fuzz-jsontext.c - a JSON text that anybody may have written, as data and as a flight-recorder dump.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/jsontext.h"
#include "test/fuzz/flight-feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(value_fini) struct value_tree tree = { .root = VALUE_NIL };
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct err err;

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (jsontext_read(text, size, &tree, &err) < 0)
        return 0;
    if (tree.root >= tree.nodes || tree.nodes > size || tree.cells > size)
        abort();
    flight_feed(&tree);
    return 0;
}
