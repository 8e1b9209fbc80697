/* test-ring-golden.c - the format cannot change unnoticed.
 *
 * test-ring-golden VERSION BIN TEXT         the bytes in BIN read as TEXT says, and are made again as
 *                                           they are
 * test-ring-golden --make VERSION BIN TEXT  writes both (a new version gets a new name, old files stay)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/test/ring_make.h"

#define GOLDEN_LANES 2u
#define GOLDEN_RECORDS 32u
#define GOLDEN_STAMPS 8u /* the newest version has them */
#define GOLDEN_BYTES                                                                               \
    (RING_LANES_OFFSET + GOLDEN_LANES * (64u + GOLDEN_RECORDS * 64u) + 3 * 4096u +                 \
     GOLDEN_STAMPS * sizeof(struct ring_stamp))

static const struct ring_event golden_events[] = {
    { 1000, RING_NO_STEP, RING_PHASE_BEGIN, LOCKSTEP_PHASE_INIT, 0, -1, 0, 0, 0, 0, 0 },
    { 2000, RING_NO_STEP, RING_PHASE_END, LOCKSTEP_PHASE_INIT, 0, -1, 0, 0, 0, 0, 0 },
    { 2500, 41, RING_DEPTH, 0, 0, -1, 0, 0x100, 0, 0, 0 },
    { 2600, 41, RING_STEP_BEGIN, 0, 0, -1, 0, 0, 0, 0, 0 },
    { 2700, 41, RING_COLL_ENQUEUE, LOCKSTEP_OP_ALL_REDUCE, 7, 0, 0, 12, 1 << 20, 0, 0 },
    { 2750, 41, RING_COLL_START, 0, 0, 0, 1, 12, 0, 0, 0 },
    { 2950, 41, RING_COLL_END, 0, 0, 0, 1, 12, 0, 0, 0 },
    { 2800, 41, RING_P2P_ENQUEUE, LOCKSTEP_OP_RECV, 65535, 63, 0, 3, 4096, 1, 0 },
    { 2900, 41, RING_P2P_START, 0, 0, 63, 0, 3, 0, 0, 0 },
    { 3000, 41, RING_P2P_END, 0, 0, 63, 0, 3, 0, 0, 0 },
    { 3100, 41, RING_SPAN, LOCKSTEP_PHASE_BACKWARD, 1, -1, 0, 2600, 2650, 3050, 0 },
    { 3200, 41, RING_METRIC, LOCKSTEP_METRIC_LOSS, 0, -1, 0, 0x4004000000000000, 0, 0, 0 },
    { 3300, 41, RING_DIGEST, 0, 0, -1, 0, 1 | 4ull << 32, 0x1111, 0x2222, 0 },
    { 3400, 41, RING_NOTE, 0x80, 0, -1, 0, 0x6920736168207369, 0x726f772073277469,
      0x6c6c612061207364, 0x756f2065646f7720 },
    { 3400, 41, RING_NOTE, 1, 0, -1, 0, 0x74, 0, 0, 0 },
    { 3500, 41, RING_STEP_END, 0, 0, -1, 0, 0, 0, 0, 0 },
};

static const struct ring_event golden_stamp_event = {
    3450, 41, RING_STAMP, RING_STAMP_WAIT_BEGIN,   RING_STAMP_STREAM,
    63,   1,  11,         LOCKSTEP_PHASE_BACKWARD, 13,
    6
};

/* The eleventh is not complete yet. */
static void golden_stamps(int fd)
{
    struct ring_stamps_head head = { .clock_seq = 4, .offset_ns = -1000, .drift = 100 };
    uint64_t offset = ring_stamps_offset(GOLDEN_LANES, GOLDEN_RECORDS);

    head.at_ns = 2600;
    make_write(fd, &head, sizeof(head), offset);
    offset += sizeof(head);
    for (uint64_t count = 3; count <= 11; count++) {
        struct ring_stamp stamp = { .count = count, .tag = count, .device_ns = 1600 + count * 100 };

        stamp.check = ring_stamp_check(stamp.count, stamp.tag, stamp.device_ns) + (count == 11);
        make_write(fd, &stamp, sizeof(stamp), offset + (count - 1) % GOLDEN_STAMPS * sizeof(stamp));
    }
}

static void golden_comm(int fd, uint32_t place, uint64_t id, uint32_t kind, const char *name)
{
    struct ring_comm comm = { .ready = 1, .size = 4, .index = 2, .kind = kind, .id = id };

    snprintf(comm.name, sizeof(comm.name), "%s", name);
    comm.coll_enqueued = 13;
    comm.coll_started = 12;
    comm.coll_ended = 11;
    comm.p2p_enqueued = 6;
    comm.p2p_started = 5;
    comm.p2p_ended = 4;
    make_write(fd, &comm, sizeof(comm), RING_COMMS_OFFSET + place * sizeof(comm));
}

/* Version 1 had one word here, the control word. */
static void golden_control_v1(struct ring_header *header)
{
    const uint64_t word = 1 << 1 | 1 << 8;

    memcpy((unsigned char *)header + 320, &word, sizeof(word));
}

static void golden_requests(struct ring_header *header)
{
    const struct ring_request request = { .id = 7, .step = 50, .kind = RING_REQUEST_CHECKPOINT };
    struct ring_request_place *place = &header->request[RING_REQUEST_CHECKPOINT - 1];
    struct ring_answer_place *answer = &header->answer[RING_REQUEST_DEPTH - 1];

    place->seq = 4;
    place->id = request.id;
    place->step = request.step;
    place->argument = request.argument;
    place->kind = request.kind;
    place->crc = ring_request_crc(&request);
    answer->seq = 2;
    answer->id = 6;
    answer->step = 41;
    answer->answer = LOCKSTEP_ANSWER_DONE;
}

static void golden_write(int fd, uint32_t version)
{
    static const uint16_t layout[10] = { 2, 2, 2, 1, 1, 1, 0, 1, 0, 0 };
    struct ring_header header;
    struct ring_make make;

    make_begin(&make, fd, GOLDEN_LANES, GOLDEN_RECORDS);
    make_header(&header, GOLDEN_LANES, GOLDEN_RECORDS);
    header.step = 41;
    header.comms_used = 2;
    header.dropped = 5;
    header.closed = 1;
    header.layout_seq = 2;
    for (size_t i = 0; i < COUNT(layout); i++)
        header.layout[i] = layout[i];
    header.version = version;
    if (version >= 3) {
        header.stamps = GOLDEN_STAMPS;
        header.file_bytes = ring_file_bytes(GOLDEN_LANES, GOLDEN_RECORDS, GOLDEN_STAMPS);
    }
    make_seal(&header);
    if (version == 1)
        golden_control_v1(&header);
    else
        golden_requests(&header);
    make_write(fd, &header, sizeof(header), 0);
    golden_comm(fd, 0, 0x0123456789abcdef, LOCKSTEP_COMM_DP, "dp");
    golden_comm(fd, 63, 9, LOCKSTEP_COMM_PP, "pp");
    for (size_t i = 0; i < COUNT(golden_events); i++)
        make_put(&make, golden_events[i].lane, &golden_events[i]);
    if (version >= 3) {
        make_put(&make, golden_stamp_event.lane, &golden_stamp_event);
        golden_stamps(fd);
    }
}

static void golden_put_info(struct ring_reader *reader, FILE *out)
{
    struct ring_info i;

    if (ring_reader_info(reader, &i, NULL) < 0)
        abort();
    fprintf(out, "rank %u world %u attempt %u pid %u ns %" PRIu64 " start %" PRIu64 " uid %u\n",
            i.rank, i.world, i.attempt, i.pid, i.pid_ns_inode, i.pid_start, i.uid);
    fprintf(out, "lanes %u records %u used %u comms %u step %" PRIu64 " dropped %" PRIu64 "\n",
            i.lanes, i.lane_records, i.lanes_used, i.comms_used, i.step, i.dropped);
    fprintf(out, "open %" PRIu64 " %" PRIu64 " closed %d run %s program %s\n", i.open_mono_ns,
            i.open_real_ns, i.closed, i.run, i.program);
    fprintf(out, "layout %d:", i.has_layout);
    for (size_t k = 0; k < COUNT(i.layout); k++)
        fprintf(out, " %u", i.layout[k]);
    fputc('\n', out);
}

static void golden_put_comms(struct ring_reader *reader, FILE *out)
{
    for (uint32_t i = 0; i < RING_COMMS; i++) {
        struct ring_comm_info c;

        if (ring_reader_comm(reader, i, &c) != 1)
            continue;
        fprintf(out, "comm %u id %016" PRIx64 " size %u index %u kind %u name %s", i, c.id, c.size,
                c.index, c.kind, c.name);
        fprintf(out, " coll %" PRIu64 " %" PRIu64 " %" PRIu64, c.coll_enqueued, c.coll_started,
                c.coll_ended);
        fprintf(out, " p2p %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c.p2p_enqueued, c.p2p_started,
                c.p2p_ended);
    }
}

static void golden_put_answers(struct ring_reader *reader, FILE *out)
{
    for (uint32_t kind = 1; kind <= RING_REQUESTS; kind++) {
        struct ring_answer a;

        if (ring_reader_answer(reader, kind, &a) == 1)
            fprintf(out, "answer %u id %" PRIu64 " step %" PRIu64 " is %u\n", kind, a.id, a.step,
                    a.answer);
    }
}

static void golden_put_stamps(struct ring_reader *reader, FILE *out)
{
    struct ring_stamp stamp[GOLDEN_STAMPS];
    struct ring_clock clock;
    uint64_t lost = 0;
    int got = ring_reader_stamps(reader, stamp, COUNT(stamp), &lost);

    if (ring_reader_clock(reader, &clock))
        fprintf(out, "clock %" PRId64 " drift %" PRId64 " at %" PRId64 "\n", clock.offset_ns,
                clock.drift, clock.at_ns);
    for (int i = 0; i < got; i++)
        fprintf(out, "stamp %" PRIu64 " tag %" PRIu64 " at %" PRIu64 "\n", stamp[i].count,
                stamp[i].tag, stamp[i].device_ns);
}

static void golden_put(const char *path, FILE *out)
{
    struct ring_reader *reader = NULL;
    struct ring_event event[64];
    struct err err = { "" };
    uint64_t lost = 0;
    int got;

    if (ring_reader_open(path, &reader, &err) < 0) {
        fprintf(out, "%s\n", err.text);
        return;
    }
    golden_put_info(reader, out);
    golden_put_comms(reader, out);
    golden_put_answers(reader, out);
    golden_put_stamps(reader, out);
    got = ring_reader_next(reader, event, COUNT(event), &lost, &err);
    for (int i = 0; i < got; i++) {
        const struct ring_event *e = &event[i];

        fprintf(out, "%" PRIu64 " lane %u step %" PRId64 " kind %u detail %u stream %u comm %d",
                e->time_ns, e->lane, (int64_t)e->step, e->kind, e->detail, e->stream, e->comm);
        fprintf(out, " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", e->a, e->b, e->c, e->d);
    }
    fprintf(out, "events %d lost %" PRIu64 "\n", got, lost);
    ring_reader_close(reader);
}

static size_t golden_load(const char *path, char *out, size_t room)
{
    CLEAN(file_clean) FILE *file = fopen(path, "rb");

    if (!file) {
        perror(path);
        exit(1);
    }
    return fread(out, 1, room, file);
}

static int golden_same(const char *what, const char *a, size_t a_size, const char *b, size_t b_size)
{
    for (size_t i = 0; i < MAX(a_size, b_size); i++)
        if (i >= a_size || i >= b_size || a[i] != b[i]) {
            printf("not ok - %s: differs at byte %zu\n", what, i);
            return 0;
        }
    printf("ok - %s\n", what);
    return 1;
}

/* A copy of the file, owned by whoever runs the test: the reader refuses other people's. */
static void golden_copy(const char *bin, int fd)
{
    static char bytes[2 * GOLDEN_BYTES];
    size_t size = golden_load(bin, bytes, sizeof(bytes));

    make_write(fd, bytes, size, 0);
}

static int golden_check(uint32_t version, const char *bin, const char *text)
{
    static char want[2 * GOLDEN_BYTES], have[2 * GOLDEN_BYTES];
    char path[] = "/tmp/lockstep-golden-XXXXXX";
    int fd = mkstemp(path), good;
    FILE *out = fmemopen(have, sizeof(have), "w");
    size_t size;

    if (fd < 0 || !out)
        return 1;
    golden_copy(bin, fd);
    golden_put(path, out);
    size = (size_t)ftell(out);
    fclose(out);
    good = golden_same("reads as it always did", have, size, want,
                       golden_load(text, want, sizeof(want)));
    golden_write(fd, version);
    size = golden_load(path, have, sizeof(have));
    good &= golden_same("is written as it always was", have, size, want,
                        golden_load(bin, want, sizeof(want)));
    close(fd);
    unlink(path);
    return !good;
}

static int golden_make(uint32_t version, const char *bin, const char *text)
{
    CLEAN(fd_clean) int fd = open(bin, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    CLEAN(file_clean) FILE *out = fopen(text, "wx");

    if (fd < 0 || !out) {
        perror(fd < 0 ? bin : text);
        return 1;
    }
    golden_write(fd, version);
    golden_put(bin, out);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--make") == 0)
        return golden_make((uint32_t)atoi(argv[2]), argv[3], argv[4]);
    if (argc != 4) {
        fprintf(stderr, "usage: test-ring-golden [--make] VERSION BIN TEXT\n");
        return 2;
    }
    return golden_check((uint32_t)atoi(argv[1]), argv[2], argv[3]);
}
