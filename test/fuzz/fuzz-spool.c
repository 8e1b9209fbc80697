/* fuzz-spool.c - a file of frames and of anything else, read by a reader and taken over by a writer.
 *
 * The input is a list of pieces, each a byte that says what and one that says how much: bytes as
 * they are, a whole frame of another sender or of our own (so that checksums do not stop nearly
 * every input), one with a bit turned, or a part of one.  Whatever the file is, every byte must be
 * in a frame, skipped as damaged, or left as a torn tail; and a writer must keep every whole frame
 * and go on after the last.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/hash.h"
#include "wire/spool.h"

#define SENDER "agent-n1"
#define BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum piece {
    PIECE_RAW,
    PIECE_OTHER,
    PIECE_OWN,
    PIECE_BENT,
    PIECE_TORN,
    PIECE_COUNT
};

static void must(int good)
{
    if (!good)
        abort();
}

/* Takes one piece of the input and adds it to the file's bytes. */
static void add_piece(struct reader *in, struct buf *out)
{
    uint8_t kind = reader_get_u8(in) % PIECE_COUNT;
    size_t size = reader_get_u8(in);
    const unsigned char *bytes;
    struct frame frame = { .type = FRAME_NOTE, .version = FRAME_VERSION, .boot = 7 };
    size_t begin = out->size;

    size = size < reader_left(in) ? size : reader_left(in);
    bytes = reader_get(in, size);
    if (kind == PIECE_RAW) {
        buf_put(out, bytes, size);
        return;
    }
    frame.sender = kind == PIECE_OTHER ? 5 : hash64(0, SENDER, strlen(SENDER));
    frame.number = size ? bytes[0] : 0;
    frame.payload = bytes;
    frame.payload_bytes = size;
    frame_put(out, &frame);
    must(!out->failed);
    if (kind == PIECE_BENT)
        out->data[begin + size % (out->size - begin)] ^= 1;
    if (kind == PIECE_TORN)
        out->size = begin + (out->size - begin) / 2;
}

struct seen {
    uint64_t frames, own_end, frame_bytes, hash;
};

/* Reads all; returns where the next frame would begin. */
static uint64_t read_all(const char *path, struct seen *seen)
{
    uint64_t own = hash64(0, SENDER, strlen(SENDER)), at, damaged;
    struct spool_reader *reader;
    struct frame frame;

    *seen = (struct seen){ 0 };
    must(spool_reader_open(path, &reader, NULL) == 0);
    while (spool_next(reader, &frame, NULL) == 1) {
        seen->frames++;
        seen->frame_bytes += FRAME_HEADER_BYTES + frame.payload_bytes;
        seen->hash = hash64(seen->hash, frame.payload, frame.payload_bytes);
        if (frame.sender == own && frame.number >= seen->own_end && frame.number < UINT64_MAX)
            seen->own_end = frame.number + 1;
    }
    at = spool_reader_offset(reader);
    damaged = spool_reader_damaged(reader);
    must(at == seen->frame_bytes + damaged);
    must(spool_next(reader, &frame, NULL) == 0); /* and again: nothing changes */
    must(spool_reader_offset(reader) == at && spool_reader_damaged(reader) == damaged);
    spool_reader_close(reader);
    return at;
}

static void check_file(const char *path)
{
    struct buf payload = { 0 };
    struct seen before, after;
    struct spool_writer *writer;
    struct stat st;

    must(stat(path, &st) == 0);
    must(read_all(path, &before) <= (uint64_t)st.st_size);
    must(spool_writer_open(path, SENDER, &writer, NULL) == 0);
    must(spool_writer_number(writer) == before.own_end);
    read_all(path, &after); /* cutting the tail has not cost a frame */
    must(after.frames == before.frames && after.hash == before.hash);
    buf_put_str(&payload, "ours");
    must(spool_put(writer, FRAME_NOTE, &payload, NULL) == 0);
    spool_writer_close(writer);
    buf_fini(&payload);
    must(stat(path, &st) == 0);
    must(read_all(path, &after) == (uint64_t)st.st_size);
    must(after.frames == before.frames + 1 && after.own_end == before.own_end + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64] = "/dev/shm/lockstep-fuzz-spool-XXXXXX"; /* many small files: in memory */
    struct reader in = reader_of(data, size);
    struct buf bytes = { 0 };
    int fd = mkstemp(path);

    if (fd < 0) {
        strcpy(path, "/tmp/lockstep-fuzz-spool-XXXXXX");
        fd = mkstemp(path);
    }
    must(fd >= 0);
    while (reader_left(&in) && bytes.size < BYTES_MAX)
        add_piece(&in, &bytes);
    must(bytes.size == 0 || write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    close(fd);
    check_file(path);
    unlink(path);
    buf_fini(&bytes);
    return 0;
}
