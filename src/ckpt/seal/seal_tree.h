/* seal_tree.h - the files of a checkpoint directory, found without trust in it.
 *
 * No link is followed, no other file system is entered, no pipe is waited for; every name is checked, depth and count
 * are limited.  What is neither a directory nor a regular file is an error, because no seal could cover it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SEAL_TREE_H
#define LOCKSTEP_CKPT_SEAL_SEAL_TREE_H

#include "ckpt/seal/seal_file.h"

/* Adds path and size of each file, ascending; the seal itself is left out.  -EPROTO: refused, err says why. */
int seal_tree_read(int dir_fd, struct seal *ret, struct err *err);
/* A regular file below it, for reading.  A descriptor, or -errno. */
int seal_tree_open(int dir_fd, const char *path, struct err *err);

#endif
