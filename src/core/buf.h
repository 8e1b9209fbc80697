/* buf.h - bytes that cross a boundary: little-endian, bounded, not trusted.
 *
 * Writing: a buf grows; after a failed allocation it stays failed and ignores further
 * puts, so one check at the end is enough (buf_failed).
 * Reading: a cut never reads past its end; a get beyond it returns 0 and marks the
 * cut bad, so one check at the end is enough (cut.bad).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_BUF_H
#define LOCKSTEP_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    unsigned char *data;
    size_t size, room;
    bool failed;
};

void buf_fini(struct buf *buf);
void buf_put(struct buf *buf, const void *data, size_t size);
void buf_put_u8(struct buf *buf, uint8_t value);
void buf_put_u16(struct buf *buf, uint16_t value);
void buf_put_u32(struct buf *buf, uint32_t value);
void buf_put_u64(struct buf *buf, uint64_t value);
void buf_put_f64(struct buf *buf, double value);
void buf_put_str(struct buf *buf, const char *text); /* u16 length, then the bytes */
void buf_drop_front(struct buf *buf, size_t size);

struct reader {
    const unsigned char *at, *end;
    bool bad;
};

/* `data` may be NULL if there is none of it. */
static inline struct reader reader_of(const void *data, size_t size)
{
    const unsigned char *at = data;

    return (struct reader){ .at = at, .end = size ? at + size : at };
}

static inline size_t reader_left(const struct reader *in)
{
    return (size_t)(in->end - in->at);
}

/* NULL and bad when there is less.  The gets are inline: a controller reads tens of millions of numbers a
 * second by them, and called one by one they were a tenth of its CPU.
 */
static inline const void *reader_get(struct reader *in, size_t size)
{
    const void *at = in->at;

    if (in->bad || size > reader_left(in)) {
        in->bad = true;
        return NULL;
    }
    in->at += size;
    return at;
}

static inline uint8_t reader_get_u8(struct reader *in)
{
    const unsigned char *byte = reader_get(in, 1);

    return byte ? byte[0] : 0;
}

static inline uint16_t reader_get_u16(struct reader *in)
{
    const unsigned char *byte = reader_get(in, 2);

    return byte ? (uint16_t)(byte[0] | byte[1] << 8) : 0;
}

static inline uint32_t reader_get_u32(struct reader *in)
{
    const unsigned char *byte = reader_get(in, 4);

    return byte ? byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                      (uint32_t)byte[3] << 24
                : 0;
}

static inline uint64_t reader_get_u64(struct reader *in)
{
    const unsigned char *byte = reader_get(in, 8);
    uint64_t value = 0;

    for (int i = 0; byte && i < 8; i++)
        value |= (uint64_t)byte[i] << (8 * i);
    return value;
}

double reader_get_f64(struct reader *in);
/* Copies at most room-1 bytes and ends with NUL; a longer text makes the cut bad. */
void reader_get_str(struct reader *in, char *out, size_t room);

#endif
