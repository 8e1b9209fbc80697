/* last_words.h - the lines at the end of a rank's stderr that say why it ended.
 *
 * Torch prints a message and then a page of frames, so the last bytes alone say nothing.  Lines of frames, marks below lines of
 * code and warnings are left out, and a line that does not fit keeps its begin.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_OUTPUT_LAST_WORDS_H
#define LOCKSTEP_ACT_OUTPUT_LAST_WORDS_H

#include <stddef.h>

/* At most room-1 bytes, in their order, without control characters; ends with a 0.  If there are only such lines, the
 * last of them.
 */
void last_words_pick(const char *text, size_t size, char *ret, size_t room);

#endif
