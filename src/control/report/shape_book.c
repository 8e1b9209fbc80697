/* shape_book.c - shapes by their hash.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/shape_book.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"

void shape_book_fini(struct shape_book *book)
{
    for (size_t i = 0; i < book->count; i++)
        fact_shape_fini(&book->shape[i]);
    free(book->shape);
    map_fini(&book->place);
    *book = (struct shape_book){ 0 };
}

int shape_book_add(struct shape_book *book, struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    int result = fact_shape_get(in, &shape);

    if (result < 0)
        return result == -EPROTO ? 0 : result;
    if (map_get(&book->place, shape.hash) || book->items + shape.count > SHAPE_BOOK_ITEMS)
        return 0;
    if (!ARRAY_FIT(book->shape, book->room, book->count + 1) ||
        !map_put(&book->place, shape.hash, book->count))
        return -ENOMEM;
    book->items += shape.count;
    book->shape[book->count++] = shape;
    shape = (struct fact_shape){ 0 };
    return 0;
}

int shape_book_step(const struct shape_book *book, struct reader in, struct fact_step *ret,
                    const struct fact_shape **shape)
{
    uint64_t hash = fact_step_shape(in), *at = hash ? map_get(&book->place, hash) : NULL;

    if (!at)
        return hash ? -ENOENT : -EPROTO;
    *shape = &book->shape[*at];
    return fact_step_get(in, *shape, ret);
}
