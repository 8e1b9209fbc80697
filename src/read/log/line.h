/* line.h - one line of a log, and what stands before its message: dates, ranks, nodes, processes.
 *
 * Schedulers, containers, launchers and loggers each put something in front, in any order.  line_read() takes off one
 * prefix after the other and keeps what they say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LINE_H
#define LOCKSTEP_READ_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_BYTES 8192 /* of longer ones the beginning counts */

enum line_level { /* how serious the program says that a line is */
    LINE_NO_LEVEL,
    LINE_INFO, /* or less */
    LINE_WARNING,
    LINE_ERROR, /* or more */
};

struct log_line {
    const char *raw, *text, *end; /* the line; its message */
    uint32_t rank;                /* LOG_EVENT_NO_RANK */
    bool local;                   /* it counts on its node only */
    uint32_t pid, number;
    uint8_t level;            /* enum line_level, as far as a prefix says */
    char node[64];            /* "" */
    int64_t real_ns, boot_ns; /* 0: not said */
};

/* `near_real_ns`: a date without a year is the one nearest to this. */
void line_read(struct log_line *line, const char *raw, const char *end, int64_t near_real_ns);

/* line_tone.c */
enum line_tone {
    LINE_PLAIN,
    LINE_REMARK,  /* a Python warning: "UserWarning: " */
    LINE_WARNED,  /* by its level no error; it may still be the reason for one */
    LINE_HANDLED, /* the program says that it goes on */
};
enum line_tone line_tone(const struct log_line *line);
/* Does the line only speak of an error: a test that passed, advice, a help text, a setting, "no ..."?  `found`: where the
 * words of the error begin, NULL.
 */
bool line_mentions(const struct log_line *line, const char *found);
/* NCCL goes on after most of its warnings: then it informs of more than the status that its functions returned. */
bool line_nccl_goes_on(const struct log_line *line);
bool line_is_code(const struct log_line
                      *line); /* source code or a frame, which names errors without having one */

bool line_number(const char *at, const char *end,
                 int64_t *ret); /* digits after blanks, colons or '=', perhaps a minus */
const char *line_find(const struct log_line *line, const char *words); /* NULL: not in the line */
/* The number behind `words`, else `otherwise`. */
int64_t line_number_after(const struct log_line *line, const char *words, int64_t otherwise);

#endif
