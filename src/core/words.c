/* words.c - the words of a command line in one fixed buffer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/words.h"

#include <stdarg.h>
#include <stdio.h>

void words_add(struct words *words, const char *format, ...)
{
    size_t room = sizeof(words->text) - words->used;
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(words->text + words->used, room, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= room || words->count == WORDS_MAX) {
        words->full = true;
        return;
    }
    words->argv[words->count++] = words->text + words->used;
    words->argv[words->count] = NULL;
    words->used += (size_t)size + 1;
}
