/* field.h - the fields that payloads of frames are made of, with the ranges that docs/frame-format.md gives them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_FIELD_H
#define LOCKSTEP_WIRE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/buf.h"

#define FIELD_YEAR_NS INT64_C(31557600000000000)

static inline void field_put_bool(struct buf *out, bool value)
{
    buf_put_u8(out, value);
}

static inline bool field_get_bool(struct reader *in)
{
    uint8_t value = reader_get_u8(in);

    if (value > 1)
        in->bad = true;
    return value == 1;
}

static inline void field_put_i64(struct buf *out, int64_t value)
{
    buf_put_u64(out, (uint64_t)value);
}

static inline int64_t field_get_i64(struct reader *in)
{
    return (int64_t)reader_get_u64(in);
}

static inline int64_t field_get_within(struct reader *in, int64_t limit)
{
    int64_t value = field_get_i64(in);

    if (value < -limit || value > limit)
        in->bad = true;
    return value;
}

/* A moment on a node's own clock or the time since one, or of the day: ranges so that sums and differences of a few of
 * them always fit 64 bits.
 */
static inline int64_t field_get_mono(struct reader *in)
{
    return field_get_within(in, 10 * FIELD_YEAR_NS);
}

static inline int64_t field_get_real(struct reader *in)
{
    return field_get_within(in, 150 * FIELD_YEAR_NS);
}

static inline bool field_is_finite(double value)
{
    return value - value == 0; /* neither infinite nor NaN */
}

static inline double field_get_finite(struct reader *in)
{
    double value = reader_get_f64(in);

    if (!field_is_finite(value))
        in->bad = true;
    return value;
}

/* A number of an enumeration that begins at 1, or at 0 with `least` 0. */
static inline uint8_t field_get_enum(struct reader *in, unsigned least, unsigned count)
{
    uint8_t value = reader_get_u8(in);

    if (value < least || value >= count)
        in->bad = true;
    return value;
}

/* Names by number, and back: a table may have holes.  No such name: 0. */
static inline const char *field_name(const char *const *names, size_t count, unsigned number)
{
    return number < count && names[number] ? names[number] : "unknown";
}

static inline unsigned field_number(const char *const *names, size_t count, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        if (names[i] && strcmp(names[i], name) == 0)
            return i;
    }
    return 0;
}

#endif
