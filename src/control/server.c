/* server.c - the controller's loop.
 *
 * A round: look at the spools, take what is there up to a bound, log and feed each frame, then one
 * tick.  A burst is many rounds without sleep, so verdicts never wait for its end.  A frame
 * is logged before the core sees it, and a tick before the core gets it: what the core knows can
 * always be read from the log again.  When the log cannot be written (disk full), everything
 * stays in the spools and the round is tried again.
 */
#include "control/server.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/log.h"
#include "control/recall.h"
#include "control/rundir.h"
#include "control/spools.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define ROUND_FRAMES 1024
#define ROUND_BYTES (1u << 20)
#define TICK_AT_LEAST_NS NS_PER_S /* also when nothing comes: silence is judged too */
#define SYNC_NS NS_PER_S
#define LOCK_WAIT_NS (2 * NS_PER_S) /* a reader may hold the lock for a moment */
#define LAST_TRIES_NS (5 * NS_PER_S)
#define QUIET_SCANS 2

struct server {
    struct rundir dir;
    int64_t tick_ns;
    struct spool_writer *log;
    struct spools *spools;
    struct recall recall; /* the core, and what it said that is not in the log yet */
    int64_t ticked_ns, synced_ns;
    pid_t parent;
    sigset_t signals;
    bool dirty;         /* written since the last sync */
    bool told;          /* to stop */
    bool facts_waiting; /* fed since the last tick */
    int64_t trouble_ns; /* the log cannot be written, since then; 0: it can.  Said once */
    struct err trouble;
    bool told_malformed;
};

static void server_fini(struct server *server)
{
    recall_fini(&server->recall);
    spools_destroy(server->spools);
    spool_writer_close(server->log);
}

static int server_open_log(struct server *server, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + LOCK_WAIT_NS;
    int result;

    while ((result = spool_writer_open(server->dir.log.text, CONTROL_SENDER, &server->log, err)) ==
           -EBUSY) {
        struct timespec pause = time_spec(20 * NS_PER_MS);

        if (time_mono_ns() > deadline_ns)
            return err_wrap(err, result, "another controller is at work on run %s",
                            server->dir.run);
        nanosleep(&pause, NULL);
    }
    return result;
}

/* What the core has said goes to the log before anything else does. */
static int server_write_said(struct server *server, struct err *err)
{
    const struct said_frame *said;

    while ((said = said_first(&server->recall.said))) {
        int result = spool_put(server->log, said->type, &said->payload, err);

        if (result < 0)
            return result;
        server->dirty = true;
        said_drop(&server->recall.said);
    }
    return 0;
}

static int server_hello(struct server *server, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = {
        .kind = SENDER_CONTROL,
        .version = LOCKSTEP_VERSION,
        .mono_ns = time_mono_ns(),
        .real_ns = time_real_ns(),
    };

    memcpy(hello.run, server->recall.run, sizeof(hello.run));
    if (gethostname(hello.node, sizeof(hello.node) - 1) < 0)
        hello.node[0] = '\0';
    fact_hello_put(&payload, &hello);
    server->dirty = true;
    return spool_put(server->log, FRAME_HELLO, &payload, err);
}

static void reader_clean(struct spool_reader **reader)
{
    spool_reader_close(*reader);
}

/* Reads the log again: the core gets what it had, and the spools learn what need not come. */
static int server_recover(struct server *server, struct err *err)
{
    CLEAN(reader_clean) struct spool_reader *reader = NULL;
    struct recall *recall = &server->recall;
    struct frame frame;
    int result = spool_reader_open(server->dir.log.text, &reader, err);

    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1) {
        if (frame.sender != recall->self)
            result = spools_mark(server->spools, &frame);
        if (result >= 0)
            result = recall_frame(recall, &frame, err);
        if (result == -EPROTO) {
            log_error("%s: %s; going on", server->dir.log.text, err->text);
            result = 0;
        }
    }
    if (result < 0)
        return result;
    if (spool_reader_damaged(reader))
        log_error("%s: %llu damaged bytes skipped", server->dir.log.text,
                  (unsigned long long)spool_reader_damaged(reader));
    if (recall->different + recall->missing)
        log_error("%s: %llu verdicts or ledgers in it are not what this version says now",
                  server->dir.log.text, (unsigned long long)(recall->different + recall->missing));
    if (recall->ticks)
        log_info("run %s: went on after %llu facts and %llu ticks", recall->run,
                 (unsigned long long)recall->facts, (unsigned long long)recall->ticks);
    return 0;
}

static int server_tick(struct server *server, uint8_t flags, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_tick tick = { .mono_ns = time_mono_ns(),
                              .real_ns = time_real_ns(),
                              .flags = flags };
    int result;

    fact_tick_put(&payload, &tick);
    result = spool_put(server->log, FRAME_TICK, &payload, err);
    if (result < 0)
        return result;
    server->dirty = true;
    server->facts_waiting = false;
    server->ticked_ns = tick.mono_ns;
    result = recall_tick(&server->recall, &tick);
    if (result < 0)
        return err_set(err, result, "no memory for what the judges said");
    return server_write_said(server, err);
}

static int server_take(struct server *server, const struct frame *frame, struct err *err)
{
    struct core_counts before, after;
    int result = spool_put_frame(server->log, frame, err);

    if (result < 0)
        return result;
    server->dirty = true;
    server->facts_waiting = true;
    result = spools_take(server->spools);
    if (result < 0)
        return err_set(err, result, "no memory for one more sender");
    if (server->told_malformed || !server->recall.core)
        return recall_fact(&server->recall, frame, err);
    core_counts(server->recall.core, &before);
    result = recall_fact(&server->recall, frame, err);
    core_counts(server->recall.core, &after);
    if (after.malformed > before.malformed) {
        log_error("frame %llu of type %u is malformed and not judged, others may follow: %s",
                  (unsigned long long)frame->number, frame->type, err->text);
        server->told_malformed = true;
    }
    return result;
}

static int server_sync(struct server *server, bool now, struct err *err)
{
    int64_t at_ns = time_mono_ns();

    if (!server->dirty || (!now && at_ns - server->synced_ns < SYNC_NS))
        return 0;
    server->synced_ns = at_ns;
    server->dirty = false;
    return spool_sync(server->log, err);
}

static bool server_tick_is_due(const struct server *server)
{
    if (server->facts_waiting)
        return true;
    /* After the last tick silence is no news. */
    return !server->recall.last && time_mono_ns() - server->ticked_ns >= TICK_AT_LEAST_NS;
}

/* Returns how many frames came, or -errno. */
static int server_round(struct server *server, struct err *err)
{
    struct frame frame;
    size_t bytes = 0;
    int count = 0, result = server_write_said(server, err);

    if (result == 0)
        result = spools_scan(server->spools, err);
    while (result == 0 && count < ROUND_FRAMES && bytes < ROUND_BYTES &&
           spools_peek(server->spools, &frame, NULL) == 1) {
        result = server_take(server, &frame, err);
        bytes += FRAME_HEADER_BYTES + frame.payload_bytes;
        count++;
    }
    if (result == 0 && server_tick_is_due(server))
        result = server_tick(server, 0, err);
    if (result == 0)
        result = server_sync(server, false, err);
    return result < 0 ? result : count;
}

/* Sleeps a tick, or less when told to stop. */
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

/* The disk may have room again later; no memory for the core cannot be mended by waiting, but a
 * new process reads the log again.
 */
static int server_bear(struct server *server, int result, const struct err *err)
{
    if (result >= 0) {
        if (server->trouble_ns) /* and why: our words may have gone to the same full disk */
            log_info("%s: can be written again, after %.1f s: %s", server->dir.log.text,
                     (double)(time_mono_ns() - server->trouble_ns) / 1e9, server->trouble.text);
        server->trouble_ns = 0;
        return 0;
    }
    if (result == -ENOMEM)
        return result;
    if (server->trouble_ns)
        return 0;
    log_error("%s: %s; facts wait in the spools", server->dir.log.text, err->text);
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

/* Until nobody has written anything for two looks in a row; then the books are closed. */
static int server_finish(struct server *server, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + LAST_TRIES_NS;
    struct timespec pause = time_spec(server->tick_ns);
    int quiet = 0, result = 0;

    while (quiet < QUIET_SCANS) {
        result = server_round(server, err);
        if (result == -ENOMEM || (result < 0 && time_mono_ns() > deadline_ns))
            return result;
        quiet = result == 0 ? quiet + 1 : 0;
        if (result > 0)
            deadline_ns = time_mono_ns() + LAST_TRIES_NS;
        else if (quiet < QUIET_SCANS)
            nanosleep(&pause, NULL);
    }
    if (!server->recall.last)
        result = server_tick(server, TICK_LAST, err);
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
    server->parent = getppid();
    recall_init(&server->recall, server->dir.run);
    server_signals(server);
    result = spools_create(server->dir.spool.text, &server->spools);
    if (result < 0)
        return err_set(err, result, "%s: %s", server->dir.spool.text, strerror(-result));
    result = server_open_log(server, err);
    if (result == 0)
        result = server_recover(server, err);
    if (result == 0)
        result = server_write_said(server, err);
    return result < 0 ? result : server_hello(server, err);
}

int server_run(const struct server_settings *settings, struct err *err)
{
    CLEAN(server_fini) struct server server = { 0 };
    int result = server_open(&server, settings, err);

    if (result == 0)
        result = server_loop(&server, err);
    return result < 0 ? result : server_finish(&server, err);
}
