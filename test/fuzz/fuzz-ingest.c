/* fuzz-ingest.c - a body of a POST, read as the site's controller reads it.
 *
 * Any bytes may come with a good token.  Either the body is refused with a status and a sentence, or every
 * byte of it is in a frame, each is new once, none speaks in the controller's name, and the same
 * body again brings nothing new.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "control/site/site_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void check_taken(const struct ingest *first, struct seen *seen, size_t size)
{
    size_t bytes = 0;

    must(first->all == first->count + first->doubled);
    for (size_t i = 0; i < first->count; i++) {
        must(!seen_has(seen, &first->frame[i]));
        must(first->frame[i].sender != control_sender());
        must(first->frame[i].sender != site_sender());
        must(seen_mark(seen, &first->frame[i]) == 0);
        bytes += FRAME_HEADER_BYTES + first->frame[i].payload_bytes;
    }
    must(bytes <= size && (first->doubled || bytes == size));
}

typedef int read_call(const struct seen *seen, const char *whose, const void *data, size_t size,
                      struct ingest *ret, struct err *err);

static void try_body(read_call *read, const char *whose, const uint8_t *data, size_t size)
{
    struct ingest first = { 0 }, again = { 0 };
    struct seen seen = { 0 };
    struct err err = { "" };
    int result = read(&seen, whose, data, size, &first, &err);

    if (result < 0) {
        must(first.status >= 400 && err.text[0]);
    } else {
        check_taken(&first, &seen, size);
        must(read(&seen, whose, data, size, &again, &err) == 0);
        must(again.count == 0 && again.doubled == first.all);
    }
    ingest_fini(&first);
    ingest_fini(&again);
    seen_fini(&seen);
}

/* The same bytes with a run's token and with a node's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_body(ingest_read, "r1", data, size);
    try_body(ingest_read_node, "n1", data, size);
    return 0;
}
