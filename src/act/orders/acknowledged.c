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
#define ACKNOWLEDGED_BYTES 21

int acknowledged_create(const char *run_dir, int *ret, struct err *err)
{
    struct path path;
    int result = path_join(&path, run_dir, ACKNOWLEDGED_FILE, err), fd;

    if (result < 0)
        return result;
    fd = open(path.text, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path.text);
    *ret = fd;
    return 0;
}

uint64_t acknowledged_read(int fd)
{
    char text[ACKNOWLEDGED_BYTES + 1];
    ssize_t size = pread(fd, text, ACKNOWLEDGED_BYTES, 0);
    uint64_t before;

    if (size != ACKNOWLEDGED_BYTES || text[ACKNOWLEDGED_BYTES - 1] != '\n')
        return 0;
    text[ACKNOWLEDGED_BYTES] = '\0';
    if (strspn(text, "0123456789") != ACKNOWLEDGED_BYTES - 1 ||
        sscanf(text, "%" SCNu64, &before) != 1)
        return 0;
    return before;
}

void acknowledged_write(const char *run_dir, uint64_t before)
{
    char text[ACKNOWLEDGED_BYTES + 1];
    struct path path;
    int fd;

    if (path_join(&path, run_dir, ACKNOWLEDGED_FILE, NULL) < 0)
        return;
    fd = open(path.text, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    snprintf(text, sizeof(text), "%020" PRIu64 "\n", before);
    if (pwrite(fd, text, ACKNOWLEDGED_BYTES, 0) != ACKNOWLEDGED_BYTES)
        fd_clean(&fd); /* a full disk: the next one is written again */
    fd_clean(&fd);
}
