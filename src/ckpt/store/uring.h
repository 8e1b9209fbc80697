/* uring.h - reads and writes by io_uring, without a library: the few calls that blocks.c needs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_URING_H
#define LOCKSTEP_CKPT_STORE_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct uring;

struct uring_op {
    bool write;
    int fd;
    void *data;
    size_t size;
    uint64_t offset;
    uint64_t tag; /* comes back with the result */
};

/* -EPERM, -ENOSYS: refused here, as in many containers. */
int uring_open(unsigned depth, struct uring **ret, struct err *err);
void uring_close(struct uring *ring); /* NULL is fine; nothing may be in flight */
int uring_submit(struct uring *ring, const struct uring_op *op);            /* 0 or -errno */
int uring_reap(struct uring *ring, uint64_t *ret_tag, int64_t *ret_result); /* waits for one */

#endif
