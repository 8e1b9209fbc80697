/* disk_name.h - which disk or file system a directory is on, for people.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_DISK_NAME_H
#define LOCKSTEP_CKPT_DISK_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define DISK_NAME 64

/* Such as "nvme0n1p1 (ext4)" or "server:/export (nfs4)", printable characters only; "" if it is not known. */
void disk_name_of(int fd, char out[DISK_NAME]);
/* A line of /proc/self/mountinfo: false if it is not of this device.  `line` is changed. */
bool disk_name_line(char *line, unsigned major_number, unsigned minor_number, char out[DISK_NAME]);

#endif
