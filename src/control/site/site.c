/* site.c - the site's controller as a process: lock, tokens, certificate, loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/site_private.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "base/net/control_url.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "policy/policy.h"

#define TICK_NS (100 * NS_PER_MS)
#define REQUEST_NS (60 * NS_PER_S)
#define INGEST_PER_S (512.0 * (1 << 20)) /* of one run: twice what 131,072 ranks bring */
#define INGEST_BURST (2048.0 * (1 << 20))
#define INDEX_AGAIN_NS (10 * NS_PER_S)
#define REBUILD_NS (30 * NS_PER_MS) /* of a tick, for rows of the index that were lost */
#define BEAT_EVERY 150              /* ticks */
#define OWN_ADDRESSES_MAX 32
#define LEAVE_NS (15 * NS_PER_S)      /* less than launchers wait for their daemons */
#define LEAVE_QUIET_NS (3 * NS_PER_S) /* nobody has sent anything for so long */
#define CROWD_AGAIN_NS (60 * NS_PER_S)

static void site_fini(struct site *site)
{
    http_close(site->http); /* first: it owns the exchanges that runs still owe an answer */
    for (size_t i = 0; i < site->runs; i++)
        run_destroy(site->run[i]);
    free(site->run);
    map_fini(&site->run_by_name);
    index_close(site->index);
    site_act_fini(&site->act);
    site_nodes_close(site);
    free(site->verdict);
    audit_fini(&site->audit);
    events_fini(&site->events);
    tls_fini(&site->tls);
    life_watch_destroy(site->lives);
    loop_destroy(site->loop);
    fd_clean(&site->lock_fd);
}

/* A second controller on a state directory names the first. */
static int site_lock(struct site *site, struct err *err)
{
    char text[512] = "";
    struct path path;
    int result = path_make(site->state.text, err);

    if (result == 0)
        result = path_join(&path, site->state.text, "control.lock", err);
    if (result < 0)
        return result;
    site->lock_fd = open(path.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (site->lock_fd < 0)
        return err_set(err, -errno, "%s: %m", path.text);
    if (flock(site->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_set(err, -errno, "%s: %m", path.text);
    if (pread(site->lock_fd, text, sizeof(text) - 1, 0) > 0)
        text[strcspn(text, "\n")] = '\0';
    return err_set(err, -EBUSY, "another controller is running on %s%s%s", site->state.text,
                   text[0] ? ": " : "", text);
}

/* What the lock says to the next controller of this state directory. */
static int site_sign(const struct site *site, const char *url, struct err *err)
{
    char line[400];

    snprintf(line, sizeof(line), "pid %d, %s\n", getpid(), url);
    if (ftruncate(site->lock_fd, 0) < 0 ||
        pwrite(site->lock_fd, line, strlen(line), 0) != (ssize_t)strlen(line))
        return err_set(err, -errno, "%s/control.lock: %m", site->state.text);
    return 0;
}

static void site_announce_log(const struct site *site, const char *url)
{
    struct http_counts http;

    http_counts(site->http, &http);
    if (site->local) {
        log_info("listening on %s; requests need the token in %s/control.url", url,
                 site->state.text);
        return;
    }
    log_info("listening on %s, for at most %u connections; runs in %s/runs", url,
             http.connections_max, site->state.text);
    if (http.address_max)
        log_info("accepting at most %u connections from one address", http.address_max);
    if (site->tls.cert_pem)
        log_info("certificate SHA-256 %s; agents trust it by LOCKSTEP_CONTROL_PIN=%s",
                 site->tls.fingerprint, site->tls.pin);
    if (site->auth.open_reads)
        log_info("--anonymous-reads: everyone on this machine can read all runs without a token");
    else
        log_info("every request needs a token from %s/tokens", site->state.text);
}

int site_announce(struct site *site, const struct token *reader, struct err *err)
{
    const char *colon = strrchr(site->settings.listen, ':');
    struct control_url value = { .url = "" };
    int result = 0;

    if (reader)
        value.token = *reader;
    snprintf(value.url, sizeof(value.url), "%s://%.*s:%u", site->tls.cert_pem ? "https" : "http",
             (int)(colon - site->settings.listen), site->settings.listen, http_port(site->http));
    if (!site->local)
        result = site_sign(site, value.url, err);
    if (result == 0)
        result = control_url_write(site->state.text, &value, err);
    if (result == 0)
        site_announce_log(site, value.url);
    return result;
}

/* The certificate is for the names and addresses at which we are reached. */
static int site_certificate(struct site *site, struct err *err)
{
    char own[OWN_ADDRESSES_MAX][ADDRESS_NUMBER];
    const char *names[OWN_ADDRESSES_MAX + HOSTS_MAX];
    size_t count = address_own(site->settings.listen, own, COUNT(own));
    struct path directory;
    int result = path_join(&directory, site->state.text, "tls", err);

    for (size_t i = 0; i < count; i++)
        names[i] = own[i];
    for (size_t i = 0; i < site->hosts.count; i++)
        names[count++] = site->hosts.name[i];
    if (result == 0)
        result = tls_read_or_make(directory.text, names, count, &site->tls, err);
    if (result == 0 && site->tls.reissued)
        log_info("reissued %s/cert.pem with the same key: names or addresses of this controller "
                 "were missing",
                 directory.text);
    return result;
}

static int site_secure(struct site *site, struct err *err)
{
    const struct site_settings *settings = &site->settings;
    struct err why = { "" };
    bool loopback = http_address_is_loopback(settings->listen, &why);
    int result;

    if (why.text[0])
        return err_set(err, -EINVAL, "--listen %s", why.text);
    if (settings->anonymous_reads && !loopback)
        return err_set(err, -EINVAL, "--anonymous-reads is allowed only on loopback, not on %s",
                       settings->listen);
    if (hosts_init(&site->hosts, settings->listen, &settings->host_names, err) < 0)
        return err_wrap(err, -EINVAL, "--host-name");
    site->auth.open_reads = settings->anonymous_reads;
    result = auth_load(&site->auth, site->state.text, err);
    if (result < 0 || (loopback && !settings->tls && !settings->cert))
        return result;
    if (!settings->cert != !settings->key)
        return err_set(err, -EINVAL, "--cert and --key must be given together");
    if (settings->cert)
        return tls_read(settings->key, settings->cert, &site->tls, err);
    return site_certificate(site, err);
}

static void site_index_try(struct site *site, int64_t now_ns)
{
    struct err err = { "" };
    struct path path;

    if (site->index || now_ns < site->index_at_ns)
        return;
    site->index_at_ns = now_ns + INDEX_AGAIN_NS;
    if (path_join(&path, site->state.text, "index.sqlite", &err) < 0 ||
        index_open(path.text, &site->index, &err) < 0) {
        log_error("the index is not available, facts are accepted anyway: %s", err.text);
        return;
    }
    if (index_was_rebuilt(site->index))
        log_info("rebuilding the index: %s", index_was_rebuilt(site->index));
}

/* Work continues, but the operator should know why new connections have to wait. */
static void site_crowd_log(struct site *site, int64_t now_ns)
{
    struct http_counts http = { 0 };

    if (site->http)
        http_counts(site->http, &http);
    if (!http.short_of || now_ns < site->crowd_at_ns)
        return;
    site->crowd_at_ns = now_ns + CROWD_AGAIN_NS;
    log_error("%llu of at most %u connections are open: idle ones are closed after 2 s, %llu so "
              "far; raise the limit of open files (LimitNOFILE, ulimit -n) to allow more",
              (unsigned long long)http.connections, http.connections_max,
              (unsigned long long)http.refused_slow);
}

/* Of --only: the launcher that started us ends.  Others may still send, and hear of the end of the run. */
static void site_leave(struct site *site, int64_t now_ns)
{
    if (!site->leave_ns)
        site->leave_ns = now_ns + LEAVE_NS;
}

static bool site_has_left(const struct site *site, int64_t now_ns)
{
    const struct site_run *run = site->runs ? site->run[0] : NULL;
    const struct policy *policy = run && run->log ? runlog_policy(run->log) : NULL;

    if (!site->leave_ns)
        return false;
    return now_ns >= site->leave_ns || !run || now_ns - run->newest_ns > LEAVE_QUIET_NS ||
           (policy && run->finishes >= policy_members(policy));
}

/* A fact of our own, in the run's log as all others, so that what follows from it replays. */
static void site_on_gone(void *arg, const struct member *member)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct site *site = arg;
    struct member gone = *member;
    struct frame frame = { .type = FRAME_MEMBER,
                           .version = FRAME_VERSION,
                           .sender = life_sender(),
                           .boot = site->lives_boot,
                           .number = site->lives_number };
    struct err err = { "" };
    int result = -ENOMEM;

    gone.state = MEMBER_GONE;
    gone.news = true;
    member_put(&payload, &gone);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    if (!payload.failed && site->run[0]->log)
        result = runlog_take(site->run[0]->log, &frame, 1, &err);
    if (result < 0) /* then its lease decides, as ever */
        log_error("node %s has ended, which cannot be written: %s", gone.node, err.text);
    else
        site->lives_number++;
}

/* The launchers of the job, if this is its own controller. */
static void site_lives_turn(struct site *site, int64_t now_ns)
{
    const struct site_run *run = site->runs ? site->run[0] : NULL;
    const struct policy *policy = run && run->log ? runlog_policy(run->log) : NULL;
    CLEAN(free_clean) struct member *member = NULL;
    size_t count = policy ? policy_members(policy) : 0;

    if (!count)
        return;
    if (!site->lives) {
        site->lives_boot = (uint64_t)time_real_ns();
        if (life_watch_create(site->loop, site_on_gone, site, &site->lives) < 0)
            return;
    }
    member = calloc(count, sizeof(*member));
    if (member)
        life_watch_set(site->lives, member, policy_lives(policy, member, count), now_ns);
}

static void site_only_turn(struct site *site, int64_t now_ns)
{
    site_lives_turn(site, now_ns);
    /* The launcher was killed: the others shall find out, and go on to the next one. */
    if (getppid() != site->parent || site_has_left(site, now_ns))
        loop_stop(site->loop);
}

static void site_on_tick(void *arg, int64_t now_ns)
{
    struct site *site = arg;
    int64_t wait_ns = TICK_NS;

    if (site->local) /* facts first */
        wait_ns = local_turn(site, now_ns);
    site_index_try(site, now_ns);
    site_index_mend(site);
    site_index_rebuild(site, now_ns + REBUILD_NS);
    site_nodes_turn(site, now_ns);
    if (!site->local)
        site_act_turn(site, now_ns);
    for (size_t i = 0; i < site->runs && !site->local; i++) {
        struct err err = { "" };

        run_turn(site->run[i], now_ns, &err);
    }
    site_forget(site);
    if (site->settings.only)
        site_only_turn(site, now_ns);
    node_orders_turn(site, now_ns);
    audit_turn(&site->audit, now_ns);
    if (site->counts.ticks++ % BEAT_EVERY == 0)
        events_beat(&site->events);
    site_crowd_log(site, now_ns);
    notify_alive(&site->notify, now_ns);
    loop_timer_set(site->loop, &site->tick, time_mono_ns() + wait_ns);
}

static void site_on_load(void *arg, int64_t now_ns)
{
    struct site *site = arg;

    (void)now_ns;
    if (site_load(site))
        loop_timer_set(site->loop, &site->load, time_mono_ns());
}

static void site_on_sync(void *arg, int64_t now_ns)
{
    struct site *site = arg;

    for (size_t i = 0; i < site->runs; i++) {
        struct err err = { "" };

        if (site->run[i]->waiting)
            run_sync(site->run[i], now_ns, &err);
    }
}

static void site_load_tokens(struct site *site)
{
    struct audit_record record = { .who = "signal", .what = "tokens read again" };
    struct err err = { "" };

    if (auth_load(&site->auth, site->state.text, &err) < 0) {
        log_error("%s; the tokens that were read before stay valid", err.text);
        return;
    }
    audit_put(&site->audit, &record, time_mono_ns());
}

static void site_on_signal(void *arg, int signal)
{
    struct site *site = arg;

    if (site->local) {
        feed_stop(site->local);
        loop_timer_set(site->loop, &site->tick, time_mono_ns());
        return;
    }
    if (signal == SIGHUP) {
        site_load_tokens(site);
        return;
    }
    if (site->settings.only)
        site_leave(site, time_mono_ns());
    else
        loop_stop(site->loop);
}

int site_listen(struct site *site, struct err *err)
{
    struct http_settings http = { .listen = site->settings.listen,
                                  .body_max = SITE_BODY_MAX,
                                  .charge_max = SITE_CHARGE_MAX,
                                  .request_ns = REQUEST_NS,
                                  .admit = api_admit,
                                  .handle = api_handle,
                                  .answered = api_answered,
                                  .arg = site };
    struct http_counts counts;
    int result = site_secure(site, err);

    if (!site->audit.state[0])
        audit_init(&site->audit, site->state.text);
    if (result < 0)
        return result;
    http.key_pem = site->tls.key_pem;
    http.cert_pem = site->tls.cert_pem;
    result = http_open(site->loop, &http, &site->http, err);
    if (result < 0)
        return result;
    http_counts(site->http, &counts);
    events_limit(&site->events, counts.connections_max / 2); /* they never end */
    site->order_waiters_max = counts.connections_max / 4;
    return 0;
}

static int site_begin(struct site *site, struct err *err)
{
    int result = site_lock(site, err);

    if (result < 0)
        return result;
    site->parent = getppid();
    site_scan(site);
    result = site_listen(site, err);
    return result < 0 ? result : site_announce(site, NULL, err);
}

static int site_open(struct site *site, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
    int result = loop_create(&site->loop, err);

    signal(SIGPIPE, SIG_IGN);
    rate_init(&site->ingest, INGEST_PER_S, INGEST_BURST);
    site->began_real_ns = time_real_ns();
    events_init(&site->events, (uint64_t)site->began_real_ns);
    sessions_init(&site->sessions, (uint64_t)site->began_real_ns);
    if (result == 0)
        result = loop_signals(site->loop, wanted, COUNT(wanted), site_on_signal, site, err);
    site->tick = (struct loop_timer){ .fn = site_on_tick, .arg = site };
    site->sync = (struct loop_timer){ .fn = site_on_sync, .arg = site, .at_ns = INT64_MAX };
    site->load = (struct loop_timer){ .fn = site_on_load, .arg = site };
    if (result == 0)
        result = site->settings.run_dir ? local_open(site, err) : site_begin(site, err);
    if (result < 0)
        return result;
    loop_timer_set(site->loop, &site->load, 0);
    loop_timer_set(site->loop, &site->tick, 0);
    return 0;
}

/* Judging a step of very many ranks takes and gives back the same large blocks again and again; given
 * back to the kernel each time, they cost a tenth of the controller's CPU in page faults.
 */
static void site_keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
}

/* The service manager's messages are not for the controller of one run, which a launcher inside a service may start. */
static int site_prepare(struct site *site, struct err *err)
{
    site->notify.fd = -1;
    if (site->settings.run_dir)
        return 0;
    site_keep_memory();
    notify_open(&site->notify);
    if (!site->settings.state)
        return paths_state(&site->state, err);
    snprintf(site->state.text, sizeof(site->state.text), "%s", site->settings.state);
    return 0;
}

static void site_sync_all(struct site *site)
{
    for (size_t i = 0; i < site->runs; i++) {
        struct err err = { "" };

        run_sync(site->run[i], INT64_MAX, &err);
    }
}

int site_run(const struct site_settings *settings, struct err *err)
{
    CLEAN(free_clean) struct site *site = calloc(1, sizeof(*site));
    int result;

    if (!site)
        return err_nomem(err);
    site->settings = *settings;
    site->lock_fd = site->audit.fd = -1;
    result = site_prepare(site, err);
    if (result == 0)
        result = site_open(site, err);
    if (result == 0) {
        notify_ready(&site->notify, "taking facts");
        result = loop_run(site->loop, err);
        notify_stopping(&site->notify);
    }
    notify_close(&site->notify);
    if (result == 0) {
        site_sync_all(site);
        local_close(site);
    }
    if (result == 0 && site->failed)
        result = err_set(err, site->failed, "%s", site->failure.text);
    site_fini(site);
    return result;
}
