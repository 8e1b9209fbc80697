/* buf.h - bytes that cross a boundary: little-endian, bounded, never trusted.
 *
 * Writing: a buf grows; once memory fails it stays failed and further puts are
 * ignored, so that one check at the end is enough (buf_failed).
 * Reading: a cut never runs past its end; a get beyond it returns 0 and marks the
 * cut bad, so that one check at the end is enough (cut.bad).
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

struct cut {
    const unsigned char *at, *end;
    bool bad;
};

static inline struct cut cut_of(const void *data, size_t size)
{
    return (struct cut){ .at = data, .end = (const unsigned char *)data + size };
}

static inline size_t cut_left(const struct cut *cut)
{
    return (size_t)(cut->end - cut->at);
}

const void *cut_get(struct cut *cut, size_t size); /* NULL and bad when there is less */
uint8_t cut_get_u8(struct cut *cut);
uint16_t cut_get_u16(struct cut *cut);
uint32_t cut_get_u32(struct cut *cut);
uint64_t cut_get_u64(struct cut *cut);
double cut_get_f64(struct cut *cut);
/* Copies at most room-1 bytes and ends with NUL; a longer text makes the cut bad. */
void cut_get_str(struct cut *cut, char *out, size_t room);

#endif
