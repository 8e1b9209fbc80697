/* output.c - what ranks print: each line with its rank to the terminal, every byte to a file.
 *
 * Bytes go to the file as they come, whole lines or not: of a rank that hangs or is killed the last
 * words matter most.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/output/last_words.h"
#include "act/output/sink.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

#define OUTPUT_READ_BYTES 65536
#define OUTPUT_WORDS 8192 /* kept of a rank's stderr: a message, and the frames after it */
#define OUTPUT_PATIENCE_NS (2 * NS_PER_S)
#define OUTPUT_PAUSE_NS (100 * NS_PER_MS) /* nothing more came: show what there is of a line */
#define OUTPUT_HOLD_NS NS_PER_S /* something comes again and again: show it all the same */

struct output_stream {
    int fd; /* reading end; -1: closed */
    size_t size;
    int64_t first_ns, last_ns;  /* when the first and the last of them came */
    bool partly;                /* the beginning of this line was shown */
    char line[OUTPUT_LINE_MAX]; /* not ended, not shown yet */
};

struct talker { /* a rank, or the command */
    char prefix[32];
    int file;
    struct output_stream stream[2]; /* stdout, stderr */
    char words[OUTPUT_WORDS];       /* the last of stderr */
    size_t word_bytes;
};

struct output {
    char directory[PATH_MAX];
    struct sink sink[2];
    bool quiet, full_reported;
    bool shared;     /* both sinks are one terminal, pipe or file */
    uint64_t unkept; /* bytes that the files could not take */
    uint32_t count;
    struct talker *talker;
    char read[OUTPUT_READ_BYTES];
};

static void output_unkept(struct output *output, int why)
{
    if (!output->full_reported)
        output_message(output, "%s: %s; the files of the ranks' output are incomplete",
                       output->directory, strerror(why));
    output->full_reported = true;
}

static void talker_open(struct output *output, uint32_t ranks, uint32_t i, uint32_t first)
{
    struct talker *talker = &output->talker[i];
    char path[PATH_MAX + 32];

    if (ranks) {
        snprintf(talker->prefix, sizeof(talker->prefix), "[rank %u] ", first + i);
        snprintf(path, sizeof(path), "%s/rank-%u.log", output->directory, first + i);
    } else {
        snprintf(path, sizeof(path), "%s/command.log", output->directory);
    }
    if (output->directory[0])
        talker->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (output->directory[0] && talker->file < 0)
        output_unkept(output, errno);
}

static void output_free(struct output *output)
{
    if (!output)
        return;
    for (uint32_t i = 0; output->talker && i < output->count; i++) {
        fd_clean(&output->talker[i].file);
        fd_clean(&output->talker[i].stream[0].fd);
        fd_clean(&output->talker[i].stream[1].fd);
    }
    free(output->talker);
    sink_close(&output->sink[0]);
    sink_close(&output->sink[1]);
    free(output);
}

static void output_clean(struct output **output)
{
    output_free(*output);
}

/* A line that one of them left unfinished is in the other's way. */
static bool output_shares(void)
{
    struct stat out, error;

    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
           out.st_dev == error.st_dev && out.st_ino == error.st_ino;
}

int output_create(const char *directory, uint32_t ranks, bool quiet, struct output **ret,
                  struct err *err)
{
    CLEAN(output_clean) struct output *output = calloc(1, sizeof(*output));
    uint32_t count = MAX(ranks, 1u);

    if (!output)
        return err_nomem(err);
    output->sink[0].fd = output->sink[1].fd = -1;
    output->quiet = quiet;
    output->shared = output_shares();
    snprintf(output->directory, sizeof(output->directory), "%s", directory);
    output->talker = calloc(count, sizeof(*output->talker));
    if (!output->talker || sink_open(&output->sink[0], STDOUT_FILENO, output->directory) < 0 ||
        sink_open(&output->sink[1], STDERR_FILENO, output->directory) < 0)
        return err_nomem(err);
    for (; output->count < count; output->count++) {
        struct talker *talker = &output->talker[output->count];

        talker->file = talker->stream[0].fd = talker->stream[1].fd = -1;
        talker_open(output, ranks, output->count, 0);
    }
    *ret = TAKE(output);
    return 0;
}

void output_number(struct output *output, const char *directory, uint32_t first)
{
    snprintf(output->directory, sizeof(output->directory), "%s", directory);
    for (uint32_t i = 0; i < output->count; i++) {
        fd_clean(&output->talker[i].file);
        output->talker[i].file = -1;
        talker_open(output, output->count, i, first);
    }
}

void output_open(struct output *output, uint32_t rank, int ret_fd[2])
{
    struct output_stream *stream = output->talker[rank].stream;
    int out[2] = { -1, -1 }, error[2] = { -1, -1 };

    output->talker[rank].word_bytes = 0;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0) {
        output_unkept(output, errno);
        fd_clean(&out[0]);
        fd_clean(&out[1]);
        ret_fd[0] = STDOUT_FILENO;
        ret_fd[1] = STDERR_FILENO;
        return;
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(error[0], F_SETFL, O_NONBLOCK);
    stream[0].fd = out[0];
    stream[1].fd = error[0];
    ret_fd[0] = out[1];
    ret_fd[1] = error[1];
}

void output_close(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] > STDERR_FILENO)
            close(fd[i]);
}

/* Returns how many bytes the file did not take. */
static size_t talker_keep(struct output *output, const struct talker *talker, const char *data,
                          size_t size)
{
    if (talker->file < 0)
        return output->directory[0] ? size : 0;
    while (size) {
        ssize_t put = write(talker->file, data, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            output_unkept(output, errno);
            return size;
        }
        data += put;
        size -= (size_t)put;
    }
    return 0;
}

static void output_put(struct output *output, int which, const struct sink_piece *piece)
{
    struct sink *other = &output->sink[!which];

    if (output->shared && other->begun) {
        sink_break(other);
        sink_write(other);
    }
    sink_put(&output->sink[which], piece);
}

/* Shows what there is of the line. */
static void stream_show(struct output *output, struct talker *talker, int which, char end)
{
    struct output_stream *stream = &talker->stream[which];
    const struct sink *sink = &output->sink[which];
    /* It was broken off for another writer: its end was shown then. */
    bool ended = end == '\n' && !stream->size && stream->partly && sink->begun != stream;

    if (!output->quiet && !ended)
        output_put(output, which,
                   &(struct sink_piece){ .who = stream,
                                         .prefix = talker->prefix,
                                         .text = stream->line,
                                         .length = stream->size,
                                         .end = end });
    stream->partly = end != '\n' && (stream->partly || sink->begun == stream);
    stream->size = 0;
}

/* Nothing more will come. */
static void stream_show_last(struct output *output, struct talker *talker, int which)
{
    struct sink *sink = &output->sink[which];

    if (talker->stream[which].size)
        stream_show(output, talker, which, '\n');
    else if (sink->begun == &talker->stream[which])
        sink_break(sink);
    talker->stream[which].partly = false; /* the next attempt begins anew */
}

/* Up to where a line, or a state of a progress bar, ends; NULL: not in there. */
static const char *output_line_end(const char *data, size_t size)
{
    const char *newline = memchr(data, '\n', size);
    const char *carriage = memchr(data, '\r', newline ? (size_t)(newline - data) : size);

    return carriage ? carriage : newline;
}

/* Takes `data` up to its end of line (or all of it) into the line; shows the line when it has ended. */
static size_t stream_take(struct output *output, struct talker *talker, int which, const char *data,
                          size_t size)
{
    struct output_stream *stream = &talker->stream[which];
    size_t room = MIN(size, sizeof(stream->line) - stream->size);
    const char *end = output_line_end(data, room);
    size_t part = end ? (size_t)(end - data) : room;

    stream->last_ns = time_mono_ns();
    if (!stream->size)
        stream->first_ns = stream->last_ns;
    memcpy(stream->line + stream->size, data, part);
    stream->size += part;
    if (end)
        stream_show(output, talker, which, *end);
    else if (stream->size == sizeof(stream->line))
        stream_show(output, talker, which, '\0');
    return part + (end != NULL);
}

static void talker_remember(struct talker *talker, const char *data, size_t size)
{
    size_t keep = MIN(talker->word_bytes, sizeof(talker->words) - MIN(size, sizeof(talker->words)));

    if (size > sizeof(talker->words)) {
        data += size - sizeof(talker->words);
        size = sizeof(talker->words);
    }
    memmove(talker->words, talker->words + talker->word_bytes - keep, keep);
    memcpy(talker->words + keep, data, size);
    talker->word_bytes = keep + size;
}

/* One read.  False: there is nothing more for now. */
static bool stream_read(struct output *output, struct talker *talker, int which)
{
    struct output_stream *stream = &talker->stream[which];
    ssize_t got;

    if (stream->fd < 0)
        return false;
    got = read(stream->fd, output->read, sizeof(output->read));
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (got <= 0) {
        stream_show_last(output, talker, which);
        close(TAKE_FD(stream->fd));
        return false;
    }
    output->unkept += talker_keep(output, talker, output->read, (size_t)got);
    if (which == 1)
        talker_remember(talker, output->read, (size_t)got);
    for (size_t at = 0; at < (size_t)got;)
        at += stream_take(output, talker, which, output->read + at, (size_t)got - at);
    sink_write(&output->sink[which]);
    return true;
}

void output_words(struct output *output, uint32_t rank, char *ret, size_t room)
{
    struct talker *talker = &output->talker[rank];

    for (int n = 0; n < 16 && stream_read(output, talker, 1); n++)
        ;
    last_words_pick(talker->words, talker->word_bytes, ret, room);
}

void output_mark(struct output *output, const char *text)
{
    for (uint32_t i = 0; i < output->count; i++) {
        char line[256];
        int length = snprintf(line, sizeof(line), "---- lockstep run: %s ----\n", text);

        talker_keep(output, &output->talker[i], line, MIN((size_t)length, sizeof(line) - 1));
    }
}

void output_drain(struct output *output)
{
    for (uint32_t i = 0; i < output->count; i++)
        for (int which = 0; which < 2; which++) {
            struct talker *talker = &output->talker[i];

            /* What a pipe holds and no more: somebody beyond our power may go on writing. */
            for (int n = 0; n < 64 && stream_read(output, talker, which); n++)
                ;
            stream_show_last(output, talker, which);
            fd_clean(&talker->stream[which].fd);
            talker->stream[which].fd = -1;
        }
}

size_t output_poll_max(const struct output *output)
{
    return 2 + 2 * (size_t)output->count;
}

size_t output_poll(struct output *output, struct pollfd *ret)
{
    size_t count = 0;

    for (int which = 0; which < 2; which++)
        ret[count++] = (struct pollfd){
            .fd = sink_waits(&output->sink[which]) ? output->sink[which].fd : -1,
            .events = POLLOUT,
        };
    for (uint32_t i = 0; i < output->count; i++)
        for (int which = 0; which < 2; which++)
            ret[count++] =
                (struct pollfd){ .fd = output->talker[i].stream[which].fd, .events = POLLIN };
    return count;
}

void output_serve(struct output *output, const struct pollfd *fd, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!fd[i].revents)
            continue;
        if (i < 2)
            sink_write(&output->sink[i]);
        else
            stream_read(output, &output->talker[(i - 2) / 2], (int)(i % 2));
    }
}

/* Whoever reads slowly gets whole lines: then none is counted as not shown of which half is there. */
static int64_t stream_due_ns(const struct output *output, const struct talker *talker, int which)
{
    const struct output_stream *stream = &talker->stream[which];

    if (!stream->size || output->quiet || sink_waits(&output->sink[which]))
        return INT64_MAX;
    return MIN(stream->last_ns + OUTPUT_PAUSE_NS, stream->first_ns + OUTPUT_HOLD_NS);
}

int64_t output_due_ns(const struct output *output)
{
    int64_t due = INT64_MAX;

    for (uint32_t i = 0; i < output->count; i++)
        for (int which = 0; which < 2; which++)
            due = MIN(due, stream_due_ns(output, &output->talker[i], which));
    return due;
}

void output_show_due(struct output *output, int64_t now_ns)
{
    for (uint32_t i = 0; i < output->count; i++)
        for (int which = 0; which < 2; which++)
            if (stream_due_ns(output, &output->talker[i], which) <= now_ns) {
                stream_show(output, &output->talker[i], which, '\0');
                sink_write(&output->sink[which]);
            }
}

void output_message(struct output *output, const char *format, ...)
{
    char text[1024];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length > 0) /* last words of ranks are in it */
        length = (int)text_clean(text, MIN((size_t)length, sizeof(text) - 1), true);
    if (length > 0)
        output_put(output, 1,
                   &(struct sink_piece){ .prefix = "lockstep run: ",
                                         .text = text,
                                         .length = MIN((size_t)length, sizeof(text) - 1),
                                         .end = '\n' });
    sink_write(&output->sink[1]);
}

void output_destroy(struct output *output)
{
    uint64_t missing;

    if (!output)
        return;
    if (output->unkept)
        output_message(output, "%llu byte%s that ranks printed could not be written to the files",
                       (unsigned long long)output->unkept, output->unkept == 1 ? "" : "s");
    missing = sink_flush(&output->sink[0], OUTPUT_PATIENCE_NS);
    if (missing)
        output_message(output, "%llu line%s of stdout not shown: slow reader or full disk%s%s",
                       (unsigned long long)missing, missing == 1 ? "" : "s",
                       output->directory[0] ? "; all output is in " : "", output->directory);
    sink_flush(&output->sink[1], OUTPUT_PATIENCE_NS);
    output_free(output);
}
