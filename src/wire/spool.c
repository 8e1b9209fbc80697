/* spool.c - append-only files of frames: a frame is written completely or not at all; readers follow the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "core/untrusted.h"

#define READ_BYTES (64u << 10)

struct spool_writer {
    int fd;
    uint64_t sender, boot, number;
    off_t size;     /* whole frames so far */
    off_t synced;   /* bytes that are on disk for certain; -1: not known */
    bool torn;      /* bytes beyond `size` could not be cut off */
    bool unsafe;    /* a sync failed: what is beyond `synced` must go */
    bool truncated; /* and is gone */
    struct buf frame;
};

struct spool_reader {
    int fd;
    uint64_t damaged, places;
    struct {
        uint64_t offset, bytes;
    } place[SPOOL_PLACES];
    uint64_t damage_end; /* of the newest place */
    uint64_t base;       /* where in the file `bytes` begins */
    struct buf bytes;    /* read so far; what is before `at` has been given out */
    size_t at;
    unsigned char chunk[READ_BYTES]; /* what one read brings; polled too often to be allocated */
};

void spool_reader_close(struct spool_reader *reader)
{
    if (!reader)
        return;
    buf_fini(&reader->bytes);
    close(reader->fd);
    free(reader);
}

static int reader_create(int fd, struct spool_reader **ret, struct err *err)
{
    struct spool_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return err_nomem(err);
    reader->fd = fd;
    *ret = reader;
    return 0;
}

int spool_reader_open(const char *path, struct spool_reader **ret, struct err *err)
{
    CLEAN(fd_clean)
    int fd = untrusted_open(AT_FDCWD, path, O_RDONLY, UNTRUSTED_ANY_OWNER, err);
    int result;

    if (fd < 0)
        return TAKE_FD(fd);
    result = reader_create(fd, ret, err);
    if (result == 0)
        fd = -1;
    return result;
}

/* Returns 1 when more bytes came, 0 at the end of the file. */
static int reader_fill(struct spool_reader *reader, struct err *err)
{
    ssize_t got;

    buf_drop_front(&reader->bytes, reader->at);
    reader->base += reader->at;
    reader->at = 0;
    got = pread(reader->fd, reader->chunk, READ_BYTES, (off_t)(reader->base + reader->bytes.size));
    if (got > 0)
        buf_put(&reader->bytes, reader->chunk, (size_t)got);
    if (got < 0)
        return err_set(err, -errno, "reading frames: %m");
    return reader->bytes.failed ? err_nomem(err) : got > 0;
}

/* At the end of the file, in bytes that claim to go on.  Nothing whole ever follows a torn tail, since
 * the next writer cuts it off first; so if something does, this frame's end is lost, and waiting for it
 * would hide what follows.  Returns how far the next whole frame is, 0 when there is none.
 */
static size_t reader_find_complete(const struct spool_reader *reader)
{
    const unsigned char *data = reader->bytes.data;
    size_t left = reader->bytes.size - reader->at;
    struct frame frame;

    if (!left)
        return 0;
    data += reader->at;
    for (size_t skip = 0; skip < left;) {
        skip += frame_resync(data + skip, left - skip);
        if (skip < left && frame_get(data + skip, left - skip, &frame, NULL) > 0)
            return skip;
    }
    return 0;
}

static void reader_skip(struct spool_reader *reader, size_t size)
{
    uint64_t offset = reader->base + reader->at;

    if (!reader->places || offset != reader->damage_end) { /* not the rest of the last one */
        if (reader->places < SPOOL_PLACES) {
            reader->place[reader->places].offset = offset;
            reader->place[reader->places].bytes = 0;
        }
        reader->places++;
    }
    if (reader->places <= SPOOL_PLACES)
        reader->place[reader->places - 1].bytes += size;
    reader->damage_end = offset + size;
    reader->damaged += size;
    reader->at += size;
}

bool spool_reader_place(const struct spool_reader *reader, size_t i, uint64_t *offset,
                        uint64_t *bytes)
{
    if (i >= reader->places || i >= SPOOL_PLACES)
        return false;
    *offset = reader->place[i].offset;
    *bytes = reader->place[i].bytes;
    return true;
}

uint64_t spool_reader_places(const struct spool_reader *reader)
{
    return reader->places;
}

int spool_next(struct spool_reader *reader, struct frame *ret, struct err *err)
{
    for (;;) {
        size_t left = reader->bytes.size - reader->at;
        int64_t size = left ? frame_get(reader->bytes.data + reader->at, left, ret, NULL) : 0;
        int more;

        if (size > 0) {
            reader->at += (size_t)size;
            return 1;
        }
        if (size < 0) {
            reader_skip(reader, frame_resync(reader->bytes.data + reader->at, left));
            continue;
        }
        more = reader_fill(reader, err);
        if (more <= 0) {
            size_t skip = more == 0 ? reader_find_complete(reader) : 0;

            if (skip) {
                reader_skip(reader, skip);
                continue;
            }
            /* A torn tail is read again next time: a new writer may have cut it and put its own
             * frame in that place.
             */
            reader->bytes.size = reader->at;
            return more;
        }
    }
}

void spool_reader_seek(struct spool_reader *reader, uint64_t offset)
{
    reader->bytes.size = reader->at = 0;
    reader->base = offset;
}

uint64_t spool_reader_damaged(const struct spool_reader *reader)
{
    return reader->damaged;
}

uint64_t spool_reader_offset(const struct spool_reader *reader)
{
    return reader->base + reader->at;
}

void spool_writer_close(struct spool_writer *writer)
{
    if (!writer)
        return;
    buf_fini(&writer->frame);
    close(writer->fd);
    free(writer);
}

void spool_writer_learn(struct spool_writer *writer, const struct frame *frame, uint64_t behind)
{
    if (frame->sender == writer->sender && frame->number >= writer->number)
        writer->number = frame->number + 1;
    writer->size = (off_t)behind;
}

/* Finds the end of the last whole frame and the highest number of our own. */
static int writer_recover(struct spool_writer *writer, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    int fd = dup(writer->fd);
    struct frame frame;
    int result;

    if (fd < 0)
        return err_set(err, -errno, "dup: %m");
    result = reader_create(fd, &reader, err);
    if (result < 0) {
        close(fd);
        return result;
    }
    while ((result = spool_next(reader, &frame, err)) > 0)
        spool_writer_learn(writer, &frame, spool_reader_offset(reader));
    return result;
}

/* A new file's name must survive a power cut, too, or its frames would be durable and not to be found. */
static int writer_keep_name(const struct spool_writer *writer, const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    CLEAN(free_clean)
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    CLEAN(fd_clean) int fd = -1;

    if (writer->size > 0)
        return 0;
    if (!directory)
        return err_nomem(err);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL)) /* EINVAL: a file system that cannot */
        return err_set(err, -errno, "%s: %m", directory);
    return 0;
}

int spool_writer_lock(const char *path, const char *sender, struct spool_writer **ret,
                      struct err *err)
{
    struct spool_writer *writer;
    CLEAN(fd_clean)
    int fd = untrusted_open(AT_FDCWD, path, O_RDWR | O_CREAT, UNTRUSTED_ANY_OWNER, err);

    if (fd < 0)
        return TAKE_FD(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
                       "%s: another process is writing it", path);
    writer = calloc(1, sizeof(*writer));
    if (!writer)
        return err_nomem(err);
    writer->fd = TAKE_FD(fd);
    writer->synced = -1;
    writer->sender = hash64(0, sender, strlen(sender));
    writer->boot = (uint64_t)time_real_ns();
    *ret = writer;
    return 0;
}

/* Damage in the middle stays where it is (readers skip it); only what follows the last whole frame goes. */
int spool_writer_begin(struct spool_writer *writer, const char *path, struct err *err)
{
    if (ftruncate(writer->fd, writer->size) < 0)
        return err_set(err, -errno, "cannot truncate the incomplete last frame: %m");
    return writer_keep_name(writer, path, err);
}

int spool_writer_open(const char *path, const char *sender, struct spool_writer **ret,
                      struct err *err)
{
    CLEAN(spool_writer_clean) struct spool_writer *writer = NULL;
    int result = spool_writer_lock(path, sender, &writer, err);

    if (result < 0)
        return result;
    result = writer_recover(writer, err);
    if (result == 0)
        result = spool_writer_begin(writer, path, err);
    if (result < 0)
        return err_wrap(err, result, "%s", path);
    *ret = TAKE(writer);
    return 0;
}

uint64_t spool_writer_number(const struct spool_writer *writer)
{
    return writer->number;
}

/* After a failed sync the kernel may consider pages clean that never reached the disk, and a later sync would
 * succeed.  So they are truncated, and their senders send them again.
 */
static int writer_roll_back(struct spool_writer *writer, struct err *err)
{
    if (!writer->truncated &&
        (ftruncate(writer->fd, writer->synced) < 0 || fdatasync(writer->fd) < 0))
        return err_set(err, -EIO, "cannot truncate the data that could not be synced: %m");
    writer->truncated = true;
    writer->size = writer->synced;
    return err_set(err, -ESTALE, "truncated the data that could not be synced");
}

/* No frame is written after an incomplete one: that could contain complete frames that were not acknowledged. */
static int writer_ready(struct spool_writer *writer, struct err *err)
{
    if (writer->unsafe)
        return writer_roll_back(writer, err);
    if (writer->torn && ftruncate(writer->fd, writer->size) < 0)
        return err_set(err, -errno, "cannot truncate an incomplete frame: %m");
    writer->torn = false;
    return 0;
}

uint64_t spool_writer_bytes(const struct spool_writer *writer)
{
    return (uint64_t)writer->size;
}

int spool_put_frames(struct spool_writer *writer, const struct frame *frame, size_t count,
                     struct err *err)
{
    ssize_t written;
    int result = writer_ready(writer, err);

    if (result < 0)
        return result;
    if (writer->frame.failed)
        buf_fini(&writer->frame);
    writer->frame.size = 0;
    for (size_t i = 0; i < count; i++)
        frame_put(&writer->frame, &frame[i]);
    if (writer->frame.failed)
        return err_nomem(err);
    written = pwrite(writer->fd, writer->frame.data, writer->frame.size, writer->size);
    if (written == (ssize_t)writer->frame.size) {
        writer->size += written;
        return 0;
    }
    if (written >= 0)
        errno = ENOSPC;
    err_set(err, -errno, "writing a frame: %m");
    written = errno;
    writer->torn = ftruncate(writer->fd, writer->size) < 0;
    return -(int)written;
}

int spool_put_frame(struct spool_writer *writer, const struct frame *frame, struct err *err)
{
    return spool_put_frames(writer, frame, 1, err);
}

int spool_put(struct spool_writer *writer, uint16_t type, const struct buf *payload,
              struct err *err)
{
    struct frame frame = {
        .type = type,
        .version = FRAME_VERSION,
        .sender = writer->sender,
        .boot = writer->boot,
        .number = writer->number,
        .payload = payload->data,
        .payload_bytes = payload->size,
    };
    int result;

    if (payload->failed)
        return err_set(err, -ENOMEM, "out of memory for a frame");
    result = spool_put_frame(writer, &frame, err);
    if (result == 0)
        writer->number++;
    return result;
}

int spool_sync(struct spool_writer *writer, struct err *err)
{
    int result = writer_ready(writer, err);

    if (result < 0)
        return result;
    if (fdatasync(writer->fd) == 0) {
        writer->synced = writer->size;
        return 0;
    }
    result = err_set(err, -errno, "fdatasync: %m");
    writer->unsafe = writer->synced >= 0;
    if (writer->unsafe)
        writer_roll_back(writer, NULL);
    return result;
}

bool spool_was_truncated(const struct spool_writer *writer)
{
    return writer->truncated;
}
