/* progress_bar.h - how far long reading is, as one line on a terminal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_PROGRESS_BAR_H
#define LOCKSTEP_CMD_PROGRESS_BAR_H

#include <stdint.h>

struct progress_bar {
    char what[64];
    int64_t began_ns, shown_ns;
};

/* Prints at most ten times a second, and erases itself at the end.  `ctx` is a struct progress_bar. */
void progress_bar_show(void *ctx, uint64_t done_bytes, uint64_t bytes);
void progress_bar_end(struct progress_bar *bar); /* where the work ended early */

#endif
