/* acknowledged.c - which of the launcher's facts are on the controller's disk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/acknowledged.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"

#define ACKNOWLEDGED_FILE "acknowledged"
#define ACKNOWLEDGED_BYTES 42

static bool acknowledged_put(int fd, const struct acknowledged *now)
{
    char text[ACKNOWLEDGED_BYTES + 1];

    snprintf(text, sizeof(text), "%020" PRIu64 " %020" PRId64 "\n", now->before,
             now->heard_boot_ns);
    return pwrite(fd, text, ACKNOWLEDGED_BYTES, 0) == ACKNOWLEDGED_BYTES;
}

int acknowledged_create(const char *run_dir, int *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct path path;
    int result = path_join(&path, run_dir, ACKNOWLEDGED_FILE, err);

    if (result < 0)
        return result;
    fd = open(path.text, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !acknowledged_put(fd, &(struct acknowledged){ 0 }))
        return err_set(err, errno ? -errno : -EIO, "%s: %m", path.text);
    *ret = fd;
    fd = -1;
    return 0;
}

bool acknowledged_is_wanted(const char *run_dir)
{
    struct path path;

    return path_join(&path, run_dir, ACKNOWLEDGED_FILE, NULL) == 0 && access(path.text, F_OK) == 0;
}

struct acknowledged acknowledged_read(int fd)
{
    struct acknowledged now = { 0 };
    char text[ACKNOWLEDGED_BYTES + 1];

    if (pread(fd, text, ACKNOWLEDGED_BYTES, 0) != ACKNOWLEDGED_BYTES)
        return now;
    text[ACKNOWLEDGED_BYTES] = '\0';
    if (strspn(text, "0123456789") != 20 || strspn(text + 21, "0123456789") != 20 ||
        sscanf(text, "%" SCNu64 " %" SCNd64, &now.before, &now.heard_boot_ns) != 2)
        return (struct acknowledged){ 0 };
    return now;
}

void acknowledged_write(const char *run_dir, const struct acknowledged *now)
{
    CLEAN(fd_clean) int fd = -1;
    struct path path;

    if (path_join(&path, run_dir, ACKNOWLEDGED_FILE, NULL) < 0)
        return;
    fd = open(path.text, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        acknowledged_put(fd, now); /* if that fails the next one is written again */
}
