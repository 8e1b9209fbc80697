/* tree.c - rm -r by nftw(), which neither follows links nor recurses on our stack. */
#include "base/tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>

static int entry_remove(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path) < 0 ? -1 : 0;
}

int tree_remove(const char *path)
{
    return nftw(path, entry_remove, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 ? -errno : 0;
}
