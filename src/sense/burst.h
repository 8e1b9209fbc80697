/* burst.h - events of the kernel log merged into findings.
 *
 * Events of one device that follow each other within three minutes are one finding, the root first: 48, then 63, 94 and
 * 154 is one double-bit error.  Repeats are counted, so a storm of equal lines is one finding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_BURST_H
#define LOCKSTEP_SENSE_BURST_H

#include "wire/finding.h"
#include "wire/kernel/kernel_line.h"

struct bursts;

struct burst_line { /* one event, and where it stands */
    const struct kernel_event *event;
    const char *raw;
    size_t raw_bytes;
    int64_t mono_ns, real_ns, error_ns; /* 0: not known */
    uint32_t line;
};

int bursts_create(struct bursts **ret); /* -ENOMEM */
void bursts_destroy(struct bursts *bursts);
void bursts_add(struct bursts *bursts, const struct burst_line *line);

/* The next finding that is new, or has changed, since it was taken last; false: none.  Findings come in the order of their
 * first lines.
 */
bool bursts_take(struct bursts *bursts, struct finding *ret, uint32_t *line);

#endif
