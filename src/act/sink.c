/* sink.c - the launcher's own stdout or stderr, which must never make it wait.
 *
 * O_NONBLOCK belongs to the open file, which we share with the shell and everybody else in the
 * pipeline; so we open a pipe or a terminal anew through /proc and set it there only.  A socket
 * cannot be opened anew but knows MSG_DONTWAIT; a plain file never waits.  When a pipe may not be opened
 * anew (it belongs to another user), writes of a page after poll() do not wait either.
 */
#include "act/sink.h"

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

void sink_write(struct sink *sink)
{
    while (sink_waits(sink)) {
        ssize_t put = sink_write_some(sink);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0 && sink->kind == SINK_FILE && errno != EBADF) {
            sink->dropped++; /* a full disk may have room again; the line in hand is lost */
            sink->head = sink->size;
        } else if (put < 0) {
            sink->closed = true;
        } else {
            sink->head += (size_t)put;
        }
    }
    if (sink->head == sink->size)
        sink->head = sink->size = 0;
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

static bool sink_put_dropped(struct sink *sink)
{
    char text[PATH_MAX + 128];
    int length;

    /* Say it when the reader keeps up again, not at every line that slips in. */
    if (sink->size - sink->head > SINK_BYTES / 2)
        return false;
    length = snprintf(text, sizeof(text),
                      "lockstep run: %llu lines are not shown here: slow reader; all are in %s\n",
                      (unsigned long long)sink->dropped, sink->hint);
    if (length < 0 || !sink_room(sink, (size_t)length))
        return false;
    sink_append(sink, text, MIN((size_t)length, sizeof(text) - 1));
    sink->dropped = 0;
    return true;
}

void sink_put(struct sink *sink, const char *prefix, const char *line, size_t length)
{
    size_t prefix_length = strlen(prefix);

    if (sink->closed)
        return;
    if ((sink->dropped && !sink_put_dropped(sink)) ||
        !sink_room(sink, prefix_length + length + 1)) {
        sink->dropped++;
        return;
    }
    sink_append(sink, prefix, prefix_length);
    sink_append(sink, line, length);
    sink_append(sink, "\n", 1);
}

static uint64_t sink_lines(const struct sink *sink)
{
    uint64_t lines = 0;

    for (size_t i = sink->head; i < sink->size; i++)
        lines += sink->queue[i] == '\n';
    return lines;
}

uint64_t sink_flush(struct sink *sink, int64_t patience_ns)
{
    struct pollfd ready = { .fd = sink->fd, .events = POLLOUT };

    for (;;) {
        sink_write(sink);
        if (!sink_waits(sink) && sink->dropped && !sink->closed)
            sink_put_dropped(sink);
        if (!sink_waits(sink) || poll(&ready, 1, (int)(patience_ns / NS_PER_MS)) == 0)
            break;
    }
    return sink->closed ? 0 : sink->dropped + sink_lines(sink);
}
