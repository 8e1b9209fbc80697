/* suggest.h - "did you mean": the name nearest to what the user typed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_SUGGEST_H
#define LOCKSTEP_BASE_SUGGEST_H

#include <stddef.h>

/* Keeps the best of the names offered so far.  Begin with { .typed = "what they typed" }. */
struct suggest {
    const char *typed;
    const char *best; /* NULL: nothing near enough */
    size_t distance;  /* of best */
};

void suggest_offer(struct suggest *suggest, const char *name); /* kept by reference */

/* Insertions, deletions, exchanges of a letter, and swaps of two neighbours.  Names longer
 * than 64 bytes are infinitely far.
 */
size_t suggest_distance(const char *a, const char *b);

#endif
