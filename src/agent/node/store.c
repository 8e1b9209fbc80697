/* store.c - directories below one descriptor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/untrusted.h"

/* Ours, and from now on nobody else's to look into. */
static int store_dir_check(int fd, const char *name, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: owner is user %u, not %u", name, st.st_uid, geteuid());
    if ((st.st_mode & 077) && fchmod(fd, 0700) < 0)
        return err_set(err, -errno, "%s: %m", name);
    return 0;
}

static int store_dir_make(int parent, const char *name, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    int result;

    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", name);
    fd = untrusted_open_any_dir(parent, name, err);
    if (fd < 0)
        return TAKE_FD(fd);
    result = store_dir_check(fd, name, err);
    return result < 0 ? result : TAKE_FD(fd);
}

int store_open(struct store *store, const char *state, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    CLEAN(fd_clean) int runs = -1;
    int result = path_make(state, err);

    if (result < 0)
        return result;
    fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", state);
    result = store_dir_check(fd, state, err);
    if (result < 0)
        return result;
    runs = store_dir_make(fd, "runs", err);
    if (runs < 0)
        return err_wrap(err, TAKE_FD(runs), "%s", state);
    if (flock(runs, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, -EBUSY, "%s: another node daemon is using it", state);
    store->fd = TAKE_FD(runs);
    return 0;
}

void store_close(struct store *store)
{
    fd_clean(&store->fd);
    store->fd = -1;
}

/* Made as ours, then given away while nobody else can reach it. */
static int store_spool_make(int run, uid_t uid, gid_t gid, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct stat st;

    if (mkdirat(run, "spool", 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "spool: %m");
    fd = untrusted_open_any_dir(run, "spool", err);
    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "spool: %m");
    if (st.st_uid == geteuid() && uid != geteuid() && fchown(fd, uid, gid) < 0)
        return err_set(err, -errno, "spool: %m");
    if (st.st_uid != geteuid() && st.st_uid != uid)
        return err_set(err, -EPERM, "spool: owner is user %u, not %u", st.st_uid, uid);
    return TAKE_FD(fd);
}

int store_open_spool(const struct store *store, const char *id, uid_t uid, gid_t gid,
                     struct err *err)
{
    CLEAN(fd_clean) int run = store_dir_make(store->fd, id, err);
    int fd;

    if (run < 0)
        return TAKE_FD(run);
    fd = store_spool_make(run, uid, gid, err);
    return fd < 0 ? err_wrap(err, fd, "%s", id) : fd;
}

int store_remove(const struct store *store, const char *id)
{
    CLEAN(fd_clean) int run = untrusted_open_any_dir(store->fd, id, NULL);

    if (run < 0)
        return run == -ENOENT ? 0 : run;
    if (unlinkat(run, "spool", AT_REMOVEDIR) < 0 && errno != ENOENT)
        return errno == EEXIST ? -ENOTEMPTY : -errno;
    return unlinkat(store->fd, id, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static void store_list_entry(const struct store *store, const char *id, store_fn *fn, void *arg)
{
    CLEAN(fd_clean) int run = untrusted_open_any_dir(store->fd, id, NULL);
    struct stat st;

    if (run < 0)
        return;
    if (fstatat(run, "spool", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        fn(arg, id, st.st_uid, st.st_gid);
    else if (errno == ENOENT)
        store_remove(store, id); /* killed between two steps */
}

void store_list(const struct store *store, store_fn *fn, void *arg)
{
    int fd = openat(store->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        log_error("cannot read the directory of an earlier daemon: %m");
        fd_clean(&fd);
    }
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.')
            store_list_entry(store, entry->d_name, fn, arg);
    }
}
