/* arena.h - the memory that holds the images: shared with the writer, allocated and touched once.
 *
 * A memfd, not a file of /dev/shm, which has 64 MB in many containers.  It is charged to the trainer's cgroup and lives as
 * long as one of both processes has it open.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_ARENA_H
#define LOCKSTEP_CKPT_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

#define ARENA_IMAGES 2

struct arena {
    int fd;
    unsigned char *base;
    uint64_t bytes, image_bytes, draft_at, file_bytes;
    uint32_t images;
};

/* `images` 0: two if the memory suffices, else one.  -ENOMEM: the memory does not suffice; err says how much is
 * missing.
 */
int arena_create(struct arena *arena, uint64_t file_bytes, uint64_t draft_bytes, uint32_t images,
                 struct err *err);
/* Touches `file_bytes` of each image, the draft is not touched.  False: not enough memory. */
bool arena_touch(const struct arena *arena);
void arena_destroy(struct arena *arena);

static inline unsigned char *arena_image(const struct arena *arena, uint32_t image)
{
    return arena->base + image * arena->image_bytes;
}

#endif
