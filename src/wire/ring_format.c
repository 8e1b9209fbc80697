/* ring_format.c - checks every field of a ring before it is used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/ring_format.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "core/hash.h"
#include "wire/numbers.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a ring is little-endian");
_Static_assert(offsetof(struct ring_header, crc) == 220, "the checksum covers bytes 8 to 219");

bool ring_size_valid(uint32_t lanes, uint32_t records)
{
    return lanes >= 1 && lanes <= RING_LANES_MAX && records >= RING_RECORDS_MIN &&
           records <= RING_RECORDS_MAX && (records & (records - 1)) == 0;
}

uint32_t ring_header_crc(const struct ring_header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    size_t from = offsetof(struct ring_header, version);

    return crc32c(0, bytes + from, offsetof(struct ring_header, crc) - from);
}

uint32_t ring_request_crc(const struct ring_request *request)
{
    unsigned char bytes[28];

    memcpy(bytes, &request->id, 8);
    memcpy(bytes + 8, &request->step, 8);
    memcpy(bytes + 16, &request->argument, 8);
    memcpy(bytes + 24, &request->kind, 4);
    return crc32c(0, bytes, sizeof(bytes));
}

bool ring_request_valid(const struct ring_request *request)
{
    return request->id != 0 && request->kind >= 1 && request->kind <= RING_REQUESTS;
}

/* Before version 3 the field had no meaning and was 0. */
static bool ring_stamps_valid(const struct ring_header *header)
{
    if (header->version < 3)
        return header->stamps == 0;
    return header->stamps <= RING_STAMPS_MAX && (header->stamps & (header->stamps - 1)) == 0;
}

static int ring_sizes_check(const struct ring_header *header, uint64_t file_bytes, struct err *err)
{
    if (header->header_bytes != sizeof(*header))
        return err_set(err, -EPROTO, "header of %u bytes, expected %zu", header->header_bytes,
                       sizeof(*header));
    if (!ring_size_valid(header->lanes, header->lane_records))
        return err_set(err, -EPROTO, "%u lanes of %u records are out of range", header->lanes,
                       header->lane_records);
    if (!ring_stamps_valid(header))
        return err_set(err, -EPROTO, "%u stamps: expected 0, or a power of two up to %u",
                       header->stamps, RING_STAMPS_MAX);
    if (header->file_bytes != ring_file_bytes(header->lanes, header->lane_records, header->stamps))
        return err_set(err, -EPROTO, "%" PRIu64 " bytes do not match %u lanes of %u records",
                       header->file_bytes, header->lanes, header->lane_records);
    if (file_bytes < header->file_bytes)
        return err_set(err, -EPROTO, "truncated: %" PRIu64 " bytes, expected %" PRIu64, file_bytes,
                       header->file_bytes);
    return 0;
}

int ring_header_check(const struct ring_header *header, uint64_t file_bytes, struct err *err)
{
    uint64_t magic = atomic_load_explicit(&header->magic, memory_order_relaxed);

    if (magic != RING_MAGIC)
        return err_set(err, -EPROTO, "not a ring: magic %016" PRIx64, magic);
    if (header->version < RING_VERSION_OLDEST || header->version > RING_VERSION)
        return err_set(err, -EPROTO, "ring version %u, expected %u to %u", header->version,
                       RING_VERSION_OLDEST, RING_VERSION);
    if (header->crc != ring_header_crc(header))
        return err_set(err, -EPROTO, "header checksum %08x, expected %08x", header->crc,
                       ring_header_crc(header));
    if (header->world == 0 || header->rank >= header->world)
        return err_set(err, -EPROTO, "rank %u of %u", header->rank, header->world);
    if (header->clock_id != CLOCK_MONOTONIC)
        return err_set(err, -EPROTO, "clock %u, expected %d", header->clock_id, CLOCK_MONOTONIC);
    if (!memchr(header->run, 0, sizeof(header->run)) ||
        !memchr(header->program, 0, sizeof(header->program)))
        return err_set(err, -EPROTO, "a name in the header is not terminated");
    return ring_sizes_check(header, file_bytes, err);
}

static bool ring_detail_valid(uint8_t kind, uint8_t detail)
{
    switch (kind) {
    case RING_PHASE_BEGIN:
    case RING_PHASE_END:
    case RING_SPAN:
        return detail >= 1 && detail < LOCKSTEP_PHASE_COUNT;
    case RING_COLL_ENQUEUE:
    case RING_COLL_METHOD:
        return detail >= 1 && detail < LOCKSTEP_OP_SEND;
    case RING_P2P_ENQUEUE:
        return detail == LOCKSTEP_OP_SEND || detail == LOCKSTEP_OP_RECV;
    case RING_METRIC:
        return detail >= 1 && detail < LOCKSTEP_METRIC_COUNT;
    case RING_STAMP:
        return detail >= 1 && detail < RING_STAMP_WHAT_COUNT;
    case RING_NOTE: /* the last part has no follower */
        return (detail & ~RING_NOTE_MORE) + (detail & RING_NOTE_MORE ? 1u : 0u) < RING_NOTE_PARTS;
    default:
        return detail == 0;
    }
}

static bool ring_comm_valid(uint8_t kind, int32_t comm)
{
    if ((kind >= RING_COLL_ENQUEUE && kind <= RING_P2P_END) || kind == RING_COLL_METHOD)
        return comm >= 0 && comm < RING_COMMS;
    if (kind == RING_STAMP)
        return comm >= -1 && comm < RING_COMMS;
    return comm == -1;
}

bool ring_event_unpack(const uint64_t word[static 7], struct ring_event *ret)
{
    struct ring_event event = {
        .time_ns = word[0],
        .step = word[1],
        .kind = (uint8_t)word[2],
        .detail = (uint8_t)(word[2] >> 8),
        .stream = (uint16_t)(word[2] >> 16),
        .comm = (int32_t)(uint32_t)(word[2] >> 32),
        .a = word[3],
        .b = word[4],
        .c = word[5],
        .d = word[6],
    };

    if (event.kind < 1 || event.kind >= RING_KIND_COUNT || event.time_ns > INT64_MAX)
        return false;
    if (!ring_detail_valid(event.kind, event.detail) || !ring_comm_valid(event.kind, event.comm))
        return false;
    *ret = event;
    return true;
}
