/* paths.c - the state directory and the runs in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/paths.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define PATHS_SHM "/dev/shm"
#define PATHS_RUNS "runs"

int path_join(struct path *ret, const char *directory, const char *name, struct err *err)
{
    struct path joined;
    int size = snprintf(joined.text, sizeof(joined.text), "%s/%s", directory, name);

    if (size < 0 || (size_t)size >= sizeof(joined.text))
        return err_set(err, -ENAMETOOLONG, "%.40s.../%.40s: path is too long", directory, name);
    *ret = joined;
    return 0;
}

int path_make(const char *directory, struct err *err)
{
    struct path part;
    struct stat st;

    if (strlen(directory) >= sizeof(part.text))
        return err_set(err, -ENAMETOOLONG, "%.40s...: path is too long", directory);
    strcpy(part.text, directory);
    for (char *slash = part.text + 1;; slash++) {
        slash = strchrnul(slash, '/');
        bool last = !*slash;

        *slash = '\0';
        if (mkdir(part.text, 0700) < 0 && errno != EEXIST) {
            int why = errno;

            if (why != EROFS || stat(part.text, &st) < 0) /* one that exists may be EROFS, too */
                return err_set(err, -why, "%s: cannot be created: %s", part.text, strerror(why));
        }
        if (last)
            break;
        *slash = '/';
    }
    if (stat(directory, &st) < 0)
        return err_set(err, -errno, "%s: %m", directory);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "%s: is not a directory", directory);
    return 0;
}

int paths_state(struct path *ret, struct err *err)
{
    const char *state = getenv("LOCKSTEP_STATE"), *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    struct path local;
    int r;

    if (state && state[0]) {
        if (strlen(state) >= sizeof(ret->text))
            return err_set(err, -ENAMETOOLONG, "LOCKSTEP_STATE: path is too long");
        strcpy(ret->text, state);
        return 0;
    }
    if (xdg && xdg[0] == '/')
        return path_join(ret, xdg, "lockstep", err);
    if (!home || home[0] != '/') {
        const struct passwd *user = getpwuid(getuid());

        home = user ? user->pw_dir : NULL;
    }
    if (!home || home[0] != '/')
        return err_set(err, -ENOENT, "no home directory: set LOCKSTEP_STATE");
    r = path_join(&local, home, ".local/state", err);
    return r < 0 ? r : path_join(ret, local.text, "lockstep", err);
}

int paths_launch_token(struct path *ret, struct err *err)
{
    struct path state;
    int result = paths_state(&state, err);

    return result < 0 ? result : path_join(ret, state.text, "tokens/launch.token", err);
}

int paths_check_run(const char *run, struct err *err)
{
    size_t size = strlen(run);

    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)run[i]) && !strchr("._-", run[i]))
            return err_set(err, -EINVAL,
                           "run '%.63s': a name has only letters, digits, '.', '-' and '_'", run);
    }
    if (size == 0 || size > 63 || run[0] == '.' || run[0] == '-')
        return err_set(
            err, -EINVAL,
            "run '%.63s': a name has 1 to 63 characters and does not begin with '.' or '-'", run);
    return 0;
}

int paths_run_of(const char *state, const char *run, struct path *ret, struct err *err)
{
    struct path runs;
    int r = paths_check_run(run, err);

    if (r == 0)
        r = path_join(&runs, state, PATHS_RUNS, err);
    return r < 0 ? r : path_join(ret, runs.text, run, err);
}

int paths_run(const char *run, struct path *ret, struct err *err)
{
    struct path state;
    int r = paths_state(&state, err);

    return r < 0 ? r : paths_run_of(state.text, run, ret, err);
}

int paths_runs_open(const char *state, DIR **ret, struct err *err)
{
    struct path runs;
    int r = path_join(&runs, state, PATHS_RUNS, err);
    DIR *dir;

    if (r < 0)
        return r;
    dir = opendir(runs.text);
    if (dir || (errno == ENOENT && access(state, F_OK) == 0)) {
        *ret = dir;
        return 0;
    }
    if (errno == ENOTDIR)
        return err_set(err, -ENOTDIR, "state directory %s: not a directory", state);
    return err_set(err, -errno, "%s: %m", errno == ENOENT ? state : runs.text);
}

void paths_name_run(int64_t real_ns, uint64_t random, char ret[static 64])
{
    time_t seconds = real_ns / NS_PER_S;
    struct tm tm;
    char date[32];

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm);
    snprintf(ret, 64, "%s-%04x", date, (unsigned)(random & 0xffff));
}

/* Birth where the file system keeps it (ext4, xfs, btrfs, newer tmpfs); else the last change. */
static int64_t paths_run_born(int runs_fd, const char *name)
{
    struct statx st;

    if (statx(runs_fd, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_MTIME, &st) < 0)
        return 0;
    if (st.stx_mask & STATX_BTIME)
        return st.stx_btime.tv_sec * NS_PER_S + st.stx_btime.tv_nsec;
    return st.stx_mtime.tv_sec * NS_PER_S + st.stx_mtime.tv_nsec;
}

static bool paths_run_is(int runs_fd, const char *name)
{
    char file[80];

    if (paths_check_run(name, NULL) < 0)
        return false;
    snprintf(file, sizeof(file), "%s/run.json", name);
    /* One that we may not look into is listed: whoever reads it says why not. */
    if (faccessat(runs_fd, file, F_OK, 0) == 0 || errno == EACCES)
        return true;
    snprintf(file, sizeof(file), "%s/log.lsf", name);
    return faccessat(runs_fd, file, F_OK, 0) == 0; /* a site's: its launcher is elsewhere */
}

static int paths_run_newer_first(const void *a, const void *b)
{
    const struct run_entry *left = a, *right = b;

    if (left->born_real_ns != right->born_real_ns)
        return left->born_real_ns < right->born_real_ns ? 1 : -1;
    return strcmp(right->name, left->name);
}

static int64_t paths_run_collect(DIR *dir, struct run_entry **ret, struct err *err)
{
    CLEAN(free_clean) struct run_entry *list = NULL;
    size_t count = 0, room = 0;

    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (!paths_run_is(dirfd(dir), entry->d_name))
            continue;
        if (!ARRAY_FIT(list, room, count + 1))
            return err_nomem(err);
        snprintf(list[count].name, sizeof(list[count].name), "%.63s", entry->d_name);
        list[count].born_real_ns = paths_run_born(dirfd(dir), entry->d_name);
        count++;
    }
    if (count)
        qsort(list, count, sizeof(*list), paths_run_newer_first);
    *ret = TAKE(list);
    return (int64_t)count;
}

int64_t paths_list(struct run_entry **ret, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    struct path state;
    int r = paths_state(&state, err);

    if (r == 0)
        r = paths_runs_open(state.text, &dir, err);
    if (r == -ENOENT || (r == 0 && !dir)) {
        *ret = NULL;
        return 0;
    }
    return r < 0 ? r : paths_run_collect(dir, ret, err);
}

/* A directory that was named outright, of any layout: must be a run. */
static int paths_find_directory(const char *what, struct path *ret, struct err *err)
{
    static const char *const files[] = { "run.json", "log.lsf" };
    struct path file, directory;

    if (snprintf(directory.text, sizeof(directory.text), "%s", what) >= (int)sizeof(directory.text))
        return err_set(err, -ENAMETOOLONG, "%.40s...: path is too long", what);
    for (size_t i = 0; i < COUNT(files); i++) {
        int r = path_join(&file, what, files[i], err);

        if (r < 0)
            return r;
        if (access(file.text, F_OK) == 0) {
            *ret = directory;
            return 0;
        }
        if (errno != ENOENT)
            return err_set(err, -errno, "%s: cannot be read: %m", what);
    }
    if (access(what, F_OK) < 0)
        return err_set(err, -ENOENT, "%s: %m", what);
    return err_set(err, -ENOENT,
                   "%s: not the directory of a run: it has neither run.json nor log.lsf", what);
}

int paths_find(const char *what, struct path *ret, struct err *err)
{
    CLEAN(free_clean) struct run_entry *list = NULL;
    const char *found = NULL;
    struct path state;
    int64_t count;
    size_t same = 0;
    int r;

    if (what && (strchr(what, '/') || strcmp(what, ".") == 0 || strcmp(what, "..") == 0))
        return paths_find_directory(what, ret, err);
    r = paths_state(&state, err);
    if (r < 0)
        return r;
    count = paths_list(&list, err);
    if (count < 0)
        return (int)count;
    if (count == 0)
        return err_set(err, -ENOENT, "no runs in %s%s", state.text,
                       access(state.text, F_OK) < 0 ? ": the directory does not exist" : "");
    if (!what || !what[0])
        found = list[0].name;
    for (int64_t i = 0; !found && i < count; i++) {
        if (strcmp(list[i].name, what) == 0)
            found = list[i].name;
    }
    for (int64_t i = 0; !found && i < count; i++)
        same += strncmp(list[i].name, what, strlen(what)) == 0;
    for (int64_t i = 0; !found && same == 1 && i < count; i++) {
        if (strncmp(list[i].name, what, strlen(what)) == 0)
            found = list[i].name;
    }
    if (!found && same > 1)
        return err_set(err, -ENOENT,
                       "run %s: %zu runs in %s begin with that; 'lockstep ps' lists them", what,
                       same, state.text);
    if (!found)
        return err_set(err, -ENOENT, "run %s: not found in %s; 'lockstep ps' lists the runs", what,
                       state.text);
    return paths_run_of(state.text, found, ret, err);
}

int paths_rings(const char *run, uint64_t need_bytes, struct path *ret, struct err *err)
{
    const char *base = PATHS_SHM, *temp = getenv("TMPDIR");
    struct statvfs fs;
    char below[96];
    int r = paths_check_run(run, err);

    if (r < 0)
        return r;
    if (access(PATHS_SHM, W_OK | X_OK) < 0 || statvfs(PATHS_SHM, &fs) < 0 ||
        (uint64_t)fs.f_bavail * fs.f_frsize / 2 < need_bytes)
        base = temp && temp[0] == '/' ? temp : "/tmp";
    snprintf(below, sizeof(below), "lockstep-%u/%s", (unsigned)getuid(), run);
    return path_join(ret, base, below, err);
}
