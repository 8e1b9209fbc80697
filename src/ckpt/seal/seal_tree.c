/* seal_tree.c - walks a checkpoint directory.
 *
 * Directories wait in a list, so that depth needs no recursion, and each is opened name by name from the top.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/seal_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
#include "core/untrusted.h"

struct seal_walk {
    int dir_fd;
    char **waiting; /* paths of directories; "" is the top */
    size_t waits, room, taken;
    struct seal *ret;
    struct err *err;
};

/* A descriptor of the directory that the last name of `path` lies in, and that name. */
static int tree_parent_open(int dir_fd, const char *path, const char **ret_name, struct err *err)
{
    CLEAN(fd_clean) int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *slash;

    if (fd < 0)
        return err_set(err, -errno, "%m");
    while ((slash = strchr(path, '/'))) {
        char name[256];
        int next;

        if ((size_t)(slash - path) >= sizeof(name))
            return err_set(err, -ENAMETOOLONG, "a name is too long");
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = '\0';
        next = untrusted_open_any_dir(fd, name, err);
        if (next < 0)
            return next;
        close(fd);
        fd = next;
        path = slash + 1;
    }
    *ret_name = path;
    return TAKE_FD(fd);
}

int seal_tree_open(int dir_fd, const char *path, struct err *err)
{
    const char *name = NULL;
    CLEAN(fd_clean) int parent = tree_parent_open(dir_fd, path, &name, err);

    return parent < 0 ? parent : untrusted_open(parent, name, O_RDONLY, UNTRUSTED_ANY_OWNER, err);
}

static int tree_wait(struct seal_walk *tree, const char *path)
{
    char *copy = strdup(path);

    if (!copy || !ARRAY_FIT(tree->waiting, tree->room, tree->waits + 1)) {
        free(copy);
        return err_nomem(tree->err);
    }
    tree->waiting[tree->waits++] = copy;
    return 0;
}

static int tree_refuse(struct seal_walk *tree, const char *path, const char *why)
{
    char clean[300];

    snprintf(clean, sizeof(clean), "%s", path);
    text_clean(clean, strlen(clean), false);
    return err_set(tree->err, -EPROTO, "%s: %s", clean, why);
}

static const char *tree_kind_of(mode_t mode)
{
    if (S_ISLNK(mode))
        return "a symbolic link, which a seal cannot cover";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

static bool is_seal(const char *path)
{
    return strcmp(path, SEAL_NAME) == 0 || strcmp(path, SEAL_TEMPORARY) == 0;
}

static int tree_entry(struct seal_walk *tree, int fd, const char *above, const char *name)
{
    char path[SEAL_PATH_MAX + 300];
    struct stat st, top;

    snprintf(path, sizeof(path), "%s%s%s", above, *above ? "/" : "", name);
    if (!seal_path_ok(path))
        return tree_refuse(tree, path, "the name is too long, too deep or has unusual characters");
    if (is_seal(path))
        return 0;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || fstat(fd, &top) < 0)
        return err_set(tree->err, errno == ENOENT ? -EPROTO : -errno, "%s: %m", path);
    if (S_ISDIR(st.st_mode) && st.st_dev != top.st_dev)
        return tree_refuse(tree, path, "another file system, which is not entered");
    if (tree->ret->files + tree->waits >= SEAL_FILES_MAX)
        return err_set(tree->err, -EPROTO, "more than %d files", SEAL_FILES_MAX);
    if (S_ISDIR(st.st_mode))
        return tree_wait(tree, path);
    if (!S_ISREG(st.st_mode))
        return tree_refuse(tree, path, tree_kind_of(st.st_mode));
    return seal_add(tree->ret, path, (uint64_t)st.st_size, tree->err);
}

static int tree_open_dir(struct seal_walk *tree, const char *path)
{
    const char *name = NULL;
    CLEAN(fd_clean) int parent = tree_parent_open(tree->dir_fd, path, &name, tree->err);

    if (parent < 0)
        return parent;
    return *name ? untrusted_open_any_dir(parent, name, tree->err) : TAKE_FD(parent);
}

static int tree_directory(struct seal_walk *tree, const char *path)
{
    int fd = tree_open_dir(tree, path), result = 0;
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!dir)
        return fd < 0 ? fd : err_set(tree->err, -errno, "%m");
    for (errno = 0; result == 0 && (entry = readdir(dir)); errno = 0) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = tree_entry(tree, dirfd(dir), path, entry->d_name);
    }
    return result == 0 && errno ? err_set(tree->err, -errno, "%s: %m", path) : result;
}

static int tree_path_compare(const void *a, const void *b)
{
    return strcmp(((const struct seal_entry *)a)->path, ((const struct seal_entry *)b)->path);
}

int seal_tree_read(int dir_fd, struct seal *ret, struct err *err)
{
    struct seal_walk tree = { .dir_fd = dir_fd, .ret = ret, .err = err };
    int result = tree_wait(&tree, "");

    for (; result == 0 && tree.taken < tree.waits; tree.taken++)
        result = tree_directory(&tree, tree.waiting[tree.taken]);
    for (size_t i = 0; i < tree.waits; i++)
        free(tree.waiting[i]);
    free(tree.waiting);
    if (result == 0 && ret->files)
        qsort(ret->file, ret->files, sizeof(*ret->file), tree_path_compare);
    return result;
}
