/* fuzz-pickle.c - a pickle that anybody may have written, as data and as a flight-recorder dump.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/clean.h"
#include "read/pickle.h"
#include "test/fuzz/flight-feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(value_fini) struct value_tree tree = { .root = VALUE_NIL };
    struct err err;

    if (pickle_read(data, size, &tree, &err) < 0)
        return 0;
    if (tree.root >= tree.nodes || tree.nodes > size || tree.cells > size)
        abort(); /* memory is bounded by the input */
    flight_feed(&tree);
    return 0;
}
