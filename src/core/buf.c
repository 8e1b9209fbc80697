/* buf.c - little-endian puts and gets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/buf.h"

#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define BUF_LEAST 256

void buf_fini(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){ 0 };
}

void buf_put(struct buf *buf, const void *data, size_t size)
{
    if (buf->failed || size == 0)
        return;
    if (size > buf->room - buf->size &&
        (size > SIZE_MAX - buf->size ||
         !ARRAY_FIT(buf->data, buf->room, MAX(buf->size + size, (size_t)BUF_LEAST)))) {
        buf->failed = true;
        return;
    }
    memcpy(buf->data + buf->size, data, size);
    buf->size += size;
}

static void buf_put_le(struct buf *buf, uint64_t value, size_t size)
{
    unsigned char byte[8];

    for (size_t i = 0; i < size; i++)
        byte[i] = (unsigned char)(value >> (8 * i));
    buf_put(buf, byte, size);
}

void buf_put_u8(struct buf *buf, uint8_t value)
{
    buf_put_le(buf, value, 1);
}

void buf_put_u16(struct buf *buf, uint16_t value)
{
    buf_put_le(buf, value, 2);
}

void buf_put_u32(struct buf *buf, uint32_t value)
{
    buf_put_le(buf, value, 4);
}

void buf_put_u64(struct buf *buf, uint64_t value)
{
    buf_put_le(buf, value, 8);
}

void buf_put_f64(struct buf *buf, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    buf_put_u64(buf, bits);
}

void buf_put_str(struct buf *buf, const char *text)
{
    size_t size = strnlen(text, UINT16_MAX);

    buf_put_u16(buf, (uint16_t)size);
    buf_put(buf, text, size);
}

void buf_drop_front(struct buf *buf, size_t size)
{
    if (size > buf->size)
        size = buf->size;
    if (size == 0)
        return;
    memmove(buf->data, buf->data + size, buf->size - size);
    buf->size -= size;
}

double reader_get_f64(struct reader *in)
{
    uint64_t bits = reader_get_u64(in);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

void reader_get_str(struct reader *in, char *out, size_t room)
{
    size_t size = reader_get_u16(in);
    const void *text = reader_get(in, size);

    out[0] = '\0';
    if (!text)
        return;
    if (size >= room) {
        in->bad = true;
        return;
    }
    memcpy(out, text, size);
    out[size] = '\0';
}
