/* seen.h - which frames have arrived: by sender and boot, up to which number.
 *
 * Numbers continue across boots of a sender.  A machine that crashed may have lost the end of a spool and reuse its
 * numbers, so the boot is part of the key.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_SEEN_H
#define LOCKSTEP_CONTROL_LOG_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/map.h"
#include "wire/frame.h"

struct seen {
    struct map map; /* sender and boot → its place */
    struct seen_origin {
        uint64_t sender, boot;
        uint64_t next; /* the highest number + 1 */
    } * origin;
    size_t count, room;
};

void seen_fini(struct seen *seen);
size_t seen_bytes(const struct seen *seen);                                     /* of memory */
int seen_mark(struct seen *seen, const struct frame *frame);                    /* -ENOMEM */
int seen_set(struct seen *seen, uint64_t sender, uint64_t boot, uint64_t next); /* -ENOMEM */
bool seen_has(const struct seen *seen, const struct frame *frame);
uint64_t seen_next(const struct seen *seen, uint64_t sender, uint64_t boot);

#endif
