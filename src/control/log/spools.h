/* spools.h - all spools of a run as one stream of frames.
 *
 * Of the available frames the earliest comes first (by the clock of its node, converted to real time with the hello
 * of its spool); frames of one spool keep their order.  A frame that was marked as seen is skipped.  Memory is one
 * read buffer per spool.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_SPOOLS_H
#define LOCKSTEP_CONTROL_LOG_SPOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/log/seen.h"
#include "core/err.h"
#include "wire/frame.h"

struct spools;

/* `seen`: what is in the log already, shared with whoever else writes the log; NULL: its own. */
int spools_create(const char *directory, struct seen *seen, struct spools **ret);
void spools_destroy(struct spools *spools); /* NULL is fine */

/* Frames of this sender and boot up to this number are in the log already.  -ENOMEM. */
int spools_mark(struct spools *spools, const struct frame *frame);

/* Looks for new files, and at grown ones again.  A directory that is not there has no files.
 * A file that cannot be read is complained of once, and tried again.
 */
int spools_scan(struct spools *spools, struct err *err);

/* 1 with *ret set (valid until it is taken), 0 when nothing is left of the last scan.  `real_ns`,
 * if not NULL, gets when it happened; 0 while nothing in its spool has said so.
 */
int spools_peek(struct spools *spools, struct frame *ret, int64_t *real_ns);
int spools_take(struct spools *spools); /* marks the frame that was peeked at.  -ENOMEM */

struct spools_counts {
    uint64_t files, frames, doubled, foreign; /* foreign: frames in the controller's name */
    uint64_t damaged_bytes;
};
void spools_counts(const struct spools *spools, struct spools_counts *ret);

/* Real minus monotonic time from the first hello; 0: none was read yet. */
int64_t spools_clock_offset(const struct spools *spools);

#define CONTROL_SENDER "control" /* the log's own frames */
uint64_t control_sender(void);
/* Frames that the controller copied from the site's log into a run's: only these are evidence from root's side. */
#define SITE_SENDER "site"
uint64_t site_sender(void);
/* That a launcher and its ranks have ended, as the controller saw it: nobody else can say that. */
#define LIFE_SENDER "life"
uint64_t life_sender(void);
/* A frame that only a controller writes: of others it is not taken. */
bool frame_is_controllers(const struct frame *frame);

#endif
