/* symbols.c - fills a struct of function pointers from a library's names. */
#include "device/cuda/symbols.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SYMBOLS_MAX 64

int symbols_fill(void *into, size_t bytes, const struct symbol *table, size_t count,
                 symbol_find *find, void *arg, struct err *err)
{
    void *found[SYMBOLS_MAX];

    assert(count <= SYMBOLS_MAX);
    for (size_t i = 0; i < count; i++) {
        found[i] = find(arg, table[i].name);
        if (!found[i] && !table[i].optional)
            return err_set(
                err, -ENOSYS,
                "the library has no function %s; it is too old or not what its name says",
                table[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        assert(table[i].offset + sizeof(found[i]) <= bytes);
        /* A pointer to a function is as wide as one to data wherever dlsym() exists. */
        memcpy((char *)into + table[i].offset, &found[i], sizeof(found[i]));
    }
    return 0;
}
