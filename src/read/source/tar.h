/* tar.h - the members of a tar archive, one after the other.
 *
 * ustar, GNU (long names, large sizes) and pax (path).  Only regular files are members here: links, devices and
 * directories are passed over, and nothing is written anywhere.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_SOURCE_TAR_H
#define LOCKSTEP_READ_SOURCE_TAR_H

#include "read/source/stream.h"

struct tar_member {
    char name[256]; /* the end of it, where it is longer */
    uint64_t bytes;
    int64_t changed_ns;
};

struct tar {
    struct stream *stream; /* not owned */
    uint64_t next;         /* where the next header begins */
};

bool tar_is(const unsigned char *head, size_t bytes);
/* 1: a member, whose bytes are next in the stream; 0: no more; -EPROTO and others. */
int tar_next(struct tar *tar, struct tar_member *ret, struct err *err);

#endif
