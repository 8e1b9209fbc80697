/* log_watch.h - what the ordinary lines of a log show: which ranks write to it, and whether the program goes on after an error.
 *
 * Ordinary lines are most of a log, so only some are looked at: the first ones for ranks, and those behind an error until
 * steps have been counted on or the log ends.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_WATCH_H
#define LOCKSTEP_READ_LOG_LOG_WATCH_H

#include "read/log/line.h"

#define LOG_WATCH_RANKS 4096 /* ranks that are told apart */

struct log_watch {
    uint32_t lines, labelled;            /* of the first ones; those with a rank */
    bool local;                          /* some have a rank that counts on its node */
    uint8_t writes[LOG_WATCH_RANKS / 8]; /* bits: ranks that wrote a line */
    uint32_t lines_left;                 /* that are looked at for steps */
    bool after_error;                    /* steps are counted */
    uint32_t steps;                      /* how often the number rose */
    bool at_work;                        /* the newest line counts a step, and is no progress bar */
    bool failed;                         /* a line behind the error follows from a failure */
    int64_t newest;                      /* the number, in ten-thousandths */
};

void log_watch_begin(struct log_watch *watch);
bool log_watch_wants_ranks(const struct log_watch *watch);
void log_watch_rank(struct log_watch *watch, const struct log_line *line);
/* Does every line have a rank, so that these are ranks and not numbers of something else? */
bool log_watch_is_labelled(const struct log_watch *watch);
bool log_watch_writes(const struct log_watch *watch, uint32_t rank);

void log_watch_error(struct log_watch *watch); /* counts from here */
/* True: with this line, steps have been counted on often enough to know that the program goes on. */
bool log_watch_step(struct log_watch *watch, const char *line, const char *end);
bool log_watch_is_near(const struct log_watch *watch); /* one of the first lines behind the error */
/* At the end of the log: did the program certainly go on behind the last error?  Only where one rank writes, since others
 * may finish their step.
 */
bool log_watch_went_on(const struct log_watch *watch);
bool log_watch_is_step(const char *line, const char *end); /* does it count a step? */
/* Which one, in ten-thousandths. */
bool log_watch_step_of(const char *line, const char *end, int64_t *ret);

#endif
