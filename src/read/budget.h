/* budget.h - one memory limit for all readers, whatever files claim or unpack to.
 *
 * A gzip file of a megabyte can unpack to a gigabyte, and each of its bytes may become a value of 24 bytes.  So
 * every allocation whose size a file decides counts toward one budget: unpacked text, values, tables.  Readers
 * return -ENOMEM when it is used up; `refused` distinguishes this from a machine without memory.
 *
 * SPDX-License-Identifier: Apache-2.0
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
