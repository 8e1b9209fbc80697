/* report_private.h - lines of a text; shared by the readers of reports.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_REPORT_REPORT_PRIVATE_H
#define LOCKSTEP_READ_REPORT_REPORT_PRIVATE_H

#include "read/report/report.h"

#define REPORT_LINE 512 /* more of a line is not looked at */

struct report_reader {
    const char *at, *end;
    char line[REPORT_LINE]; /* the one at hand, without blanks at its end */
    size_t blanks;          /* before its text */
    uint32_t number;
    struct reports *reports;
    struct budget *budget;
    const char *file;
    uint32_t rank; /* of the file's name */
};

bool report_next(struct report_reader *reader); /* false: the end */
/* The text of the line at hand. */
static inline const char *report_text(const struct report_reader *reader)
{
    return reader->line + reader->blanks;
}
int report_put(struct report_reader *reader,
               struct report report); /* file, line: set here; -ENOMEM */
/* "3", "0-3", "{3, 4}": each number, ranges spelled out; stops after `most`.  Returns how many. */
size_t report_numbers(const char *text, uint32_t *number, size_t most);

int report_ras(struct report_reader *reader);
int report_trace(struct report_reader *reader);
int report_stacks(struct report_reader *reader);
int report_device(struct report_reader *reader);

#endif
