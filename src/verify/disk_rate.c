/* disk_rate.c - the disk to which checkpoints go: rate of writing and reading, synced writes, and whether it returns what was
 * written.
 *
 * Latencies are those of one small read or synced write at a time: the median, and what one in a hundred exceeds.  A disk that
 * stalls now and then keeps its rate, and shows there.
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
#include "core/rand.h"
#include "core/time.h"
#include "judge/median.h"
#include "verify/checks.h"
#include "verify/measured.h"
#include "verify/other_load.h"

#define BLOCK ((size_t)4 << 20)
#define ALIGN 4096
#define PROLOG_BYTES ((int64_t)128 << 20)
#define DEEP_BYTES ((int64_t)2 << 30)
#define SYNCS 128
#define READS 512
#define FREE_SHARE 4 /* of what is free, one part in so many may be used */

struct disk_test {
    const char *dir;
    int fd;
    bool direct;
    int64_t bytes;
    uint64_t *block;
    double written, read, syncs; /* bytes or calls a second */
    double read_ms, read_99_ms, sync_ms, sync_99_ms;
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

static int disk_write(struct disk_test *test, struct err *err)
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
    test->written = (double)test->bytes * 1e9 / (double)(time_mono_ns() - began_ns);
    return 0;
}

/* -EBADMSG: it gave back other bytes than were written. */
static int disk_read(struct disk_test *test, struct err *err)
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
    test->read = (double)test->bytes * 1e9 / (double)MAX(spent_ns, INT64_C(1));
    return 0;
}

static void disk_latency(double *ms, size_t count, double *ret_median, double *ret_99)
{
    *ret_median = median_f64(ms, count); /* sorts */
    *ret_99 = ms[count - 1 - count / 100];
}

static int disk_sync(struct disk_test *test, struct err *err)
{
    int64_t began_ns = time_mono_ns(), from_ns = began_ns, now_ns;
    double ms[SYNCS];

    for (int i = 0; i < SYNCS; i++) {
        ssize_t n = pwrite(test->fd, test->block, ALIGN, (off_t)i * ALIGN);

        if (n >= 0 && n != ALIGN)
            return err_set(err, -EIO, "%s: synced write: short", test->dir);
        if (n < 0 || fdatasync(test->fd) < 0)
            return err_set(err, -errno, "%s: synced write: %m", test->dir);
        now_ns = time_mono_ns();
        ms[i] = (double)(now_ns - from_ns) / 1e6;
        from_ns = now_ns;
    }
    test->syncs = SYNCS * 1e9 / (double)(from_ns - began_ns);
    disk_latency(ms, SYNCS, &test->sync_ms, &test->sync_99_ms);
    return 0;
}

/* At places that no reading ahead foresees. */
static int disk_read_small(struct disk_test *test, struct err *err)
{
    struct rand rand = { (uint64_t)test->bytes };
    double ms[READS];

    if (!test->direct)
        posix_fadvise(test->fd, 0, 0, POSIX_FADV_DONTNEED);
    for (int i = 0; i < READS; i++) {
        off_t at = (off_t)rand_below(&rand, (uint32_t)(test->bytes / ALIGN)) * ALIGN;
        int64_t began_ns = time_mono_ns();
        ssize_t n = pread(test->fd, test->block, ALIGN, at);

        if (n != ALIGN)
            return err_set(err, n < 0 ? -errno : -EIO, "%s: read at %lld: %s", test->dir,
                           (long long)at, n < 0 ? strerror(errno) : "short");
        ms[i] = (double)(time_mono_ns() - began_ns) / 1e6;
    }
    disk_latency(ms, READS, &test->read_ms, &test->read_99_ms);
    return 0;
}

/* An error of the disk itself is a fault; no room or no permission says nothing about it. */
static unsigned disk_state_of(int result)
{
    return result == -EIO || result == -EBADMSG || result == -EROFS ? CHECK_FAILED : CHECK_UNKNOWN;
}

static void disk_report(const struct disk_test *test, const struct machine_profile *profile,
                        struct verify_report *report)
{
    measured_result(report, profile, "disk-write", test->dir, test->written / 1e9, "GB/s");
    measured_result(report, profile, "disk-read", test->dir, test->read / 1e9, "GB/s");
    measured_result(report, profile, "disk-syncs", test->dir, test->syncs, "1/s");
    measured_latency(report, profile, "disk-read-latency", test->dir, test->read_ms, "ms");
    measured_latency(report, profile, "disk-read-latency-99", test->dir, test->read_99_ms, "ms");
    measured_latency(report, profile, "disk-sync-latency", test->dir, test->sync_ms, "ms");
    measured_latency(report, profile, "disk-sync-latency-99", test->dir, test->sync_99_ms, "ms");
}

static int disk_measure(struct disk_test *test, const struct verify_place *place,
                        struct verify_report *report, struct err *err)
{
    size_t first = report->count;
    struct other_load load;
    int result = disk_open(test, err);

    other_load_begin(&load, place->root, test->dir);
    if (result == 0)
        result = disk_write(test, err);
    if (result == 0)
        result = disk_read(test, err);
    if (result == 0)
        result = disk_read_small(test, err);
    if (result == 0)
        result = disk_sync(test, err);
    if (result < 0)
        return result;
    disk_report(test, place->profile, report);
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
