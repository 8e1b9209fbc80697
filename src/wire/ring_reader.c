/* ring_reader.c - reads a ring whose writer may be running, stopped, dead or hostile.
 *
 * Everything is copied out with pread(): a file that is cut short while we read gives an
 * error, where a mapping would give SIGBUS.  A pread() of 8 bytes need not be atomic, so a
 * lane's head is the middle one of three reads: the head only grows, and one torn read among
 * three cannot become the middle without being a value that the head really had.
 *
 * A record is used only if the head, read again after the copy, shows that the writer cannot
 * have begun to overwrite it.  That leaves the oldest record of a full lane unread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/untrusted.h"
#include "wire/numbers.h"
#include "wire/ring.h"
#include "wire/ring_format.h"

#define READER_CHUNK 512u        /* records copied at a time */
#define READER_BUDGET (1u << 20) /* records looked at in one call, good or bad */
#define READER_TRIES 4           /* copies until two in a row agree */
#define RECORD_WORDS 8u

struct reader_lane {
    uint64_t next;            /* number of the next record to copy */
    uint64_t target;          /* copy up to here in this call */
    struct ring_event *event; /* copied, not yet given out: from … count-1 */
    uint32_t from, count;
    bool broken;                      /* its head cannot be right: not looked at any more */
    uint64_t lost;                    /* records missing since the last one copied */
    uint64_t last_step, last_time_ns; /* of that one */
};

struct ring_reader {
    int fd;
    bool writable, mark_lost;
    uid_t owner; /* of the file */
    char *path;
    struct ring_header header; /* its fixed part, as it was when checked */
    uint64_t stamps_next;      /* count of the stamp that comes next, from 1; 0: none was read */
    uint64_t block[READER_CHUNK][RECORD_WORDS];
    struct reader_lane lane[];
};

/* What changes in the header, as it lies there from byte 256 on. */
struct reader_state {
    uint64_t step;
    uint32_t lanes_used, comms_used;
    uint64_t dropped;
    uint32_t closed, layout_seq;
    uint16_t layout[10];
    uint32_t pad;
};
_Static_assert(offsetof(struct reader_state, layout) + offsetof(struct ring_header, step) ==
                   offsetof(struct ring_header, layout),
               "the copy lies as the original");

/* Loads before the barrier happen before loads after it.  The kernel made them, so there is
 * nothing that TSan could see, and gcc refuses fences under it.
 */
static void reader_barrier(void)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(memory_order_acquire);
#endif
}

static int reader_copy(const struct ring_reader *reader, uint64_t offset, void *out, size_t size,
                       struct err *err)
{
    size_t done = 0;

    reader_barrier();
    while (done < size) {
        ssize_t got = pread(reader->fd, (char *)out + done, size - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, -errno, "%s: %m", reader->path);
        if (got == 0)
            return err_set(err, -EPROTO, "%s: truncated at byte %" PRIu64 ", expected %" PRIu64,
                           reader->path, offset + done, reader->header.file_bytes);
        done += (size_t)got;
    }
    reader_barrier();
    return 0;
}

static uint64_t lane_offset(const struct ring_reader *reader, uint32_t lane)
{
    return RING_LANES_OFFSET + lane * ring_lane_bytes(reader->header.lane_records);
}

/* NOLINTNEXTLINE(readability-function-size): MIN and MAX count as many statements */
static uint64_t ring_median3(uint64_t a, uint64_t b, uint64_t c)
{
    return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

static int lane_head(const struct ring_reader *reader, uint32_t lane, uint64_t *ret,
                     struct err *err)
{
    uint64_t head[3];

    for (size_t i = 0; i < COUNT(head); i++) {
        int result = reader_copy(reader, lane_offset(reader, lane), &head[i], sizeof(head[i]), err);

        if (result < 0)
            return result;
    }
    *ret = ring_median3(head[0], head[1], head[2]);
    return 0;
}

/* ---- opening ---- */

static int reader_open_file(struct ring_reader *reader, int dir_fd, const char *name,
                            struct err *err)
{
    uid_t owner = geteuid() == 0 ? UNTRUSTED_ANY_OWNER : geteuid();
    int fd = untrusted_open(dir_fd, name, O_RDWR, owner, err);

    reader->writable = fd >= 0;
    if (fd == -EACCES || fd == -EROFS || fd == -EPERM)
        fd = untrusted_open(dir_fd, name, O_RDONLY, owner, err);
    if (fd < 0)
        return fd;
    reader->fd = fd;
    return 0;
}

static int reader_check_file(struct ring_reader *reader, uint64_t *ret_bytes, struct err *err)
{
    struct stat st;

    if (fstat(reader->fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", reader->path);
    reader->owner = st.st_uid;
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

/* The writer fills the file first and writes the magic last. */
static int reader_check_header(struct ring_reader *reader, uint64_t bytes, struct err *err)
{
    struct ring_header *header = &reader->header;
    uint64_t magic = 0;
    int result;

    if (bytes >= sizeof(magic)) {
        result = reader_copy(reader, 0, &magic, sizeof(magic), err);
        if (result < 0)
            return result;
    }
    if (magic == 0)
        return err_set(err, -EAGAIN, "%s: not complete yet", reader->path);
    if (bytes < sizeof(*header))
        return err_set(err, -EPROTO, "%s: %" PRIu64 " bytes, too small for a ring", reader->path,
                       bytes);
    result = reader_copy(reader, 0, header, sizeof(*header), err);
    if (result < 0)
        return result;
    result = ring_header_check(header, bytes, err);
    return result < 0 ? err_wrap(err, result, "%s", reader->path) : 0;
}

static int reader_grow(struct ring_reader **reader)
{
    size_t lanes = (*reader)->header.lanes;
    size_t bytes = sizeof(**reader) + lanes * sizeof((*reader)->lane[0]);
    struct ring_reader *grown = realloc(*reader, bytes);

    if (!grown)
        return -ENOMEM;
    memset(grown->lane, 0, lanes * sizeof(grown->lane[0]));
    for (size_t i = 0; i < lanes; i++)
        grown->lane[i].last_step = RING_NO_STEP;
    *reader = grown;
    return 0;
}

static void reader_free(struct ring_reader **reader)
{
    if (!*reader)
        return;
    if ((*reader)->fd >= 0)
        close((*reader)->fd);
    free((*reader)->path);
    free(*reader);
}

int ring_reader_open_at(int dir_fd, const char *path, struct ring_reader **ret, struct err *err)
{
    CLEAN(reader_free) struct ring_reader *reader = calloc(1, sizeof(*reader));
    uint64_t bytes = 0;
    int result;

    if (!reader)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    reader->fd = -1;
    reader->path = strdup(path);
    if (!reader->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    result = reader_open_file(reader, dir_fd, path, err);
    if (result == 0)
        result = reader_check_file(reader, &bytes, err);
    if (result == 0)
        result = reader_check_header(reader, bytes, err);
    if (result < 0)
        return result;
    if (reader_grow(&reader) < 0)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    *ret = TAKE(reader);
    return 0;
}

int ring_reader_open(const char *path, struct ring_reader **ret, struct err *err)
{
    return ring_reader_open_at(AT_FDCWD, path, ret, err);
}

uid_t ring_reader_owner(const struct ring_reader *reader)
{
    return reader->owner;
}

void ring_reader_close(struct ring_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t i = 0; i < reader->header.lanes; i++)
        free(reader->lane[i].event);
    reader_free(&reader);
}

/* ---- header and table ---- */

/* Copies until two in a row agree; a writer faster than that leaves the newest copy. */
static int reader_copy_stable(const struct ring_reader *reader, uint64_t offset, void *out,
                              void *before, size_t size, struct err *err)
{
    int result = reader_copy(reader, offset, out, size, err);

    for (int i = 0; i < READER_TRIES && result == 0; i++) {
        memcpy(before, out, size);
        result = reader_copy(reader, offset, out, size, err);
        if (result == 0 && memcmp(before, out, size) == 0)
            break;
    }
    return result;
}

/* Names go to terminals: what could move a cursor there becomes '?'. */
static void ring_text_copy(char *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];

        out[i] = (byte != 0 && byte < 0x20) || byte == 0x7f ? '?' : (char)byte;
    }
}

static bool ring_layout_stable(const struct reader_state *before, const struct reader_state *after)
{
    return after->layout_seq != 0 && after->layout_seq % 2 == 0 &&
           before->layout_seq == after->layout_seq;
}

/* Sizes are at least 1, indices below them. */
static bool ring_layout_valid(const uint16_t layout[static 10])
{
    for (int i = 0; i < 5; i++)
        if (layout[i] == 0 || layout[i + 5] >= layout[i])
            return false;
    return true;
}

int ring_reader_info(struct ring_reader *reader, struct ring_info *info, struct err *err)
{
    const struct ring_header *header = &reader->header;
    struct reader_state now, before;
    int result = reader_copy_stable(reader, offsetof(struct ring_header, step), &now, &before,
                                    sizeof(now), err);

    if (result < 0)
        return result;
    *info = (struct ring_info){
        .rank = header->rank,
        .world = header->world,
        .attempt = header->attempt,
        .pid = header->pid,
        .lanes = header->lanes,
        .lane_records = header->lane_records,
        .lanes_used = now.lanes_used,
        .comms_used = MIN(now.comms_used, RING_COMMS),
        .stamps = header->stamps,
        .pid_ns_inode = header->pid_ns_inode,
        .pid_start = header->pid_start,
        .open_mono_ns = header->open_mono_ns,
        .open_real_ns = header->open_real_ns,
        .step = now.step,
        .dropped = now.dropped,
        .uid = header->uid,
        .closed = now.closed != 0,
        .has_layout = ring_layout_stable(&before, &now) && ring_layout_valid(now.layout),
    };
    if (info->has_layout)
        memcpy(info->layout, now.layout, sizeof(info->layout));
    ring_text_copy(info->run, header->run, sizeof(info->run));
    ring_text_copy(info->program, header->program, sizeof(info->program));
    return 0;
}

int ring_reader_comm(struct ring_reader *reader, uint32_t index, struct ring_comm_info *comm)
{
    struct ring_comm now, before;
    int result;

    if (index >= RING_COMMS)
        return 0;
    result = reader_copy_stable(reader, RING_COMMS_OFFSET + index * sizeof(now), &now, &before,
                                sizeof(now), NULL);
    if (result < 0)
        return result;
    if (now.ready != 1 || before.ready != 1 || now.size == 0 || now.index >= now.size)
        return 0;
    *comm = (struct ring_comm_info){
        .id = now.id,
        .size = now.size,
        .index = now.index,
        .kind = now.kind < LOCKSTEP_COMM_KIND_COUNT ? now.kind : LOCKSTEP_COMM_OTHER,
        .coll_enqueued = now.coll_enqueued,
        .coll_started = now.coll_started,
        .coll_ended = now.coll_ended,
        .p2p_enqueued = now.p2p_enqueued,
        .p2p_started = now.p2p_started,
        .p2p_ended = now.p2p_ended,
    };
    ring_text_copy(comm->name, now.name, sizeof(now.name));
    return 1;
}

void ring_reader_mark_lost(struct ring_reader *reader)
{
    reader->mark_lost = true;
}

/* ---- stamps ---- */

#define STAMPS_CHUNK 128u

static uint64_t reader_stamps_offset(const struct ring_reader *reader)
{
    return ring_stamps_offset(reader->header.lanes, reader->header.lane_records);
}

static bool reader_stamp_valid(const struct ring_stamp *stamp, uint64_t place, uint64_t places)
{
    return stamp->count != 0 && (stamp->count - 1) % places == place &&
           stamp->check == ring_stamp_check(stamp->count, stamp->tag, stamp->device_ns);
}

/* Copies places from `place` on, at most to the end.  How many, or -errno. */
static int reader_stamps_copy(const struct ring_reader *reader, uint64_t place,
                              struct ring_stamp *stamp)
{
    uint64_t many = MIN(reader->header.stamps - place, STAMPS_CHUNK);
    uint64_t offset = reader_stamps_offset(reader) + sizeof(struct ring_stamps_head);
    int result =
        reader_copy(reader, offset + place * sizeof(*stamp), stamp, many * sizeof(*stamp), NULL);

    return result < 0 ? result : (int)many;
}

/* The oldest count that is there; 0: none is.  A device writes in order, so a place that holds a later round than the one before
 * it... is where the round ends: the oldest is the smallest count.
 */
static int reader_stamps_oldest(const struct ring_reader *reader, uint64_t *ret)
{
    struct ring_stamp stamp[STAMPS_CHUNK];
    uint64_t oldest = 0;

    for (uint64_t place = 0; place < reader->header.stamps;) {
        int many = reader_stamps_copy(reader, place, stamp);

        if (many < 0)
            return many;
        for (int i = 0; i < many; i++)
            if (reader_stamp_valid(&stamp[i], place + (uint64_t)i, reader->header.stamps) &&
                (oldest == 0 || stamp[i].count < oldest))
                oldest = stamp[i].count;
        place += (uint64_t)many;
    }
    *ret = oldest;
    return 0;
}

/* From the next count on.  A place with a later count than it should have was overwritten unread; one with an earlier one, or a
 * half of each, has not been written yet.
 */
static size_t reader_stamps_take(struct ring_reader *reader, const struct ring_stamp *from,
                                 int many, struct ring_stamp *stamp, size_t room, uint64_t *lost)
{
    uint64_t places = reader->header.stamps, place = (reader->stamps_next - 1) % places;
    size_t took = 0;

    for (int i = 0; i < many && took < room; i++, place++) {
        if (!reader_stamp_valid(&from[i], place, places) || from[i].count < reader->stamps_next)
            break;
        *lost += from[i].count - reader->stamps_next;
        reader->stamps_next = from[i].count + 1;
        stamp[took++] = from[i];
        if (from[i].count % places == 0)
            break; /* the next place is the first */
    }
    return took;
}

int ring_reader_stamps(struct ring_reader *reader, struct ring_stamp *stamp, size_t room,
                       uint64_t *lost)
{
    struct ring_stamp chunk[STAMPS_CHUNK];
    size_t count = 0, took = 1;

    if (reader->header.stamps == 0)
        return 0;
    if (reader->stamps_next == 0) {
        int result = reader_stamps_oldest(reader, &reader->stamps_next);

        if (result < 0 || reader->stamps_next == 0)
            return result;
    }
    for (; took > 0 && count < room && count < reader->header.stamps; count += took) {
        int many =
            reader_stamps_copy(reader, (reader->stamps_next - 1) % reader->header.stamps, chunk);

        if (many < 0)
            return many;
        took = reader_stamps_take(reader, chunk, many, stamp + count, room - count, lost);
    }
    return (int)count;
}

bool ring_reader_clock(struct ring_reader *reader, struct ring_clock *ret)
{
    struct {
        uint64_t seq;
        int64_t offset_ns, drift, at_ns;
    } now, before;

    if (reader->header.stamps == 0 ||
        reader_copy_stable(reader, reader_stamps_offset(reader), &now, &before, sizeof(now), NULL) <
            0 ||
        memcmp(&now, &before, sizeof(now)) != 0 || now.seq == 0 || now.seq % 2)
        return false;
    if (now.drift > RING_CLOCK_DRIFT_MAX || now.drift < -RING_CLOCK_DRIFT_MAX)
        return false; /* no two clocks of a machine differ so much */
    *ret = (struct ring_clock){ now.offset_ns, now.drift, now.at_ns };
    return true;
}

/* ---- requests ---- */

static int reader_put(const struct ring_reader *reader, const void *data, size_t size,
                      uint64_t offset)
{
    ssize_t put = pwrite(reader->fd, data, size, (off_t)offset);

    if (put < 0)
        return -errno;
    return put == (ssize_t)size ? 0 : -EIO;
}

static int ring_request_writable(struct ring_reader *reader)
{
    uint64_t bytes = 0;
    int result = reader_check_file(reader, &bytes, NULL);

    if (result < 0)
        return result;
    if (reader->header.version < 2)
        return -ENOTSUP;
    if (!reader->writable)
        return -EACCES;
    return bytes < reader->header.file_bytes ? -EPROTO : 0; /* a truncated file must not grow */
}

/* Odd, the body, even: three writes, so that a rank that reads in between knows it.  A writer that
 * died after the first left an odd number; the next one goes on from there.
 */
int ring_reader_request(struct ring_reader *reader, const struct ring_request *request)
{
    struct ring_request_place place = { .seq = 0 };
    uint64_t at, seq;
    int result;

    if (!ring_request_valid(request))
        return -EINVAL;
    at = offsetof(struct ring_header, request) + (request->kind - 1) * sizeof(place);
    result = ring_request_writable(reader);
    if (result == 0)
        result = reader_copy(reader, at, &seq, sizeof(seq), NULL);
    if (result < 0)
        return result;
    place.seq = (seq + 1) | 1;
    place.id = request->id;
    place.step = request->step;
    place.argument = request->argument;
    place.kind = request->kind;
    place.crc = ring_request_crc(request);
    result = reader_put(reader, &place, sizeof(seq), at);
    if (result == 0)
        result = reader_put(reader, &place, sizeof(place), at);
    place.seq++;
    return result < 0 ? result : reader_put(reader, &place, sizeof(seq), at);
}

int ring_reader_answer(struct ring_reader *reader, uint32_t kind, struct ring_answer *ret)
{
    struct ring_answer_place now, before;
    int result;

    if (kind < 1 || kind > RING_REQUESTS)
        return -EINVAL;
    if (reader->header.version < 2)
        return 0;
    result =
        reader_copy_stable(reader, offsetof(struct ring_header, answer) + (kind - 1) * sizeof(now),
                           &now, &before, sizeof(now), NULL);
    if (result < 0)
        return result;
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): two copies of the same bytes */
    if (now.seq == 0 || now.seq % 2 || memcmp(&now, &before, sizeof(now)) != 0)
        return 0;
    *ret = (struct ring_answer){ .id = now.id, .step = now.step, .answer = now.answer };
    return 1;
}

bool ring_name_parse(const char *name, uint32_t *ret_rank, uint32_t *ret_number)
{
    char again[64];

    return sscanf(name, RING_NAME_FORMAT, ret_rank, ret_number) == 2 &&
           snprintf(again, sizeof(again), RING_NAME_FORMAT, *ret_rank, *ret_number) > 0 &&
           strcmp(again, name) == 0;
}

/* ---- records ---- */

static void ring_lost_add(uint64_t *lost, uint64_t records)
{
    if (__builtin_add_overflow(*lost, records, lost))
        *lost = UINT64_MAX;
}

/* No writer of ours makes a head go back or past the end of numbers: memory was damaged, or
 * someone plays with us.  The other lanes may still be good.
 */
static void lane_break(struct reader_lane *lane, uint64_t *lost)
{
    lane->broken = true;
    lane->target = lane->next;
    ring_lost_add(lost, 1);
}

/* Sets how far this call goes in a lane, so that a fast writer cannot keep us in it. */
static int lane_aim(struct ring_reader *reader, uint32_t index, uint64_t *lost, struct err *err)
{
    struct reader_lane *lane = &reader->lane[index];
    uint64_t head = 0;
    int result;

    lane->target = lane->next;
    if (lane->broken)
        return 0;
    result = reader_copy(reader, lane_offset(reader, index), &head, sizeof(head), err);
    if (result < 0 || head == lane->next)
        return result;
    result = lane_head(reader, index, &head, err);
    if (result < 0)
        return result;
    if (!lane->event)
        lane->event = calloc(READER_CHUNK + 1, sizeof(*lane->event)) /* + a hole before */;
    if (!lane->event)
        return err_set(err, -ENOMEM, "%s: out of memory", reader->path);
    if (head < lane->next || head > RING_HEAD_MAX)
        lane_break(lane, lost);
    else
        lane->target = head;
    return 0;
}

static int reader_aim(struct ring_reader *reader, uint64_t *lost, struct err *err)
{
    struct reader_state state;
    uint32_t used;
    int result =
        reader_copy(reader, offsetof(struct ring_header, step), &state, sizeof(state), err);

    if (result < 0)
        return result;
    used = MIN(state.lanes_used, reader->header.lanes);
    for (uint32_t i = 0; i < used && result == 0; i++)
        result = lane_aim(reader, i, lost, err);
    return result;
}

/* Puts an event behind those at hand, and before it the hole that it follows.  In a block of n
 * records there are at most n events and holes, and the hole that the last block left.
 */
static void lane_give(const struct ring_reader *reader, struct reader_lane *lane,
                      const struct ring_event *event)
{
    uint32_t index = (uint32_t)(lane - reader->lane);

    if (lane->lost && reader->mark_lost)
        lane->event[lane->count++] = (struct ring_event){ .time_ns = lane->last_time_ns,
                                                          .step = event->step,
                                                          .kind = RING_LOST,
                                                          .detail = event->kind,
                                                          .comm = -1,
                                                          .lane = index,
                                                          .a = lane->lost,
                                                          .b = lane->last_step };
    lane->lost = 0;
    lane->last_step = event->step;
    lane->last_time_ns = event->time_ns;
    lane->event[lane->count] = *event;
    lane->event[lane->count++].lane = index;
}

/* Takes the good ones of the `count` records in the block, which begin at lane->next. */
static void lane_take(struct ring_reader *reader, struct reader_lane *lane, uint32_t count,
                      uint64_t oldest, uint64_t *lost)
{
    lane->from = lane->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *word = reader->block[i];
        uint64_t n = lane->next + i;
        struct ring_event event;

        if (n >= oldest && word[0] == 2 * n + 2 && ring_event_unpack(word + 1, &event)) {
            lane_give(reader, lane, &event);
        } else {
            ring_lost_add(lost, 1);
            ring_lost_add(&lane->lost, 1);
        }
    }
    lane->next += count;
}

/* Copies one block: at most a chunk, and not over the lane's end. */
static int lane_copy(struct ring_reader *reader, uint32_t index, uint32_t *budget, uint64_t *lost,
                     struct err *err)
{
    struct reader_lane *lane = &reader->lane[index];
    uint32_t records = reader->header.lane_records;
    uint64_t oldest = ring_oldest(lane->target, records), place, head = 0;
    uint32_t count;
    int result;

    if (lane->next < oldest) {
        ring_lost_add(lost, oldest - lane->next);
        ring_lost_add(&lane->lost, oldest - lane->next);
        lane->next = oldest;
    }
    place = lane->next & (records - 1);
    count = (uint32_t)MIN(MIN(lane->target - lane->next, READER_CHUNK), records - place);
    result = reader_copy(reader,
                         lane_offset(reader, index) + sizeof(struct ring_lane) +
                             place * sizeof(struct ring_record),
                         reader->block, count * sizeof(struct ring_record), err);
    if (result == 0)
        result = lane_head(reader, index, &head, err);
    if (result < 0)
        return result;
    *budget -= MIN(count, *budget);
    if (head < lane->target || head > RING_HEAD_MAX)
        lane_break(lane, lost);
    else
        lane_take(reader, lane, count, ring_oldest(head, records), lost);
    return 0;
}

/* 1: the lane has an event at hand, 0: it has none, -EAGAIN: looked at enough for one call. */
static int lane_fill(struct ring_reader *reader, uint32_t index, uint32_t *budget, uint64_t *lost,
                     struct err *err)
{
    struct reader_lane *lane = &reader->lane[index];

    while (lane->from == lane->count && lane->next < lane->target) {
        int result;

        if (*budget == 0)
            return -EAGAIN;
        result = lane_copy(reader, index, budget, lost, err);
        if (result < 0)
            return result;
    }
    return lane->from < lane->count;
}

/* Moves the earliest event at hand to *ret: 1, or 0 when there is none. */
static int reader_pick(struct ring_reader *reader, struct ring_event *ret, uint32_t *budget,
                       uint64_t *lost, struct err *err)
{
    struct reader_lane *first = NULL;

    for (uint32_t i = 0; i < reader->header.lanes; i++) {
        struct reader_lane *lane = &reader->lane[i];
        int result = lane_fill(reader, i, budget, lost, err);

        if (result < 0)
            return result;
        if (result == 1 &&
            (!first || lane->event[lane->from].time_ns < first->event[first->from].time_ns))
            first = lane;
    }
    if (!first)
        return 0;
    *ret = first->event[first->from++];
    return 1;
}

/* After an error nothing more is copied; what is at hand is still given out, and the error
 * comes again with the next call.
 */
static void reader_stop(struct ring_reader *reader)
{
    for (uint32_t i = 0; i < reader->header.lanes; i++)
        reader->lane[i].target = reader->lane[i].next;
}

int ring_reader_next(struct ring_reader *reader, struct ring_event *event, size_t room,
                     uint64_t *lost, struct err *err)
{
    uint32_t budget = READER_BUDGET;
    size_t given = 0;
    int result = reader_aim(reader, lost, err);

    if (result < 0)
        reader_stop(reader);
    room = MIN(room, INT_MAX);
    while (given < room) {
        int got = reader_pick(reader, &event[given], &budget, lost, err);

        if (got == 0 || got == -EAGAIN)
            break;
        if (got < 0) {
            result = got;
            reader_stop(reader);
        } else {
            given++;
        }
    }
    return given > 0 ? (int)given : result;
}
