/* point.c - lists the points of a directory, marks and removes them.
 *
 * Everything is opened by a single name below an open directory, and links are not followed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/point.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/store/small_file.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"

#define COPIED_TEXT "%016" PRIx64 "\n"
#define COPIED_BYTES 48

static const char verified_magic[8] = { 'L', 'S', 'C', 'K', 'V', 'E', 'R', 'I' };
static const char partly_magic[8] = { 'L', 'S', 'C', 'K', 'V', 'E', 'R', 'P' };

void point_part_name(uint64_t step, uint64_t job, char *out, size_t room)
{
    snprintf(out, room, ".step-%" PRIu64 ".%016" PRIx64 ".part", step, job);
}

void point_rank_name(uint32_t rank, const char *ending, char *out, size_t room)
{
    snprintf(out, room, "rank-%05" PRIu32 ".%s", rank, ending);
}

/* "step-12" or ".step-12.0123456789abcdef.part". */
static bool point_name_parse(const char *name, uint64_t *ret_step, bool *ret_published)
{
    bool published = name[0] != '.';
    const char *at = name + !published;
    char *end;
    uint64_t step;

    if (strncmp(at, "step-", 5) != 0 || !isdigit((unsigned char)at[5]) ||
        (at[5] == '0' && at[6] && isdigit((unsigned char)at[6])))
        return false;
    errno = 0;
    step = strtoull(at + 5, &end, 10);
    if (errno || step == UINT64_MAX)
        return false;
    if (published ? *end != '\0'
                  : end[0] != '.' || strspn(end + 1, "0123456789abcdef") != 16 ||
                        strcmp(end + 17, ".part") != 0)
        return false;
    *ret_step = step;
    *ret_published = published;
    return true;
}

int point_open(int dir_fd, const struct point *point, struct err *err)
{
    CLEAN(fd_clean)
    int fd = openat(dir_fd, point->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statx st;

    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO, &st) < 0)
        return err_set(err, -errno, "%s: %m", point->name);
    if (st.stx_ino != point->inode)
        return err_set(err, -ESTALE, "%s: was replaced meanwhile", point->name);
    return TAKE_FD(fd);
}

/* ---- marks ---- */

uint32_t point_rank_parts(int point_fd, const struct commit_rank *rank)
{
    struct buf bytes = { .data = NULL };
    uint32_t parts = 1;
    struct reader in;
    const void *magic, *digest;
    char name[64];
    bool good;

    point_rank_name(rank->rank, "verified", name, sizeof(name));
    if (small_file_read(point_fd, name, 64, &bytes, NULL) < 0) {
        buf_fini(&bytes);
        return 0;
    }
    in = reader_of(bytes.data, bytes.size);
    magic = reader_get(&in, sizeof(verified_magic));
    digest = reader_get(&in, sizeof(rank->manifest.byte));
    good = magic && digest && memcmp(digest, rank->manifest.byte, sizeof(rank->manifest.byte)) == 0;
    if (good && memcmp(magic, partly_magic, sizeof(partly_magic)) == 0)
        parts = reader_get_u32(&in);
    else if (good)
        good = memcmp(magic, verified_magic, sizeof(verified_magic)) == 0;
    good = good && reader_get_u32(&in) == crc32c(0, bytes.data, bytes.size - 4) && !in.bad;
    buf_fini(&bytes);
    return good ? parts : 0;
}

int point_mark_verified(int point_fd, uint32_t rank, const struct ckpt_digest *manifest,
                        uint32_t parts, struct err *err)
{
    struct buf bytes = { .data = NULL };
    char name[64], temporary[64];
    int result;

    point_rank_name(rank, "verified", name, sizeof(name));
    point_rank_name(rank, "verified.tmp", temporary, sizeof(temporary));
    buf_put(&bytes, parts > 1 ? partly_magic : verified_magic, sizeof(verified_magic));
    buf_put(&bytes, manifest->byte, sizeof(manifest->byte));
    if (parts > 1)
        buf_put_u32(&bytes, parts);
    if (!bytes.failed)
        buf_put_u32(&bytes, crc32c(0, bytes.data, bytes.size));
    result = small_file_replace(point_fd, name, temporary, &bytes, err);
    buf_fini(&bytes);
    return result;
}

int point_mark_copied(int point_fd, const char *place, uint64_t job, uint64_t took_us,
                      struct err *err)
{
    struct buf bytes = { .data = NULL };
    char text[COPIED_BYTES], temporary[32];
    int result;

    if (!took_us && point_was_copied(point_fd, place, job, NULL)) /* which may know it */
        return 0;
    snprintf(temporary, sizeof(temporary), "%s.tmp", place);
    buf_put(&bytes, text,
            (size_t)snprintf(text, sizeof(text), COPIED_TEXT "%" PRIu64 "\n", job, took_us));
    result = small_file_replace(point_fd, place, temporary, &bytes, err);
    buf_fini(&bytes);
    return result;
}

bool point_was_copied(int point_fd, const char *place, uint64_t job, uint64_t *ret_us)
{
    struct buf bytes = { .data = NULL };
    char text[COPIED_BYTES + 1], *end;
    size_t size = (size_t)snprintf(text, sizeof(text), COPIED_TEXT, job);
    uint64_t us = 0;
    bool good = small_file_read(point_fd, place, COPIED_BYTES, &bytes, NULL) == 0 &&
                bytes.size >= size && memcmp(text, bytes.data, size) == 0;

    if (good && bytes.size > size) { /* a mark of an earlier version has no second line */
        snprintf(text, sizeof(text), "%.*s", (int)(bytes.size - size),
                 (const char *)bytes.data + size);
        us = strtoull(text, &end, 10);
        good = text[0] >= '0' && text[0] <= '9' && strcmp(end, "\n") == 0;
    }
    buf_fini(&bytes);
    if (good && ret_us)
        *ret_us = us;
    return good;
}

bool point_refuse_open(int point_fd, const char *why)
{
    int result = small_file_create(point_fd, "REFUSED", why, strlen(why), NULL);

    if (result == 0)
        directory_sync(point_fd, NULL);
    return result == 0 || result == -EEXIST;
}

bool point_refuse(int dir_fd, const struct point *point, const char *why)
{
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, NULL);

    return fd >= 0 && point_refuse_open(fd, why);
}

static bool point_was_refused(int point_fd, struct point *point)
{
    struct buf bytes = { .data = NULL };
    int result = small_file_read(point_fd, "REFUSED", 4096, &bytes, NULL);
    size_t size = MIN(bytes.size, sizeof(point->why) - 1);

    if (result != -ENOENT) {
        point->state = POINT_REFUSED;
        snprintf(point->why, sizeof(point->why), "%s", "refused before");
    }
    if (result == 0 && size && !bytes.failed) {
        memcpy(point->why, bytes.data, size);
        point->why[text_clean(point->why, size, false)] = '\0';
    }
    buf_fini(&bytes);
    return result != -ENOENT;
}

void point_failure_read(int point_fd, uint32_t rank, char *out, size_t room)
{
    struct buf bytes = { .data = NULL };
    char name[64];
    size_t size;

    snprintf(out, room, "rank %" PRIu32 " could not save it", rank);
    point_rank_name(rank, POINT_FAILED, name, sizeof(name));
    if (small_file_read(point_fd, name, 4096, &bytes, NULL) == 0 && bytes.size && !bytes.failed) {
        size = MIN(bytes.size, room - 1);
        memcpy(out, bytes.data, size);
        out[text_clean(out, size, false)] = '\0';
    }
    buf_fini(&bytes);
}

/* ---- listing ---- */

/* Without COMMIT: how many ranks have come so far.  Returns whether there is any file of a rank, or a mark of a reader. */
static bool point_count(int fd, struct point *point)
{
    CLEAN(dir_clean) DIR *dir = fdopendir(dup(fd));
    const struct dirent *entry;
    char failure[256] = "";
    bool ours = false;

    while (dir && (entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');
        uint64_t size = 0;

        ours |= strcmp(entry->d_name, "REFUSED") == 0;
        if (strncmp(entry->d_name, "rank-", 5) != 0 || !end)
            continue;
        ours |= strcmp(end, ".manifest") == 0 || strcmp(end, ".safetensors") == 0 ||
                strcmp(end, ".verified") == 0 || strcmp(end, "." POINT_FAILED) == 0;
        if (strcmp(end, "." POINT_FAILED) == 0)
            point_failure_read(fd, (uint32_t)strtoul(entry->d_name + 5, NULL, 10), failure,
                               sizeof(failure));
        if (strcmp(end, ".manifest") == 0)
            point->ranks++;
        if (strcmp(end, ".safetensors") == 0 && small_file_size(fd, entry->d_name, &size) == 0)
            point->bytes += size;
    }
    point->state = POINT_INCOMPLETE;
    if (failure[0])
        snprintf(point->why, sizeof(point->why), "not committed; %.230s", failure);
    else
        snprintf(point->why, sizeof(point->why), "not committed; %" PRIu32 " ranks have saved",
                 point->ranks);
    return ours || !dir;
}

bool point_is_ours(int dir_fd, const char *name)
{
    CLEAN(fd_clean) int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct point point = { .step = 0 };
    uint64_t size;

    if (fd < 0)
        return errno == ENOENT;
    return small_file_size(fd, "COMMIT", &size) != -ENOENT || point_count(fd, &point);
}

int point_commit(int point_fd, uint64_t step, struct commit *ret, struct err *err)
{
    struct buf bytes = { .data = NULL };
    int result = small_file_read(point_fd, "COMMIT", CKPT_COMMIT_MAX, &bytes, err);

    if (result == -EFBIG || result == -EINVAL || result == -ELOOP)
        result = -EPROTO;
    if (result == 0)
        result = commit_parse(bytes.data, bytes.size, ret, err);
    buf_fini(&bytes);
    if (result < 0 || ret->step == step)
        return result;
    result = err_set(err, -EPROTO, "COMMIT is of step %" PRIu64, ret->step);
    commit_fini(ret);
    return result;
}

static void point_refused(struct point *point, const char *why)
{
    point->state = POINT_REFUSED;
    snprintf(point->why, sizeof(point->why), "%s", why);
}

static void point_sums_set(int fd, const struct commit *commit, bool marks, struct point *point)
{
    point->ranks = commit->group;
    point->bytes = 0;
    point->read_back = marks;
    point->on_peer = marks && point_was_copied(fd, POINT_PEER, commit->job, NULL);
    point->in_store = marks && point_was_copied(fd, POINT_STORE, commit->job, NULL);
    point->parts = 0;
    for (uint32_t i = 0; i < commit->group; i++) {
        uint32_t parts = point->read_back ? point_rank_parts(fd, &commit->rank[i]) : 0;

        point->bytes += commit->rank[i].file_bytes;
        point->read_back = parts != 0;
        point->parts = MAX(point->parts, parts);
    }
}

void point_read(int dir_fd, bool marks, struct point *point)
{
    struct err err = { "" };
    CLEAN(fd_clean) int fd = -1;
    struct commit commit = { .step = 0 };
    bool ours = true;
    int result;

    if (point->state == POINT_FOREIGN)
        return;
    fd = point_open(dir_fd, point, &err);
    if (fd < 0) {
        point_refused(point, err.text);
        if (fd == -ENOENT || fd == -ESTALE)
            point->state = POINT_GONE;
        return;
    }
    result = point_commit(fd, point->step, &commit, &err);
    if (result == 0)
        point_sums_set(fd, &commit, marks, point);
    else if (result == -ENOENT)
        ours = point_count(fd, point);
    else
        point_refused(point, err.text);
    if (result == -ENOENT && point->published) /* it had one when it got this name */
        point_refused(point, ours ? "COMMIT is missing" : "it is not a checkpoint of lockstep");
    if (!ours && point->published)
        point->state = POINT_OTHERS;
    commit_fini(&commit);
    if (point->state != POINT_INCOMPLETE && point->state != POINT_OTHERS)
        point_was_refused(fd, point);
}

static int point_compare(const void *a, const void *b)
{
    const struct point *left = a, *right = b;

    if (left->step != right->step)
        return left->step < right->step ? 1 : -1;
    if (left->published != right->published)
        return left->published ? -1 : 1;
    return strcmp(left->name, right->name);
}

#define STATX_WANTED (STATX_INO | STATX_MODE | STATX_UID)

/* Where everyone may make directories, what another user made is not ours to load.  To a server that squashes root, root is
 * nobody.  Returns whether it is another user's.
 */
static bool point_owner_check(const struct statx *parent, const struct statx *st,
                              struct point *point)
{
    const uid_t nobody = 65534;
    uid_t own = geteuid();
    bool other;

    point->inode = st->stx_ino;
    if (!(parent->stx_mode & S_IWOTH))
        return false;
    other = st->stx_uid != own && st->stx_uid != 0 && !(own == 0 && st->stx_uid == nobody);
    if (other)
        snprintf(
            point->why, sizeof(point->why),
            "belongs to user %u, expected %u or root, since everyone may write to this directory",
            st->stx_uid, own);
    else if (st->stx_mode & S_IWOTH)
        snprintf(point->why, sizeof(point->why), "everyone may write to it");
    else
        return false;
    point->state = POINT_FOREIGN;
    return other;
}

/* Makes room: the newest stay. */
static void points_shorten(struct points *points)
{
    if (points->count)
        qsort(points->point, points->count, sizeof(*points->point), point_compare);
    if (points->count <= POINTS_MAX)
        return;
    points->left_out += points->count - POINTS_MAX;
    points->count = POINTS_MAX;
}

static int points_add(int dir_fd, const struct statx *parent, const char *name,
                      struct points *points, struct err *err)
{
    struct point point = { .state = POINT_COMMITTED };
    struct statx st;

    if (!point_name_parse(name, &point.step, &point.published) ||
        statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_WANTED, &st) < 0)
        return 0;
    snprintf(point.name, sizeof(point.name), "%s", name);
    if (point_owner_check(parent, &st, &point) && ++points->foreign > POINTS_FOREIGN_MAX) {
        points->left_out++;
        return 0;
    }
    if (points->count == (size_t)2 * POINTS_MAX)
        points_shorten(points);
    if (!ARRAY_FIT(points->point, points->room, points->count + 1))
        return err_nomem(err);
    points->point[points->count++] = point;
    return 0;
}

/* Without those that another process removed meanwhile, and without those of other programs. */
static void points_read_each(int dir_fd, bool marks, struct points *points)
{
    size_t count = 0;

    for (size_t i = 0; i < points->count; i++) {
        point_read(dir_fd, marks, &points->point[i]);
        if (points->point[i].state != POINT_GONE && points->point[i].state != POINT_OTHERS)
            points->point[count++] = points->point[i];
    }
    points->count = count;
}

int points_read(int dir_fd, enum points_depth depth, struct points *ret, struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct points made = { .point = NULL };
    const struct dirent *entry;
    struct statx parent;

    if (!dir || statx(fd, "", AT_EMPTY_PATH, STATX_WANTED, &parent) < 0)
        return err_set(err, -errno, "%m");
    while (result == 0 && (entry = readdir(dir)))
        result = points_add(dir_fd, &parent, entry->d_name, &made, err);
    if (result < 0) {
        points_fini(&made);
        return result;
    }
    points_shorten(&made);
    if (depth != POINTS_NAMES)
        points_read_each(dir_fd, depth == POINTS_MARKS, &made);
    *ret = made;
    return 0;
}

void points_fini(struct points *points)
{
    free(points->point);
    *points = (struct points){ .point = NULL };
}

#define GONE ".gone-"
#define OLD ".old-"

/* Its files, then itself.  A directory below it is none of ours, and stays. */
static int point_directory_remove(int dir_fd, const char *name, int fd, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *entry;

    if (!dir)
        return err_set(err, -errno, "%s: %m", name);
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(fd, entry->d_name, 0);
    }
    return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? err_set(err, -errno, "%s: %m", name) : 0;
}

/* First under a name that no reader looks for, so that a crash half way leaves no point with files missing. */
int point_remove(int dir_fd, const struct point *point, struct err *err)
{
    char gone[112];
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, err);

    if (fd < 0)
        return fd;
    snprintf(gone, sizeof(gone), GONE "%s", point->name);
    if (renameat(dir_fd, point->name, dir_fd, gone) < 0)
        return err_set(err, -errno, "%s: %m", point->name);
    return point_directory_remove(dir_fd, gone, fd, err);
}

/* Directories whose name is the prefix and the name of a point, of a step up to this one. */
static void points_remove_named(int dir_fd, const char *prefix, uint64_t most)
{
    int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(dir_clean) DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        CLEAN(fd_clean) int fd = -1;
        char name[96];
        uint64_t step;
        bool published;

        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(name, sizeof(name), "%s", entry->d_name + strlen(prefix));
        if (strcmp(prefix, OLD) == 0) /* a time follows */
            name[strcspn(name, ".")] = '\0';
        if (!point_name_parse(name, &step, &published) || step > most)
            continue;
        fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            point_directory_remove(dir_fd, entry->d_name, fd, NULL);
    }
}

void points_remove_gone(int dir_fd)
{
    points_remove_named(dir_fd, GONE, UINT64_MAX);
}

void points_remove_old(int dir_fd, uint64_t step)
{
    points_remove_named(dir_fd, OLD, step);
}
