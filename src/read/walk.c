/* walk.c - fts(3) as the readers use it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/walk.h"

#include <errno.h>
#include <string.h>

static int walk_by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

FTS *walk_open(const char *directory, struct err *err)
{
    char *const paths[] = { (char *)directory, NULL };
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, walk_by_name);

    if (!fts)
        errno = -err_set(err, -errno, "%s: %m", directory);
    return fts;
}

void walk_clean(FTS **fts)
{
    if (*fts)
        fts_close(*fts);
}

const char *walk_name(const char *directory, const FTSENT *entry)
{
    const char *name = entry->fts_path + strlen(directory);

    return name + strspn(name, "/");
}
