/* library.c - opens a vendor's library at run time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct library {
    void *handle;
};

/* The loader has no error numbers; this is its text, unchanged for decades, for a file that is not there. */
static int library_errno(const char *text)
{
    return strstr(text, "cannot open shared object file: No such file") ? -ENOENT : -ELIBBAD;
}

int library_open(const char *name, struct library **ret, struct err *err)
{
    struct library *library;
    const char *text;

    if (strchr(name, '/') && name[0] != '/')
        return err_set(err, -EINVAL, "%s: give a library's absolute path, or its name alone", name);
    library = calloc(1, sizeof(*library));
    if (!library)
        return err_nomem(err);
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) {
        text = dlerror();
        free(library);
        return err_set(err, library_errno(text ? text : ""), "%s", text ? text : name);
    }
    *ret = library;
    return 0;
}

void library_close(struct library *library)
{
    if (!library)
        return;
    dlclose(library->handle);
    free(library);
}

void *library_find(void *library, const char *name)
{
    return dlsym(((struct library *)library)->handle, name);
}
