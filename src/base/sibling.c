/* sibling.c - finds the other programs of this package.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/sibling.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int sibling_directory(struct path *ret, struct err *err)
{
    ssize_t size = readlink("/proc/self/exe", ret->text, sizeof(ret->text) - 1);

    if (size < 0)
        return err_set(err, -errno, "/proc/self/exe: %m");
    ret->text[size] = '\0';
    *strrchr(ret->text, '/') = '\0'; /* the kernel writes an absolute path */
    return 0;
}

int sibling_find(const char *name, struct path *ret, struct err *err)
{
    struct path directory, file;
    int result = sibling_directory(&directory, err);

    if (result == 0)
        result = path_join(&file, directory.text, name, err);
    if (result < 0)
        return result;
    if (access(file.text, X_OK) < 0)
        return err_set(err, -errno, "%s: %m", file.text);
    *ret = file;
    return 0;
}
