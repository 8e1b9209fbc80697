/* remove_tree.c - rm -r on descriptors, without recursion.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/untrusted.h"

struct level {
    DIR *dir;
    char name[NAME_MAX + 1]; /* in the level above */
    bool removed;            /* something, in this pass */
};

struct tree_removal {
    struct level level[TREE_DEPTH];
    int depth;
    int failure; /* the first */
};

static void tree_fail(struct tree_removal *tree, int result)
{
    if (!tree->failure)
        tree->failure = result;
}

static void tree_clean(struct tree_removal **tree)
{
    while (*tree && (*tree)->depth > 0)
        closedir((*tree)->level[--(*tree)->depth].dir);
    free(*tree);
}

/* Takes the descriptor. */
static int tree_enter(struct tree_removal *tree, int fd, const char *name)
{
    struct level *level = &tree->level[tree->depth];
    DIR *dir = tree->depth < TREE_DEPTH ? fdopendir(fd) : NULL;

    if (!dir) {
        close(fd);
        return tree->depth < TREE_DEPTH ? -ENOMEM : -ELOOP;
    }
    *level = (struct level){ .dir = dir };
    snprintf(level->name, sizeof(level->name), "%s", name);
    tree->depth++;
    return 0;
}

/* All names of a level have been seen.  Some file systems skip names while others are removed: so again. */
static void tree_leave(struct tree_removal *tree)
{
    struct level *level = &tree->level[tree->depth - 1];

    if (level->removed) {
        level->removed = false;
        rewinddir(level->dir);
        return;
    }
    closedir(level->dir);
    tree->depth--;
    if (tree->depth == 0)
        return;
    if (unlinkat(dirfd(level[-1].dir), level->name, AT_REMOVEDIR) < 0)
        tree_fail(tree, -errno);
    else
        level[-1].removed = true;
}

static void tree_entry(struct tree_removal *tree, const char *name)
{
    struct level *level = &tree->level[tree->depth - 1];
    int result;

    if (unlinkat(dirfd(level->dir), name, 0) == 0) {
        level->removed = true;
        return;
    }
    if (errno != EISDIR && errno != EPERM) { /* EPERM: what POSIX says for a directory */
        tree_fail(tree, -errno);
        return;
    }
    result = untrusted_open_any_dir(dirfd(level->dir), name, NULL);
    if (result >= 0)
        result = tree_enter(tree, result, name);
    if (result < 0)
        tree_fail(tree, result);
}

int tree_empty(int dir_fd)
{
    CLEAN(tree_clean) struct tree_removal *tree = calloc(1, sizeof(*tree));
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result;

    if (!tree || fd < 0) {
        result = tree ? -errno : -ENOMEM;
        fd_clean(&fd);
        return result;
    }
    result = tree_enter(tree, fd, "");
    if (result < 0)
        return result;
    while (tree->depth > 0) {
        const struct dirent *entry = readdir(tree->level[tree->depth - 1].dir);

        if (!entry)
            tree_leave(tree);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            tree_entry(tree, entry->d_name);
    }
    return tree->failure;
}

/* "a/b/c/" into "a/b" and "c". */
static int tree_path_split(const char *path, char above[static PATH_MAX],
                           char name[static NAME_MAX + 1])
{
    size_t size = strlen(path), begin;

    while (size > 1 && path[size - 1] == '/')
        size--;
    begin = size;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (size == begin || size - begin > NAME_MAX || begin >= PATH_MAX)
        return -EINVAL;
    snprintf(above, PATH_MAX, "%.*s", (int)begin, begin ? path : "");
    if (!begin)
        strcpy(above, ".");
    snprintf(name, NAME_MAX + 1, "%.*s", (int)(size - begin), path + begin);
    return 0;
}

int tree_remove(const char *path)
{
    char above[PATH_MAX], name[NAME_MAX + 1];
    CLEAN(fd_clean) int above_fd = -1;
    CLEAN(fd_clean) int fd = -1;
    int result = tree_path_split(path, above, name);

    if (result < 0)
        return result;
    above_fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above_fd < 0)
        return -errno;
    fd = untrusted_open_any_dir(above_fd, name, NULL);
    if (fd == -ENOTDIR || fd == -ELOOP) /* a file or a link */
        return unlinkat(above_fd, name, 0) < 0 ? -errno : 0;
    if (fd < 0)
        return TAKE_FD(fd);
    result = tree_empty(fd);
    if (unlinkat(above_fd, name, AT_REMOVEDIR) < 0)
        return result < 0 ? result : -errno;
    return 0;
}
