/* fuzz-source.c - packed files and archives of any origin: unpacked and read to their end, as 'why' does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/clean.h"
#include "read/source/tar.h"

#define BYTES_MAX (64u << 20) /* that a small input may become; libFuzzer's inputs are small */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* To the end, or to the first error; never more than a part may have. */
static void drain(struct stream *stream, uint64_t limit)
{
    char out[4096];
    uint64_t all = 0;
    ssize_t got;

    while (all < BYTES_MAX && (got = stream_read(stream, out, sizeof(out), NULL)) > 0)
        all += (uint64_t)got;
    if (all > limit)
        abort();
}

static void drain_archive(struct stream *stream)
{
    struct tar tar = { .stream = stream };
    struct tar_member member;
    struct err err = { "" };
    int got;

    for (int members = 0; members < 4096 && (got = tar_next(&tar, &member, &err)) > 0; members++) {
        CLEAN(stream_clean) struct stream *part = NULL;

        if (stream_open_part(stream, member.bytes, &part) < 0)
            return;
        drain(part, member.bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    const unsigned char *head;
    struct err err = { "" };
    ssize_t bytes;

    if (stream_open_memory(data, size, &stream) < 0)
        return 0;
    for (int layer = 0; layer < 2; layer++) {
        if (stream_unpack(&stream, &err) < 0) {
            if (!err.text[0])
                abort();
            return 0;
        }
    }
    bytes = stream_peek(stream, &head, &err);
    if (bytes > 0 && tar_is(head, (size_t)bytes))
        drain_archive(stream);
    else if (bytes >= 0)
        drain(stream, BYTES_MAX + 4096);
    return 0;
}
