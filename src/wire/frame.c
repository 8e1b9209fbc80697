/* frame.c - encodes and decodes the envelope; facts.c has the payload.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/frame.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/hash.h"

#define FRAME_HEAD_CRC_AT 40

void frame_put(struct buf *out, const struct frame *frame)
{
    size_t begin = out->size;

    assert(frame->payload_bytes <= FRAME_PAYLOAD_MAX);
    buf_put_u32(out, FRAME_MAGIC);
    buf_put_u32(out, (uint32_t)frame->payload_bytes);
    buf_put_u16(out, frame->type);
    buf_put_u16(out, frame->version);
    buf_put_u32(out, crc32c(0, frame->payload, frame->payload_bytes));
    buf_put_u64(out, frame->sender);
    buf_put_u64(out, frame->boot);
    buf_put_u64(out, frame->number);
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + begin, FRAME_HEAD_CRC_AT));
    buf_put(out, frame->payload, frame->payload_bytes);
}

int64_t frame_get(const void *data, size_t size, struct frame *ret, struct err *err)
{
    struct reader in = reader_of(data, size);
    struct frame frame;
    uint32_t magic, bytes, crc;

    if (size < FRAME_HEADER_BYTES)
        return 0;
    magic = reader_get_u32(&in);
    bytes = reader_get_u32(&in);
    frame.type = reader_get_u16(&in);
    frame.version = reader_get_u16(&in);
    crc = reader_get_u32(&in);
    frame.sender = reader_get_u64(&in);
    frame.boot = reader_get_u64(&in);
    frame.number = reader_get_u64(&in);
    if (magic != FRAME_MAGIC)
        return err_set(err, -EPROTO, "not a frame: magic %08x, expected %08x", magic, FRAME_MAGIC);
    if (reader_get_u32(&in) != crc32c(0, data, FRAME_HEAD_CRC_AT))
        return err_set(err, -EPROTO, "frame header: wrong checksum");
    if (bytes > FRAME_PAYLOAD_MAX)
        return err_set(err, -EPROTO, "frame of %u bytes, expected at most %u", bytes,
                       FRAME_PAYLOAD_MAX);
    if (reader_left(&in) < bytes)
        return 0;
    if (crc != crc32c(0, in.at, bytes))
        return err_set(err, -EPROTO, "frame %llu of type %u: wrong checksum",
                       (unsigned long long)frame.number, frame.type);
    frame.payload = in.at;
    frame.payload_bytes = bytes;
    *ret = frame;
    return (int64_t)FRAME_HEADER_BYTES + bytes;
}

size_t frame_resync(const void *data, size_t size)
{
    static const unsigned char magic[4] = { 0x46, 0x4c, 0x53, 0x31 }; /* as it lies in the file */
    const unsigned char *byte = data;

    for (size_t skip = 1; skip < size; skip++) {
        size_t part = size - skip < sizeof(magic) ? size - skip : sizeof(magic);

        if (memcmp(byte + skip, magic, part) == 0)
            return skip;
    }
    return size;
}
