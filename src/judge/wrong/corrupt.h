/* corrupt.h - what the judge of wrong numbers remembers from step to step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_WRONG_CORRUPT_H
#define LOCKSTEP_JUDGE_WRONG_CORRUPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct corrupt_book;
struct fact_note;
struct judge_state;
struct save_note;

int corrupt_book_create(struct corrupt_book **ret);
void corrupt_book_destroy(struct corrupt_book *book);
size_t corrupt_book_bytes(const struct corrupt_book *book); /* of memory, about */
void corrupt_numbers(
    struct judge_state *judge); /* judges those of judge state->whole, also of a bare one */
/* corrupt_moments.c: a rank's note of a save. */
void corrupt_save(struct judge_state *judge, uint32_t rank, const struct save_note *save);
/* corrupt_saved.c: whether it is the note of a rank whose replica differs from what another rank saved. */
bool corrupt_saved_note(struct judge_state *judge, const struct fact_note *fact);
void corrupt_attempt(struct corrupt_book *book); /* a new one begins: parameters were read again */

#endif
