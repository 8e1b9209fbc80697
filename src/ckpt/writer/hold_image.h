/* hold_image.h - keeps the last image in memory for the trainer's next start.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_HOLD_IMAGE_H
#define LOCKSTEP_CKPT_WRITER_HOLD_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct hold_image {
    int dir_fd, arena_fd, signals;
    uint64_t offset, file_bytes, arena_bytes; /* of the image, of its file, of all images */
    uint64_t step, job;
    uint32_t rank, seconds;
    bool
        launched; /* by lockstep run: SIGTERM has told the end of the attempt, and tells the end of the run */
};

/* Returns when the time is over, at SIGTERM, or once the next start has removed the record.  The rest of the arena is given back at
 * once.  The caller must not have the arena mapped.
 */
void hold_image(const struct hold_image *hold);

#endif
