/* clean.c - grows arrays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"

#include <string.h>

#define ARRAY_LEAST 8

bool array_fit_(void **array, size_t each, size_t *room, size_t need, uint64_t most, bool zero)
{
    size_t old = *room, wanted = MAX(need, (size_t)ARRAY_LEAST);
    char *grown;

    if (need <= old)
        return true;
    most = MIN(most, SIZE_MAX / each);
    if (need > most)
        return false;
    if (old <= SIZE_MAX / 2)
        wanted = MAX(wanted, old * 2);
    if (wanted > most)
        wanted = need;
    grown = realloc(*array, wanted * each);
    if (!grown)
        return false;
    if (zero)
        memset(grown + old * each, 0, (wanted - old) * each);
    *array = grown;
    *room = wanted;
    return true;
}
