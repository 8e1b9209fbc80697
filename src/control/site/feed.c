/* feed.c - moves frames from the spools of a run to its log.
 *
 * The same sender may also post its frames over HTTP: both ways share what was seen, so each frame is logged once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/feed.h"

#include <errno.h>
#include <string.h>

#include "control/log/spools.h"
#include "control/site/site_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/facts.h"

#define ROUND_FRAMES 1024
#define ROUND_BYTES (1u << 20)
#define LAST_TRIES_NS (5 * NS_PER_S)
#define QUIET_SCANS 2

int feed_open(struct site_run *run, struct err *err)
{
    int result = spools_create(run->dir.spool.text, &run->seen, &run->feed.spools);

    return result < 0 ? err_set(err, result, "%s: %s", run->dir.spool.text, strerror(-result)) : 0;
}

void feed_close(struct feed *feed)
{
    spools_destroy(TAKE(feed->spools));
}

static int feed_take(struct site_run *run, const struct frame *frame, struct err *err)
{
    int result = 0;

    if (!seen_has(&run->seen, frame)) /* it may have arrived over HTTP since it was read */
        result = runlog_take(run->log, frame, 1, err);
    if (result < 0)
        return result;
    result = spools_take(run->feed.spools);
    return result < 0 ? err_set(err, result, "out of memory for another sender") : 0;
}

int feed_turn(struct site_run *run, struct err *err)
{
    struct spools *spools = run->feed.spools;
    struct frame frame;
    size_t bytes = 0;
    int count = 0, result = run_open(run, err);

    if (result == 0)
        result = runlog_write_output(run->log, err);
    if (result == 0)
        result = spools_scan(spools, err);
    while (result == 0 && count < ROUND_FRAMES && bytes < ROUND_BYTES &&
           spools_peek(spools, &frame, NULL) == 1) {
        result = feed_take(run, &frame, err);
        bytes += FRAME_HEADER_BYTES + frame.payload_bytes;
        count++;
    }
    run->feed.busy = result == 0 && count > 0;
    if (run->feed.busy)
        run->newest_ns = time_mono_ns();
    return result < 0 ? result : count;
}

void feed_stop(struct site_run *run)
{
    if (run->feed.stopping)
        return;
    run->feed.stopping = true;
    run->feed.deadline_ns = time_mono_ns() + LAST_TRIES_NS;
}

static int feed_close_run(struct site_run *run, struct err *err)
{
    int result = 0;

    if (!runlog_is_closed(run->log))
        result = runlog_tick(run->log, TICK_LAST, err);
    if (result == 0)
        result = runlog_sync(run->log, err);
    return result < 0 ? result : 1;
}

int feed_finish(struct site_run *run, int result, struct err *err)
{
    struct feed *feed = &run->feed;
    int64_t now_ns = time_mono_ns();

    if (result > 0 || result == -EAGAIN)
        feed->deadline_ns = now_ns + LAST_TRIES_NS;
    feed->quiet = result == 0 ? feed->quiet + 1 : 0;
    if (result < 0 && now_ns > feed->deadline_ns)
        return result;
    return feed->quiet < QUIET_SCANS ? 0 : feed_close_run(run, err);
}
