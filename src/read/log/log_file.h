/* log_file.h - the machine that reads one log after the other: bytes, lines, tracebacks and tables.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_FILE_H
#define LOCKSTEP_READ_LOG_LOG_FILE_H

#include "read/log/log_reader.h"
#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"
#include "read/log/traceback.h"

struct log_engine;

int log_engine_create(struct log_engine **ret); /* -ENOMEM */
void log_engine_destroy(struct log_engine *file);
void log_file_begin(struct log_engine *file, struct log_reader *reader,
                    const struct log_source *source);
char *log_file_room(struct log_engine *file, size_t *room); /* where the next bytes go */
int log_file_came(struct log_engine *file, size_t bytes);   /* so many were put there */
int log_file_end(struct log_engine *file);

/* As it stands in events: the end of a long name says more than its beginning. */
void log_file_name(const char *name, char *out, size_t room);

/* log_decode.c */
bool log_is_utf16(const void *head, size_t bytes);
/* To UTF-8; returns the bytes written, at most 3/2 of `bytes`.  An odd byte at the end is left out. */
size_t log_from_utf16(const unsigned char *from, size_t bytes, bool big_endian, char *to);
size_t log_strip_colours(char *text, size_t bytes); /* in place; the new size */

/* log_keep.c: of events that mean the same, the first and the last of a file. */
struct log_keep;
enum log_keep_other { /* what no row of the table stands for, behind the rows */
    LOG_KEEP_EXCEPTION,
    LOG_KEEP_ROOT,
    LOG_KEEP_EXIT,
    LOG_KEEP_WENT_ON,
    LOG_KEEP_PASSED,
    LOG_KEEP_TAIL,
    LOG_KEEP_KERNEL, /* by kind of event */
    LOG_KEEP_OTHERS = LOG_KEEP_KERNEL + 8,
};
int log_keep_create(uint32_t rows, struct log_keep **ret);
void log_keep_destroy(struct log_keep *keep);
/* `half`: how many of the first, and of the last.  -ENOMEM. */
int log_keep_event(struct log_keep *keep, struct log_reader *reader, uint32_t pattern,
                   const struct log_event *event, size_t half);
int log_keep_end(struct log_keep *keep, struct log_reader *reader); /* and begins again */

#endif
