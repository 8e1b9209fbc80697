/* scan.c - a cursor over ROOT, and one over the directory of each user.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/untrusted.h"
#include "wire/ring.h"

/* In one turn: */
#define ROOT_NAMES 16384 /* of ROOT */
#define TURN_DIRS 1024   /* directories of all users */
#define USER_DIRS 64     /* of one */
#define USER_NAMES 1024
#define RING_NAMES 1024 /* among which a directory's first ring must be */
#define USERS_MAX 4096

#define PREFIX "lockstep-"

struct scan_user {
    uid_t uid;
    DIR *cursor; /* NULL: begins again with the next turn */
};

struct scan {
    const char *root;
    int root_fd;
    DIR *cursor;
    struct scan_user *user;
    size_t users, room, next;
};

int scan_create(const char *root, struct scan **ret, struct err *err)
{
    struct scan *scan = calloc(1, sizeof(*scan));

    if (!scan)
        return err_nomem(err);
    scan->root = root;
    scan->root_fd = -1;
    *ret = scan;
    return 0;
}

void scan_destroy(struct scan *scan)
{
    if (!scan)
        return;
    for (size_t i = 0; i < scan->users; i++)
        dir_clean(&scan->user[i].cursor);
    dir_clean(&scan->cursor);
    fd_clean(&scan->root_fd);
    free(scan->user);
    free(scan);
}

/* ---- one run ---- */

/* Whoever can read a directory can lock it.  So a lock is an agent's only where nobody but the owner can: `lockstep run`
 * makes such directories.  Who holds a lock could be read in /proc/locks, which others can make as long as they like.
 */
bool scan_is_locked(int run_fd)
{
    struct stat st;

    if (flock(run_fd, LOCK_EX | LOCK_NB) == 0) {
        flock(run_fd, LOCK_UN);
        return false;
    }
    return fstat(run_fd, &st) < 0 || !(st.st_mode & (S_IRGRP | S_IROTH));
}

static bool scan_is_ring(int run_fd, const char *name, uid_t uid)
{
    CLEAN(fd_clean) int fd = -1;
    uint32_t rank, number;
    uint64_t magic;

    if (!ring_name_parse(name, &rank, &number))
        return false;
    fd = untrusted_open(run_fd, name, O_RDONLY, uid, NULL);
    return fd >= 0 && pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == RING_MAGIC;
}

static DIR *scan_dir_open(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        fd_clean(&fd);
    return dir;
}

static bool scan_has_ring(int run_fd, uid_t uid)
{
    CLEAN(dir_clean) DIR *dir = scan_dir_open(run_fd, ".");
    const struct dirent *entry;

    for (int i = 0; dir && i < RING_NAMES && (entry = readdir(dir)); i++) {
        if (scan_is_ring(run_fd, entry->d_name, uid))
            return true;
    }
    return false;
}

static int user_open(const struct scan *scan, uid_t uid)
{
    char name[32];

    if (scan->root_fd < 0)
        return -ENOENT;
    snprintf(name, sizeof(name), PREFIX "%u", uid);
    return untrusted_open_dir(scan->root_fd, name, uid, NULL);
}

int scan_open_run(const struct scan *scan, uid_t uid, const char *name)
{
    CLEAN(fd_clean) int user = user_open(scan, uid);

    return user < 0 ? TAKE_FD(user) : untrusted_open_dir(user, name, uid, NULL);
}

/* ---- users ---- */

static void user_add(struct scan *scan, uid_t uid)
{
    CLEAN(fd_clean) int fd = -1;

    for (size_t i = 0; i < scan->users; i++) {
        if (scan->user[i].uid == uid)
            return;
    }
    fd = user_open(scan, uid);
    if (fd < 0 || scan->users == USERS_MAX || !ARRAY_FIT(scan->user, scan->room, scan->users + 1))
        return;
    scan->user[scan->users++] = (struct scan_user){ .uid = uid };
}

static void user_drop(struct scan *scan, size_t at)
{
    dir_clean(&scan->user[at].cursor);
    scan->user[at] = scan->user[--scan->users];
}

static void user_entry(const struct scan_user *user, const char *name, const struct scan_sink *sink)
{
    CLEAN(fd_clean)
    int fd = untrusted_open_dir(dirfd(user->cursor), name, user->uid, NULL);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !scan_has_ring(fd, user->uid))
        return;
    if (sink->seen)
        sink->seen(sink->arg, user->uid, name);
    if (!scan_is_locked(fd))
        sink->found(sink->arg, user->uid, st.st_gid, name);
}

/* Goes on where it stopped.  False: he has no such directory any more. */
static bool user_turn(const struct scan *scan, struct scan_user *user, unsigned *budget,
                      const struct scan_sink *sink)
{
    const struct dirent *entry = NULL;
    unsigned dirs = 0;

    if (!user->cursor) {
        int fd = user_open(scan, user->uid);

        user->cursor = fd < 0 ? NULL : fdopendir(fd);
        if (!user->cursor) {
            fd_clean(&fd);
            return false;
        }
    }
    for (int i = 0; i < USER_NAMES && dirs < USER_DIRS && *budget; i++) {
        entry = readdir(user->cursor);
        if (!entry)
            break;
        if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) ||
            sink->is_known(sink->arg, user->uid, entry->d_name))
            continue;
        dirs++;
        --*budget;
        user_entry(user, entry->d_name, sink);
    }
    if (!entry) {
        closedir(user->cursor);
        user->cursor = NULL;
    }
    return true;
}

/* ---- ROOT ---- */

static void scan_root_entry(struct scan *scan, const char *name)
{
    const char *digits = name + strlen(PREFIX);
    unsigned long uid;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !*digits ||
        strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 10)
        return;
    uid = strtoul(digits, NULL, 10);
    if (uid < (uid_t)-1 && (geteuid() == 0 || geteuid() == uid)) /* -1 is no user's */
        user_add(scan, (uid_t)uid);
}

static void scan_root_turn(struct scan *scan)
{
    const struct dirent *entry = NULL;

    if (scan->root_fd < 0)
        scan->root_fd = open(scan->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scan->root_fd >= 0 && !scan->cursor)
        scan->cursor = scan_dir_open(scan->root_fd, ".");
    for (int i = 0; i < ROOT_NAMES && scan->cursor && (entry = readdir(scan->cursor)); i++)
        scan_root_entry(scan, entry->d_name);
    if (!entry && scan->cursor) {
        closedir(scan->cursor);
        scan->cursor = NULL;
    }
}

void scan_turn(struct scan *scan, const struct scan_sink *sink)
{
    unsigned budget = TURN_DIRS;

    scan_root_turn(scan);
    for (size_t left = scan->users; left > 0 && budget; left--) {
        size_t at = scan->next % scan->users;

        if (user_turn(scan, &scan->user[at], &budget, sink))
            scan->next = at + 1;
        else
            user_drop(scan, at);
        if (scan->users == 0)
            return;
    }
}
