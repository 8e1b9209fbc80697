/* untrusted.h - opens files that another user may have created, or may replace at any time.
 *
 * Never blocks on a FIFO, never acquires a terminal, and follows no link in the last component.  The result is a
 * regular file (or a directory) of the expected owner, checked on the descriptor.  Below a directory descriptor a
 * mount point is refused as well: a file system of the user could block every call on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_UNTRUSTED_H
#define LOCKSTEP_CORE_UNTRUSTED_H

#include <sys/types.h>

#include "core/err.h"

#define UNTRUSTED_ANY_OWNER ((uid_t)-1)

/* A regular file.  `dir_fd` AT_FDCWD: `name` is a path that the caller chose; else one name without a slash.
 * `flags` as for open(2), O_CREAT makes the file with mode 0600.  Returns a descriptor, or -errno: -ELOOP a link,
 * -EXDEV a mount point, -EPROTO no regular file, -EPERM another owner.
 */
int untrusted_open(int dir_fd, const char *name, int flags, uid_t owner, struct err *err);
/* A directory that only its owner can write to (-EPERM). */
int untrusted_open_dir(int dir_fd, const char *name, uid_t owner, struct err *err);
/* The same without a check of owner and mode: below a directory of ours, to empty it. */
int untrusted_open_any_dir(int dir_fd, const char *name, struct err *err);
/* A regular file by an absolute path as a process sees it whose root directory is `root_fd`, for reading. */
int untrusted_open_inside(int root_fd, const char *path, struct err *err);

#endif
