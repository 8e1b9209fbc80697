/* blocks.h - a file block by block: several blocks in flight, each checked or digested on the way.
 *
 * Three ways, the fastest that works here: io_uring past the page cache, threads past the page cache, threads through the
 * page cache.  A way that does not work here fails before anything was written; the caller tries the next one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_BLOCKS_H
#define LOCKSTEP_CKPT_STORE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/format/tensor.h"
#include "core/err.h"

enum blocks_way {
    BLOCKS_URING,    /* io_uring, O_DIRECT */
    BLOCKS_DIRECT,   /* pread and pwrite in threads, O_DIRECT */
    BLOCKS_BUFFERED, /* the same through the page cache */
    BLOCKS_WAYS,
};

const char *blocks_way_name(enum blocks_way way);
int blocks_open_flags(enum blocks_way way); /* O_DIRECT or 0 */

struct blocks_job {
    int fd; /* opened with blocks_open_flags() */
    enum blocks_way way;
    bool write;
    uint64_t bytes; /* of the file; a direct write fills the last page, and the caller truncates */
    unsigned char *image; /* write: the bytes, page-aligned and padded to a page */
    /* read: which blocks, ascending; NULL: all */
    const uint64_t *want;
    uint64_t wants;
    uint64_t first,
        stride;   /* of the list: this runner takes every `stride`-th from `first` on; 0, 0: all */
    bool ordered; /* read: blocks arrive in order; only without `want` */
    /* Each block, before it is written (in order) or after it was read (in any order).  < 0 ends the run. */
    int (*each)(void *ctx, uint64_t index, const unsigned char *data, size_t size, struct err *err);
    void *ctx;
    uint64_t bytes_per_s;    /* 0: no limit */
    bool (*stop)(void *ctx); /* NULL: never; asked before each block, -ECANCELED */
};

/* 0 or -errno.  -EOPNOTSUPP: this way does not work here (err says why), and nothing was transferred.  -ENODATA: a read
 * ended before `bytes`.
 */
int blocks_run(const struct blocks_job *job, struct err *err);

#endif
