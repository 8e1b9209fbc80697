/* server.c - the controller's loop.
 *
 * A round reads the spools up to a limit, logs each frame and passes it to the core (runlog.h), then does one tick.
 * A burst of facts is many rounds without sleep, so verdicts do not wait for its end.  If the log cannot be written
 * (disk full), facts stay in the spools and the round is repeated.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/server.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/log.h"
#include "control/log/rundir.h"
#include "control/log/runlog.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/facts.h"

#define ROUND_FRAMES 1024
#define ROUND_BYTES (1u << 20)
#define SYNC_NS NS_PER_S
#define LOCK_WAIT_NS (2 * NS_PER_S) /* a reader may hold the lock for a moment */
#define LAST_TRIES_NS (5 * NS_PER_S)
#define QUIET_SCANS 2
#define COMPACT_NS (30 * NS_PER_MS) /* of a round */

struct server {
    struct rundir dir;
    int64_t tick_ns;
    uint64_t log_max;
    struct spools *spools;
    struct runlog *log;
    int64_t synced_ns;
    pid_t parent;
    sigset_t signals;
    bool told;          /* to stop */
    int64_t trouble_ns; /* the log cannot be written, since then; 0: it can.  Said once */
    struct err trouble;
};

static void server_fini(struct server *server)
{
    runlog_close(server->log);
    spools_destroy(server->spools);
}

static int server_take(struct server *server, const struct frame *frame, struct err *err)
{
    int result = runlog_take(server->log, frame, 1, err);

    if (result < 0)
        return result;
    result = spools_take(server->spools);
    return result < 0 ? err_set(err, result, "out of memory for another sender") : 0;
}

static int server_sync(struct server *server, bool now, struct err *err)
{
    int64_t at_ns = time_mono_ns();

    if (!runlog_is_dirty(server->log) || (!now && at_ns - server->synced_ns < SYNC_NS))
        return 0;
    server->synced_ns = at_ns;
    return runlog_sync(server->log, err);
}

/* Its log does not grow for ever: what is old is merged, a little at a time.  That it cannot be is no reason to stop
 * taking facts, unless the log is not what the core knows any more.
 */
static int server_compact(struct server *server, struct err *err)
{
    struct err why = { "" };
    struct runlog_shift shift;
    int result = runlog_compact(server->log, server->log_max, COMPACT_NS, &shift, &why);

    if (result < 0)
        log_error("cannot compact the log now: %s", why.text);
    if (result == 1)
        log_info("compacted the log from %llu to %llu bytes",
                 (unsigned long long)shift.bytes_before, (unsigned long long)shift.bytes);
    return result == -ENOMEM || result == -ESTALE ? err_set(err, result, "%s", why.text) : 0;
}

/* Returns how many frames came, or -errno. */
static int server_round(struct server *server, struct err *err)
{
    struct frame frame;
    size_t bytes = 0;
    int count = 0, result = runlog_write_output(server->log, err);

    if (result == 0)
        result = spools_scan(server->spools, err);
    while (result == 0 && count < ROUND_FRAMES && bytes < ROUND_BYTES &&
           spools_peek(server->spools, &frame, NULL) == 1) {
        result = server_take(server, &frame, err);
        bytes += FRAME_HEADER_BYTES + frame.payload_bytes;
        count++;
    }
    if (result == 0 && runlog_tick_is_due(server->log))
        result = runlog_tick(server->log, 0, err);
    if (result == 0)
        result = server_sync(server, false, err);
    if (result == 0 && server->log_max)
        result = server_compact(server, err);
    return result < 0 ? result : count;
}

/* Sleeps a tick, or less when a stop signal arrives. */
static void server_wait(struct server *server)
{
    struct timespec tick = time_spec(server->tick_ns);

    if (sigtimedwait(&server->signals, NULL, &tick) > 0)
        server->told = true;
}

static void server_look_up(struct server *server)
{
    static const struct timespec at_once = { 0 };

    if (sigtimedwait(&server->signals, NULL, &at_once) > 0 || getppid() != server->parent)
        server->told = true;
}

/* The disk may have room again later; no memory for the core, or a core that knows more than the log,
 * cannot be mended by waiting, but a new process reads the log again.
 */
static int server_bear(struct server *server, int result, const struct err *err)
{
    if (result >= 0) {
        if (server->trouble_ns) /* and why: our words may have gone to the same full disk */
            log_info("%s is writable again after %.1f s; the error was: %s", server->dir.log.text,
                     (double)(time_mono_ns() - server->trouble_ns) / 1e9, server->trouble.text);
        server->trouble_ns = 0;
        return 0;
    }
    if (result == -ENOMEM || result == -ESTALE)
        return result;
    if (server->trouble_ns)
        return 0;
    log_error("%s: %s; facts stay in the spools until the log is writable", server->dir.log.text,
              err->text);
    server->trouble_ns = time_mono_ns();
    server->trouble = *err;
    return 0;
}

static int server_loop(struct server *server, struct err *err)
{
    while (!server->told) {
        int count = server_round(server, err);
        int result = server_bear(server, count, err);

        if (result < 0)
            return result;
        if (count <= 0)
            server_wait(server);
        server_look_up(server);
    }
    return 0;
}

/* Until no spool has grown for two rounds; then the run is closed. */
static int server_finish(struct server *server, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + LAST_TRIES_NS;
    struct timespec pause = time_spec(server->tick_ns);
    int quiet = 0, result = 0;

    while (quiet < QUIET_SCANS) {
        result = server_round(server, err);
        if (result == -ENOMEM || result == -ESTALE || (result < 0 && time_mono_ns() > deadline_ns))
            return result;
        quiet = result == 0 ? quiet + 1 : 0;
        if (result > 0)
            deadline_ns = time_mono_ns() + LAST_TRIES_NS;
        else if (quiet < QUIET_SCANS)
            nanosleep(&pause, NULL);
    }
    if (!runlog_is_closed(server->log))
        result = runlog_tick(server->log, TICK_LAST, err);
    return result < 0 ? result : server_sync(server, true, err);
}

static void server_signals(struct server *server)
{
    sigemptyset(&server->signals);
    sigaddset(&server->signals, SIGTERM);
    sigaddset(&server->signals, SIGINT);
    sigaddset(&server->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &server->signals, NULL);
    signal(SIGPIPE, SIG_IGN); /* stderr may go before we do */
}

static int server_open(struct server *server, const struct server_settings *settings,
                       struct err *err)
{
    int result = rundir_open(&server->dir, settings->run_dir, err);

    if (result < 0)
        return result;
    server->tick_ns = settings->tick_ns;
    server->log_max = settings->log_max;
    server->parent = getppid();
    server_signals(server);
    result = spools_create(server->dir.spool.text, &server->spools);
    if (result < 0)
        return err_set(err, result, "%s: %s", server->dir.spool.text, strerror(-result));
    return runlog_open(&(struct runlog_settings){ .dir = &server->dir,
                                                  .seen = spools_seen(server->spools),
                                                  .lock_wait_ns = LOCK_WAIT_NS,
                                                  .thresholds = settings->thresholds },
                       &server->log, err);
}

int server_run(const struct server_settings *settings, struct err *err)
{
    CLEAN(server_fini) struct server server = { 0 };
    int result = server_open(&server, settings, err);

    if (result == 0)
        result = server_loop(&server, err);
    return result < 0 ? result : server_finish(&server, err);
}
