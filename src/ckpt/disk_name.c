/* disk_name.c - which disk or file system a directory is on, for people.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/disk_name.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clean.h"

/* "36 35 98:0 /root /mount rw master:1 - ext4 /dev/vda1 rw": the names behind the hyphen may hold anything. */
bool disk_name_line(char *line, unsigned major_number, unsigned minor_number, char out[DISK_NAME])
{
    unsigned major_there, minor_there;
    char *type = strstr(line, " - "), *source, *end;

    if (sscanf(line, "%*u %*u %u:%u", &major_there, &minor_there) != 2 ||
        major_there != major_number || minor_there != minor_number || !type)
        return false;
    type += 3;
    source = strchr(type, ' ');
    if (!source)
        return false;
    *source++ = '\0';
    end = source + strcspn(source, " \n");
    *end = '\0';
    if (strncmp(source, "/dev/", 5) == 0)
        source += 5;
    snprintf(out, DISK_NAME, "%.40s (%.16s)", source, type);
    for (char *at = out; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    return true;
}

void disk_name_of(int fd, char out[DISK_NAME])
{
    CLEAN(file_clean) FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char line[PATH_MAX + 512];
    struct statx st; /* fstat() needs a newer libc than the trainer may have */

    out[0] = '\0';
    if (!mounts || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0)
        return;
    while (fgets(line, sizeof(line), mounts)) {
        if (disk_name_line(line, st.stx_dev_major, st.stx_dev_minor, out))
            return;
    }
}
