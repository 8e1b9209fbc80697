/* hash.c - CRC-32C by the processor or by table, and a small mixing hash read as little-endian words.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define CRC32C_POLY UINT32_C(0x82f63b78) /* reflected */

/* One nibble at a time: 16 entries that anyone can check (about 300 MB/s). */
static const uint32_t crc_nibble[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t crc_by_table(uint32_t crc, const unsigned char *byte, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        crc = (crc >> 4) ^ crc_nibble[crc & 15];
        crc = (crc >> 4) ^ crc_nibble[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
/* The processor's own instruction, which all x86 servers of the last fifteen years have: about 30
 * times as fast, and a controller reads its log at the speed of its checksums.
 */
__attribute__((target("sse4.2"))) static uint32_t crc_by_processor(uint32_t crc,
                                                                   const unsigned char *byte,
                                                                   size_t size)
{
    uint64_t wide = crc;

    for (; size >= 8; size -= 8, byte += 8) {
        uint64_t word;

        memcpy(&word, byte, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    for (; size > 0; size--, byte++)
        wide = __builtin_ia32_crc32qi((uint32_t)wide, *byte);
    return (uint32_t)wide;
}
#endif

#ifdef __x86_64__
/* Asked once: under a hypervisor the question costs more than a frame.  Not the compiler's
 * __builtin_cpu_supports(), which brings a constructor into the training process.
 */
static bool processor_has_crc(void)
{
    static _Atomic int answer; /* 0: not asked yet */
    unsigned a, b, c = 0, d;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);

    if (!known) {
        known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? 1 : -1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known > 0;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
#ifdef __x86_64__
    if (processor_has_crc())
        return ~crc_by_processor(~crc, data, size);
#endif
    return ~crc_by_table(~crc, data, size);
}

uint64_t hash64_u64(uint64_t seed, uint64_t value)
{
    uint64_t x = seed ^ (value * UINT64_C(0x9e3779b97f4a7c15));

    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

uint64_t hash64(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *byte = data;

    seed = hash64_u64(seed, size);
    while (size > 0) {
        uint64_t word = 0;
        size_t part = size < 8 ? size : 8;

        for (size_t i = 0; i < part; i++)
            word |= (uint64_t)byte[i] << (8 * i);
        seed = hash64_u64(seed, word + 1);
        byte += part;
        size -= part;
    }
    return seed;
}
