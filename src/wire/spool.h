/* spool.h - an append-only file of frames: the agent's spool, the launcher's, the controller's log.
 *
 * One writer, any number of readers while it grows.  A writer that is killed leaves an incomplete last frame: the
 * next open truncates it and continues to count after the last complete frame, so (sender, number) never repeats.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_SPOOL_H
#define LOCKSTEP_WIRE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "wire/frame.h"

struct spool_writer;

/* `sender` names the writer within its run ("agent-n1"); its hash is the frames' sender.
 * -EBUSY: another writer has it (flock); -EPROTO, -ELOOP: no regular file is in its place.  Mode 0600.
 */
int spool_writer_open(const char *path, const char *sender, struct spool_writer **ret,
                      struct err *err);
/* The same in three parts, for callers that read a long file anyway, in small parts: lock, then each frame of the file
 * in its order with the offset behind it, then what spool_writer_open() does at its end.  Nothing is put before that.
 */
int spool_writer_lock(const char *path, const char *sender, struct spool_writer **ret,
                      struct err *err);
void spool_writer_learn(struct spool_writer *writer, const struct frame *frame, uint64_t behind);
int spool_writer_begin(struct spool_writer *writer, const char *path, struct err *err);
void spool_writer_close(struct spool_writer *writer);
static inline void spool_writer_clean(struct spool_writer **writer) /* for CLEAN */
{
    spool_writer_close(*writer);
}
uint64_t spool_writer_number(const struct spool_writer *writer); /* of the next frame */
uint64_t spool_writer_bytes(const struct spool_writer *writer);  /* of whole frames */
/* One write(2) a call.  After -errno (disk full) nothing of the frame is in the file, or nothing else will be
 * written until that can be cut off.
 */
int spool_put(struct spool_writer *writer, uint16_t type, const struct buf *payload,
              struct err *err);
/* A frame received from another sender, as it was: how the controller logs. */
int spool_put_frame(struct spool_writer *writer, const struct frame *frame, struct err *err);
/* Many of them by one write(2), all or none. */
int spool_put_frames(struct spool_writer *writer, const struct frame *frame, size_t count,
                     struct err *err);
/* fdatasync.  The first one tells what is safe.  When a later one fails it is not known what the disk has, so
 * all since the last good one is cut off again, now or as soon as the disk lets us; from then on all calls
 * return -ESTALE, and the writer must be opened again.
 */
int spool_sync(struct spool_writer *writer, struct err *err);
bool spool_was_truncated(const struct spool_writer *writer);

struct spool_reader;

/* -EPROTO, -ELOOP: not a regular file.  Never blocks, also not on a FIFO. */
int spool_reader_open(const char *path, struct spool_reader **ret, struct err *err);
void spool_reader_close(struct spool_reader *reader);
static inline void spool_reader_clean(struct spool_reader **reader) /* for CLEAN */
{
    spool_reader_close(*reader);
}
/* 1 with *ret set (its payload lives until the next call), 0 when there is no whole frame yet,
 * -errno.  Damaged bytes are skipped and counted; a torn tail may still be completed.
 */
int spool_next(struct spool_reader *reader, struct frame *ret, struct err *err);
/* Goes on reading from there: the beginning of a frame, or damage up to the next one. */
void spool_reader_seek(struct spool_reader *reader, uint64_t offset);
uint64_t spool_reader_damaged(const struct spool_reader *reader); /* bytes skipped so far */
/* Where: the first SPOOL_PLACES of them.  False: there are not so many. */
#define SPOOL_PLACES 16
bool spool_reader_place(const struct spool_reader *reader, size_t i, uint64_t *offset,
                        uint64_t *bytes);
uint64_t spool_reader_places(const struct spool_reader *reader); /* all of them */
uint64_t spool_reader_offset(const struct spool_reader *reader); /* where the next frame begins */

#endif
