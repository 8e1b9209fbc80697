/* store_image.h - one image of the arena becomes the file of a rank, synced, with its manifest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_STORE_IMAGE_H
#define LOCKSTEP_CKPT_WRITER_STORE_IMAGE_H

#include "ckpt/format/manifest.h"
#include "ckpt/store/publish.h"

struct store_image {
    const struct publish *publish;
    unsigned char *image;
    struct manifest *manifest; /* from the draft; gets digests and checksums */
    uint64_t *digest_ns;       /* gets the time that digests took, part of the whole */
    uint64_t bytes_per_s;
    bool (*stop)(void *ctx); /* asked before each block */
    void *ctx;
};

/* Writes rank-NNNNN.safetensors.  `io` says how, and why not faster.  An fsync that fails is not tried again: the image is
 * written once more into a new file; when that fails as well, so does the save.
 */
int store_image(const struct store_image *store, char *io, size_t io_room, struct err *err);

#endif
