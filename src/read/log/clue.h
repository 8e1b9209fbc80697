/* clue.h - how much a line tells about a failure, by words that any program uses.
 *
 * The table of meanings knows the messages of known programs.  This is for the others: an exception anywhere in a line, a
 * signal, an exit status, a NaN, a collective that timed out, and the words for failure.  It is too slow for whole logs and
 * too easily wrong: only the end of a log is read with it, and only where no row of the table knows a line.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_CLUE_H
#define LOCKSTEP_READ_LOG_CLUE_H

#include "read/log/line.h"
#include "wire/log_event.h"

enum clue { /* in the order of what tells more */
    CLUE_NOTHING,
    CLUE_FOLLOW, /* a follow-on error: that something failed, and not what */
    CLUE_HINT,   /* something is not as it should be: "cannot", "exceeded" */
    CLUE_STATUS, /* an exit status: that it failed, and hardly why */
    CLUE_ERROR,  /* it failed: "failed", "error", or the level of the line */
    CLUE_NAMED,  /* what failed is named: an exception, a signal, a NaN */
};

/* Fills in kind, layer, confidence, value and cause of `event`, and its text where only a part of the line matters. */
enum clue clue_line(const struct log_line *line, struct log_event *event);

#endif
