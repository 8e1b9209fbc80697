/* disk_rate.c - the disk to which checkpoints go: rate of writing and reading, synced writes, and whether it returns what was
 * written.
 *
 * The file has no name, so nothing is left behind however the check ends.  It is written past the page cache where the file
 * system allows that; otherwise pages are dropped before they are read, and the result says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/checks.h"
#include "verify/measured.h"
#include "verify/other_load.h"

#define BLOCK ((size_t)4 << 20)
#define ALIGN 4096
#define PROLOG_BYTES ((int64_t)128 << 20)
#define DEEP_BYTES ((int64_t)2 << 30)
#define SYNCS 64
#define FREE_SHARE 4 /* of what is free, one part in so many may be used */

struct disk_test {
    const char *dir;
    int fd;
    bool direct;
    int64_t bytes;
    uint64_t *block;
};

static void disk_fill(uint64_t *word, int64_t offset)
{
    for (size_t i = 0; i < BLOCK / sizeof(*word); i++)
        word[i] = ((uint64_t)offset + i) * 0x9e3779b97f4a7c15ull;
}

static int disk_open(struct disk_test *test, struct err *err)
{
    struct statvfs space;

    test->fd = open(test->dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    test->direct = test->fd >= 0;
    if (test->fd < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
        test->fd = open(test->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (test->fd < 0)
        return err_set(err, -errno, "%s: %m", test->dir);
    if (fstatvfs(test->fd, &space) < 0)
        return err_set(err, -errno, "%s: %m", test->dir);
    if ((int64_t)(space.f_bavail * space.f_frsize) / FREE_SHARE < test->bytes)
        return err_set(err, -ENOSPC, "%s: %lld MB are needed, and four times as much must be free",
                       test->dir, (long long)(test->bytes >> 20));
    return 0;
}

static int disk_write(struct disk_test *test, double *rate, struct err *err)
{
    int64_t began_ns = time_mono_ns();

    for (int64_t at = 0; at < test->bytes; at += (int64_t)BLOCK) {
        ssize_t n;

        disk_fill(test->block, at);
        n = pwrite(test->fd, test->block, BLOCK, at);
        if (n != (ssize_t)BLOCK)
            return err_set(err, n < 0 ? -errno : -EIO, "%s: write at %lld: %s", test->dir,
                           (long long)at, n < 0 ? strerror(errno) : "short");
    }
    if (fdatasync(test->fd) < 0)
        return err_set(err, -errno, "%s: fdatasync: %m", test->dir);
    *rate = (double)test->bytes * 1e9 / (double)(time_mono_ns() - began_ns);
    return 0;
}

/* -EBADMSG: it gave back other bytes than were written. */
static int disk_read(struct disk_test *test, double *rate, struct err *err)
{
    CLEAN(free_clean) uint64_t *expected = malloc(BLOCK);
    int64_t spent_ns = 0;

    if (!expected)
        return err_nomem(err);
    if (!test->direct)
        posix_fadvise(test->fd, 0, 0, POSIX_FADV_DONTNEED);
    for (int64_t at = 0; at < test->bytes; at += (int64_t)BLOCK) {
        int64_t began_ns = time_mono_ns();
        ssize_t n = pread(test->fd, test->block, BLOCK, at);

        if (n != (ssize_t)BLOCK)
            return err_set(err, n < 0 ? -errno : -EIO, "%s: read at %lld: %s", test->dir,
                           (long long)at, n < 0 ? strerror(errno) : "short");
        spent_ns += time_mono_ns() - began_ns;
        disk_fill(expected, at);
        if (memcmp(expected, test->block, BLOCK) != 0)
            return err_set(err, -EBADMSG,
                           "%s: other bytes came back than were written, in the block at %lld",
                           test->dir, (long long)at);
    }
    *rate = (double)test->bytes * 1e9 / (double)MAX(spent_ns, INT64_C(1));
    return 0;
}

static int disk_sync(struct disk_test *test, double *rate, struct err *err)
{
    int64_t began_ns = time_mono_ns();

    for (int i = 0; i < SYNCS; i++) {
        if (pwrite(test->fd, test->block, ALIGN, (off_t)i * ALIGN) != ALIGN ||
            fdatasync(test->fd) < 0)
            return err_set(err, -errno, "%s: synced write: %m", test->dir);
    }
    *rate = SYNCS * 1e9 / (double)(time_mono_ns() - began_ns);
    return 0;
}

/* An error of the disk itself is a fault; no room or no permission says nothing about it. */
static unsigned disk_state_of(int result)
{
    return result == -EIO || result == -EBADMSG || result == -EROFS ? CHECK_FAILED : CHECK_UNKNOWN;
}

static int disk_measure(struct disk_test *test, const struct verify_place *place,
                        struct verify_report *report, struct err *err)
{
    double written = 0, read = 0, syncs = 0;
    size_t first = report->count;
    struct other_load load;
    int result = disk_open(test, err);

    other_load_begin(&load, place->root, test->dir);
    if (result == 0)
        result = disk_write(test, &written, err);
    if (result == 0)
        result = disk_read(test, &read, err);
    if (result == 0)
        result = disk_sync(test, &syncs, err);
    if (result < 0)
        return result;
    measured_result(report, place->profile, "disk-write", test->dir, written / 1e9, "GB/s");
    measured_result(report, place->profile, "disk-read", test->dir, read / 1e9, "GB/s");
    measured_result(report, place->profile, "disk-syncs", test->dir, syncs, "1/s");
    other_load_judge(&load, 2 * (uint64_t)test->bytes, report, first);
    if (!test->direct)
        verify_result(
            report, CHECK_LIMITED, test->dir,
            "the file system has no direct access: the page cache took part in the rates");
    return 0;
}

static void disk_rate_run(const struct verify_place *place, struct verify_report *report)
{
    struct disk_test test = { .dir = place->dir,
                              .fd = -1,
                              .bytes = place->stage >= VERIFY_DEEP ? DEEP_BYTES : PROLOG_BYTES };
    CLEAN(free_clean) void *block = NULL;
    struct err err = { "" };
    int result;

    if (!place->dir) {
        verify_result(report, VERIFY_NOT_APPLICABLE, "", "no --dir names a disk to test");
        return;
    }
    if (posix_memalign(&block, ALIGN, BLOCK) != 0) {
        verify_result(report, CHECK_UNKNOWN, place->dir, "not enough memory");
        return;
    }
    test.block = block;
    result = disk_measure(&test, place, report, &err);
    if (result < 0)
        verify_result(report, disk_state_of(result), place->dir, "%s", err.text);
    if (test.fd >= 0)
        close(test.fd);
}

const struct verify_check check_disk_rate = {
    .name = "disk-rate",
    .summary = "the disk of --dir: rates of writing, reading and synced writes, and whether it "
               "returns what was written",
    .why = "a disk that is worn, throttled or rebuilding is slower than those of other nodes by "
           "far more than they differ",
    .advice = "look at the device (smartctl, nvme smart-log) and at the kernel log (lockstep sense "
              "--once)",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 12 * NS_PER_S, 12 * NS_PER_S, 120 * NS_PER_S, 120 * NS_PER_S },
    .run = disk_rate_run,
};
