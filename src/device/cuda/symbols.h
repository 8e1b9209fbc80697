/* symbols.h - fills a struct of function pointers from a library's names.
 *
 * Who finds the names is the caller's choice: dlsym() on a library that was opened, or a lookup among the libraries that
 * a training process has loaded already.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_CUDA_SYMBOLS_H
#define LOCKSTEP_DEVICE_CUDA_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

struct symbol {
    const char *name;
    size_t offset; /* of its pointer in the struct */
    bool optional; /* older libraries lack it: the pointer is then NULL */
};

#define SYMBOL(type, member, name)                                                                 \
    {                                                                                              \
        name, offsetof(type, member), false                                                        \
    }
#define SYMBOL_OPTIONAL(type, member, name)                                                        \
    {                                                                                              \
        name, offsetof(type, member), true                                                         \
    }

typedef void *symbol_find(void *arg, const char *name); /* NULL: there is none */

/* A table ends with an empty row.  0, or -ENOSYS with the name that is missing; the struct is then unchanged. */
int symbols_fill(void *into, const struct symbol *table, symbol_find *find, void *arg,
                 struct err *err);

#endif
