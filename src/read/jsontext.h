/* jsontext.h - a JSON text as plain data.
 *
 * Profilers write hundreds of megabytes of it; json-c needs some hundred bytes for each value, this 24.
 * Not strict where Python is not: NaN and Infinity are numbers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_JSONTEXT_H
#define LOCKSTEP_READ_JSONTEXT_H

#include "read/value_tree.h"

/* `text` is changed: texts with escapes are unescaped where they lie.  -EPROTO with line and column; -EFBIG: it does
 * not fit into the budget of *tree.
 */
int jsontext_read(char *text, size_t bytes, struct value_tree *tree, struct err *err);

#endif
