/* traceback.h - follows Python's tracebacks from their first line to the exception, also where ranks write at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_TRACEBACK_H
#define LOCKSTEP_READ_LOG_TRACEBACK_H

#include "read/log/line.h"

#define TRACEBACKS 32 /* at a time, of different ranks */

struct traceback {
    uint64_t who;        /* rank and process of its lines */
    uint32_t lines_left; /* until it is given up; 0: not in use */
    uint32_t indent;     /* blanks before its first line */
    bool open;           /* its exception has not come */
    bool cleanup;        /* of a finalizer, a destructor or the exit of the program */
    bool checkpoint;     /* a frame saves or loads a checkpoint */
    bool pipe;           /* a frame reads what another process of the program sends */
    bool chained;        /* another exception came before, and was the cause of this one */
    uint8_t first;       /* what that one was: enum log_event_kind */
    bool first_generic;  /* and no row of the table knew it */
    bool
        headless; /* its first line is missing: only what is called an error or exception ends it */
};

struct tracebacks {
    struct traceback list[TRACEBACKS];
    unsigned watching; /* how many are in use */
};

enum traceback_line {
    TRACEBACK_NONE,      /* not of a traceback */
    TRACEBACK_INSIDE,    /* of one, but not its end */
    TRACEBACK_EXCEPTION, /* its end */
};

/* What this line is; `ret`, the traceback that it belongs to, or NULL. */
enum traceback_line traceback_line(struct tracebacks *tracebacks, const struct log_line *line,
                                   struct traceback **ret);
/* Bytes of the name if the text begins with one and a colon, or is one alone, as exceptions are printed; 0: no. */
size_t exception_name(const char *text, const char *end, bool any_name);

#endif
