/* stream.c - files, memory, parts of other streams; gzip and zstd on top of any of them.
 *
 * FIFOs, devices and sockets are refused before they are opened for reading: the directory of a dead job may contain
 * anything, and no file may block the reader.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/source/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/clean.h"

#define STREAM_INPUT ((size_t)256 << 10) /* packed bytes at a time */

enum stream_kind {
    STREAM_FD,
    STREAM_MEMORY,
    STREAM_PART,
    STREAM_GZIP,
    STREAM_ZSTD,
};

struct stream {
    uint8_t kind;
    bool owns_below, ended;
    int fd;
    const char *memory;
    size_t memory_left;
    uint64_t part_left;
    struct stream *below;
    z_stream gzip;
    ZSTD_DStream *zstd;
    size_t zstd_hint; /* 0: at the end of a frame */
    unsigned char *input;
    size_t input_at, input_size;
    uint64_t passed; /* without what is still in `head` */
    unsigned char head[STREAM_HEAD];
    size_t head_at, head_size;
};

static struct stream *stream_create(enum stream_kind kind)
{
    struct stream *stream = calloc(1, sizeof(*stream));

    if (stream) {
        stream->kind = (uint8_t)kind;
        stream->fd = -1;
    }
    return stream;
}

static void stream_close(struct stream *stream)
{
    if (!stream)
        return;
    if (stream->kind == STREAM_GZIP)
        inflateEnd(&stream->gzip);
    ZSTD_freeDStream(stream->zstd);
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->owns_below)
        stream_close(stream->below);
    free(stream->input);
    free(stream);
}

void stream_clean(struct stream **stream)
{
    stream_close(*stream);
}

int stream_open_fd(int fd, struct stream **ret, struct err *err)
{
    struct stream *stream = stream_create(STREAM_FD);

    if (!stream) {
        close(fd);
        return err_nomem(err);
    }
    stream->fd = fd;
    *ret = stream;
    return 0;
}

int stream_open(const char *path, struct stream **ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!S_ISREG(stat.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", path);
    if (fcntl(fd, F_SETFL, 0) < 0)
        return err_set(err, -errno, "%s: %m", path);
    return stream_open_fd(TAKE_FD(fd), ret, err);
}

int stream_open_memory(const void *data, size_t bytes, struct stream **ret)
{
    struct stream *stream = stream_create(STREAM_MEMORY);

    if (!stream)
        return -ENOMEM;
    stream->memory = data;
    stream->memory_left = bytes;
    *ret = stream;
    return 0;
}

int stream_open_joined(const void *data, size_t bytes, struct stream *rest, struct stream **ret)
{
    int result = stream_open_memory(data, bytes, ret);

    if (result == 0)
        (*ret)->below = rest;
    return result;
}

int stream_open_part(struct stream *below, uint64_t bytes, struct stream **ret)
{
    struct stream *stream = stream_create(STREAM_PART);

    if (!stream)
        return -ENOMEM;
    stream->below = below;
    stream->part_left = bytes;
    *ret = stream;
    return 0;
}

static ssize_t fd_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    ssize_t got;

    do
        got = read(stream->fd, out, room);
    while (got < 0 && errno == EINTR);
    return got < 0 ? err_set(err, -errno, "%m") : got;
}

static ssize_t memory_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    size_t bytes = MIN(room, stream->memory_left);

    if (!bytes && stream->below)
        return stream_read(stream->below, out, room, err);
    if (bytes)
        memcpy(out, stream->memory, bytes);
    stream->memory += bytes;
    stream->memory_left -= bytes;
    return (ssize_t)bytes;
}

static ssize_t part_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    ssize_t got = 0;

    if (stream->part_left)
        got = stream_read(stream->below, out, (size_t)MIN(room, stream->part_left), err);
    if (got == 0 && stream->part_left)
        return err_set(err, -EPROTO, "the archive ends early");
    if (got > 0)
        stream->part_left -= (uint64_t)got;
    return got;
}

/* More packed bytes; 0: there are none. */
static ssize_t stream_input_fill(struct stream *stream, struct err *err)
{
    ssize_t got = stream_read(stream->below, stream->input, STREAM_INPUT, err);

    stream->input_at = 0;
    stream->input_size = got > 0 ? (size_t)got : 0;
    return got;
}

/* One gzip after the other, as `cat a.gz b.gz` and pigz leave them; zeros behind the last are padding. */
static bool stream_gzip_goes_on(struct stream *stream, struct err *err)
{
    while (stream->input_at == stream->input_size || !stream->input[stream->input_at]) {
        if (stream->input_at < stream->input_size)
            stream->input_at++;
        else if (stream_input_fill(stream, err) <= 0)
            return false;
    }
    return stream->input[stream->input_at] == 0x1f && inflateReset(&stream->gzip) == Z_OK;
}

static ssize_t gzip_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    z_stream *gzip = &stream->gzip;

    gzip->next_out = out;
    gzip->avail_out = (unsigned)MIN(room, (size_t)1 << 30);
    while (gzip->next_out == out && !stream->ended) {
        int code;

        if (stream->input_at == stream->input_size) {
            ssize_t got = stream_input_fill(stream, err);

            if (got <= 0)
                return got < 0 ? got
                               : err_set(err, -EPROTO, "gzip ends early, after %llu bytes",
                                         (unsigned long long)stream->passed);
        }
        gzip->next_in = stream->input + stream->input_at;
        gzip->avail_in = (unsigned)(stream->input_size - stream->input_at);
        code = inflate(gzip, Z_NO_FLUSH);
        stream->input_at = stream->input_size - gzip->avail_in;
        if (code == Z_STREAM_END)
            stream->ended = !stream_gzip_goes_on(stream, err);
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return err_set(err, -EPROTO, "damaged gzip after %llu bytes: %s",
                           (unsigned long long)stream->passed, gzip->msg ? gzip->msg : "not valid");
    }
    return (ssize_t)(gzip->next_out - (unsigned char *)out);
}

static ssize_t zstd_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    ZSTD_outBuffer unpacked = { .dst = out, .size = room };

    while (!unpacked.pos) {
        ZSTD_inBuffer packed = { stream->input, stream->input_size, stream->input_at };

        if (packed.pos == packed.size) {
            ssize_t got = stream_input_fill(stream, err);

            if (got < 0 || (got == 0 && !stream->zstd_hint))
                return got;
            if (got == 0)
                return err_set(err, -EPROTO, "zstd ends early, after %llu bytes",
                               (unsigned long long)stream->passed);
            continue;
        }
        stream->zstd_hint = ZSTD_decompressStream(stream->zstd, &unpacked, &packed);
        stream->input_at = packed.pos;
        if (ZSTD_isError(stream->zstd_hint))
            return err_set(err, -EPROTO, "damaged zstd after %llu bytes: %s",
                           (unsigned long long)stream->passed,
                           ZSTD_getErrorName(stream->zstd_hint));
    }
    return (ssize_t)unpacked.pos;
}

static ssize_t stream_pull(struct stream *stream, void *out, size_t room, struct err *err)
{
    ssize_t got;

    switch (stream->kind) {
    case STREAM_FD:
        return fd_read(stream, out, room, err);
    case STREAM_MEMORY:
        return memory_read(stream, out, room, err);
    case STREAM_PART:
        return part_read(stream, out, room, err);
    case STREAM_GZIP:
        got = gzip_read(stream, out, room, err);
        break;
    default:
        got = zstd_read(stream, out, room, err);
        break;
    }
    if (got > 0 && stream->passed + (uint64_t)got > STREAM_FREE &&
        stream->passed / STREAM_RATIO > stream_passed(stream->below))
        return err_set(err, -EFBIG, "it unpacks to more than %llu MiB, over %d times its size",
                       (unsigned long long)(STREAM_FREE >> 20), STREAM_RATIO);
    return got;
}

ssize_t stream_read(struct stream *stream, void *out, size_t room, struct err *err)
{
    ssize_t got;

    if (stream->head_at < stream->head_size) {
        size_t bytes = MIN(room, stream->head_size - stream->head_at);

        memcpy(out, stream->head + stream->head_at, bytes);
        stream->head_at += bytes;
        stream->passed += bytes;
        return (ssize_t)bytes;
    }
    got = stream_pull(stream, out, room, err);
    if (got > 0)
        stream->passed += (uint64_t)got;
    return got;
}

ssize_t stream_peek(struct stream *stream, const unsigned char **ret, struct err *err)
{
    while (!stream->passed && stream->head_size < STREAM_HEAD) {
        ssize_t got = stream_pull(stream, stream->head + stream->head_size,
                                  STREAM_HEAD - stream->head_size, err);

        if (got < 0)
            return got;
        if (got == 0)
            break;
        stream->head_size += (size_t)got;
    }
    *ret = stream->head + stream->head_at;
    return (ssize_t)(stream->head_size - stream->head_at);
}

uint64_t stream_passed(const struct stream *stream)
{
    return stream->passed;
}

int stream_skip(struct stream *stream, uint64_t bytes, struct err *err)
{
    char waste[16384];

    while (bytes) {
        ssize_t got = stream_read(stream, waste, (size_t)MIN(bytes, sizeof(waste)), err);

        if (got <= 0)
            return got < 0 ? (int)got : err_set(err, -EPROTO, "the archive ends early");
        bytes -= (uint64_t)got;
    }
    return 0;
}

static int stream_on_top(struct stream **stream, enum stream_kind kind, struct err *err)
{
    struct stream *top = stream_create(kind);

    if (!top)
        return err_nomem(err);
    top->input = malloc(STREAM_INPUT);
    if (kind == STREAM_ZSTD)
        top->zstd = ZSTD_createDStream();
    if (!top->input || (kind == STREAM_ZSTD && !top->zstd) ||
        (kind == STREAM_GZIP && inflateInit2(&top->gzip, 15 + 16) != Z_OK)) {
        top->kind = STREAM_MEMORY; /* nothing of zlib to let go */
        stream_close(top);
        return err_nomem(err);
    }
    top->below = *stream;
    top->owns_below = true;
    top->zstd_hint = 1;
    *stream = top;
    return 1;
}

int stream_unpack(struct stream **stream, struct err *err)
{
    static const unsigned char gzip[] = { 0x1f, 0x8b, 8 }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
    const unsigned char *head;
    ssize_t bytes = stream_peek(*stream, &head, err);

    if (bytes < 0)
        return (int)bytes;
    if (bytes >= 3 && memcmp(head, gzip, 3) == 0)
        return stream_on_top(stream, STREAM_GZIP, err);
    if (bytes >= 4 && memcmp(head, zstd, 4) == 0)
        return stream_on_top(stream, STREAM_ZSTD, err);
    return 0;
}
