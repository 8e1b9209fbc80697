/* fuzz-frame.c - a stream of frames with anything between them.
 *
 * Reading must always come forward and never past the end, and what it calls a frame must be one
 * that we would write ourselves, byte for byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_ours(const uint8_t *data, size_t size, const struct frame *frame)
{
    struct buf out = { 0 };

    if (frame->payload < data || frame->payload + frame->payload_bytes > data + size)
        abort();
    frame_put(&out, frame);
    if (out.failed || out.size != size || memcmp(out.data, data, size) != 0)
        abort();
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;

    while (at < size) {
        struct frame frame;
        int64_t used = frame_get(data + at, size - at, &frame, NULL);

        if (used == 0)
            break; /* there could be more to come */
        if (used < 0) {
            size_t skip = frame_resync(data + at, size - at);

            if (used != -EPROTO || skip < 1 || skip > size - at)
                abort();
            at += skip;
            continue;
        }
        if ((size_t)used > size - at)
            abort();
        must_be_ours(data + at, (size_t)used, &frame);
        at += (size_t)used;
    }
    return 0;
}
