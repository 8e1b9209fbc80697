/* ring_make.h - a ring made by hand for tests: fixed times, any damage.
 *
 * Writes with pwrite(), record by record, in the order in which the probe stores.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_TEST_RING_MAKE_H
#define LOCKSTEP_WIRE_TEST_RING_MAKE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire/ring.h"
#include "wire/ring_format.h"

struct ring_make {
    int fd;
    uint32_t lanes, records;
    uint64_t head[RING_LANES_MAX];
};

static inline void make_write(int fd, const void *data, size_t size, uint64_t offset)
{
    if (pwrite(fd, data, size, (off_t)offset) != (ssize_t)size) {
        perror("pwrite");
        abort();
    }
}

static inline void make_seal(struct ring_header *header)
{
    header->crc = ring_header_crc(header);
}

static inline void make_header(struct ring_header *header, uint32_t lanes, uint32_t records)
{
    memset(header, 0, sizeof(*header));
    header->magic = RING_MAGIC;
    header->version = RING_VERSION;
    header->header_bytes = sizeof(*header);
    header->file_bytes = ring_file_bytes(lanes, records, 0);
    header->lanes = lanes;
    header->lane_records = records;
    header->rank = 3;
    header->world = 8;
    header->attempt = 1;
    header->pid = 4711;
    header->pid_ns_inode = 4026531836;
    header->pid_start = 123456;
    header->uid = 1000;
    header->clock_id = CLOCK_MONOTONIC;
    header->open_mono_ns = 1000000000;
    header->open_real_ns = 1700000000000000000;
    snprintf(header->run, sizeof(header->run), "golden");
    snprintf(header->program, sizeof(header->program), "trainer");
    header->step = RING_NO_STEP;
    header->lanes_used = lanes;
    make_seal(header);
}

static inline void make_begin(struct ring_make *make, int fd, uint32_t lanes, uint32_t records)
{
    struct ring_header header;

    *make = (struct ring_make){ .fd = fd, .lanes = lanes, .records = records };
    make_header(&header, lanes, records);
    if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)header.file_bytes) < 0)
        abort();
    make_write(fd, &header, sizeof(header), 0);
}

static inline uint64_t make_lane_offset(const struct ring_make *make, uint32_t lane)
{
    return RING_LANES_OFFSET + lane * ring_lane_bytes(make->records);
}

static inline uint64_t make_record_offset(const struct ring_make *make, uint32_t lane, uint64_t n)
{
    return make_lane_offset(make, lane) + sizeof(struct ring_lane) +
           n % make->records * sizeof(struct ring_record);
}

static inline void make_head(const struct ring_make *make, uint32_t lane, uint64_t head)
{
    uint32_t tid = 100 + lane;

    make_write(make->fd, &head, sizeof(head), make_lane_offset(make, lane));
    make_write(make->fd, &tid, sizeof(tid),
               make_lane_offset(make, lane) + offsetof(struct ring_lane, tid));
}

static inline void make_put(struct ring_make *make, uint32_t lane, const struct ring_event *event)
{
    uint64_t n = make->head[lane]++;
    const uint64_t word[8] = {
        2 * n + 2,   event->time_ns,
        event->step, ring_pack(event->kind, event->detail, event->stream, event->comm),
        event->a,    event->b,
        event->c,    event->d,
    };

    make_write(make->fd, word, sizeof(word), make_record_offset(make, lane, n));
    make_head(make, lane, n + 1);
}

/* A step begin is the simplest event; its `a` tells it from others. */
static inline void make_tick(struct ring_make *make, uint32_t lane, uint64_t time_ns, uint64_t mark)
{
    make_put(make, lane,
             &(struct ring_event){
                 .time_ns = time_ns, .step = 1, .kind = RING_STEP_BEGIN, .comm = -1, .a = mark });
}

#endif
