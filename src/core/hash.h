/* hash.h - content ids and checksums.  Values are wire format: they never change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_HASH_H
#define LOCKSTEP_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli) of `size` bytes; start with 0, or go on from an earlier result. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* 64-bit content id, not for secrets.  Start with 0, or go on from an earlier result. */
uint64_t hash64(uint64_t seed, const void *data, size_t size);
uint64_t hash64_u64(uint64_t seed, uint64_t value);

#endif
