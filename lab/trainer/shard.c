/* shard.c - writing, reading and sweeping one rank's checkpoint files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/clean.h"
#include "core/hash.h"

#define SHARD_NAME "rank-%05u.step-%012llu.shard"
#define SHARD_PATH 4096
#define SHARD_LIST 256      /* files of one rank: two are kept, so far more than there are */
#define SHARD_HEAD_BYTES 56 /* before its checksum */

void shard_put(struct buf *out, const struct shard *shard)
{
    size_t start = out->size;

    buf_put_u64(out, SHARD_MAGIC);
    buf_put_u32(out, SHARD_VERSION);
    buf_put_u32(out, SHARD_HEAD_BYTES - 16);
    buf_put_u64(out, shard->step);
    buf_put_u64(out, shard->seed);
    buf_put_u32(out, shard->rank);
    buf_put_u32(out, shard->world);
    buf_put_u32(out, shard->tp);
    buf_put_u32(out, shard->pp);
    buf_put_u32(out, shard->dp);
    buf_put_u32(out, shard->count);
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + start, out->size - start));
    buf_put(out, shard->value, shard->count * sizeof(float));
    buf_put_u32(out, crc32c(0, shard->value, shard->count * sizeof(float)));
}

int shard_get(const void *data, size_t bytes, struct shard *ret, const void **values,
              struct err *err)
{
    struct reader in = reader_of(data, bytes);
    struct shard shard = { 0 };
    uint32_t version, head;

    if (reader_get_u64(&in) != SHARD_MAGIC)
        return err_set(err, -EPROTO, "not a shard");
    version = reader_get_u32(&in);
    head = reader_get_u32(&in);
    if (in.bad || version != SHARD_VERSION || head != SHARD_HEAD_BYTES - 16)
        return err_set(err, -EPROTO, "unknown version %u", version);
    shard.step = reader_get_u64(&in);
    shard.seed = reader_get_u64(&in);
    shard.rank = reader_get_u32(&in);
    shard.world = reader_get_u32(&in);
    shard.tp = reader_get_u32(&in);
    shard.pp = reader_get_u32(&in);
    shard.dp = reader_get_u32(&in);
    shard.count = reader_get_u32(&in);
    if (reader_get_u32(&in) != (in.bad ? 0 : crc32c(0, data, SHARD_HEAD_BYTES)) || in.bad)
        return err_set(err, -EPROTO, "the header is damaged");
    if (shard.count > SHARD_VALUES_MAX || reader_left(&in) != shard.count * 4ull + 4)
        return err_set(err, -EPROTO, "has %zu bytes for %u values", reader_left(&in), shard.count);
    *values = reader_get(&in, shard.count * sizeof(float));
    if (reader_get_u32(&in) != crc32c(0, *values, shard.count * sizeof(float)))
        return err_set(err, -EPROTO, "the values are damaged");
    *ret = shard;
    return 0;
}

static int shard_write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

static int shard_dir_sync(const char *dir)
{
    CLEAN(fd_clean) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int shard_file_write(const char *path, const struct buf *bytes)
{
    CLEAN(fd_clean)
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int result = fd < 0 ? -errno : shard_write_all(fd, bytes->data, bytes->size);

    if (result == 0 && fsync(fd) < 0)
        result = -errno;
    return result;
}

int shard_write(const char *dir, const struct shard *shard, struct err *err)
{
    CLEAN(buf_fini) struct buf image = { 0 };
    char path[SHARD_PATH], temporary[SHARD_PATH];
    int result;

    shard_put(&image, shard);
    if (image.failed)
        return err_set(err, -ENOMEM, "no memory for a shard of %u values", shard->count);
    snprintf(path, sizeof(path), "%s/" SHARD_NAME, dir, shard->rank,
             (unsigned long long)shard->step);
    snprintf(temporary, sizeof(temporary), "%s/rank-%05u.tmp", dir, shard->rank);
    result = shard_file_write(temporary, &image);
    if (result == 0 && rename(temporary, path) < 0)
        result = -errno;
    if (result == 0)
        result = shard_dir_sync(dir);
    errno = -result;
    if (result < 0)
        return err_set(err, result, "%s: %m", path);
    return 0;
}

static int shard_file_read(const char *path, struct buf *ret)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char part[65536];
    ssize_t got;

    if (fd < 0)
        return -errno;
    while ((got = read(fd, part, sizeof(part))) > 0) {
        buf_put(ret, part, (size_t)got);
        if (ret->size > SHARD_HEAD_BYTES + 8 + SHARD_VALUES_MAX * sizeof(float))
            return -EFBIG;
    }
    return got < 0 ? -errno : ret->failed ? -ENOMEM : 0;
}

static int shard_match(const struct shard *shard, const struct shard *want, struct err *err)
{
    if (shard->step != want->step || shard->rank != want->rank)
        return err_set(err, -EPROTO, "belongs to rank %u, step %llu", shard->rank,
                       (unsigned long long)shard->step);
    if (shard->seed != want->seed || shard->world != want->world || shard->tp != want->tp ||
        shard->pp != want->pp || shard->dp != want->dp || shard->count != want->count)
        return err_set(err, -ESTALE, "written by another run: seed %llu, tp=%u,pp=%u,dp=%u",
                       (unsigned long long)shard->seed, shard->tp, shard->pp, shard->dp);
    return 0;
}

int shard_read(const char *dir, const struct shard *want, float *value, struct err *err)
{
    CLEAN(buf_fini) struct buf image = { 0 };
    struct shard shard;
    const void *values;
    char path[SHARD_PATH];
    int result;

    snprintf(path, sizeof(path), "%s/" SHARD_NAME, dir, want->rank, (unsigned long long)want->step);
    result = shard_file_read(path, &image);
    errno = -result;
    if (result < 0)
        return err_set(err, result, "%s: %m", path);
    result = shard_get(image.data, image.size, &shard, &values, err);
    if (result == 0)
        result = shard_match(&shard, want, err);
    if (result < 0)
        return err_wrap(err, result, "%s", path);
    memcpy(value, values, shard.count * sizeof(float));
    return 0;
}

static int shard_newest_first(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? 1 : left > right ? -1 : 0;
}

int shard_list(const char *dir, uint32_t rank, uint64_t *step, size_t room, struct err *err)
{
    CLEAN(dir_clean) DIR *handle = opendir(dir);
    const struct dirent *entry;
    size_t count = 0;

    if (!handle)
        return err_set(err, -errno, "%s: %m", dir);
    while (count < room && (entry = readdir(handle))) {
        unsigned of_rank;
        unsigned long long of_step;
        char name[64];

        if (sscanf(entry->d_name, "rank-%u.step-%llu.shard", &of_rank, &of_step) != 2 ||
            of_rank != rank)
            continue;
        snprintf(name, sizeof(name), SHARD_NAME, of_rank, of_step);
        if (strcmp(name, entry->d_name) == 0)
            step[count++] = of_step;
    }
    if (count > 0)
        qsort(step, count, sizeof(*step), shard_newest_first);
    return (int)count;
}

static int shard_remove(const char *dir, uint32_t rank, uint64_t step, struct err *err)
{
    char path[SHARD_PATH];

    snprintf(path, sizeof(path), "%s/" SHARD_NAME, dir, rank, (unsigned long long)step);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set(err, -errno, "%s: %m", path);
    return 0;
}

int shard_prune(const char *dir, uint32_t rank, uint64_t step, size_t keep, struct err *err)
{
    uint64_t have[SHARD_LIST];
    char path[SHARD_PATH];
    int count = shard_list(dir, rank, have, COUNT(have), err), result = 0;
    size_t older = 0;

    if (count < 0)
        return count;
    snprintf(path, sizeof(path), "%s/rank-%05u.tmp", dir, rank);
    unlink(path);
    for (int i = 0; i < count && result == 0; i++)
        if (have[i] <= step && older++ >= keep)
            result = shard_remove(dir, rank, have[i], err);
    return result;
}
