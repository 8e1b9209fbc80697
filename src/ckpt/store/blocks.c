/* blocks.c - moves a file in blocks, with several in flight.
 *
 * One thread drives: it digests or checks blocks and hands them to the kernel (io_uring) or to threads.  Measured on a virtual NVMe
 * disk: 16 blocks of 4 MiB in flight by io_uring reach the disk's speed with a tenth of a core; pwrite in four threads
 * reaches two thirds of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/store/threads.h"
#include "ckpt/store/uring.h"
#include "core/clean.h"
#include "core/time.h"

#define DEPTH 16
#define WORKERS 4

struct block_slot {
    uint64_t index; /* of the block */
    unsigned char *data;
    size_t size, io_size, done; /* io_size: what is transferred, rounded up for direct I/O */
    int64_t result;
    bool busy, arrived; /* arrived: read, but waits for those before it */
};

/* The threads: slots that wait for one of them, and slots that are done, as queues of numbers. */
struct pool {
    struct threads threads;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    unsigned todo[DEPTH], todos, ready[DEPTH], readies;
    bool end;
};

struct run {
    const struct blocks_job *job;
    struct block_slot slot[DEPTH];
    unsigned char *bounce; /* where reads go */
    struct uring *ring;
    struct pool *pool;
    unsigned in_flight, waiting; /* slots: with the kernel, and arrived */
    uint64_t due;                /* ordered: the block that is handed out next */
    bool moved;                  /* something was transferred */
    int64_t begin_ns;
    uint64_t given_bytes;
};

static const char *const way_names[] = { "io_uring O_DIRECT", "pwrite threads O_DIRECT",
                                         "buffered" };

const char *blocks_way_name(enum blocks_way way)
{
    return way_names[way];
}

int blocks_open_flags(enum blocks_way way)
{
    return way == BLOCKS_BUFFERED ? 0 : O_DIRECT;
}

static uint64_t slot_offset(const struct block_slot *slot)
{
    return slot->index * CKPT_BLOCK + slot->done;
}

/* ---- threads ---- */

static int64_t slot_transfer(const struct blocks_job *job, const struct block_slot *slot)
{
    ssize_t done;

    do {
        if (job->write)
            done = pwrite(job->fd, slot->data + slot->done, slot->io_size - slot->done,
                          (off_t)slot_offset(slot));
        else
            done = pread(job->fd, slot->data + slot->done, slot->io_size - slot->done,
                         (off_t)slot_offset(slot));
    } while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static void *pool_work(void *ctx)
{
    struct run *run = ctx;
    struct pool *pool = run->pool;

    pthread_mutex_lock(&pool->lock);
    while (!pool->end) {
        unsigned number;
        int64_t result;

        if (!pool->todos) {
            pthread_cond_wait(&pool->given, &pool->lock);
            continue;
        }
        number = pool->todo[0];
        memmove(pool->todo, pool->todo + 1, --pool->todos * sizeof(*pool->todo));
        pthread_mutex_unlock(&pool->lock);
        result = slot_transfer(run->job, &run->slot[number]);
        pthread_mutex_lock(&pool->lock);
        run->slot[number].result = result;
        pool->ready[pool->readies++] = number;
        pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int pool_open(struct run *run, struct err *err)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return err_nomem(err);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->given, NULL);
    pthread_cond_init(&pool->done, NULL);
    run->pool = pool;
    for (unsigned i = 0; i < WORKERS; i++)
        threads_add(&pool->threads, pool_work, run);
    return pool->threads.count ? 0 : err_set(err, -EAGAIN, "no thread can be started");
}

static void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->end = true;
    pthread_cond_broadcast(&pool->given);
    pthread_mutex_unlock(&pool->lock);
    threads_join(&pool->threads);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->given);
    pthread_cond_destroy(&pool->done);
    free(pool);
}

static void pool_submit(struct pool *pool, unsigned number)
{
    pthread_mutex_lock(&pool->lock);
    pool->todo[pool->todos++] = number;
    pthread_cond_signal(&pool->given);
    pthread_mutex_unlock(&pool->lock);
}

static unsigned pool_reap(struct pool *pool)
{
    unsigned number;

    pthread_mutex_lock(&pool->lock);
    while (!pool->readies)
        pthread_cond_wait(&pool->done, &pool->lock);
    number = pool->ready[0];
    memmove(pool->ready, pool->ready + 1, --pool->readies * sizeof(*pool->ready));
    pthread_mutex_unlock(&pool->lock);
    return number;
}

/* ---- both ---- */

static int run_submit(struct run *run, unsigned number)
{
    struct block_slot *slot = &run->slot[number];
    int result = 0;

    if (run->ring)
        result = uring_submit(run->ring, &(struct uring_op){ .write = run->job->write,
                                                             .fd = run->job->fd,
                                                             .data = slot->data + slot->done,
                                                             .size = slot->io_size - slot->done,
                                                             .offset = slot_offset(slot),
                                                             .tag = number });
    else
        pool_submit(run->pool, number);
    if (result == 0)
        run->in_flight++;
    return result;
}

/* Waits for one; its result is in the slot. */
static int run_reap(struct run *run, unsigned *ret)
{
    uint64_t tag;
    int64_t value;
    int result;

    if (!run->ring) {
        *ret = pool_reap(run->pool);
    } else {
        result = uring_reap(run->ring, &tag, &value);
        if (result < 0)
            return result;
        *ret = (unsigned)tag;
        run->slot[*ret].result = value;
    }
    run->in_flight--;
    return 0;
}

/* A limit: not before the time at which so many bytes are allowed. */
static void run_pace(const struct run *run)
{
    const struct blocks_job *job = run->job;
    int64_t due_ns;
    struct timespec until;

    if (!job->bytes_per_s)
        return;
    due_ns = run->begin_ns +
             (int64_t)((double)run->given_bytes / (double)job->bytes_per_s * (double)NS_PER_S);
    until = time_spec(due_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static int run_begin_block(struct run *run, unsigned number, uint64_t index, struct err *err)
{
    const struct blocks_job *job = run->job;
    struct block_slot *slot = &run->slot[number];
    uint64_t left = job->bytes - index * CKPT_BLOCK;
    int result = 0;

    *slot =
        (struct block_slot){ .index = index, .size = (size_t)MIN(left, CKPT_BLOCK), .busy = true };
    slot->io_size =
        job->way == BLOCKS_BUFFERED ? slot->size : (size_t)ckpt_round_up(slot->size, CKPT_PAGE);
    slot->data =
        job->write ? job->image + index * CKPT_BLOCK : run->bounce + (size_t)number * CKPT_BLOCK;
    run_pace(run);
    if (job->write && job->each)
        result = job->each(job->ctx, index, slot->data, slot->size, err);
    if (result < 0)
        return result;
    run->given_bytes += slot->size;
    result = run_submit(run, number);
    return result < 0 ? err_set(err, result, "io_uring: %s", strerror(-result)) : 0;
}

/* What one transfer means: -EAGAIN when the rest of its block has to follow. */
static int run_judge(struct run *run, struct block_slot *slot, struct err *err)
{
    const struct blocks_job *job = run->job;
    const char *verb = job->write ? "write" : "read";

    if (slot->result == -EINTR || slot->result == -EAGAIN)
        return -EAGAIN;
    if (slot->result < 0 && !run->moved && job->way != BLOCKS_BUFFERED &&
        (slot->result == -EINVAL || slot->result == -EOPNOTSUPP || slot->result == -ENOMEM ||
         slot->result == -EPERM))
        return err_set(err, -EOPNOTSUPP, "%s: %s", verb, strerror((int)-slot->result));
    if (slot->result < 0)
        return err_set(err, (int)slot->result, "%s: %s", verb, strerror((int)-slot->result));
    run->moved = true;
    slot->done += (size_t)slot->result;
    if (slot->done >= (job->write ? slot->io_size : slot->size))
        return 0;
    if (slot->result == 0)
        return job->write ? err_set(err, -ENOSPC, "write: nothing was written")
                          : err_set(err, -ENODATA, "the file is shorter than %llu bytes",
                                    (unsigned long long)job->bytes);
    if (job->way != BLOCKS_BUFFERED) /* direct I/O goes on at a page only */
        slot->done -= slot->done % CKPT_PAGE;
    return -EAGAIN;
}

/* Those that have arrived, as far as there is no gap. */
static int run_hand_out(struct run *run, struct err *err)
{
    const struct blocks_job *job = run->job;
    int result = 0;

    for (unsigned i = 0; result == 0 && i < DEPTH; i++) {
        struct block_slot *slot = &run->slot[i];

        if (!slot->busy || !slot->arrived || slot->index != run->due)
            continue;
        result = job->each(job->ctx, slot->index, slot->data, slot->size, err);
        slot->busy = false;
        run->waiting--;
        run->due += job->stride ? job->stride : 1;
        i = UINT_MAX; /* from the first slot again */
    }
    return result;
}

static int run_end_block(struct run *run, struct err *err)
{
    const struct blocks_job *job = run->job;
    unsigned number = 0;
    struct block_slot *slot;
    int result = run_reap(run, &number);

    if (result < 0)
        return err_set(err, result, "io_uring: %s", strerror(-result));
    slot = &run->slot[number];
    result = run_judge(run, slot, err);
    if (result == -EAGAIN) {
        result = run_submit(run, number);
        return result < 0 ? err_set(err, result, "%s", strerror(-result)) : 0;
    }
    if (result == 0 && job->ordered) {
        slot->arrived = true;
        run->waiting++;
        return run_hand_out(run, err);
    }
    slot->busy = false;
    if (result == 0 && !job->write && job->each)
        result = job->each(job->ctx, slot->index, slot->data, slot->size, err);
    return result;
}

static unsigned run_free_slot(const struct run *run)
{
    unsigned number = 0;

    while (run->slot[number].busy)
        number++;
    return number;
}

static int run_open(struct run *run, struct err *err)
{
    int result;

    run->begin_ns = time_mono_ns();
    if (run->job->way == BLOCKS_URING) {
        result = uring_open(DEPTH, &run->ring, err);
        if (result < 0)
            return -EOPNOTSUPP;
    } else {
        result = pool_open(run, err);
        if (result < 0)
            return result;
    }
    if (!run->job->write &&
        posix_memalign((void **)&run->bounce, CKPT_PAGE, (size_t)DEPTH * CKPT_BLOCK) != 0)
        return err_nomem(err);
    return 0;
}

int blocks_run(const struct blocks_job *job, struct err *err)
{
    CLEAN(free_clean) struct run *run = calloc(1, sizeof(*run));
    uint64_t count = job->want ? job->wants : ckpt_blocks(job->bytes), next = job->first;
    bool stopped = false;
    int result;

    if (!run)
        return err_nomem(err);
    run->job = job;
    run->due = job->first;
    result = run_open(run, err);
    while (result == 0 && (next < count || run->in_flight)) {
        if (next < count && job->stop && job->stop(job->ctx)) {
            stopped = true; /* what is under way is finished */
            next = count;
        } else if (next < count && run->in_flight + run->waiting < DEPTH) {
            result =
                run_begin_block(run, run_free_slot(run), job->want ? job->want[next] : next, err);
            next += job->stride ? job->stride : 1;
        } else {
            result = run_end_block(run, err);
        }
    }
    while (run->in_flight) { /* after an error: the kernel still reads or writes this memory */
        unsigned number;

        if (run_reap(run, &number) < 0) {
            run->bounce = NULL; /* never given back: the kernel may still write to it */
            break;
        }
    }
    pool_close(run->pool);
    uring_close(run->ring);
    free(run->bounce);
    return result == 0 && stopped ? err_set(err, -ECANCELED, "stopped") : result;
}
