/* uring.c - io_uring by its system calls.
 *
 * liburing would be one more library in the training process, whose version decides which symbols it needs.  What is
 * used here is the oldest part of the interface: READ and WRITE, since Linux 5.6.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"

struct uring {
    int fd;
    unsigned char *sq, *cq;
    struct io_uring_sqe *sqe;
    size_t sq_bytes, cq_bytes, sqe_bytes;
    struct io_uring_params params;
};

/* A number that the kernel and we share. */
static _Atomic unsigned *uring_word(unsigned char *base, uint32_t offset)
{
    return (_Atomic unsigned *)(void *)(base + offset);
}

void uring_close(struct uring *ring)
{
    if (!ring)
        return;
    if (ring->sq)
        munmap(ring->sq, ring->sq_bytes);
    if (ring->cq)
        munmap(ring->cq, ring->cq_bytes);
    if (ring->sqe)
        munmap(ring->sqe, ring->sqe_bytes);
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring);
}

static void uring_clean(struct uring **ring)
{
    uring_close(*ring);
}

static void *uring_map(struct uring *ring, size_t size, off_t offset)
{
    void *at =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, offset);

    return at == MAP_FAILED ? NULL : at;
}

int uring_open(unsigned depth, struct uring **ret, struct err *err)
{
    CLEAN(uring_clean) struct uring *ring = calloc(1, sizeof(*ring));
    struct io_uring_params *p;

    if (!ring)
        return err_nomem(err);
    p = &ring->params;
    ring->fd = (int)syscall(SYS_io_uring_setup, depth, p);
    if (ring->fd < 0)
        return err_set(err, -errno, "io_uring: %m");
    ring->sq_bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    ring->cq_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    ring->sqe_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
    ring->sq = uring_map(ring, ring->sq_bytes, IORING_OFF_SQ_RING);
    ring->cq = uring_map(ring, ring->cq_bytes, IORING_OFF_CQ_RING);
    ring->sqe = uring_map(ring, ring->sqe_bytes, IORING_OFF_SQES);
    if (!ring->sq || !ring->cq || !ring->sqe)
        return err_set(err, -errno, "io_uring: %m");
    *ret = TAKE(ring);
    return 0;
}

static int uring_enter(struct uring *ring, unsigned submit, unsigned wait)
{
    long done;

    do
        done = syscall(SYS_io_uring_enter, ring->fd, submit, wait,
                       wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
    while (done < 0 && (errno == EINTR || errno == EAGAIN));
    return done < 0 ? -errno : (int)done;
}

int uring_submit(struct uring *ring, const struct uring_op *op)
{
    const struct io_sqring_offsets *off = &ring->params.sq_off;
    _Atomic unsigned *tail = uring_word(ring->sq, off->tail);
    unsigned at = atomic_load_explicit(tail, memory_order_relaxed),
             index = at & (ring->params.sq_entries - 1);
    struct io_uring_sqe *sqe = &ring->sqe[index];
    int done;

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = op->write ? IORING_OP_WRITE : IORING_OP_READ;
    sqe->fd = op->fd;
    sqe->addr = (uint64_t)(uintptr_t)op->data;
    sqe->len = (uint32_t)op->size;
    sqe->off = op->offset;
    sqe->user_data = op->tag;
    atomic_store_explicit(uring_word(ring->sq, off->array + index * (uint32_t)sizeof(unsigned)),
                          index, memory_order_relaxed);
    atomic_store_explicit(tail, at + 1, memory_order_release);
    done = uring_enter(ring, 1, 0);
    return done < 0 ? done : 0;
}

int uring_reap(struct uring *ring, uint64_t *ret_tag, int64_t *ret_result)
{
    const struct io_cqring_offsets *off = &ring->params.cq_off;
    _Atomic unsigned *head = uring_word(ring->cq, off->head),
                     *tail = uring_word(ring->cq, off->tail);
    unsigned at = atomic_load_explicit(head, memory_order_relaxed);
    const struct io_uring_cqe *cqe;

    while (atomic_load_explicit(tail, memory_order_acquire) == at) {
        int done = uring_enter(ring, 0, 1);

        if (done < 0)
            return done;
    }
    cqe = (const struct io_uring_cqe *)(const void *)(ring->cq + off->cqes) +
          (at & (ring->params.cq_entries - 1));
    *ret_tag = cqe->user_data;
    *ret_result = cqe->res;
    atomic_store_explicit(head, at + 1, memory_order_release);
    return 0;
}
