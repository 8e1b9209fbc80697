/* fuzz-last-words.c - anything on stderr: what is kept of it fits, has no control characters, and one line of it counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "act/output/last_words.h"
#include "judge/crash/crash_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fact_exit exit = { .status = 6 };
    size_t room = size ? 2 + data[0] * 2u : sizeof(exit.words), length, best_size;
    char *text = malloc(size + 1); /* of its size: a sanitizer sees a byte too far */
    const char *best;

    if (!text)
        abort();
    memcpy(text, data, size);
    if (room > sizeof(exit.words))
        room = sizeof(exit.words);
    last_words_pick(text, size, exit.words, room);
    length = strlen(exit.words);
    if (length >= room)
        abort();
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)exit.words[i] < ' ' && exit.words[i] != '\n')
            abort();
    }
    best = crash_best_line(exit.words, &best_size);
    if (best < exit.words || best + best_size > exit.words + length ||
        memchr(best, '\n', best_size))
        abort();
    crash_words_layer(exit.words, 0);
    if (crash_gave_up(&exit) && !crash_blames_others(&exit))
        abort();
    free(text);
    return 0;
}
