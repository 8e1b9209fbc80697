/* relay_log.c - events of a log, by frames.
 *
 * A log may be compacted, which puts another file in its place: offsets change, and the controller's frames are counted from 0 again.
 * So a place is checked by the content of the last event, and looked up by it if it is elsewhere.  If it is nowhere, the
 * log is sent again from its beginning: twice is allowed, not at all is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "control/log/spools.h"
#include "control/relay/relay_source.h"
#include "core/clean.h"
#include "wire/facts.h"
#include "wire/spool.h"

#define RUN_LOG "log.lsf"
#define SITE_LOG "site.lsf"

void relay_log_close(struct relay_source *source)
{
    spool_reader_close(TAKE(source->reader));
}

static int relay_log_path(const struct relay_source *source, struct path *ret, struct err *err)
{
    return path_join(ret, source->directory.text, source->run[0] ? RUN_LOG : SITE_LOG, err);
}

static uint64_t relay_log_inode(const struct relay_source *source)
{
    struct path path;
    struct stat st;

    return relay_log_path(source, &path, NULL) == 0 && stat(path.text, &st) == 0
               ? (uint64_t)st.st_ino
               : 0;
}

static int relay_frame_event(const struct relay_source *source, const struct frame *frame,
                             struct relay_event *ret)
{
    return relay_event_of_frame(frame, frame->sender == control_sender(), source->run, ret);
}

/* Whether the frame there holds the last event. */
static bool relay_log_has_at(struct relay_source *source, uint64_t offset)
{
    struct relay_event event = { 0 };
    struct frame frame;
    bool same;

    spool_reader_seek(source->reader, offset);
    if (spool_next(source->reader, &frame, NULL) != 1 ||
        relay_frame_event(source, &frame, &event) != 1)
        return false;
    same = event.id == source->now.event_id;
    relay_event_fini(&event);
    return same;
}

static bool relay_log_is_marker(const struct frame *frame)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };

    return frame->type == FRAME_COMPACTION && frame->sender == control_sender() &&
           fact_compaction_get(reader_of(frame->payload, frame->payload_bytes), &fact) == 0 &&
           fact.kind == COMPACTION_OUTPUT;
}

/* Where to read on in a file that is not the one of the place: behind the last event; or, when the file before was read to its
 * end, behind what the compaction carried over.
 */
static uint64_t relay_log_look_up(struct relay_source *source, bool was_at_end)
{
    uint64_t behind_marker = 0;
    struct frame frame;

    spool_reader_seek(source->reader, 0);
    while (spool_next(source->reader, &frame, NULL) == 1) {
        struct relay_event event = { 0 };
        bool same =
            relay_frame_event(source, &frame, &event) == 1 && event.id == source->now.event_id;

        relay_event_fini(&event);
        if (same)
            return spool_reader_offset(source->reader);
        if (was_at_end && relay_log_is_marker(&frame))
            behind_marker = spool_reader_offset(source->reader);
    }
    return behind_marker;
}

static int relay_log_open(struct relay_source *source, struct err *err)
{
    bool was_at_end = source->at_end;
    uint64_t inode = relay_log_inode(source);
    struct path path;
    int result = relay_log_path(source, &path, err);

    if (result == 0)
        result = spool_reader_open(path.text, &source->reader, err);
    if (result < 0)
        return result;
    if (source->now.event_id && inode == source->now.inode &&
        relay_log_has_at(source, source->now.event_at))
        spool_reader_seek(source->reader, source->now.at);
    else if (source->now.event_id)
        spool_reader_seek(source->reader, relay_log_look_up(source, was_at_end));
    else
        spool_reader_seek(source->reader, 0);
    source->now.inode = inode;
    source->at_end = false;
    return 0;
}

/* To the file that took the place of the one that was read, if there is one. */
static bool relay_log_switch(struct relay_source *source)
{
    uint64_t inode = relay_log_inode(source);

    source->at_end = true;
    if (!inode || inode == source->now.inode)
        return false;
    relay_log_close(source);
    return true;
}

int relay_log_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                   struct err *err)
{
    struct frame frame;
    int result = 0;

    do {
        uint64_t at;

        if (!source->reader)
            result = relay_log_open(source, err);
        if (result < 0)
            return result == -ENOENT ? 0 : result;
        while (*left && (at = spool_reader_offset(source->reader),
                         result = spool_next(source->reader, &frame, err)) == 1) {
            --*left;
            source->now.at = spool_reader_offset(source->reader);
            if (relay_frame_event(source, &frame, ret) != 1)
                continue;
            source->now.event_at = at;
            source->now.event_id = ret->id;
            return 1;
        }
        if (result < 0 || !*left)
            return result < 0 ? result : 0;
    } while (relay_log_switch(source));
    return 0;
}
