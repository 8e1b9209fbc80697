/* shape_book.h - the shapes of a run, to decode its steps with.
 *
 * Bounded: shapes beyond SHAPE_BOOK_ITEMS items are not kept, and their steps are not decoded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_SHAPE_BOOK_H
#define LOCKSTEP_CONTROL_REPORT_SHAPE_BOOK_H

#include <stddef.h>

#include "core/map.h"
#include "wire/facts.h"

#define SHAPE_BOOK_ITEMS (2u << 20)

struct shape_book {
    struct fact_shape *shape;
    size_t count, room, items;
    struct map place; /* hash of a shape → its place in `shape` */
};

void shape_book_fini(struct shape_book *book);
/* A FRAME_SHAPE.  -ENOMEM; what is malformed or beyond the limit is left out. */
int shape_book_add(struct shape_book *book, struct reader in);
/* A FRAME_STEP with its times; NULL and -ENOENT: its shape is not known.  -EPROTO, -ENOMEM. */
int shape_book_step(const struct shape_book *book, struct reader in, struct fact_step *ret,
                    const struct fact_shape **shape);

#endif
