/* stream.h - bytes of a file, pulled piece by piece, unpacked on the way.
 *
 * A stream is a file, standard input, or a member of an archive; stream_unpack() puts a decompressor on top where the
 * first bytes ask for one.  Memory is bounded by a few hundred kilobytes per layer (zstd: 128 MiB of window).  What comes
 * out is bounded, too: a stream that unpacks to more than STREAM_FREE bytes and more than STREAM_RATIO times its packed
 * size ends with -EFBIG, because real logs do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_SOURCE_STREAM_H
#define LOCKSTEP_READ_SOURCE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

#define STREAM_HEAD 1024 /* bytes that stream_peek() can show */
#define STREAM_FREE ((uint64_t)1 << 30)
#define STREAM_RATIO 100

struct stream;

/* A regular file; anything else is refused with -EINVAL before it can block. */
int stream_open(const char *path, struct stream **ret, struct err *err);
int stream_open_fd(int fd, struct stream **ret,
                   struct err *err); /* any kind; takes the descriptor */
int stream_open_memory(const void *data, size_t bytes, struct stream **ret); /* not copied */
/* Bytes that were read from a stream, and then the rest of it, which it does not own. */
int stream_open_joined(const void *data, size_t bytes, struct stream *rest, struct stream **ret);
void stream_clean(struct stream **stream); /* with those below it; NULL is fine */

/* Bytes read, 0 at the end, or -errno: -EPROTO damaged, -EFBIG it unpacks to too much. */
ssize_t stream_read(struct stream *stream, void *out, size_t room, struct err *err);
/* The first bytes, which stay in the stream: how many there are, up to STREAM_HEAD. */
ssize_t stream_peek(struct stream *stream, const unsigned char **ret, struct err *err);
/* Where the first bytes are those of gzip or zstd, *stream becomes one that unpacks it.  Returns 1 if so, else 0. */
int stream_unpack(struct stream **stream, struct err *err);

/* A stream of `bytes` of the one below, which it does not own; for members of archives. */
int stream_open_part(struct stream *below, uint64_t bytes, struct stream **ret);
int stream_skip(struct stream *stream, uint64_t bytes,
                struct err *err);                    /* -EPROTO: it ends before */
uint64_t stream_passed(const struct stream *stream); /* bytes that were read */

#endif
