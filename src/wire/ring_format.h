/* ring_format.h - the rules for the bytes of a ring, shared by its writer and its reader.
 *
 * Pure: reads no file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_RING_FORMAT_H
#define LOCKSTEP_WIRE_RING_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/ring.h"

#define RING_RECORDS_MIN 2u /* the newest but one is the oldest that can be read safely */
#define RING_HEAD_MAX (UINT64_C(1) << 62) /* beyond it the sequence numbers would wrap */
#define RING_NOTE_PARTS 10u               /* 320 bytes, 32 a record */
#define RING_NOTE_MORE 0x80u
#define RING_METHOD_BYTES_BITS                                                                     \
    48 /* of the first word of a RING_COLL_METHOD; above them its channels */
#define RING_METHOD_TEXT 24u

/* The third word of a record. */
static inline uint64_t ring_pack(uint8_t kind, uint8_t detail, uint16_t stream, int32_t comm)
{
    return (uint64_t)kind | (uint64_t)detail << 8 | (uint64_t)stream << 16 |
           (uint64_t)(uint32_t)comm << 32;
}

/* The oldest record that can be read safely when `head` have been written: the writer may be
 * at work on number `head`, which lies where number head - records lay.
 */
static inline uint64_t ring_oldest(uint64_t head, uint32_t records)
{
    return head >= records ? head - records + 1 : 0;
}

/* Both numbers are in range and `records` is a power of two. */
bool ring_size_valid(uint32_t lanes, uint32_t records);

uint32_t ring_header_crc(const struct ring_header *header);

/* The checksum catches a request that was read while it was being written. */
uint32_t ring_request_crc(const struct ring_request *request);
/* Can a rank act on it?  Kinds that are not known here are good, too. */
bool ring_request_valid(const struct ring_request *request);

/* Is this the header of a ring in a file of `file_bytes` bytes?  -EPROTO when not. */
int ring_header_check(const struct ring_header *header, uint64_t file_bytes, struct err *err);

/* From the seven words to an event; false when a field is out of its range. */
bool ring_event_unpack(const uint64_t word[static 7], struct ring_event *ret);

#endif
