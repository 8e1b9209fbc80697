/* words.h - a command line as an array of words.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_WORDS_H
#define LOCKSTEP_CORE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_MAX 48
#define WORDS_BYTES 32768

struct words { /* zeroed is empty */
    char *argv[WORDS_MAX + 1];
    size_t count, used;
    bool full; /* one did not fit, so none of it may be run */
    char text[WORDS_BYTES];
};

__attribute__((format(printf, 2, 3))) void words_add(struct words *words, const char *format, ...);

#endif
