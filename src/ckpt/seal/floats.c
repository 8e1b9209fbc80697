/* floats.c - NaN and infinity by their bits: all ones in the exponent.
 *
 * The loops have no branch, so that compilers use vector instructions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/floats.h"

#include <string.h>

unsigned floats_bytes(enum floats floats)
{
    switch (floats) {
    case FLOATS_F64:
        return 8;
    case FLOATS_F32:
        return 4;
    case FLOATS_F16:
    case FLOATS_BF16:
        return 2;
    default:
        return 1;
    }
}

static void floats_count64(const unsigned char *data, size_t bytes, uint64_t *nan, uint64_t *inf)
{
    const uint64_t ones = UINT64_C(0x7ff0000000000000);
    uint64_t over = 0, at = 0;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t value;

        memcpy(&value, data + i, sizeof(value));
        value &= UINT64_MAX >> 1;
        over += value > ones;
        at += value == ones;
    }
    *nan += over;
    *inf += at;
}

static void floats_count32(const unsigned char *data, size_t bytes, uint64_t *nan, uint64_t *inf)
{
    const uint32_t ones = 0x7f800000;
    uint32_t over = 0, at = 0; /* a call has at most a block */

    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t value;

        memcpy(&value, data + i, sizeof(value));
        value &= UINT32_MAX >> 1;
        over += value > ones;
        at += value == ones;
    }
    *nan += over;
    *inf += at;
}

static void floats_count16(const unsigned char *data, size_t bytes, uint16_t ones, uint64_t *nan,
                           uint64_t *inf)
{
    uint32_t over = 0, at = 0;

    for (size_t i = 0; i < bytes; i += 2) {
        uint16_t value;

        memcpy(&value, data + i, sizeof(value));
        value &= 0x7fff;
        over += value > ones;
        at += value == ones;
    }
    *nan += over;
    *inf += at;
}

/* NaN is above `over` after the mask, infinity is `at` (256: there is none). */
static void floats_count8(const unsigned char *data, size_t bytes, const unsigned rule[3],
                          uint64_t *nan, uint64_t *inf)
{
    uint32_t above = 0, same = 0;

    for (size_t i = 0; i < bytes; i++) {
        unsigned value = data[i] & rule[0];

        above += value > rule[1];
        same += value == rule[2];
    }
    *nan += above;
    *inf += same;
}

void floats_count(enum floats floats, const unsigned char *data, size_t bytes, uint64_t *nan,
                  uint64_t *inf)
{
    static const unsigned e5m2[3] = { 0x7f, 0x7c, 0x7c }, e4m3[3] = { 0x7f, 0x7e, 256 },
                          e8m0[3] = { 0xff, 0xfe, 256 };

    switch (floats) {
    case FLOATS_F64:
        floats_count64(data, bytes, nan, inf);
        break;
    case FLOATS_F32:
        floats_count32(data, bytes, nan, inf);
        break;
    case FLOATS_F16:
        floats_count16(data, bytes, 0x7c00, nan, inf);
        break;
    case FLOATS_BF16:
        floats_count16(data, bytes, 0x7f80, nan, inf);
        break;
    case FLOATS_E5M2:
        floats_count8(data, bytes, e5m2, nan, inf);
        break;
    case FLOATS_E4M3:
        floats_count8(data, bytes, e4m3, nan, inf);
        break;
    case FLOATS_E8M0:
        floats_count8(data, bytes, e8m0, nan, inf);
        break;
    case FLOATS_FNUZ:
        for (size_t i = 0; i < bytes; i++)
            *nan += data[i] == 0x80;
        break;
    case FLOATS_NONE:
        break;
    }
}
