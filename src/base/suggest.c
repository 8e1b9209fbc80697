/* suggest.c - edit distance with three rows, and the limit beyond which a guess is noise.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/suggest.h"

#include <stdint.h>
#include <string.h>

#include "core/clean.h"

#define SUGGEST_MAX 64

size_t suggest_distance(const char *a, const char *b)
{
    size_t row[3][SUGGEST_MAX + 1];
    size_t a_size = strlen(a), b_size = strlen(b);

    if (a_size > SUGGEST_MAX || b_size > SUGGEST_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_size; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            now[j] = MIN(last[j], now[j - 1]) + 1;
            now[j] = MIN(now[j], last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
    }
    return row[a_size % 3][b_size];
}

void suggest_offer(struct suggest *suggest, const char *name)
{
    size_t limit = strlen(suggest->typed) / 3 + 1;
    size_t distance = suggest_distance(suggest->typed, name);

    /* Somebody who stopped typing meant the word that begins so. */
    if (suggest->typed[0] && strncmp(name, suggest->typed, strlen(suggest->typed)) == 0)
        distance = 1;
    if (distance > limit || (suggest->best && distance >= suggest->distance))
        return;
    suggest->best = name;
    suggest->distance = distance;
}
