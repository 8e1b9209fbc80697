/* drill_disk.h - faults of the disk under the checkpoints of a job that consented: a flipped bit, and no room.
 *
 * Both are undone when they are over; the room comes back even if the drill is killed, because the file that takes it has no name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_CMD_DRILL_DRILL_DISK_H
#define LOCKSTEP_LAB_CMD_DRILL_DRILL_DISK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

struct drill_flip {
    char directory[PATH_MAX]; /* of the point */
    char file[PATH_MAX];      /* "": nothing is flipped */
    uint64_t step;
    off_t at;
};

/* The newest committed and verified point of the directory.  -ENODATA: there is none. */
int drill_disk_newest(const char *directory, uint64_t *ret, struct err *err);
/* A bit in the middle of a file of tensors of the newest point.  One that was flipped before gets its bit back. */
int drill_disk_flip(const char *directory, struct drill_flip *flip, struct err *err);
void drill_disk_unflip(struct drill_flip *flip);
/* A reader has found the point damaged, or it is gone. */
bool drill_disk_is_refused(const struct drill_flip *flip);

/* Takes all room of the file system until *ret is closed. */
int drill_disk_fill(const char *directory, int *ret, struct err *err);

#endif
