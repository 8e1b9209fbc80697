/* arena.c - allocates the arena.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ckpt/format/tensor.h"
#include "ckpt/memory_left.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define TOUCH_BYTES (UINT64_C(64) << 20) /* by one thread at a time */
#define SHARE_PCT 90                     /* of what is available */

struct touch {
    const struct arena *arena;
    uint64_t file_bytes;
    _Atomic uint64_t next;
    _Atomic bool failed;
};

static void *touch_run(void *ctx)
{
    struct touch *touch = ctx;
    uint64_t pieces = (touch->file_bytes + TOUCH_BYTES - 1) / TOUCH_BYTES, piece;

    while ((piece = atomic_fetch_add(&touch->next, 1)) < pieces * touch->arena->images) {
        uint64_t at = piece % pieces * TOUCH_BYTES, size = MIN(TOUCH_BYTES, touch->file_bytes - at);
        unsigned char *begin = arena_image(touch->arena, (uint32_t)(piece / pieces)) + at;

        if (madvise(begin, size, MADV_POPULATE_WRITE) == 0)
            continue;
        if (errno != EINVAL) {
            atomic_store(&touch->failed, true);
            continue;
        }
        for (uint64_t i = 0; i < size; i += CKPT_PAGE) /* before Linux 5.14 */
            *(volatile unsigned char *)(begin + i) = 0;
    }
    return NULL;
}

/* On the trainer's own node, also where its threads may run on several: the copy is made by threads of that process, and the
 * disk does not mind.  A machine with one node, or a kernel without NUMA, refuses or ignores it.
 */
static void arena_node_choose(const struct arena *arena)
{
    enum {
        PREFERRED = 1,
        NODES = 1024
    };
    unsigned long mask[NODES / (8 * sizeof(unsigned long))] = { 0 };
    unsigned cpu = 0, node = 0;

    if (syscall(SYS_getcpu, &cpu, &node, NULL) < 0 || node >= NODES)
        return;
    mask[node / (8 * sizeof(*mask))] = 1UL << (node % (8 * sizeof(*mask)));
    syscall(SYS_mbind, arena->base, arena->bytes, PREFERRED, mask, (unsigned long)NODES, 0);
}

static int arena_images_choose(struct arena *arena, uint32_t images, struct err *err)
{
    uint64_t available = memory_left() / 100 * SHARE_PCT;

    arena->images = images ? images : ARENA_IMAGES;
    if (!images && arena->image_bytes > available / ARENA_IMAGES)
        arena->images = 1;
    if (arena->image_bytes > available / arena->images)
        return err_set(err, -ENOMEM,
                       "an image needs %" PRIu64 " MiB, and %" PRIu64 " MiB are available",
                       arena->image_bytes >> 20, available >> 20);
    return 0;
}

int arena_create(struct arena *arena, uint64_t file_bytes, uint64_t draft_bytes, uint32_t images,
                 struct err *err)
{
    struct arena made = { .fd = -1 };
    int result;

    made.draft_at = ckpt_round_up(file_bytes, CKPT_BLOCK);
    made.image_bytes = made.draft_at + ckpt_round_up(draft_bytes, CKPT_PAGE);
    result = arena_images_choose(&made, images, err);
    if (result < 0)
        return result;
    made.bytes = made.image_bytes * made.images;
    made.fd = memfd_create("lockstep-ckpt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made.fd < 0 || ftruncate(made.fd, (off_t)made.bytes) < 0) {
        result = err_set(err, -errno, "arena of %" PRIu64 " MiB: %m", made.bytes >> 20);
        fd_clean(&made.fd);
        return result;
    }
    made.base = mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd, 0);
    if (made.base == MAP_FAILED) {
        result = err_set(err, -errno, "arena of %" PRIu64 " MiB: %m", made.bytes >> 20);
        close(made.fd);
        return result;
    }
    madvise(made.base, made.bytes, MADV_DONTFORK);
    arena_node_choose(&made);
    made.file_bytes = ckpt_round_up(file_bytes, CKPT_PAGE);
    *arena = made;
    return 0;
}

bool arena_touch(const struct arena *arena)
{
    struct touch touch = { .arena = arena, .file_bytes = arena->file_bytes };

    threads_run(MIN(threads_cpus(), 8), touch_run, &touch);
    return !atomic_load(&touch.failed);
}

void arena_destroy(struct arena *arena)
{
    if (arena->base)
        munmap(arena->base, arena->bytes);
    if (arena->fd >= 0)
        close(arena->fd);
    *arena = (struct arena){ .fd = -1 };
}
