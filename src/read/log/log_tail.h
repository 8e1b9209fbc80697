/* log_tail.h - the end of a log, for messages that no row of the table knows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_TAIL_H
#define LOCKSTEP_READ_LOG_LOG_TAIL_H

#include "read/log/line.h"
#include "wire/log_event.h"

#define LOG_TAIL_BYTES 8192

struct log_tail {
    char text[LOG_TAIL_BYTES]; /* the newest bytes */
    size_t used;
};

enum log_tail_known { /* is the meaning of a line known, so that it is not the one that is searched for? */
    LOG_TAIL_UNKNOWN,
    LOG_TAIL_KNOWN,
    LOG_TAIL_FOLLOWS, /* a follow-on error: the last resort */
};

struct log_tail_rules {
    int64_t near_real_ns; /* of dates without a year */
    bool failed;          /* the log shows that the job failed: hints count as well */
    enum log_tail_known (*known)(const void *user, const struct log_line *line);
    const void *user;
};

void log_tail_begin(struct log_tail *tail);
void log_tail_add(struct log_tail *tail, const char *text, size_t bytes);
/* Of the last `count` lines, those that a program writes while it is at work. */
uint32_t log_tail_ordinary(const struct log_tail *tail, const struct log_tail_rules *rules,
                           uint32_t count);
/* The most telling of the last lines, and of those the first, after which the program did not go on; `line` points into the
 * tail.  `event`: what it tells; a mention, if the program went on with its work.  `behind`: how many lines follow it.  False:
 * there is none.
 */
bool log_tail_error(const struct log_tail *tail, const struct log_tail_rules *rules,
                    struct log_line *line, struct log_event *event, uint32_t *behind);

#endif
