/* frame.h - the format of everything that crosses process and machine boundaries.
 *
 * The agent's spool, the controller's log and the body of a POST are sequences of frames; docs/frame-format.md
 * describes them byte by byte.  A frame is identified by (sender, boot, number); a receiver drops frames that it
 * already has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_FRAME_H
#define LOCKSTEP_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

#define FRAME_MAGIC UINT32_C(0x31534c46) /* "FLS1" */
#define FRAME_VERSION 1
#define FRAME_HEADER_BYTES 44
#define FRAME_PAYLOAD_MAX (1u << 20)

/* Numbers are wire format. */
enum frame_type {
    FRAME_HELLO = 1, /* an agent, launcher or controller begins to write */
    FRAME_RING = 2,  /* a rank's ring was found */
    FRAME_COMM = 3,  /* a rank is a member of a communicator */
    FRAME_SHAPE = 4, /* the op list that later steps refer to */
    FRAME_STEP = 5,  /* one rank's step */
    FRAME_BEAT = 6,  /* every second: where each rank is now */
    FRAME_EXIT = 7,  /* a rank's process ended */
    FRAME_GAP = 8,   /* facts that were lost, counted */
    FRAME_NOTE = 9,  /* words from a rank */
    FRAME_RUN = 10,  /* the launcher: attempts begin and end */
    FRAME_TICK = 11, /* the controller: the `now` given to the core */
    FRAME_VERDICT = 12,
    FRAME_LEDGER = 13,
    FRAME_STACK = 14, /* an agent: what a rank that does not advance is doing */
    /* 15 was never used: what a verdict rests on travels in the verdict itself. */
    FRAME_SETTING = 16, /* the controller: a threshold was changed */
    FRAME_MERGED = 17,  /* steps of ranks, merged: by an agent, or by the controller in its log */
    FRAME_COMPACTION =
        18, /* in a log that was compacted while its run went on: where the judges begin */
    FRAME_TRAFFIC = 19, /* an agent: what it has sent, and what waits in its spool */
    FRAME_METHOD = 20,  /* how a rank's communication library moves a collective from now on */
    FRAME_FINDING = 21, /* a node: an observation of its hardware or operating system */
    FRAME_DECISION = 22,
    FRAME_OUTCOME = 23,     /* what became of a decision, by whoever carried it out */
    FRAME_PLACES = 24,      /* places for ranks: allocated, spare and down from now on */
    FRAME_CHECK = 25,       /* a node: the result of a health check */
    FRAME_ENVIRONMENT = 26, /* a node: what a rank's process found in its environment */
    FRAME_REQUEST = 27,     /* a person or a launcher asks for something, or consents to it */
    FRAME_POLICY = 28,      /* a launcher: the table of actions, and its limits */
    FRAME_MEANS = 29,       /* a launcher: what it can do, and what its user agreed to */
    FRAME_MEMBER = 30,      /* a launcher of several: that it lives, and what its ranks do */
    FRAME_NODE_LIFE = 31,   /* the site's controller: where a node is in its life */
    FRAME_TYPE_COUNT
};

/* magic u32, payload length u32, type u16, version u16, payload's crc u32, sender u64, boot u64,
 * number u64, crc u32 of these 40 bytes; then the payload.  The header has a checksum of its own
 * so that a damaged length is seen at once and not waited for.
 */
struct frame {
    uint16_t type, version;
    uint64_t sender, boot, number;
    const unsigned char *payload; /* into the caller's bytes */
    size_t payload_bytes;
};

void frame_put(struct buf *out, const struct frame *frame);

/* Reads the frame at the start of `data`.  Returns its whole size; 0 when there are not
 * yet enough bytes to tell; -EPROTO when these bytes are no frame (err says why).
 */
int64_t frame_get(const void *data, size_t size, struct frame *ret, struct err *err);

/* After -EPROTO: how many bytes to skip to the next place that could be a frame
 * (at least 1, at most size).
 */
size_t frame_resync(const void *data, size_t size);

#endif
