/* text.h - makes foreign text safe to show: removes characters that hide or move other text.
 *
 * Programs, peers and files choose texts that we print: names of nodes and files, output of ranks.  A terminal would
 * execute escape sequences in them, and a reader would see another order (U+202E) or nothing at all (U+200B).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_TEXT_H
#define LOCKSTEP_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins here and may be shown; 0: there is none.  Not shown are controls, what is not UTF-8, and
 * characters without a shape of their own that change how others look: directions, zero-width, separators of lines, tags.
 */
size_t text_char(const char *at, size_t left);
/* Each byte that does not belong to such a character becomes '?', a character that is not shown one '?'; in place.  `lines`: newlines and
 * tabs stay.  Returns the new size.
 */
size_t text_clean(char *text, size_t size, bool lines);
/* Where the first `most` bytes of a longer line end with a whole word; where a word is that long, with a whole character. */
size_t text_word_end(const char *line, size_t most);
/* Copies a line.  One that does not fit ends after a whole word and with " ...".  `room` is 8 or more.  Returns `ret`. */
const char *text_shorten(const char *line, size_t size, char *ret, size_t room);

#endif
