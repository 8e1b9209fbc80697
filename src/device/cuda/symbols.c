/* symbols.c - fills a struct of function pointers from a library's names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/cuda/symbols.h"

#include <errno.h>
#include <string.h>

int symbols_fill(void *into, const struct symbol *table, symbol_find *find, void *arg,
                 struct err *err)
{
    void *found;

    for (const struct symbol *at = table; at->name; at++) {
        if (!at->optional && !find(arg, at->name))
            return err_set(
                err, -ENOSYS,
                "the library has no function %s; it is too old or not what its name says",
                at->name);
    }
    for (const struct symbol *at = table; at->name; at++) {
        found = find(arg, at->name);
        /* A pointer to a function is as wide as one to data wherever dlsym() exists. */
        memcpy((char *)into + at->offset, &found, sizeof(found));
    }
    return 0;
}
