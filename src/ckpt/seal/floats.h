/* floats.h - counts the numbers of a tensor that are NaN or infinite.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_FLOATS_H
#define LOCKSTEP_CKPT_SEAL_FLOATS_H

#include <stddef.h>
#include <stdint.h>

enum floats {
    FLOATS_NONE, /* integers, and types without such numbers */
    FLOATS_F64,
    FLOATS_F32,
    FLOATS_F16,
    FLOATS_BF16,
    FLOATS_E5M2,
    FLOATS_E4M3,
    FLOATS_FNUZ, /* both 8-bit types of that family: 0x80 is NaN */
    FLOATS_E8M0,
};

unsigned floats_bytes(enum floats floats); /* of one number */
/* `bytes` is a multiple of floats_bytes(); data may lie anywhere. */
void floats_count(enum floats floats, const unsigned char *data, size_t bytes, uint64_t *nan,
                  uint64_t *inf);

#endif
