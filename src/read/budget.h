/* budget.h - how much memory reading may take in all, whatever files claim or unpack to.
 *
 * A gzip of a megabyte unpacks to a gigabyte, and each of its bytes may be a value of 24.  So everything whose size a file
 * decides is taken from one budget: unpacked text, values, tables of what was read.  Readers return -ENOMEM when they get nothing;
 * `refused` tells that from a machine without memory.
 */
#ifndef LOCKSTEP_READ_BUDGET_H
#define LOCKSTEP_READ_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define BUDGET_WHY ((size_t)1 << 30) /* of `lockstep why` */

struct budget {
    size_t limit, used; /* bytes */
    bool refused;       /* something was, since this was last set to false */
};

/* False: that is too much.  NULL is a budget without an end. */
bool budget_take(struct budget *budget, size_t bytes);
void budget_give(struct budget *budget, size_t bytes);
/* Room for one more than `count` in an array of the heap; half as much again each time.  -ENOMEM. */
int budget_grow(struct budget *budget, void *array, size_t *room, size_t count, size_t size);
void budget_free(struct budget *budget, void *array, size_t room, size_t size);
/* -EFBIG and the sentence when it was the budget that said no, else -ENOMEM. */
int budget_error(const struct budget *budget, struct err *err);

#endif
