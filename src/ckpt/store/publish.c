/* publish.c - the commit of a point.
 *
 * Order, each step durable before the next: file of tensors, manifest, directory; COMMIT, directory; final name, parent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/format/commit.h"
#include "ckpt/store/point.h"
#include "ckpt/store/small_file.h"
#include "core/clean.h"
#include "core/time.h"

#define MISSING_NAMED 8 /* ranks that a text names */

/* The name is known before it is made.  Where everyone may make it, another user's directory would let that user replace
 * what we write.  To a server that squashes root, root is nobody.
 */
static int publish_owner_check(const struct publish *publish, struct err *err)
{
    const uid_t nobody = 65534;
    struct statx parent, st;

    if (statx(publish->parent_fd, "", AT_EMPTY_PATH, STATX_MODE, &parent) < 0 ||
        statx(publish->fd, "", AT_EMPTY_PATH, STATX_UID, &st) < 0)
        return err_set(err, -errno, "%s: %m", publish->part);
    if (!(parent.stx_mode & S_IWOTH) || st.stx_uid == geteuid() ||
        (geteuid() == 0 && st.stx_uid == nobody))
        return 0;
    return err_set(err, -EACCES, "%s: belongs to user %u, expected %u", publish->part, st.stx_uid,
                   geteuid());
}

/* A directory is listed from its begin. */
static DIR *publish_list(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        fd_clean(&fd);
    return dir;
}

/* The program saves this step once more. */
static void publish_marks_remove(const struct publish *publish)
{
    CLEAN(dir_clean) DIR *dir = publish_list(publish->fd);
    const struct dirent *entry;
    char own[64];

    point_rank_name(publish->rank, POINT_FAILED, own, sizeof(own));
    while (dir && (entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');

        if (strcmp(entry->d_name, own) == 0 ||
            (publish->again && end && strcmp(end, "." POINT_FAILED) == 0))
            unlinkat(publish->fd, entry->d_name, 0);
    }
}

int publish_open(struct publish *publish, struct err *err)
{
    int result;

    point_part_name(publish->step, publish->job, publish->part, sizeof(publish->part));
    if (mkdirat(publish->parent_fd, publish->part, 0755) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", publish->part);
    publish->fd =
        openat(publish->parent_fd, publish->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (publish->fd < 0)
        return err_set(err, -errno, "%s: %m", publish->part);
    result = publish_owner_check(publish, err);
    if (result < 0)
        return result;
    publish_marks_remove(publish);
    return directory_sync(publish->parent_fd, err);
}

static void publish_part_forget(struct publish *publish, bool all)
{
    publish->again = all;
    publish->fd =
        openat(publish->parent_fd, publish->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (publish->fd >= 0 && publish_owner_check(publish, NULL) == 0)
        publish_marks_remove(publish);
    publish_close(publish);
}

void publish_failures_forget(int parent_fd, uint64_t job, uint32_t rank, bool all)
{
    CLEAN(dir_clean) DIR *dir = publish_list(parent_fd);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        struct publish publish = { .parent_fd = parent_fd, .fd = -1, .job = job, .rank = rank };

        if (strncmp(entry->d_name, ".step-", 6) != 0)
            continue;
        publish.step = strtoull(entry->d_name + 6, NULL, 10);
        point_part_name(publish.step, job, publish.part, sizeof(publish.part));
        if (strcmp(entry->d_name, publish.part) == 0)
            publish_part_forget(&publish, all);
    }
}

void publish_close(struct publish *publish)
{
    if (publish->fd >= 0)
        close(publish->fd);
    publish->fd = -1;
}

int publish_manifest(const struct publish *publish, const struct manifest *manifest,
                     struct ckpt_digest *ret_digest, struct err *err)
{
    struct buf bytes = { .data = NULL };
    char name[64], temporary[64];
    int result;

    point_rank_name(publish->rank, "manifest", name, sizeof(name));
    point_rank_name(publish->rank, "manifest.tmp", temporary, sizeof(temporary));
    manifest_encode(manifest, false, &bytes);
    result = small_file_replace(publish->fd, name, temporary, &bytes, err);
    if (result == 0)
        *ret_digest = ckpt_digest_of(bytes.data, bytes.size);
    buf_fini(&bytes);
    return result;
}

/* ---- saves that fail ---- */

/* Never a manifest without its file. */
static void publish_withdraw(const struct publish *publish)
{
    static const char *const endings[] = { "manifest", "safetensors" };
    char name[64];

    for (size_t i = 0; i < COUNT(endings); i++) {
        point_rank_name(publish->rank, endings[i], name, sizeof(name));
        unlinkat(publish->fd, name, 0);
    }
    if (publish->group == 1)
        unlinkat(publish->parent_fd, publish->part, AT_REMOVEDIR);
}

static void publish_mark_failed(const struct publish *publish, const char *text)
{
    char name[64];

    point_rank_name(publish->rank, POINT_FAILED, name, sizeof(name));
    if (small_file_create(publish->fd, name, text, strlen(text), NULL) < 0)
        small_file_create(publish->fd, name, "", 0, NULL); /* a full disk has room for a name */
}

void publish_fail(const struct publish *publish, const char *why)
{
    char name[64], text[256];
    uint64_t size;

    if (publish->fd < 0)
        return;
    point_rank_name(publish->rank, "manifest", name, sizeof(name));
    if (publish->group > 1 && small_file_size(publish->fd, name, &size) == 0)
        return; /* an fsync failed after all was there: another rank may be about to commit it */
    snprintf(text, sizeof(text), "rank %" PRIu32 " could not save it: %s", publish->rank, why);
    if (publish->group > 1)
        publish_mark_failed(publish, text);
    publish_withdraw(publish);
}

void publish_give_up(const struct publish *publish, const char *why)
{
    publish_withdraw(publish);
    publish_mark_failed(publish, why); /* those that save it again wait for this one, too */
}

/* ---- COMMIT ---- */

static int publish_rank_read(const struct publish *publish, uint32_t number,
                             struct commit_rank *ret, struct err *err)
{
    struct manifest manifest = { .step = 0 };
    struct buf bytes = { .data = NULL };
    uint64_t size = 0;
    char name[64];
    int result;

    point_rank_name(number, "manifest", name, sizeof(name));
    result = small_file_read(publish->fd, name, CKPT_MANIFEST_MAX, &bytes, err);
    if (result == 0)
        result = manifest_parse(bytes.data, bytes.size, false, &manifest, err);
    if (result == 0) {
        *ret = (struct commit_rank){ .rank = number,
                                     .manifest_bytes = bytes.size,
                                     .file_bytes = manifest.file_bytes,
                                     .manifest = ckpt_digest_of(bytes.data, bytes.size) };
        point_rank_name(number, "safetensors", name, sizeof(name));
        if (manifest.step != publish->step || manifest.job != publish->job ||
            manifest.world != publish->world || manifest.group != publish->group ||
            manifest.rank != number)
            result = err_set(err, -EPROTO, "the manifest of rank %" PRIu32 " is of another save",
                             number);
        else if (small_file_size(publish->fd, name, &size) < 0 || size != manifest.file_bytes)
            result =
                err_set(err, -EPROTO, "%s does not have the size that its manifest says", name);
        manifest_fini(&manifest);
    }
    buf_fini(&bytes);
    return result;
}

/* -ECANCELED if the entry says that a rank cannot save it; else 1 and the rank if it is that of a manifest; else 0. */
static int publish_entry_read(const struct publish *publish, const char *entry, uint32_t *ret_rank,
                              struct err *err)
{
    char name[64], why[256], *end;

    if (strncmp(entry, "rank-", 5) != 0)
        return 0;
    *ret_rank = (uint32_t)strtoul(entry + 5, &end, 10);
    if (strcmp(end, "." POINT_FAILED) == 0) {
        if (*ret_rank >= publish->world) /* from a start with more ranks: no one removes it */
            return 0;
        point_failure_read(publish->fd, *ret_rank, why, sizeof(why));
        return err_set(err, -ECANCELED, "%s", why);
    }
    point_rank_name(*ret_rank, "manifest", name, sizeof(name));
    return strcmp(name, entry) == 0;
}

int publish_failure_look(const struct publish *publish, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = publish_list(publish->fd);
    const struct dirent *entry;
    int result = 0;

    while (dir && result >= 0 && (entry = readdir(dir))) {
        uint32_t rank;

        result = publish_entry_read(publish, entry->d_name, &rank, err);
    }
    return MIN(result, 0);
}

void publish_missing_text(const struct publish *publish, char *out, size_t room)
{
    CLEAN(free_clean) bool *there = calloc(publish->world, sizeof(*there));
    CLEAN(dir_clean) DIR *dir = publish_list(publish->fd);
    const struct dirent *entry;
    uint32_t rank, count = 0, named = 0;
    size_t used = 0;

    while (dir && there && (entry = readdir(dir))) {
        if (publish_entry_read(publish, entry->d_name, &rank, NULL) == 1 && rank < publish->world)
            there[rank] = true;
    }
    for (rank = 0; there && rank < publish->world; rank++)
        count += there[rank];
    snprintf(out, room, "%" PRIu32 " of %" PRIu32 " ranks",
             publish->group - MIN(count, publish->group), publish->group);
    if (publish->group < publish->world || publish->group - count > MISSING_NAMED || !there)
        return; /* which ranks a node has is not known here */
    for (rank = 0; rank < publish->world; rank++) {
        if (!there[rank] && used < room)
            used += (size_t)snprintf(out + used, room - used, "%s%" PRIu32,
                                     named++ ? ", " : "rank ", rank);
    }
}

static int publish_number_compare(const void *a, const void *b)
{
    const struct commit_rank *left = a, *right = b;

    return (left->rank > right->rank) - (left->rank < right->rank);
}

/* The ranks whose manifests are there; -EAGAIN: not all of them. */
static int publish_ranks_find(const struct publish *publish, struct commit *commit, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = publish_list(publish->fd);
    const struct dirent *entry;
    uint32_t count = 0;

    if (!dir)
        return err_set(err, -errno, "%s: %m", publish->part);
    while ((entry = readdir(dir))) {
        uint32_t number;
        int is = publish_entry_read(publish, entry->d_name, &number, err);

        if (is < 0)
            return is;
        if (is == 0)
            continue;
        if (!ARRAY_FIT_ZERO(commit->rank, commit->rank_room, count + 1))
            return err_nomem(err);
        commit->rank[count++].rank = number;
    }
    if (count < publish->group)
        return -EAGAIN;
    if (count > publish->group)
        return err_set(err, -EPROTO, "%" PRIu32 " ranks saved, expected %" PRIu32, count,
                       publish->group);
    qsort(commit->rank, count, sizeof(*commit->rank), publish_number_compare);
    return 0;
}

/* Another rank may be first: its COMMIT says the same.  So a file system without hard links, such as vfat or an object store that is
 * mounted, needs none.
 */
static int publish_commit_link(const struct publish *publish, const char *temporary,
                               struct err *err)
{
    if (linkat(publish->fd, temporary, publish->fd, "COMMIT", 0) == 0 || errno == EEXIST)
        return 0;
    if ((errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK) &&
        renameat(publish->fd, temporary, publish->fd, "COMMIT") == 0)
        return 0;
    return err_set(err, -errno, "COMMIT: %m");
}

static int publish_commit_write(const struct publish *publish, struct err *err)
{
    struct commit commit = {
        .step = publish->step, .job = publish->job, .world = publish->world, .group = publish->group
    };
    struct buf bytes = { .data = NULL };
    char temporary[64];
    int result = publish_ranks_find(publish, &commit, err);

    for (uint32_t i = 0; result == 0 && i < commit.group; i++)
        result = publish_rank_read(publish, commit.rank[i].rank, &commit.rank[i], err);
    if (result == 0) {
        snprintf(temporary, sizeof(temporary), "COMMIT.%05" PRIu32 ".tmp", publish->rank);
        commit_encode(&commit, &bytes);
        unlinkat(publish->fd, temporary, 0);
        result = bytes.failed
                     ? err_nomem(err)
                     : small_file_create(publish->fd, temporary, bytes.data, bytes.size, err);
        if (result == 0)
            result = publish_commit_link(publish, temporary, err);
        unlinkat(publish->fd, temporary, 0);
    }
    buf_fini(&bytes);
    commit_fini(&commit);
    return result;
}

/* Gives the directory its final name.  A point of the same step that is there already, from an earlier start of the job,
 * gives way.
 */
static int publish_name_take(const struct publish *publish, struct err *err)
{
    char name[64], old[160];
    struct statx own, other;

    snprintf(name, sizeof(name), "step-%" PRIu64, publish->step);
    for (int i = 0; i < 3; i++) {
        if (renameat2(publish->parent_fd, publish->part, publish->parent_fd, name,
                      RENAME_NOREPLACE) == 0 ||
            (errno == EINVAL &&
             renameat(publish->parent_fd, publish->part, publish->parent_fd, name) == 0))
            return 0;
        if (errno == ENOENT) /* another rank's writer did it */
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return err_set(err, -errno, "%s: rename: %m", name);
        if (statx(publish->fd, "", AT_EMPTY_PATH, STATX_INO, &own) == 0 &&
            statx(publish->parent_fd, name, AT_SYMLINK_NOFOLLOW, STATX_INO, &other) == 0 &&
            own.stx_ino == other.stx_ino)
            return 0;
        if (!point_is_ours(publish->parent_fd, name))
            return err_set(err, -EEXIST, "%s is the directory of another program", name);
        snprintf(old, sizeof(old), ".old-%s.%016" PRIx64, name, (uint64_t)time_real_ns());
        renameat(publish->parent_fd, name, publish->parent_fd, old);
    }
    return err_set(err, -EEXIST, "%s cannot be replaced", name);
}

int publish_try(const struct publish *publish, struct err *err)
{
    uint64_t size;
    int result = small_file_size(publish->fd, "COMMIT", &size);

    if (result == -ENOENT)
        result = publish_commit_write(publish, err);
    if (result == -EAGAIN)
        return 0;
    if (result == 0)
        result = directory_sync(publish->fd, err);
    if (result == 0)
        result = publish_name_take(publish, err);
    if (result == 0)
        result = directory_sync(publish->parent_fd, err);
    return result < 0 ? result : 1;
}
