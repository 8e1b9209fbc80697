/* pickle.h - a pickle (protocols 2 to 5) as plain data.  No code in it is executed.
 *
 * Classes and functions are refused by name, except those that only create plain data: OrderedDict, sets and bytes
 * of protocol 2, the typed lists of torch.jit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_PICKLE_H
#define LOCKSTEP_READ_PICKLE_H

#include "read/value_tree.h"

bool pickle_is(const void *data, size_t bytes); /* by its first two bytes */
/* -EPROTO with the offset, -EFBIG when it does not fit into the budget of *tree; *tree is reset first, and texts point into `data`. */
int pickle_read(const void *data, size_t bytes, struct value_tree *tree, struct err *err);

#endif
