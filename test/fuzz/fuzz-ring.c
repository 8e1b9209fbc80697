/* fuzz-ring.c - any bytes as a ring, changed and cut while they are read.
 *
 * The first 16 bytes steer: whether the header's checked fields are made to fit (else the
 * checksum would stop nearly every input), what is changed between two calls, where the
 * file is cut.  The rest is the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire/numbers.h"
#include "wire/ring.h"
#include "wire/ring_format.h"

#define STEER_BYTES 16u
#define FILE_MAX (1u << 18)
#define ROOM 100u
#define CALLS 6

enum steer {
    STEER_SEAL = 1, /* make the header right, so that what follows is reached */
    STEER_CUT = 2,  /* cut the file after the second call */
    STEER_BEND = 4, /* change bytes between the calls */
    STEER_HOLES = 8,
};

static void seal(unsigned char *bytes, size_t size, const uint8_t *steer)
{
    struct ring_header header;
    uint32_t lanes = 1 + steer[1] % 4, records = 2u << steer[2] % 6;

    while (lanes > 1 && ring_file_bytes(lanes, records, 0) > size)
        lanes--;
    while (records > RING_RECORDS_MIN && ring_file_bytes(lanes, records, 0) > size)
        records /= 2;
    if (size < sizeof(header))
        return;
    memcpy(&header, bytes, sizeof(header));
    header.magic = RING_MAGIC;
    header.version = steer[1] & 0x80 ? RING_VERSION_OLDEST : RING_VERSION;
    header.header_bytes = sizeof(header);
    header.lanes = lanes;
    header.lane_records = records;
    header.file_bytes = ring_file_bytes(lanes, records, 0);
    header.world = header.world ? header.world : 1;
    header.rank %= header.world;
    header.clock_id = CLOCK_MONOTONIC;
    header.run[sizeof(header.run) - 1] = header.program[sizeof(header.program) - 1] = 0;
    header.crc = ring_header_crc(&header);
    memcpy(bytes, &header, sizeof(header));
}

/* What a consumer may rely on. */
static void check(const struct ring_event *event, int count)
{
    for (int i = 0; i < count; i++) {
        if (event[i].kind == 0 || (event[i].kind >= RING_KIND_COUNT && event[i].kind != RING_LOST))
            abort();
        if (event[i].comm < -1 || event[i].comm >= RING_COMMS)
            abort();
        if (event[i].kind == RING_PHASE_BEGIN && event[i].detail >= LOCKSTEP_PHASE_COUNT)
            abort();
    }
}

static void bend(int fd, size_t size, const uint8_t *steer, int call)
{
    uint64_t word;
    off_t offset = (off_t)(((size_t)steer[4 + call] << 8 | steer[5 + call]) * 8 % (size - 8));

    memcpy(&word, steer + 8, sizeof(word));
    word += (uint64_t)call;
    if (pwrite(fd, &word, sizeof(word), offset) < 0)
        abort();
}

/* An answer is whatever the bytes say, but only from a place that there is. */
static void drive_requests(struct ring_reader *reader, const uint8_t *steer, uint64_t number)
{
    const struct ring_request request = { .id = number, .step = number, .kind = steer[6] % 12 };
    struct ring_answer answer;
    bool good = request.id != 0 && request.kind >= 1 && request.kind <= RING_REQUESTS;

    if ((ring_reader_request(reader, &request) == -EINVAL) == good)
        abort();
    for (uint32_t kind = 0; kind <= RING_REQUESTS + 1; kind++)
        if (ring_reader_answer(reader, kind, &answer) == 1 && (kind < 1 || kind > RING_REQUESTS))
            abort();
}

static void drive(struct ring_reader *reader, int fd, size_t size, const uint8_t *steer)
{
    struct ring_event event[ROOM];
    struct ring_comm_info comm;
    struct ring_info info;
    uint64_t lost = 0, before = 0;
    struct err err;

    if (steer[0] & STEER_HOLES)
        ring_reader_mark_lost(reader);
    for (int call = 0; call < CALLS; call++) {
        int got = ring_reader_next(reader, event, ROOM, &lost, &err);

        if (got > (int)ROOM || lost < before)
            abort();
        before = lost;
        check(event, got);
        if (ring_reader_info(reader, &info, &err) == 0 &&
            (memchr(info.run, 0, sizeof(info.run)) == NULL || info.comms_used > RING_COMMS))
            abort();
        for (uint32_t i = call % 8; i <= RING_COMMS; i += 8)
            if (ring_reader_comm(reader, i, &comm) == 1 && comm.index >= comm.size)
                abort();
        drive_requests(reader, steer, lost);
        if (steer[0] & STEER_BEND)
            bend(fd, size, steer, call);
        if (call == 1 && (steer[0] & STEER_CUT) && ftruncate(fd, steer[3] * 64) < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/dev/shm/lockstep-fuzz-XXXXXX";
    struct ring_reader *reader = NULL;
    unsigned char *bytes;
    struct err err;
    int fd;

    if (size < STEER_BYTES + 16 || size > FILE_MAX)
        return 0;
    fd = mkstemp(path);
    bytes = malloc(size - STEER_BYTES);
    if (fd < 0 || !bytes)
        abort();
    memcpy(bytes, data + STEER_BYTES, size - STEER_BYTES);
    if (data[0] & STEER_SEAL)
        seal(bytes, size - STEER_BYTES, data);
    if (pwrite(fd, bytes, size - STEER_BYTES, 0) < 0)
        abort();
    if (ring_reader_open(path, &reader, &err) == 0) {
        drive(reader, fd, size - STEER_BYTES, data);
        ring_reader_close(reader);
    }
    unlink(path);
    close(fd);
    free(bytes);
    return 0;
}
