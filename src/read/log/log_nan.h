/* log_nan.h - a value that is NaN in one step and a number again in a later one.
 *
 * Mixed precision skips the step of a gradient that is not finite, and goes on: a NaN that passed ended nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_NAN_H
#define LOCKSTEP_READ_LOG_LOG_NAN_H

#include "read/log/line.h"

struct log_nan {
    char name[32]; /* of the value; "": nothing is watched */
    int64_t step;  /* of the line, in ten-thousandths */
    uint32_t rank; /* of the line; LOG_EVENT_NO_RANK */
};

/* Begins with this line, if it shows the name of a value that is NaN and counts a step. */
void log_nan_begin(struct log_nan *nan, const struct log_line *line);
/* True: this line of a later step has a number for the value.  Nothing is watched any more then. */
bool log_nan_passed(struct log_nan *nan, const struct log_line *line);

#endif
