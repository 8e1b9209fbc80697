/* sink.h - the launcher's own stdout or stderr, which must never make it wait.
 *
 * Lines, or pieces of them, go into a bounded queue; what does not fit is dropped and counted, and a line
 * says how many once there is room again.  A reader that has gone away is not an error.
 *
 * Of a line that was begun it is known whose it is: the same writer goes on with it, and for another one it is
 * broken off, so that no two ever share a line.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_SINK_H
#define LOCKSTEP_ACT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_BYTES (4u << 20)

struct sink {
    int fd;      /* ours: written to without waiting */
    int kind;    /* private */
    bool closed; /* nobody reads it any more */
    char *queue;
    size_t head, size;        /* queue[head … size) is still to be written */
    uint64_t dropped;         /* lines since the last time we said so */
    uint64_t notice, noticed; /* notices that wait in the queue, and the lines that they count */
    const char *hint;         /* where everything is, for that line */
    const void *begun;        /* whose unfinished line is the last; NULL: none is unfinished */
    bool returned;            /* that line's next piece begins where it began */
};

/* `fd` stays the caller's, and its flags as they are: others share them. */
int sink_open(struct sink *sink, int fd, const char *hint);
void sink_close(struct sink *sink);

struct sink_piece {
    const void *who; /* who may go on with it; NULL: nobody */
    const char *prefix;
    const char *text; /* without what ends it */
    size_t length;
    char end; /* '\n'; '\r': the next piece takes its place; 0: it goes on later */
};

/* The piece, with its prefix where a line begins or begins anew: all of it or nothing. */
void sink_put(struct sink *sink, const struct sink_piece *piece);
void sink_break(struct sink *sink);       /* ends a line that was begun, whosever it is */
bool sink_waits(const struct sink *sink); /* poll its fd for writing, then sink_write() */
void sink_write(struct sink *sink);
/* Waits for a slow reader, but not longer than `patience_ns` without progress.  Lines that
 * could not be written.
 */
uint64_t sink_flush(struct sink *sink, int64_t patience_ns);

#endif
