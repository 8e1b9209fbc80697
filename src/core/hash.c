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

static uint32_t hash_crc_by_table(uint32_t crc, const unsigned char *byte, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        crc = (crc >> 4) ^ crc_nibble[crc & 15];
        crc = (crc >> 4) ^ crc_nibble[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
#define LANE 4096 /* bytes of each of three lanes */

/* What a CRC becomes after LANE more bytes of zeros, by each of its bits. */
static const uint32_t crc_behind_lane[32] = {
    0xc2a5b65e, 0x80a71a4d, 0x04a2426b, 0x094484d6, 0x128909ac, 0x25121358, 0x4a2426b0, 0x94484d60,
    0x2d7cec31, 0x5af9d862, 0xb5f3b0c4, 0x6e0b1779, 0xdc162ef2, 0xbdc02b15, 0x7e6c20db, 0xfcd841b6,
    0xfc5cf59d, 0xfd559dcb, 0xff474d67, 0xfb62ec3f, 0xf329ae8f, 0xe3bf2bef, 0xc292212f, 0x80c834af,
    0x047c1faf, 0x08f83f5e, 0x11f07ebc, 0x23e0fd78, 0x47c1faf0, 0x8f83f5e0, 0x1aeb9d31, 0x35d73a62,
};

static uint32_t hash_crc_shift(uint32_t crc)
{
    uint32_t sum = 0;

    for (int i = 0; i < 32; i++)
        sum ^= crc_behind_lane[i] & -(crc >> i & 1);
    return sum;
}

/* The instruction takes three cycles, but one can begin in each: three lanes side by side are three times as fast, which
 * matters for checkpoints of many gigabytes.
 */
__attribute__((target("sse4.2"))) static uint32_t crc_by_lanes(uint32_t crc,
                                                               const unsigned char *byte)
{
    uint64_t a = crc, b = 0, c = 0;

    for (size_t i = 0; i < LANE; i += 8) {
        uint64_t word[3];

        memcpy(&word[0], byte + i, 8);
        memcpy(&word[1], byte + LANE + i, 8);
        memcpy(&word[2], byte + 2 * LANE + i, 8);
        a = __builtin_ia32_crc32di(a, word[0]);
        b = __builtin_ia32_crc32di(b, word[1]);
        c = __builtin_ia32_crc32di(c, word[2]);
    }
    return hash_crc_shift(hash_crc_shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

/* The processor's own instruction, which all x86 servers of the last fifteen years have: about 30
 * times as fast, and a controller reads its log at the speed of its checksums.
 */
__attribute__((target("sse4.2"))) static uint32_t crc_by_processor(uint32_t crc,
                                                                   const unsigned char *byte,
                                                                   size_t size)
{
    uint64_t wide;

    for (; size >= 3 * LANE; size -= 3 * LANE, byte += 3 * LANE)
        crc = crc_by_lanes(crc, byte);
    wide = crc;
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
static bool hash_processor_has_crc(void)
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
    if (hash_processor_has_crc())
        return ~crc_by_processor(~crc, data, size);
#endif
    return ~hash_crc_by_table(~crc, data, size);
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
