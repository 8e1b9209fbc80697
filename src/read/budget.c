/* budget.c - counts allocated bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/budget.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"

#define ROOM_FIRST 64

bool budget_take(struct budget *budget, size_t bytes)
{
    if (!budget)
        return true;
    if (bytes > budget->limit - budget->used) {
        budget->refused = true;
        return false;
    }
    budget->used += bytes;
    return true;
}

void budget_give(struct budget *budget, size_t bytes)
{
    if (budget)
        budget->used -= MIN(bytes, budget->used);
}

int budget_grow(struct budget *budget, void *array, size_t *room, size_t count, size_t size)
{
    size_t wider = *room + *room / 2 + (*room < ROOM_FIRST ? ROOM_FIRST : 0);
    void *grown;

    if (count < *room)
        return 0;
    if (!budget_take(budget, (wider - *room) * size))
        return -ENOMEM;
    grown = reallocarray(*(void **)array, wider, size);
    if (!grown) {
        budget_give(budget, (wider - *room) * size);
        return -ENOMEM;
    }
    *(void **)array = grown;
    *room = wider;
    return 0;
}

void budget_free(struct budget *budget, void *array, size_t room, size_t size)
{
    free(array);
    budget_give(budget, room * size);
}

int budget_error(const struct budget *budget, struct err *err)
{
    if (!budget || !budget->refused)
        return err_nomem(err);
    return err_set(err, -EFBIG, "reading it would exceed the memory limit of %zu MiB for all files",
                   budget->limit >> 20);
}
