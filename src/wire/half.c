/* half.c - times in 16 bits, sizes to an eighth of an octave. */
#include "wire/facts.h"

#define HALF_UNIT_NS 125
#define HALF_FRACTION 2048
#define HALF_EXPONENT_MAX 31

uint16_t half_from_ns(int64_t ns)
{
    uint64_t units, exponent = 1;

    if (ns <= 0)
        return 0;
    units = ((uint64_t)ns + HALF_UNIT_NS / 2) / HALF_UNIT_NS;
    if (units < HALF_FRACTION)
        return (uint16_t)units;
    while (units >> (exponent - 1) >= 2 * HALF_FRACTION)
        exponent++;
    if (exponent > 1) { /* to the nearest: may carry into the next exponent */
        units += UINT64_C(1) << (exponent - 2);
        if (units >> (exponent - 1) >= 2 * HALF_FRACTION)
            exponent++;
    }
    if (exponent > HALF_EXPONENT_MAX)
        return UINT16_MAX;
    return (uint16_t)(exponent << 11 | ((units >> (exponent - 1)) - HALF_FRACTION));
}

uint64_t bytes_round(uint64_t bytes)
{
    unsigned shift = 0;

    if (bytes > UINT64_MAX / 2)
        return UINT64_C(1) << 63;
    while (bytes >> shift >= 16)
        shift++;
    if (shift == 0)
        return bytes;
    return (bytes + (UINT64_C(1) << (shift - 1))) >> shift << shift;
}
