/* relay.c - the loop: read, send, wait until it is delivered, move the cursor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/relay/relay.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "control/http/audit.h"
#include "control/relay/relay_cursor.h"
#include "core/clean.h"
#include "core/time.h"

#define BATCH_BYTES                                                                                \
    (256u << 10)           /* what is under way: it is sent again when the connection is lost */
#define TURN_FRAMES 20000u /* of one source, before it is the next one's turn */
#define IDLE_MS 250
#define SCAN_NS NS_PER_S
#define SAVE_NS (10 * NS_PER_S) /* positions without events are saved so often */
#define AGAIN_MIN_MS 500
#define AGAIN_MAX_MS 30000
#define QUIET_CLOSE_NS (60 * NS_PER_S)
#define OPEN_MAX 200u /* files that are kept open because they may grow */

struct relay_input {
    struct relay_source source;
    uint64_t inode, size; /* of its file when it was read to its end */
    int64_t quiet_ns;     /* since when it did not grow */
    bool failed;          /* and that was logged */
};

struct relay {
    const struct relay_settings *settings;
    struct relay_input **input;
    size_t inputs, room;
    struct relay_cursor cursor; /* of an earlier relay, for sources that appear later */
    bool first_scan;
    struct relay_sink sink;
    struct path cursor_path;
    char host[256];
    int lock_fd, signal_fd;
    int64_t scan_at_ns, save_at_ns;
    int again_ms;
    bool lost; /* and that was logged */
    struct relay_counts *counts;
};

/* ---- sources ---- */

static struct relay_input *relay_find(struct relay *relay, const char *name)
{
    for (size_t i = 0; i < relay->inputs; i++) {
        if (strcmp(relay->input[i]->source.name, name) == 0)
            return relay->input[i];
    }
    return NULL;
}

/* Where an earlier relay stopped; or at its end, when only what is new is wanted and this is not a run that began since. */
static int relay_place_set(struct relay *relay, struct relay_source *source, struct err *err)
{
    const struct relay_mark *mark = relay_cursor_find(&relay->cursor, source->name);

    if (mark && mark->kind == source->kind) {
        source->now = source->delivered = mark->place;
        source->is_new = false;
        return 0;
    }
    return relay->settings->new_only && relay->first_scan ? relay_source_skip(source, err) : 0;
}

static int relay_add(struct relay *relay, enum relay_source_kind kind, const char *name,
                     const char *run, const char *directory, struct err *err)
{
    struct relay_input *input = relay_find(relay, name);

    if (input) {
        input->source.seen = true;
        return 0;
    }
    if (!ARRAY_FIT(relay->input, relay->room, relay->inputs + 1))
        return err_nomem(err);
    input = calloc(1, sizeof(*input));
    if (!input)
        return err_nomem(err);
    relay_source_init(&input->source, kind, name, run, directory);
    input->source.seen = true;
    relay->input[relay->inputs++] = input;
    return relay_place_set(relay, &input->source, err);
}

static int relay_add_run(struct relay *relay, const char *run, struct err *err)
{
    char name[RELAY_SOURCE_NAME];
    struct path directory;
    int result = paths_run_of(relay->settings->state, run, &directory, err);

    if (result < 0) /* not the name of a run */
        return 0;
    snprintf(name, sizeof(name), "run/%s", run);
    result = relay_add(relay, RELAY_LOG, name, run, directory.text, err);
    snprintf(name, sizeof(name), "audit/%s", run);
    return result < 0 ? result : relay_add(relay, RELAY_AUDIT, name, run, directory.text, err);
}

static void relay_drop_unseen(struct relay *relay)
{
    size_t kept = 0;

    for (size_t i = 0; i < relay->inputs; i++) {
        if (relay->input[i]->source.seen) {
            relay->input[kept++] = relay->input[i];
            continue;
        }
        relay_source_close(&relay->input[i]->source);
        free(relay->input[i]);
    }
    relay->inputs = kept;
}

/* Runs come and go. */
static int relay_scan(struct relay *relay, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    const char *state = relay->settings->state;
    int result = paths_runs_open(state, &dir, err);

    for (size_t i = 0; i < relay->inputs; i++)
        relay->input[i]->source.seen = false;
    if (result == 0)
        result = relay_add(relay, RELAY_LOG, "site", "", state, err);
    if (result == 0)
        result = relay_add(relay, RELAY_AUDIT, "audit", "", state, err);
    for (const struct dirent *entry; result == 0 && dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.')
            result = relay_add_run(relay, entry->d_name, err);
    }
    if (result == 0)
        relay_drop_unseen(relay);
    relay->first_scan = false;
    relay->counts->sources = relay->inputs;
    return result;
}

/* ---- reading ---- */

/* Most runs are over: one stat() each tells that there is nothing to read. */
static bool relay_input_grew(struct relay_input *input, int64_t now_ns)
{
    const struct relay_source *source = &input->source;
    const char *name = source->kind == RELAY_AUDIT ? AUDIT_FILE
                       : source->run[0]            ? "log.lsf"
                                                   : "site.lsf";
    struct path path;
    struct stat st;

    if (path_join(&path, source->directory.text, name, NULL) < 0 || stat(path.text, &st) < 0)
        return false;
    if ((uint64_t)st.st_ino == input->inode && (uint64_t)st.st_size == input->size) {
        if (now_ns - input->quiet_ns > QUIET_CLOSE_NS && source->now.event_id)
            relay_source_close(&input->source);
        return false;
    }
    input->inode = (uint64_t)st.st_ino;
    input->size = (uint64_t)st.st_size;
    input->quiet_ns = now_ns;
    return true;
}

static void relay_render(const struct relay *relay, const struct relay_event *event,
                         struct buf *out)
{
    if (relay->settings->target.syslog)
        relay_event_syslog(event, relay->host, relay->settings->sd_id, out);
    else
        relay_event_json(event, out);
}

/* 1: there may be more of it; 0: read to its end; -errno. */
static int relay_read(struct relay *relay, struct relay_source *source, struct buf *out,
                      uint64_t *events, struct err *err)
{
    struct relay_event event = { 0 };
    size_t left = TURN_FRAMES;
    int result = 0;

    while (out->size < BATCH_BYTES &&
           (result = relay_source_next(source, &left, &event, err)) == 1) {
        relay_render(relay, &event, out);
        relay_event_fini(&event);
        ++*events;
    }
    if (out->failed)
        return err_nomem(err);
    return result < 0 ? result : out->size >= BATCH_BYTES || left == 0;
}

/* A source that cannot be read holds up no other. */
static int relay_read_all(struct relay *relay, struct buf *out, uint64_t *events, bool *more)
{
    int64_t now_ns = time_mono_ns();

    *more = false;
    for (size_t i = 0; i < relay->inputs && out->size < BATCH_BYTES; i++) {
        struct relay_input *input = relay->input[i];
        struct err err = { "" };
        int result;

        if (!relay_input_grew(input, now_ns))
            continue;
        result = relay_read(relay, &input->source, out, events, &err);
        if (result == -ENOMEM)
            return result;
        if (result < 0 && !input->failed)
            log_error("%s: %s; it is tried again", input->source.name, err.text);
        input->failed = result < 0;
        if (result == 0 && i >= OPEN_MAX)
            relay_source_close(&input->source);
        else if (result != 0)
            input->size = UINT64_MAX; /* to be looked at again */
        *more = *more || result == 1;
    }
    *more = *more || out->size >= BATCH_BYTES;
    return 0;
}

/* ---- the cursor ---- */

static int relay_save(struct relay *relay, struct err *err)
{
    CLEAN(relay_cursor_fini) struct relay_cursor cursor = { 0 };

    for (size_t i = 0; i < relay->inputs; i++) {
        const struct relay_source *source = &relay->input[i]->source;
        struct relay_mark mark = { .kind = source->kind, .place = source->delivered };

        if (!mark.place.event_id && !mark.place.number)
            continue;
        snprintf(mark.name, sizeof(mark.name), "%s", source->name);
        if (relay_cursor_add(&cursor, &mark) < 0)
            return err_nomem(err);
    }
    relay->save_at_ns = time_mono_ns() + SAVE_NS;
    return relay_cursor_write(relay->cursor_path.text, &cursor, err);
}

static void relay_delivered(struct relay *relay)
{
    for (size_t i = 0; i < relay->inputs; i++)
        relay->input[i]->source.delivered = relay->input[i]->source.now;
}

static void relay_rewind(struct relay *relay)
{
    for (size_t i = 0; i < relay->inputs; i++) {
        relay_source_rewind(&relay->input[i]->source);
        relay->input[i]->size = UINT64_MAX;
    }
}

/* ---- sending ---- */

static int relay_send(struct relay *relay, const struct buf *out, struct err *err)
{
    int result = relay_sink_open(&relay->sink, err);

    if (result == 0 && relay->lost)
        log_info("connected again");
    if (result == 0)
        relay->lost = false;
    return result < 0 ? result : relay_sink_put(&relay->sink, out, err);
}

static void relay_log_lost(struct relay *relay, const struct err *err)
{
    if (!relay->lost)
        log_error("%s; events wait in the logs, and it is tried again", err->text);
    relay->lost = true;
    relay->again_ms = MIN(MAX(relay->again_ms * 2, AGAIN_MIN_MS), AGAIN_MAX_MS);
}

/* One batch.  1: something was sent, or there is more; 0: nothing to do; -errno: not delivered. */
static int relay_turn(struct relay *relay, struct err *err)
{
    CLEAN(buf_fini) struct buf out = { 0 };
    uint64_t events = 0;
    bool more = false;
    int result = 0;

    if (time_mono_ns() >= relay->scan_at_ns) {
        result = relay_scan(relay, err);
        relay->scan_at_ns = time_mono_ns() + SCAN_NS;
    }
    if (result == 0)
        result = relay_read_all(relay, &out, &events, &more);
    if (result < 0)
        return result;
    if (out.size)
        result = relay_send(relay, &out, err);
    if (result < 0) {
        relay_rewind(relay);
        return result;
    }
    relay_delivered(relay);
    relay->counts->events += events;
    if (out.size || time_mono_ns() >= relay->save_at_ns)
        result = relay_save(relay, err);
    return result < 0 ? result : out.size || more;
}

/* poll() and not base/loop.h: one destination is written to in order, and a turn must end before the next begins, so that what
 * was delivered is known; only signals may come between.  True: a signal asks to stop.
 */
static bool relay_wait(const struct relay *relay, int ms)
{
    struct pollfd wait = { .fd = relay->signal_fd, .events = POLLIN };

    return poll(&wait, 1, ms) > 0;
}

static int relay_loop(struct relay *relay, struct err *err)
{
    int wait_ms = 0;

    while (!relay_wait(relay, wait_ms)) {
        struct err why = { "" };
        int result = relay_turn(relay, &why);

        wait_ms = result == 1 ? 0 : IDLE_MS;
        if (result >= 0)
            relay->again_ms = 0;
        if (result < 0 && relay->settings->once)
            return err_set(err, result, "%s", why.text);
        if (result < 0) {
            relay_log_lost(relay, &why);
            wait_ms = relay->again_ms;
        }
        if (result == 0 && relay->settings->once)
            return 0;
    }
    return 0;
}

/* ---- begin and end ---- */

static int relay_lock(struct relay *relay, struct err *err)
{
    const struct relay_settings *settings = relay->settings;
    struct path directory, lock;
    char file[96];
    int result = path_join(&directory, settings->state, "relay", err);

    if (result == 0)
        result = path_make(directory.text, err);
    snprintf(file, sizeof(file), "%s.cursor", settings->name);
    if (result == 0)
        result = path_join(&relay->cursor_path, directory.text, file, err);
    snprintf(file, sizeof(file), "%s.lock", settings->name);
    if (result == 0)
        result = path_join(&lock, directory.text, file, err);
    if (result < 0)
        return result;
    relay->lock_fd = open(lock.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (relay->lock_fd < 0)
        return err_set(err, -errno, "%s: %m", lock.text);
    if (flock(relay->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
                       "another relay named '%s' is running; a second destination needs its own "
                       "--name",
                       settings->name);
    return 0;
}

/* HOSTNAME of RFC 5424: printable ASCII without blanks. */
static void relay_host(char ret[static 256])
{
    if (gethostname(ret, 255) < 0)
        strcpy(ret, "-");
    ret[255] = '\0';
    for (char *at = ret; *at; at++) {
        if (*at <= ' ' || *at > '~')
            *at = '-';
    }
    if (!ret[0])
        strcpy(ret, "-");
}

static int relay_signals(struct relay *relay, struct err *err)
{
    sigset_t set;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (relay->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_set(err, -errno, "signals: %m");
    return 0;
}

static void relay_fini(struct relay *relay)
{
    for (size_t i = 0; i < relay->inputs; i++) {
        relay_source_close(&relay->input[i]->source);
        free(relay->input[i]);
    }
    free(relay->input);
    relay_cursor_fini(&relay->cursor);
    relay_sink_close(&relay->sink);
    fd_clean(&relay->signal_fd);
    fd_clean(&relay->lock_fd);
}

int relay_run(const struct relay_settings *settings, struct relay_counts *counts, struct err *err)
{
    CLEAN(relay_fini)
    struct relay relay = {
        .settings = settings, .counts = counts, .lock_fd = -1, .signal_fd = -1, .first_scan = true
    };
    int result;

    curl_global_init(CURL_GLOBAL_DEFAULT);
    relay_sink_init(&relay.sink, &settings->target, &settings->sink);
    relay_host(relay.host);
    result = relay_lock(&relay, err);
    if (result == 0)
        result = relay_signals(&relay, err);
    if (result == 0)
        result = relay_cursor_read(relay.cursor_path.text, &relay.cursor, err);
    if (result < 0 && result != -ENOENT)
        return result;
    return relay_loop(&relay, err);
}
