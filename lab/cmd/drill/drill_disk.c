/* drill_disk.c - flips a bit of a checkpoint, or fills the file system under it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/cmd/drill/drill_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/newest_point.h"
#include "base/paths.h"
#include "core/clean.h"

#define DISK_FLIP_BIT 0x04
#define DISK_PART_MAX ((off_t)1 << 40)
#define DISK_PART_MIN 4096

static int disk_newest(const char *directory, struct newest_point *ret, struct err *err)
{
    int result = newest_point_find(directory, NEWEST_POINT_NONE, ret, err);

    if (result == 0 && ret->step == NEWEST_POINT_NONE)
        result = err_set(err, -ENODATA, "%s has no verified checkpoint", directory);
    return result;
}

int drill_disk_newest(const char *directory, uint64_t *ret, struct err *err)
{
    struct newest_point newest;
    int result = disk_newest(directory, &newest, err);

    if (result == 0)
        *ret = newest.step;
    return result;
}

static int disk_flip_bit(const char *file, off_t at, struct err *err)
{
    CLEAN(fd_clean) int fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    unsigned char byte;

    if (fd < 0 || pread(fd, &byte, 1, at) != 1)
        return err_set(err, errno ? -errno : -EIO, "%s: %m", file);
    byte ^= DISK_FLIP_BIT;
    if (pwrite(fd, &byte, 1, at) != 1 || fdatasync(fd) < 0)
        return err_set(err, errno ? -errno : -EIO, "%s: %m", file);
    return 0;
}

/* The first file of tensors: they are in its second half, behind the header. */
static int disk_file(const char *point, char ret[static PATH_MAX], off_t *at, struct err *err)
{
    struct path pattern;
    struct stat st;
    glob_t found;
    int result = path_join(&pattern, point, "*.safetensors", err);

    if (result < 0)
        return result;
    if (glob(pattern.text, GLOB_NOESCAPE, NULL, &found) != 0)
        return err_set(err, -ENODATA, "%s has no file of tensors", point);
    snprintf(ret, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree(&found);
    if (stat(ret, &st) < 0 || st.st_size < 2)
        return err_set(err, -ENODATA, "%s is empty", ret);
    *at = st.st_size / 4 * 3;
    return 0;
}

void drill_disk_unflip(struct drill_flip *flip)
{
    if (flip->file[0])
        disk_flip_bit(flip->file, flip->at, NULL); /* the point may be gone */
    flip->file[0] = '\0';
}

int drill_disk_flip(const char *directory, struct drill_flip *flip, struct err *err)
{
    struct drill_flip fresh = { 0 };
    struct newest_point newest;
    struct path point;
    int result = disk_newest(directory, &newest, err);

    if (result < 0 || (flip->file[0] && flip->step == newest.step))
        return result;
    result = path_join(&point, directory, newest.name, err);
    if (result == 0)
        result = disk_file(point.text, fresh.file, &fresh.at, err);
    if (result == 0)
        result = disk_flip_bit(fresh.file, fresh.at, err);
    if (result < 0)
        return result;
    drill_disk_unflip(flip);
    fresh.step = newest.step;
    snprintf(fresh.directory, sizeof(fresh.directory), "%s", point.text);
    *flip = fresh;
    return 0;
}

bool drill_disk_is_refused(const struct drill_flip *flip)
{
    struct path mark;

    return flip->file[0] && path_join(&mark, flip->directory, "REFUSED", NULL) == 0 &&
           (access(mark.text, F_OK) == 0 || access(flip->directory, F_OK) < 0);
}

int drill_disk_fill(const char *directory, int *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    off_t size = 0;

    if (fd < 0)
        return err_set(err, -errno, "%s: a file without a name: %m", directory);
    for (off_t part = DISK_PART_MAX; part >= DISK_PART_MIN; part /= 2) {
        while (fallocate(fd, 0, size, part) == 0)
            size += part;
        if (errno != ENOSPC && errno != EFBIG && errno != EDQUOT)
            return err_set(err, -errno, "%s: %m", directory);
    }
    *ret = TAKE_FD(fd);
    return 0;
}
