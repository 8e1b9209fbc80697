/* ring.h - the file between a rank and its agent, byte by byte in docs/ring-format.md.
 *
 * One file per process.  Header page, communicator table, then lanes of 64-byte
 * records; one writing thread per lane.  Everything is little-endian and fixed width.
 * The reader trusts nothing in it: sizes are checked against the file, each record
 * against its sequence number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_RING_H
#define LOCKSTEP_WIRE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

#define RING_MAGIC UINT64_C(0x31474e4952534c4b) /* "KLSRING1" */
#define RING_VERSION 3                          /* 2 has no stamps of a device */
#define RING_VERSION_OLDEST 1                   /* that a reader accepts; it has no requests */
#define RING_COMMS 64
#define RING_LANES_DEFAULT 8
#define RING_LANES_MAX 64
#define RING_RECORDS_DEFAULT 4096
#define RING_RECORDS_MAX (1u << 20)
#define RING_STAMPS_DEFAULT 4096
#define RING_STAMPS_MAX (1u << 16)
#define RING_NAME_FORMAT "rank-%u.%u.ring" /* rank, then the first free number */

enum ring_kind { /* numbers are wire format */
    RING_STEP_BEGIN = 1,
    RING_STEP_END = 2,
    RING_PHASE_BEGIN = 3, /* detail: phase */
    RING_PHASE_END = 4,
    RING_COLL_ENQUEUE = 5, /* detail: op; comm, stream; a: key; b: bytes; d: dtype */
    RING_COLL_START = 6,   /* comm; a: key */
    RING_COLL_END = 7,
    RING_P2P_ENQUEUE = 8, /* as a collective, and c: peer */
    RING_P2P_START = 9,
    RING_P2P_END = 10,
    RING_SPAN = 11,   /* detail: phase; stream; a: enqueue; b: begin; c: end (all ns) */
    RING_METRIC = 12, /* detail: metric; a: the double's bits */
    RING_DIGEST = 13, /* a: part | parts << 32; b: low; c: high */
    RING_NOTE = 14,  /* detail: part number, 0x80 when another follows; a … d: 32 bytes of text */
    RING_DEPTH = 15, /* a: RING_DEPTH_… bits, in force from this step */
    RING_COLL_METHOD =
        16,          /* detail: op; comm; a: bytes | channels << 48; b … d: 24 bytes of text */
    RING_STAMP = 17, /* detail: what; stream; comm or -1; a: tag; b: phase; c, d: counts of comm */
    RING_KIND_COUNT
};

/* What is recorded, as a RING_DEPTH record says it. */
#define RING_DEPTH_OFF (UINT64_C(1) << 0) /* nothing */
#define RING_DEPTH_SHIFT 8                /* 0: all events; 1: neither phases nor spans */

/* Never in a file.  A reader that was asked to (ring_reader_mark_lost) gives it where records of a
 * lane are missing.  time: of the record before the hole in its lane (0 when none was read), so that it
 * comes before what other lanes say of that time; b: that record's step (RING_NO_STEP when none);
 * step and detail: step and kind of the record that follows the hole; a: how many are missing.
 */
#define RING_LOST 0xff

/* A record as it is used.  `step` is the step that was open when it was written,
 * RING_NO_STEP before the first.
 */
#define RING_NO_STEP UINT64_MAX
struct ring_event {
    uint64_t time_ns;
    uint64_t step;
    uint8_t kind, detail;
    uint16_t stream;
    int32_t comm;  /* index into the communicator table, -1: none */
    uint32_t lane; /* it was read from */
    uint64_t a, b, c, d;
};

/* A record as it lies in the file: a seqlock and the event's seven words. */
struct ring_record {
    _Atomic uint64_t seq;     /* 2n+1 while the n-th record of the lane is written, then 2n+2 */
    _Atomic uint64_t word[7]; /* time, step, kind|detail<<8|stream<<16|comm<<32, a, b, c, d */
};
_Static_assert(sizeof(struct ring_record) == 64, "a record is a cache line");

struct ring_lane {
    _Atomic uint64_t head; /* records ever written; the next one goes to head % records */
    _Atomic uint32_t tid;  /* the writing thread; 0: not taken yet */
    uint32_t reserved[13];
};
_Static_assert(sizeof(struct ring_lane) == 64, "a lane's header is a cache line");

struct ring_comm { /* written once, `ready` last */
    _Atomic uint32_t ready;
    uint32_t size, index;
    uint32_t kind;
    uint64_t id;
    char name[32];
    uint64_t reserved;
    /* What the flight recorder of a dead rank would say: counts of operations so far. */
    _Atomic uint64_t coll_enqueued, coll_started, coll_ended;
    _Atomic uint64_t p2p_enqueued, p2p_started, p2p_ended;
    uint64_t reserved2[2];
};
_Static_assert(sizeof(struct ring_comm) == 128, "two cache lines a communicator");

/* ---- requests: what the agent asks of a rank, and what the rank answers ----
 *
 * One place for each kind, so that a request of one kind never replaces one of another.  The
 * agent writes a request with pwrite(), the rank writes the answer through its mapping.
 */
#define RING_REQUESTS 8  /* places; the place of kind k is k - 1 */
enum ring_request_kind { /* numbers are wire format; 1 is LOCKSTEP_REQUEST_CHECKPOINT */
    RING_REQUEST_CHECKPOINT = 1,
    RING_REQUEST_DEPTH = 2, /* argument: 0, 1 or RING_REQUEST_DEPTH_OFF, from that step on */
};
#define RING_REQUEST_DEPTH_OFF 255

struct ring_request { /* as it is used */
    uint64_t id;      /* not 0, and another one than the last request of this kind had */
    uint64_t step, argument;
    uint32_t kind; /* enum ring_request_kind */
};

struct ring_answer {
    uint64_t id;     /* of the request that it answers */
    uint64_t step;   /* that was open when the rank answered */
    uint32_t answer; /* enum lockstep_answer */
};

struct ring_request_place {
    _Atomic uint64_t seq; /* odd: being written; 0: never written */
    _Atomic uint64_t id, step, argument;
    _Atomic uint32_t kind, crc; /* of the 28 bytes from id to kind */
    uint64_t reserved[3];
};
_Static_assert(sizeof(struct ring_request_place) == 64, "a request is a cache line");

struct ring_answer_place {
    _Atomic uint64_t seq; /* odd: being written; 0: never written */
    _Atomic uint64_t id, step;
    _Atomic uint32_t answer;
    uint32_t reserved[9];
};
_Static_assert(sizeof(struct ring_answer_place) == 64, "an answer is a cache line");

/* ---- stamps: times that a device writes into the file by itself ----
 *
 * The host launches a stamp on the stream of a device and records that it did (RING_STAMP, with its time and a tag); when the
 * stream gets there, the device writes its own clock.  So what a device has reached can be read while the process is stopped.
 * The n-th stamp that the device ran, from 0, lies at place n % stamps.
 */
enum ring_stamp_what { /* numbers are wire format */
    RING_STAMP_STEP_BEGIN = 1,
    RING_STAMP_STEP_END = 2,
    RING_STAMP_PHASE = 3, /* b: the phase from here on */
    RING_STAMP_WAIT_BEGIN =
        4, /* the stream is about to wait for communication: that of comm with ... */
    RING_STAMP_WAIT_END =
        5, /* ... keys below c (collectives) and d (messages), where comm is not -1 */
    RING_STAMP_HOST_WAIT = 6, /* the host is about to wait for the stream */
    RING_STAMP_WHAT_COUNT
};
#define RING_STAMP_STREAM 1 /* the one that computes */
#define RING_STAMP_CAPTURED                                                                        \
    (UINT64_C(1) << 63) /* a tag of a stamp in a graph: it comes with each replay */

struct ring_stamp {     /* written by the device in two halves; valid when check is right */
    uint64_t count;     /* n + 1; 0: never */
    uint64_t tag;       /* of the host's record */
    uint64_t device_ns; /* the device's own clock */
    uint64_t check;     /* ring_stamp_check() of the three */
};
_Static_assert(sizeof(struct ring_stamp) == 32, "two stamps are a cache line");

static inline uint64_t ring_stamp_check(uint64_t count, uint64_t tag, uint64_t device_ns)
{
    return count * 0x9e3779b97f4a7c15u + tag * 0xbf58476d1ce4e5b9u +
           device_ns * 0x94d049bb133111ebu + 1;
}

#define RING_CLOCK_PLACES 16
struct ring_stamps_head {
    /* The device's clock in the host's: host = device - offset - drift * (host - at) / 2^32. */
    _Atomic uint64_t clock_seq; /* odd: being written; 0: not known yet */
    _Atomic int64_t offset_ns, drift;
    _Atomic uint64_t at_ns; /* host time of that offset */
    unsigned char pad[480];
    struct ring_stamp clock[RING_CLOCK_PLACES]; /* what the two clocks are compared with */
    unsigned char pad2[3072];
};
_Static_assert(sizeof(struct ring_stamps_head) == 4096, "the stamps have a page before them");

struct ring_header {
    _Atomic uint64_t magic; /* written last */
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct ring_header) */
    uint64_t file_bytes;
    uint32_t lanes, lane_records; /* records is a power of two */
    uint32_t rank, world;
    uint32_t attempt;      /* LOCKSTEP_RESTART, 0 at first */
    uint32_t pid;          /* in its own pid namespace */
    uint64_t pid_ns_inode; /* of /proc/self/ns/pid; 0: unknown */
    uint64_t pid_start;    /* start time in clock ticks, /proc/self/stat field 22 */
    uint32_t uid, clock_id;
    uint64_t open_mono_ns, open_real_ns;
    char run[64];
    char program[64];
    uint32_t stamps; /* places for stamps, a power of two; 0: none */
    uint32_t crc; /* CRC-32C of all bytes from `version` up to here; does not change after open */
    /* From here on things change while the rank lives. */
    _Alignas(64) _Atomic uint64_t step; /* step now open, RING_NO_STEP before the first */
    _Atomic uint32_t lanes_used;        /* may exceed lanes: those threads are not recorded */
    _Atomic uint32_t comms_used;
    _Atomic uint64_t dropped;    /* events of threads without a lane */
    _Atomic uint32_t closed;     /* 1: closed in order */
    _Atomic uint32_t layout_seq; /* even: stable; 0: never set */
    _Atomic uint16_t layout[10]; /* struct lockstep_layout, field by field */
    _Alignas(64) struct ring_request_place request[RING_REQUESTS]; /* written by the agent */
    struct ring_answer_place answer[RING_REQUESTS];
    unsigned char pad[2752];
};

_Static_assert(sizeof(struct ring_header) == 4096, "the header is a page");
_Static_assert(offsetof(struct ring_header, step) == 256, "the fixed part is four cache lines");
_Static_assert(offsetof(struct ring_header, request) == 320, "requests have their own lines");
_Static_assert(offsetof(struct ring_header, answer) == 832, "answers have their own lines");

/* Offsets: 4096 header, then RING_COMMS communicators, then the lanes; from the next page on the head of the stamps and
 * the stamps, where there are any.
 */
#define RING_COMMS_OFFSET 4096u
#define RING_LANES_OFFSET (RING_COMMS_OFFSET + RING_COMMS * 128u)

static inline uint64_t ring_lane_bytes(uint32_t records)
{
    return sizeof(struct ring_lane) + (uint64_t)records * sizeof(struct ring_record);
}

static inline uint64_t ring_stamps_offset(uint32_t lanes, uint32_t records)
{
    return (RING_LANES_OFFSET + lanes * ring_lane_bytes(records) + 4095) / 4096 * 4096;
}

static inline uint64_t ring_file_bytes(uint32_t lanes, uint32_t records, uint32_t stamps)
{
    if (stamps == 0)
        return RING_LANES_OFFSET + lanes * ring_lane_bytes(records);
    return ring_stamps_offset(lanes, records) + sizeof(struct ring_stamps_head) +
           (uint64_t)stamps * sizeof(struct ring_stamp);
}

/* ---- reading ---- */
struct ring_reader;

/* Is this the name of a ring, exactly as its writer makes it? */
bool ring_name_parse(const char *name, uint32_t *ret_rank, uint32_t *ret_number);

/* Opens the ring for reading (and its requests for writing, where permitted).  -EPROTO: not
 * a ring, or a damaged one; -EAGAIN: still being made; -EPERM: another user's, and we are not
 * root; -ELOOP: a symbolic link.  Safe against truncation: the reader copies with pread() and
 * maps nothing.
 */
int ring_reader_open(const char *path, struct ring_reader **ret, struct err *err);
/* The same for a name in an open directory, which is the ring's own: no link, no mount. */
int ring_reader_open_at(int dir_fd, const char *name, struct ring_reader **ret, struct err *err);
uid_t ring_reader_owner(const struct ring_reader *reader); /* of the file, by the kernel */
void ring_reader_close(struct ring_reader *reader);

struct ring_info { /* a stable copy of what the header and the table say now */
    uint32_t rank, world, attempt, pid;
    uint32_t lanes, lane_records, lanes_used, comms_used, stamps;
    uint64_t pid_ns_inode, pid_start;
    uint64_t open_mono_ns, open_real_ns;
    uint64_t step, dropped;
    uint32_t uid;
    int closed, has_layout;
    uint16_t layout[10];
    char run[64], program[64];
};
struct ring_comm_info {
    uint64_t id;
    uint32_t size, index, kind;
    char name[33];
    uint64_t coll_enqueued, coll_started, coll_ended, p2p_enqueued, p2p_started, p2p_ended;
};
int ring_reader_info(struct ring_reader *reader, struct ring_info *info, struct err *err);
/* 1 with *comm set, 0 when this place of the table is not ready, -errno. */
int ring_reader_comm(struct ring_reader *reader, uint32_t index, struct ring_comm_info *comm);

/* New events since the last call, all lanes merged in the order of their times; at most
 * `room`.  Returns how many; *lost grows by the records that were overwritten unread or damaged.
 * A record being written is left for the next call.  -errno when the file cannot be read; events
 * copied before that are given out first.  Order holds within a call and within a lane: a thread
 * that wrote its record after our look at its lane may bring an older time in the next call.
 */
int ring_reader_next(struct ring_reader *reader, struct ring_event *event, size_t room,
                     uint64_t *lost, struct err *err);
void ring_reader_mark_lost(
    struct ring_reader *reader); /* from now on, RING_LOST among the events */

/* ---- stamps ---- */
#define RING_CLOCK_DRIFT_MAX INT64_C(4294967) /* one in a thousand */
struct ring_clock { /* the device's clock in ours */
    int64_t offset_ns, drift, at_ns;
};
static inline int64_t ring_clock_host(const struct ring_clock *clock, uint64_t device_ns)
{
    int64_t host_ns = (int64_t)(device_ns - (uint64_t)clock->offset_ns);
    int64_t since_ns = (int64_t)((uint64_t)host_ns - (uint64_t)clock->at_ns);

    /* Drift is small and so is the time since: beyond a day nothing is claimed. */
    if (since_ns > INT64_C(86400000000000) || since_ns < -INT64_C(86400000000000))
        return host_ns;
    return host_ns - (int64_t)((double)since_ns * (double)clock->drift / 4294967296.0);
}

/* Stamps that the device has written since the last call, in its order; at most `room`.  *lost grows by those that were
 * overwritten unread.  0: none now, or the ring has none.
 */
int ring_reader_stamps(struct ring_reader *reader, struct ring_stamp *stamp, size_t room,
                       uint64_t *lost);
bool ring_reader_clock(struct ring_reader *reader, struct ring_clock *ret); /* false: not known */

/* Writes a request; a request of the same kind that was there is replaced.  One process at a
 * time may write requests to a ring.  -EINVAL: a kind or id out of range; -ENOTSUP: the ring of an
 * older probe, which reads no requests; -EACCES: the file may not be written.
 */
int ring_reader_request(struct ring_reader *reader, const struct ring_request *request);
/* 1 with the rank's last answer to a request of this kind, 0 when there is none, -errno. */
int ring_reader_answer(struct ring_reader *reader, uint32_t kind, struct ring_answer *ret);

#endif
