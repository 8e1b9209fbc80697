/* log_tail.h - the end of a log, for messages that no row of the table knows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_TAIL_H
#define LOCKSTEP_READ_LOG_LOG_TAIL_H

#include "read/log/line.h"

#define LOG_TAIL_BYTES 8192

struct log_tail {
    char text[LOG_TAIL_BYTES]; /* the newest bytes */
    size_t used;
};

void log_tail_begin(struct log_tail *tail);
void log_tail_add(struct log_tail *tail, const char *text, size_t bytes);
/* The first of the last lines that its program calls an error and after which it did not go on; `line` points into the tail.
 * `behind`: how many lines follow it.  False: there is none.
 */
bool log_tail_error(const struct log_tail *tail, int64_t near_real_ns, struct log_line *line,
                    uint32_t *behind);

#endif
