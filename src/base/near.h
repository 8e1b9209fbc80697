/* near.h - "did you mean": the name nearest to what somebody typed. */
#ifndef LOCKSTEP_BASE_NEAR_H
#define LOCKSTEP_BASE_NEAR_H

#include <stddef.h>

/* Keeps the best of the names offered so far.  Begin with { .typed = "what they typed" }. */
struct near {
    const char *typed;
    const char *best; /* NULL: nothing near enough */
    size_t distance;  /* of best */
};

void near_offer(struct near *near, const char *name); /* kept by reference */

/* Insertions, deletions, exchanges of a letter, and swaps of two neighbours.  Names longer
 * than 64 bytes are infinitely far.
 */
size_t near_distance(const char *a, const char *b);

#endif
