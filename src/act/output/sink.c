/* sink.c - the launcher's own stdout or stderr, which must never make it wait.
 *
 * O_NONBLOCK belongs to the open file, which we share with the shell and everybody else in the
 * pipeline; so we open a pipe or a terminal again through /proc and set it there only.  A socket
 * cannot be opened again but knows MSG_DONTWAIT; a plain file never waits.  When a pipe may not be opened
 * again (it belongs to another user), writes of a page after poll() do not wait either.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/output/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

enum sink_kind {
    SINK_FILE,
    SINK_SOCKET,
    SINK_OWN,
    SINK_SHARED
};

static int sink_reopen(struct sink *sink, int fd)
{
    char path[64];
    struct stat info;

    if (fstat(fd, &info) < 0)
        return -errno; /* stdout was closed before we began */
    sink->kind = SINK_SHARED;
    if (S_ISREG(info.st_mode)) {
        sink->kind = SINK_FILE;
    } else if (S_ISSOCK(info.st_mode)) {
        sink->kind = SINK_SOCKET;
    } else {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        sink->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (sink->fd >= 0)
            sink->kind = SINK_OWN;
        else if (errno == ENXIO) /* a pipe that nobody reads */
            return -EPIPE;
    }
    if (sink->fd < 0)
        sink->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return sink->fd < 0 ? -errno : 0;
}

int sink_open(struct sink *sink, int fd, const char *hint)
{
    *sink = (struct sink){ .fd = -1, .hint = hint };
    sink->queue = malloc(SINK_BYTES);
    if (!sink->queue)
        return -ENOMEM;
    sink->closed = sink_reopen(sink, fd) < 0;
    return 0;
}

void sink_close(struct sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    free(sink->queue);
    *sink = (struct sink){ .fd = -1, .closed = true };
}

bool sink_waits(const struct sink *sink)
{
    return !sink->closed && sink->head < sink->size;
}

static ssize_t sink_write_some(struct sink *sink)
{
    const char *at = sink->queue + sink->head;
    size_t size = sink->size - sink->head;
    struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };

    switch (sink->kind) {
    case SINK_SOCKET:
        return send(sink->fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case SINK_SHARED:
        if (poll(&ready, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        return write(sink->fd, at, MIN(size, (size_t)512));
    default:
        return write(sink->fd, at, size);
    }
}

/* Lines, or parts of them, that are still to be written. */
static uint64_t sink_lines(const struct sink *sink)
{
    uint64_t lines = 0;

    for (size_t i = sink->head; i < sink->size; i++)
        lines += sink->queue[i] == '\n';
    return lines + (sink->size > sink->head && sink->queue[sink->size - 1] != '\n');
}

/* All that waits is lost: as many lines as are in it, and those that an earlier notice, which is lost with them, counted. */
static void sink_lose(struct sink *sink)
{
    sink->dropped += sink_lines(sink) - sink->notice + sink->noticed;
    sink->head = sink->size;
}

void sink_write(struct sink *sink)
{
    while (sink_waits(sink)) {
        ssize_t put = sink_write_some(sink);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0 && sink->kind == SINK_FILE && errno != EBADF) {
            sink_lose(sink); /* a full disk may have room again */
        } else if (put < 0) {
            sink->closed = true;
        } else {
            sink->head += (size_t)put;
        }
    }
    if (sink->head == sink->size) {
        sink->head = sink->size = 0;
        sink->notice = sink->noticed = 0;
    }
}

/* False: there is no room for `size` bytes. */
static bool sink_room(struct sink *sink, size_t size)
{
    if (sink->size + size <= SINK_BYTES)
        return true;
    if (sink->size - sink->head + size > SINK_BYTES || sink->head < SINK_BYTES / 4)
        return false; /* moving four bytes to make room for one would be dear */
    memmove(sink->queue, sink->queue + sink->head, sink->size - sink->head);
    sink->size -= sink->head;
    sink->head = 0;
    return true;
}

static void sink_append(struct sink *sink, const char *text, size_t size)
{
    memcpy(sink->queue + sink->size, text, size);
    sink->size += size;
}

void sink_break(struct sink *sink)
{
    if (!sink->begun || sink->closed || !sink_room(sink, 1))
        return;
    sink_append(sink, "\n", 1);
    sink->begun = NULL;
}

static bool sink_put_dropped(struct sink *sink)
{
    char text[PATH_MAX + 128];
    int length;

    /* Say it when the reader keeps up again, not at every line that slips in. */
    if (sink->size - sink->head > SINK_BYTES / 2)
        return false;
    length = snprintf(text, sizeof(text),
                      "lockstep run: %llu lines are not shown here: slow reader or full disk%s%s\n",
                      (unsigned long long)sink->dropped, sink->hint[0] ? "; all are in " : "",
                      sink->hint);
    if (length < 0 || !sink_room(sink, (size_t)length + 1))
        return false;
    sink_break(sink);
    sink_append(sink, text, MIN((size_t)length, sizeof(text) - 1));
    sink->notice++;
    sink->noticed += sink->dropped;
    sink->dropped = 0;
    return true;
}

/* What comes before the text: an end of another's line, the way back to the beginning of one's own, the
 * prefix.  A return is held back until the line goes on: when it does not, a newline takes its place, and
 * what stood there stays.
 */
static const char *sink_lead(const struct sink *sink, const struct sink_piece *piece,
                             const char **ret_prefix)
{
    bool mine = sink->begun && sink->begun == piece->who;

    *ret_prefix = mine && (!sink->returned || !piece->length) ? "" : piece->prefix;
    if (mine)
        return sink->returned ? "\r" : "";
    return sink->begun ? "\n" : "";
}

static void sink_append_end(struct sink *sink, const struct sink_piece *piece)
{
    bool hold = piece->end == '\r' && piece->prefix[0];

    if (piece->end && !hold)
        sink_append(sink, &piece->end, 1);
    sink->begun = piece->end == '\n' ? NULL : piece->who;
    sink->returned = hold;
}

/* Without a prefix there is nothing to put in front, and every byte is passed on as it is.  With one, a
 * return where nothing stands would only show the prefix alone.
 */
static bool sink_piece_empty(const struct sink *sink, const struct sink_piece *piece)
{
    if (piece->length || piece->end == '\n')
        return false;
    return !piece->end || (piece->prefix[0] && (sink->begun != piece->who || sink->returned));
}

void sink_put(struct sink *sink, const struct sink_piece *piece)
{
    const char *prefix, *lead;

    if (sink->closed || sink_piece_empty(sink, piece))
        return;
    if ((sink->dropped && !sink_put_dropped(sink)) ||
        !sink_room(sink, strlen(piece->prefix) + piece->length + 2)) {
        sink->dropped++;
        if (sink->begun == piece->who)
            sink->begun = sink->begun ? sink : NULL; /* a gap: nobody goes on with this line */
        return;
    }
    lead = sink_lead(sink, piece, &prefix);
    sink_append(sink, lead, strlen(lead));
    sink_append(sink, prefix, strlen(prefix));
    sink_append(sink, piece->text, piece->length);
    sink_append_end(sink, piece);
}

uint64_t sink_flush(struct sink *sink, int64_t patience_ns)
{
    struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };
    bool noted = false;

    for (;;) {
        sink_write(sink);
        if (!sink_waits(sink) && sink->dropped && !sink->closed && !noted)
            noted = sink_put_dropped(sink); /* once: a full disk does not take it either */
        if (!sink_waits(sink) || poll(&ready, 1, (int)(patience_ns / NS_PER_MS)) == 0)
            break;
    }
    return sink->closed ? 0 : sink->dropped + sink_lines(sink);
}
