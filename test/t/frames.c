/* frames.c - bodies of numbered frames, what of them is in a log, and the power cut in between.
 *
 *   frames make FIRST COUNT [VERSION]   notes with these numbers, to stdout
 *   frames comms FIRST COUNT  communicators of 262144 members each, of which one speaks
 *   frames shapes FIRST COUNT shapes of 500 items each, all different
 *   frames boots FIRST COUNT  notes of as many processes of one sender, one each
 *   frames unknown FIRST COUNT BYTES  frames of a type that nobody knows, of so many bytes each
 *   frames numbers LOG        the numbers that are in a log, in its order; "damaged N" at the end
 *   frames cut DIR            the file system loses power: nothing that is not on its disk gets there
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clean.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

#define SENDER UINT64_C(4711)
#define BOOT UINT64_C(1700000000000000000)
/* linux/ext4 and xfs: FS_IOC_SHUTDOWN, and not even the journal is written. */
#define SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_NOLOGFLUSH UINT32_C(2)

static int make(uint64_t first, uint64_t count, uint16_t version)
{
    CLEAN(buf_fini) struct buf out = { 0 };

    for (uint64_t number = first; number < first + count; number++) {
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct fact_note note = { .step = number };
        struct frame frame = {
            .type = FRAME_NOTE, .version = version, .sender = SENDER, .boot = BOOT, .number = number
        };

        snprintf(note.text, sizeof(note.text), "note %" PRIu64, number);
        fact_note_put(&payload, &note);
        frame.payload = payload.data;
        frame.payload_bytes = payload.size;
        frame_put(&out, &frame);
    }
    return fwrite(out.data, 1, out.size, stdout) == out.size ? 0 : 2;
}

static void comm_put(struct buf *payload, uint64_t number)
{
    struct fact_comm comm = {
        .rank = 0, .attempt = 1, .id = number + 1, .size = 262144, .kind = 1
    };

    snprintf(comm.name, sizeof(comm.name), "c%" PRIu64, number);
    fact_comm_put(payload, &comm);
}

static void shape_put(struct buf *payload, uint64_t number)
{
    static struct shape_item item[500];
    struct fact_shape shape = { .count = COUNT(item), .item = item };

    for (uint32_t i = 0; i < COUNT(item); i++)
        item[i] = (struct shape_item){ .kind = ITEM_SPAN,
                                       .what = 2,
                                       .stream = (uint16_t)(1 + (i ^ number) % 8),
                                       .count = 1,
                                       .bytes = (number << 10) + i };
    shape_hash(&shape);
    fact_shape_put(payload, &shape);
}

static int flood(const char *what, uint64_t first, uint64_t count, size_t bytes)
{
    CLEAN(buf_fini) struct buf out = { 0 };

    for (uint64_t number = first; number < first + count; number++) {
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct frame frame = {
            .version = FRAME_VERSION, .sender = SENDER, .boot = BOOT, .number = number
        };

        if (strcmp(what, "boots") == 0) {
            const struct fact_note note = { .step = number };

            frame.type = FRAME_NOTE;
            frame.boot = BOOT + number;
            frame.number = 0;
            fact_note_put(&payload, &note);
        } else if (strcmp(what, "comms") == 0) {
            frame.type = FRAME_COMM;
            comm_put(&payload, number);
        } else if (strcmp(what, "shapes") == 0) {
            frame.type = FRAME_SHAPE;
            shape_put(&payload, number);
        } else {
            frame.type = FRAME_TYPE_COUNT + 900;
            while (payload.size < bytes)
                buf_put_u64(&payload, number);
        }
        frame.payload = payload.data;
        frame.payload_bytes = payload.size;
        frame_put(&out, &frame);
    }
    return fwrite(out.data, 1, out.size, stdout) == out.size ? 0 : 2;
}

static int numbers(const char *path)
{
    struct spool_reader *reader;
    struct frame frame;
    struct err err;

    if (spool_reader_open(path, &reader, &err) < 0) {
        fprintf(stderr, "frames: %s\n", err.text);
        return 2;
    }
    while (spool_next(reader, &frame, &err) == 1) {
        if (frame.sender == SENDER)
            printf("%" PRIu64 "\n", frame.number);
    }
    printf("damaged %" PRIu64 "\n", spool_reader_damaged(reader));
    spool_reader_close(reader);
    return 0;
}

static int cut(const char *path)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t how = SHUTDOWN_NOLOGFLUSH;

    if (fd < 0 || ioctl(fd, SHUTDOWN, &how) < 0) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "make") == 0)
        return make(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                    argc == 5 ? (uint16_t)strtoul(argv[4], NULL, 10) : FRAME_VERSION);
    if ((argc == 4 && (strcmp(argv[1], "comms") == 0 || strcmp(argv[1], "shapes") == 0 ||
                       strcmp(argv[1], "boots") == 0)) ||
        (argc == 5 && strcmp(argv[1], "unknown") == 0))
        return flood(argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                     argc == 5 ? strtoul(argv[4], NULL, 10) : 0);
    if (argc == 3 && strcmp(argv[1], "numbers") == 0)
        return numbers(argv[2]);
    if (argc == 3 && strcmp(argv[1], "cut") == 0)
        return cut(argv[2]);
    fprintf(stderr,
            "usage: frames make FIRST COUNT [VERSION] | comms | shapes | boots FIRST COUNT | "
            "unknown FIRST COUNT BYTES | numbers LOG | cut DIR\n");
    return 2;
}
