/* check_report.c - a directory that only root can write to: reports, and the lock of the check in the background.
 *
 * The lock is twice the same file: the record lock has the pid of the process that runs the checks, and flock() is held by its children,
 * too, so it is free when the last of them has left the devices.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/check_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define REPORT_SENDER "check"
#define REPORT_SUFFIX ".lsf"
#define REPORTS_AT_ONCE 8
#define END_NS (1500 * NS_PER_MS)     /* from SIGTERM to SIGKILL ... */
#define END_MAX_NS (2000 * NS_PER_MS) /* ... and to the end of waiting */
#define RESERVED_S 60                 /* for whoever asked for the node */

static int report_directory(const char *state, struct path *ret, struct err *err)
{
    return path_join(ret, state, "checks", err);
}

int check_report_make(const char *state, struct err *err)
{
    struct path directory;
    int result = report_directory(state, &directory, err);

    return result < 0 ? result : path_make(directory.text, err);
}

/* ---- reports ---- */

static int report_put_all(const char *path, const struct check *check, size_t count,
                          struct err *err)
{
    CLEAN(spool_writer_clean) struct spool_writer *writer = NULL;
    int result = spool_writer_open(path, REPORT_SENDER, &writer, err);

    for (size_t i = 0; i < count && result >= 0; i++) {
        CLEAN(buf_fini) struct buf payload = { 0 };

        check_put(&payload, &check[i]);
        result = payload.failed ? err_nomem(err) : spool_put(writer, FRAME_CHECK, &payload, err);
    }
    return result < 0 ? result : spool_sync(writer, err);
}

int check_report_write(const char *state, const struct check *check, size_t count, struct err *err)
{
    struct path directory, making, made;
    char name[64];
    int result = report_directory(state, &directory, err);

    if (result < 0)
        return result;
    if (access(directory.text, W_OK) < 0)
        return err_set(err, -errno,
                       "%s: %m; the daemon of this node (lockstep agent --every-run) makes it",
                       directory.text);
    snprintf(name, sizeof(name), "%019lld-%d" REPORT_SUFFIX, (long long)time_real_ns(),
             (int)getpid());
    result = path_join(&made, directory.text, name, err);
    snprintf(name, sizeof(name), "making-%d", (int)getpid());
    if (result == 0)
        result = path_join(&making, directory.text, name, err);
    if (result < 0)
        return result;
    unlink(making.text); /* of a process that had this pid */
    result = report_put_all(making.text, check, count, err);
    if (result >= 0 && rename(making.text, made.text) < 0)
        result = err_set(err, -errno, "%s: %m", made.text);
    if (result < 0)
        unlink(making.text);
    return result < 0 ? result : 0;
}

static int report_give(const char *path, int (*take)(void *arg, const struct check *check),
                       void *arg, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    struct check check;
    size_t given = 0;
    int result = spool_reader_open(path, &reader, err);

    if (result < 0)
        return result;
    while (given < CHECK_REPORT_RESULTS && (result = spool_next(reader, &frame, err)) == 1) {
        if (frame.type != FRAME_CHECK ||
            check_get(reader_of(frame.payload, frame.payload_bytes), &check) < 0)
            continue;
        given++;
        result = take(arg, &check);
        if (result < 0)
            return result;
    }
    return result < 0 ? result : 0;
}

static bool report_is_name(const char *name)
{
    size_t size = strlen(name), suffix = strlen(REPORT_SUFFIX);

    return name[0] != '.' && size > suffix && strcmp(name + size - suffix, REPORT_SUFFIX) == 0;
}

static int report_filter(const struct dirent *entry)
{
    return report_is_name(entry->d_name);
}

int check_report_take(const char *state, int (*take)(void *arg, const struct check *check),
                      void *arg, struct err *err)
{
    struct dirent **entry = NULL;
    struct path directory, path;
    int result = report_directory(state, &directory, err), taken = 0, count;

    if (result < 0)
        return result;
    count = scandir(directory.text, &entry, report_filter, alphasort);
    if (count < 0)
        return errno == ENOENT ? 0 : err_set(err, -errno, "%s: %m", directory.text);
    for (int i = 0; i < count; i++) {
        if (result == 0 && taken < REPORTS_AT_ONCE)
            result = path_join(&path, directory.text, entry[i]->d_name, err);
        if (result == 0 && taken < REPORTS_AT_ONCE) {
            result = report_give(path.text, take, arg, err);
            if (result == -EPROTO || result == -ELOOP)
                result = 0; /* no report: nothing of it is of use */
            if (result == 0 && unlink(path.text) < 0)
                result = err_set(err, -errno, "%s: %m", path.text);
            taken += result == 0;
        }
        free(entry[i]);
    }
    free(entry);
    return result < 0 ? result : taken;
}

/* ---- the check in the background ---- */

/* A new file says that nobody ever needed the node. */
static int check_background_open(const char *state, bool make, struct err *err)
{
    static const struct timespec never[2] = { { .tv_sec = 0 }, { .tv_sec = 0 } };
    CLEAN(fd_clean) int fd = -1;
    struct path directory, path;
    int result = report_directory(state, &directory, err);

    if (result == 0)
        result = path_join(&path, directory.text, "running", err);
    if (result < 0)
        return result;
    if (make) {
        fd = open(path.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 && futimens(fd, never) < 0)
            return err_set(err, -errno, "%s: %m", path.text);
    }
    if (fd < 0)
        fd = open(path.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_set(err, -errno, "%s: %m", path.text) : TAKE_FD(fd);
}

int check_background_begin(const char *state, int *ret_fd, struct err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    CLEAN(fd_clean) int fd = check_background_open(state, true, err);
    struct stat st;
    int64_t age_s;

    if (fd < 0)
        return TAKE_FD(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fcntl(fd, F_SETLK, &lock) < 0)
        return err_set(err, -EBUSY, "another check is running in the background");
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", state);
    age_s = time_real_ns() / NS_PER_S - st.st_mtim.tv_sec;
    if (age_s >= 0 && age_s < RESERVED_S)
        return err_set(err, -EAGAIN, "the node was needed %lld s ago", (long long)age_s);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Who runs the checks; 0: nobody. */
static pid_t check_background_pid(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

static bool check_background_is_over(int fd)
{
    bool over = flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (over)
        flock(fd, LOCK_UN);
    return over;
}

int check_background_end(const char *state, struct err *err)
{
    const struct timespec nap = time_spec(5 * NS_PER_MS);
    CLEAN(fd_clean) int fd = check_background_open(state, false, err);
    int64_t began_ns = time_mono_ns(), now_ns = began_ns;
    pid_t pid;

    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return TAKE_FD(fd);
    futimens(fd, NULL); /* none begins for a while */
    if (check_background_is_over(fd))
        return 0;
    for (; now_ns - began_ns < END_MAX_NS; now_ns = time_mono_ns()) {
        pid = check_background_pid(fd);
        if (pid > 0 && kill(pid, now_ns - began_ns < END_NS ? SIGTERM : SIGKILL) < 0 &&
            errno == EPERM)
            return err_set(err, -EPERM, "a check is running in the background, as another user");
        nanosleep(&nap, NULL);
        if (check_background_is_over(fd))
            return 1;
    }
    return err_set(err, -ETIMEDOUT, "the check in the background has not ended within 2 s");
}
