/* small_file.h - small files of a checkpoint directory, whole: read with a limit, written so that a crash leaves the old
 * file, the new one or none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_SMALL_FILE_H
#define LOCKSTEP_CKPT_STORE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

/* Never follows a link, never waits for a pipe.  -EFBIG: larger than `most`. */
int small_file_read(int dir_fd, const char *name, size_t most, struct buf *ret, struct err *err);
int small_file_size(int dir_fd, const char *name, uint64_t *ret); /* of a regular file; -errno */
int small_file_size_fd(int fd, uint64_t *ret);                    /* the same of an open file */
/* Makes a new file, writes and syncs it.  -EEXIST: there is one. */
int small_file_create(int dir_fd, const char *name, const void *data, size_t size, struct err *err);
/* The same by way of `temporary`, then renamed and the directory synced. */
int small_file_replace(int dir_fd, const char *name, const char *temporary, const struct buf *data,
                       struct err *err);
int directory_sync(int dir_fd, struct err *err);

#endif
