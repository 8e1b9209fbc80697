/* sink.h - the launcher's own stdout or stderr, which must never make it wait.
 *
 * Whole lines go into a bounded queue; what does not fit is dropped and counted, and a line
 * says how many once there is room again.  A reader that has gone away is not an error.
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
    size_t head, size; /* queue[head … size) is still to be written */
    uint64_t dropped;  /* lines since the last time we said so */
    const char *hint;  /* where everything is, for that line */
};

/* `fd` stays the caller's, and its flags as they are: others share them. */
int sink_open(struct sink *sink, int fd, const char *hint);
void sink_close(struct sink *sink);

/* Prefix, line (without newline) and a newline: all of it or nothing. */
void sink_put(struct sink *sink, const char *prefix, const char *line, size_t length);
bool sink_waits(const struct sink *sink); /* poll its fd for writing, then sink_write() */
void sink_write(struct sink *sink);
/* Waits for a slow reader, but not longer than `patience_ns` without progress.  Lines that
 * could not be written.
 */
uint64_t sink_flush(struct sink *sink, int64_t patience_ns);

#endif
