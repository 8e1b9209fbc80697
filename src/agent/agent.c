/* agent.c - one process per node and run, without threads: each tick reads every ring and every process.
 *
 * Stores to a mapping raise no event, so rings are polled; 50 ms is well below a step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_orders.h"
#include "agent/node_sensors.h"
#include "agent/outbox.h"
#include "agent/resume.h"
#include "agent/ring/nodesplit.h"
#include "agent/ring/watch.h"
#include "agent/runinfo.h"
#include "agent/send/sender.h"
#include "agent/send/shrink.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/notify.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/ring.h"

#define ENTRIES_MAX 16384 /* ring files of one run on one node */
#define SCAN_NS NS_PER_S  /* at the latest; sooner when the directory changes */
#define SEND_REST_NS (8 * NS_PER_S)
#define SEND_TROUBLE_NS (NS_PER_S) /* the controller accepted nothing when the end began */
#define TRAFFIC_NS (5 * NS_PER_S)  /* how often traffic is reported */
#define REFUSED_NS (10 * NS_PER_S) /* a token that is not valid for so long is not valid any more */
#define MAKING_NS (10 * NS_PER_S)  /* a ring that is not made after so long is mentioned */

struct ring_entry { /* a file of the ring directory */
    char name[48];
    uint64_t inode;
    struct watch *watch; /* NULL: done with, refused, or still being made */
    bool making;
    bool drained; /* all of it was written: the file is not needed any more */
    int64_t since_ns;
    uint32_t rank, ring, attempt;
};

struct agent {
    struct runinfo run;
    struct path rings;
    int rings_fd; /* locked: who looks for runs without an agent sees that this has one */
    bool rings_locked;
    char node[64];
    struct resume resume;
    struct outbox outbox;
    struct nodesplit *split;
    struct node_sensors *sensors; /* NULL: none */
    struct watch_place place;
    unsigned looks;
    struct ring_entry *entry;
    size_t entries, room;
    struct timespec scanned_mtime;
    int64_t scan_at_ns, tick_ns;
    uint32_t attempt; /* the newest of all rings */
    bool child;       /* of the launcher or its keeper */
    struct loop *loop;
    struct client *client; /* NULL: the spool is not sent */
    struct sender *sender;
    struct agent_orders *orders; /* NULL: a launcher carries them out, or nobody sends any */
    struct token token;          /* from the node's daemon; "": not yet, or it is in a file */
    int token_fd;
    int64_t refused_ns;         /* since when the controller does not take that token; 0: it does */
    int64_t idle_ns, active_ns; /* when a ring last had a process; 0: it does not matter */
    struct path spool;
    uint64_t spool_max, shrink_at; /* bytes */
    int64_t measure_at_ns;
    int64_t began_ns, traffic_at_ns;
    uint64_t traffic_bodies; /* as reported last */
    bool stopping;
    bool hello_sent, full_reported;
};

/* ---- the directory ---- */

static struct ring_entry *entry_find(struct agent *agent, const char *name, uint64_t inode)
{
    for (size_t i = agent->entries; i > 0; i--) {
        struct ring_entry *entry = &agent->entry[i - 1];

        if (entry->inode == inode && strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

static struct ring_entry *entry_add(struct agent *agent, const char *name, uint64_t inode,
                                    int64_t now_ns)
{
    struct ring_entry *entry;

    if (agent->entries == ENTRIES_MAX) {
        if (!agent->full_reported)
            log_error("%s: more than %d rings; further rings are ignored", agent->rings.text,
                      ENTRIES_MAX);
        agent->full_reported = true;
        return NULL;
    }
    if (!ARRAY_FIT(agent->entry, agent->room, agent->entries + 1))
        return NULL;
    entry = &agent->entry[agent->entries++];
    *entry = (struct ring_entry){ .inode = inode, .making = true, .since_ns = now_ns };
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    ring_name_parse(name, &entry->rank, &entry->ring);
    return entry;
}

/* One line for a file that is no good, and then no more about it. */
static void entry_open(struct agent *agent, struct ring_entry *entry, int64_t now_ns)
{
    struct err err = { 0 };
    int result = watch_open(&agent->place, agent->rings_fd, entry->name, &entry->watch, &err);

    if (result == -ENOMEM || (result == -EAGAIN && now_ns - entry->since_ns < MAKING_NS))
        return; /* again on the next tick */
    entry->making = false;
    if (result < 0 && result != -ENOENT)
        log_error("%s/%s; ignored", agent->rings.text, err.text);
    if (result < 0)
        return;
    entry->attempt = watch_attempt(entry->watch);
    agent->attempt = MAX(agent->attempt, entry->attempt);
}

/* Rings lie in memory that the job needs, too: the file goes if it is still the one that was read. */
static void entry_remove(const struct agent *agent, const struct ring_entry *entry)
{
    struct stat st;

    if (fstatat(agent->rings_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (uint64_t)st.st_ino == entry->inode)
        unlinkat(agent->rings_fd, entry->name, 0);
}

/* What is told of a former attempt will not be asked for again.  Those of the newest stay: another
 * process of the same rank and attempt must not get the same number.
 */
static void agent_forget_former(struct agent *agent)
{
    size_t kept = 0;

    for (size_t i = 0; i < agent->entries; i++) {
        const struct ring_entry *entry = &agent->entry[i];

        if (entry->drained && entry->attempt < agent->attempt)
            entry_remove(agent, entry);
        else
            agent->entry[kept++] = *entry;
    }
    agent->entries = kept;
}

static void agent_scan_name(struct agent *agent, int dir_fd, const char *name, int64_t now_ns)
{
    uint32_t rank, ring;
    struct stat st;

    if (!ring_name_parse(name, &rank, &ring) || !runinfo_is_mine(&agent->run, rank) ||
        fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (!entry_find(agent, name, (uint64_t)st.st_ino))
        entry_add(agent, name, (uint64_t)st.st_ino, now_ns);
}

/* One that was removed and made again is another directory.  False: there is none. */
static bool rings_open(struct agent *agent, struct stat *st)
{
    if (agent->rings_fd >= 0 && (fstat(agent->rings_fd, st) < 0 || st->st_nlink == 0)) {
        close(agent->rings_fd);
        agent->rings_fd = -1;
        agent->rings_locked = false;
    }
    if (agent->rings_fd < 0 && !agent->idle_ns) /* a daemon's run ends with its directory */
        agent->rings_fd = open(agent->rings.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (agent->rings_fd < 0 || fstat(agent->rings_fd, st) < 0)
        return false;
    if (!agent->rings_locked) /* whoever looks whether it is locked has it locked for a moment */
        agent->rings_locked = flock(agent->rings_fd, LOCK_SH | LOCK_NB) == 0;
    return true;
}

/* A name made in the same clock tick as the last scan does not change the time again: so once a second
 * in any case.
 */
static void rings_scan(struct agent *agent, int64_t now_ns)
{
    struct dirent *file;
    struct stat st;
    DIR *dir;
    int fd;

    if (!rings_open(agent, &st))
        return;
    if (now_ns < agent->scan_at_ns && st.st_mtim.tv_sec == agent->scanned_mtime.tv_sec &&
        st.st_mtim.tv_nsec == agent->scanned_mtime.tv_nsec)
        return;
    fd = openat(agent->rings_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_clean(&fd);
        return;
    }
    agent->scanned_mtime = st.st_mtim;
    agent->scan_at_ns = now_ns + SCAN_NS;
    while ((file = readdir(dir)))
        agent_scan_name(agent, agent->rings_fd, file->d_name, now_ns);
    closedir(dir);
}

/* ---- the tick ---- */

static uint64_t agent_acknowledged(const void *arg, uint64_t boot)
{
    return sender_acknowledged(arg, boot);
}

/* The new file is locked before it takes the old one's place: no other agent comes in between. */
static int agent_shrink_spool(struct agent *agent, struct shrink_counts *counts, struct err *err)
{
    struct shrink_settings settings = { .bytes_max = agent->spool_max / 2,
                                        .acknowledged = agent_acknowledged,
                                        .arg = agent->sender };
    CLEAN(spool_writer_clean) struct spool_writer *writer = NULL;
    char sender[80];
    struct path fresh;
    int result;

    if (snprintf(fresh.text, sizeof(fresh.text), "%s.new", agent->spool.text) >=
        (int)sizeof(fresh.text))
        return err_set(err, -ENAMETOOLONG, "%s: too long", agent->spool.text);
    settings.any_sent = sender_sent(agent->sender, &settings.sent_number);
    snprintf(sender, sizeof(sender), "agent-%s", agent->node);
    result = shrink_copy(agent->spool.text, fresh.text, &settings, counts, err);
    if (result < 0)
        return result;
    result = spool_writer_open(fresh.text, sender, &writer, err);
    if (result == 0 && rename(fresh.text, agent->spool.text) < 0)
        result = err_set(err, -errno, "%s: %m", agent->spool.text);
    if (result < 0) {
        unlink(fresh.text); /* the disk may be full: it must not hold two */
        return result;
    }
    spool_writer_close(agent->outbox.writer);
    agent->outbox.writer = TAKE(writer);
    sender_restart(agent->sender);
    return 0;
}

/* The spool grows while the controller does not accept it, on a disk that the job needs as well. */
static void agent_bound_spool(struct agent *agent, int64_t now_ns)
{
    struct err err = { "" };
    struct shrink_counts counts;
    struct stat st;

    if (!agent->sender || now_ns < agent->measure_at_ns)
        return;
    agent->measure_at_ns = now_ns + NS_PER_S;
    if (stat(agent->spool.text, &st) < 0 || (uint64_t)st.st_size <= agent->shrink_at)
        return;
    if (agent_shrink_spool(agent, &counts, &err) < 0)
        log_error("cannot shrink the spool: %s", err.text);
    else if (counts.merged || counts.bared)
        log_error("%s exceeded %llu bytes: merged %llu of the oldest unsent steps, %llu of them "
                  "with losses or digests; kept only losses and digests of %llu",
                  agent->spool.text, (unsigned long long)agent->spool_max,
                  (unsigned long long)counts.merged, (unsigned long long)counts.numbers_merged,
                  (unsigned long long)counts.bared);
    if (stat(agent->spool.text, &st) == 0) /* what must stay may be more than half of it */
        agent->shrink_at = MAX(agent->spool_max, (uint64_t)st.st_size * 2);
}

/* Not while the controller accepts nothing: such frames would only fill the spool. */
static void agent_send_traffic(struct agent *agent, int64_t now_ns)
{
    struct sender_counts counts;

    if (!agent->sender || now_ns < agent->traffic_at_ns)
        return;
    agent->traffic_at_ns = now_ns + TRAFFIC_NS;
    sender_counts(agent->sender, &counts);
    if (counts.bodies == agent->traffic_bodies)
        return;
    agent->traffic_bodies = counts.bodies;
    outbox_traffic(&agent->outbox, &(struct fact_traffic){ .mono_ns = now_ns,
                                                           .since_ns = agent->began_ns,
                                                           .bodies = counts.bodies,
                                                           .frames = counts.frames,
                                                           .steps = counts.steps,
                                                           .bytes = counts.bytes,
                                                           .wire_bytes = counts.wire_bytes,
                                                           .failures = counts.failures,
                                                           .refused = counts.refused,
                                                           .backlog_bytes = counts.backlog_bytes,
                                                           .spool_bytes = counts.spool_bytes });
}

static void agent_log_traffic(const struct agent *agent)
{
    struct sender_counts counts;

    sender_counts(agent->sender, &counts);
    log_info("sent %llu bytes in %llu requests, %llu bytes over TCP, %.0f bytes for each of %llu "
             "steps of single ranks; %llu requests failed, %llu bytes remain in the spool",
             (unsigned long long)counts.bytes, (unsigned long long)counts.bodies,
             (unsigned long long)counts.wire_bytes,
             counts.steps ? (double)counts.bytes / (double)counts.steps : 0,
             (unsigned long long)counts.steps, (unsigned long long)counts.failures,
             (unsigned long long)counts.backlog_bytes);
}

static void agent_settle(struct agent *agent, int64_t now_ns)
{
    for (size_t i = 0; i < agent->entries; i++) {
        if (agent->entry[i].watch)
            watch_settle(agent->entry[i].watch, now_ns);
    }
    nodesplit_turn(agent->split, now_ns);
}

/* Whether anything is left to read: else the agent of a daemon need not be there. */
static void agent_note_activity(struct agent *agent, int64_t now_ns)
{
    for (size_t i = 0; i < agent->entries; i++) {
        if (agent->entry[i].watch || agent->entry[i].making)
            agent->active_ns = now_ns;
    }
}

static void agent_tick(struct agent *agent, int64_t now_ns)
{
    if (!agent->hello_sent)
        agent->hello_sent = outbox_hello(&agent->outbox, agent->run.id, agent->node) == 0;
    agent_bound_spool(agent, now_ns);
    agent_send_traffic(agent, now_ns);
    for (size_t i = 0; i < agent->entries; i++) { /* ends first, then the rings that follow them */
        struct ring_entry *entry = &agent->entry[i];

        if (entry->watch && !watch_tick(entry->watch, now_ns)) {
            watch_close(entry->watch);
            entry->watch = NULL;
            entry->drained = true;
        }
    }
    agent_settle(agent, now_ns);
    agent_forget_former(agent);
    rings_scan(agent, now_ns);
    for (size_t i = 0; i < agent->entries; i++) {
        if (agent->entry[i].making)
            entry_open(agent, &agent->entry[i], now_ns);
    }
    agent_orders_tick(agent->orders, agent->rings_fd, agent->attempt, now_ns);
    agent_note_activity(agent, now_ns);
    if (agent->sensors && agent->hello_sent)
        node_sensors_turn(agent->sensors, now_ns);
}

/* When only the keeper is gone, its children come to the launcher. */
static bool agent_parent_is_ours(const struct agent *agent)
{
    return getppid() == agent->run.pid || getppid() == agent->run.keeper;
}

/* Waits for the next tick, and sends meanwhile.  Returns true when a stop signal arrived. */
static bool agent_wait_until(struct agent *agent, int64_t at_ns)
{
    do
        loop_turn(agent->loop, at_ns, NULL);
    while (!agent->stopping && time_mono_ns() < at_ns);
    return agent->stopping;
}

/* The rest of the spool is sent before the end, if the controller accepts it; otherwise it stays there. */
static void agent_send_rest(struct agent *agent)
{
    int64_t begin_ns = time_mono_ns();

    if (!agent->sender)
        return;
    agent->traffic_at_ns = 0;
    agent_send_traffic(agent, begin_ns);
    sender_hurry(agent->sender);
    while (!sender_is_done(agent->sender) &&
           time_mono_ns() - begin_ns <
               (sender_is_in_trouble(agent->sender) ? SEND_TROUBLE_NS : SEND_REST_NS))
        loop_turn(agent->loop, time_mono_ns() + 20 * NS_PER_MS, NULL);
    agent_log_traffic(agent);
}

static bool agent_is_idle(struct agent *agent)
{
    return agent->idle_ns && agent->sender && !agent->outbox.blocked &&
           time_mono_ns() - agent->active_ns > agent->idle_ns && sender_is_done(agent->sender);
}

/* The daemon registers the run again, and starts another agent. */
static bool agent_is_refused(struct agent *agent, int64_t now_ns)
{
    if (agent->token_fd < 0 || !sender_is_refused(agent->sender))
        agent->refused_ns = 0;
    else if (!agent->refused_ns)
        agent->refused_ns = now_ns;
    return agent->refused_ns && now_ns - agent->refused_ns > REFUSED_NS;
}

/* It stays on disk until the run is over: what the controller has need not. */
static void agent_leave_little(struct agent *agent)
{
    struct shrink_counts counts;
    struct err err = { "" };

    if (agent_shrink_spool(agent, &counts, &err) < 0)
        log_error("cannot shrink the spool: %s", err.text);
}

int agent_run(struct agent *agent, struct err *err)
{
    int64_t next = time_mono_ns();
    struct notify notify;
    bool idle, refused;

    agent->active_ns = next;
    notify_open(&notify);
    notify_ready(&notify, "watching rings");
    do {
        int64_t now = time_mono_ns();

        agent_tick(agent, now);
        notify_alive(&notify, now);
        next = MAX(next + agent->tick_ns, now);
        idle = agent_is_idle(agent);
        refused = agent_is_refused(agent, now);
    } while (!refused && (!agent->child || agent_parent_is_ours(agent)) && !idle &&
             !agent_wait_until(agent, next));
    notify_stopping(&notify);
    notify_close(&notify);
    agent_tick(agent, time_mono_ns()); /* rings born since the last one */
    for (size_t i = 0; i < agent->entries; i++) {
        if (agent->entry[i].watch)
            watch_read_all(agent->entry[i].watch, time_mono_ns());
    }
    for (size_t i = 0; i < agent->entries; i++) {
        if (agent->entry[i].watch)
            watch_end(agent->entry[i].watch, time_mono_ns());
    }
    agent_send_rest(agent);
    if (agent->outbox.blocked)
        return err_set(err, -EIO, "facts are lost: the spool could not be written before the end");
    if (refused)
        return err_set(err, -EACCES, "the controller no longer accepts the token of run %s",
                       agent->run.id);
    if (idle)
        agent_leave_little(agent);
    return idle;
}

/* ---- birth and death ---- */

void agent_close(struct agent *agent)
{
    if (!agent)
        return;
    for (size_t i = 0; i < agent->entries; i++)
        watch_close(agent->entry[i].watch);
    free(agent->entry);
    nodesplit_destroy(agent->split);
    node_sensors_destroy(agent->sensors);
    outbox_fini(&agent->outbox);
    resume_fini(&agent->resume);
    runinfo_fini(&agent->run);
    agent_orders_destroy(agent->orders);
    sender_destroy(agent->sender);
    client_close(agent->client);
    loop_destroy(agent->loop);
    fd_clean(&agent->rings_fd);
    fd_clean(&agent->token_fd);
    free(agent);
}

static void agent_clean(struct agent **agent)
{
    agent_close(*agent);
}

static void agent_open_node(struct agent *agent, const struct agent_node *every)
{
    agent->run.all = true;
    snprintf(agent->run.id, sizeof(agent->run.id), "%s", every->run);
    snprintf(agent->rings.text, sizeof(agent->rings.text), "rings of %s", every->run);
    agent->rings_fd = every->rings_fd;
    agent->token_fd = every->token_fd;
    agent->idle_ns = every->idle_ns;
}

static int agent_open_run(struct agent *agent, const struct agent_settings *settings,
                          struct err *err)
{
    int result;

    if (settings->every) {
        agent_open_node(agent, settings->every);
        return 0;
    }
    result = runinfo_check_owner(settings->run_dir, err);
    if (result == 0)
        result = runinfo_read(settings->run_dir, settings->node, &agent->run, err);
    if (result == -ENOENT && settings->rings) { /* no launcher: all rings that are there */
        agent->run.all = true;
        result = 0;
    }
    if (result < 0)
        return result;
    snprintf(agent->rings.text, sizeof(agent->rings.text), "%s",
             settings->rings ? settings->rings : agent->run.rings);
    if (!agent->rings.text[0])
        return err_set(err, -EINVAL, "%s/run.json does not name the ring directory",
                       settings->run_dir);
    agent->child = agent_parent_is_ours(agent);
    return 0;
}

/* Lock first, then read, so that no other process writes it meanwhile. */
static int agent_open_spool(struct agent *agent, const char *run_dir, struct err *err)
{
    char sender[80], file[96];
    struct path spool = { "." };
    int result = 0;

    snprintf(sender, sizeof(sender), "agent-%s", agent->node);
    snprintf(file, sizeof(file), "%s.lsf", sender);
    if (run_dir)
        result = path_join(&spool, run_dir, "spool", err);
    if (result == 0 && run_dir)
        result = path_make(spool.text, err);
    if (result == 0)
        result = path_join(&agent->spool, spool.text, file, err);
    if (result == 0)
        result = spool_writer_open(agent->spool.text, sender, &agent->outbox.writer, err);
    if (result == 0)
        result = resume_read(agent->spool.text, agent->outbox.skew_ns, &agent->resume,
                             &agent->outbox.shapes, err);
    return result;
}

static void agent_on_signal(void *arg, int signal)
{
    struct agent *agent = arg;

    (void)signal;
    agent->stopping = true;
}

static int agent_open_loop(struct agent *agent, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT };
    int result = loop_create(&agent->loop, err);

    return result < 0
               ? result
               : loop_signals(agent->loop, wanted, COUNT(wanted), agent_on_signal, agent, err);
}

/* Its other end is the daemon's alone: when it is closed, so is the daemon. */
static void agent_on_token(void *arg, int fd, uint32_t events)
{
    struct agent *agent = arg;
    char text[2 * TOKEN_SIZE];
    ssize_t size = read(fd, text, sizeof(text));

    (void)events;
    if (size > 0 && token_parse(text, (size_t)size, &agent->token, NULL) == 0)
        sender_hurry(agent->sender);
    if (size != 0)
        return;
    loop_forget(agent->loop, fd);
    agent->stopping = true;
}

static int agent_open_sender(struct agent *agent, const struct agent_settings *settings,
                             struct err *err)
{
    struct path token = { "" };
    int result = 0;

    if (!settings->control.url)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    agent->spool_max = agent->shrink_at = settings->spool_max;
    if (settings->run_dir)
        result = path_join(&token, settings->run_dir, "agent.token", err);
    if (result == 0)
        result = client_open(agent->loop, &settings->control, &agent->client, err);
    if (result < 0)
        return result;
    result =
        sender_create(&(struct sender_settings){ .loop = agent->loop,
                                                 .client = agent->client,
                                                 .run = agent->run.id,
                                                 .spool = agent->spool.text,
                                                 .token_file = token.text,
                                                 .token = settings->every ? &agent->token : NULL },
                      &agent->sender);
    if (result == 0 && !agent->child)
        result = agent_orders_create(
            &(struct agent_orders_settings){ .loop = agent->loop,
                                             .client = agent->client,
                                             .outbox = &agent->outbox,
                                             .resume = &agent->resume,
                                             .run = agent->run.id,
                                             .node = agent->node,
                                             .token = settings->every ? &agent->token : NULL,
                                             .token_file = token.text },
            &agent->orders);
    if (result == 0 && agent->token_fd >= 0)
        result = loop_watch(agent->loop, agent->token_fd, EPOLLIN, agent_on_token, agent);
    return result < 0 ? err_set(err, result, "%s", strerror(-result)) : 0;
}

/* A few files a thread of each rank: as many as we may have. */
static void agent_raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int64_t agent_test_skew_ns(void)
{
    const char *text = getenv("LOCKSTEP_TEST_CLOCK_SKEW_NS");

    return text ? strtoll(text, NULL, 10) : 0;
}

static int agent_on_finding(void *user, const struct finding *finding)
{
    struct agent *agent = user;

    return outbox_finding(&agent->outbox, finding);
}

static size_t agent_jobs(void *user, uint32_t *pid, size_t room, bool *cut)
{
    const struct agent *agent = user;
    size_t count = 0;

    for (size_t i = 0; i < agent->entries; i++) {
        if (!agent->entry[i].watch || !watch_pid(agent->entry[i].watch))
            continue;
        if (count == room) {
            *cut = true;
            break;
        }
        pid[count++] = watch_pid(agent->entry[i].watch);
    }
    return count;
}

int agent_open(const struct agent_settings *settings, struct agent **ret, struct err *err)
{
    CLEAN(agent_clean) struct agent *agent = calloc(1, sizeof(*agent));
    int result;

    if (!agent)
        return err_nomem(err);
    agent->rings_fd = agent->token_fd = -1;
    agent->split = nodesplit_create();
    if (!agent->split)
        return err_nomem(err);
    if (settings->tick_ns < NS_PER_MS || settings->tick_ns > NS_PER_S)
        return err_set(err, -EINVAL, "--tick must be between 1ms and 1s");
    if (!settings->node[0] || strlen(settings->node) >= sizeof(agent->node) ||
        strchr(settings->node, '/'))
        return err_set(err, -EINVAL, "'%s' is not a valid node name", settings->node);
    snprintf(agent->node, sizeof(agent->node), "%s", settings->node);
    agent->tick_ns = settings->tick_ns;
    agent->began_ns = time_mono_ns();
    agent->traffic_at_ns = agent->began_ns + TRAFFIC_NS / 5;
    agent->outbox.skew_ns = agent_test_skew_ns();
    agent_raise_file_limit();
    result = agent_open_loop(agent, err);
    if (result == 0)
        result = agent_open_run(agent, settings, err);
    if (result == 0)
        result = agent_open_spool(agent, settings->run_dir, err);
    if (result == 0)
        result = agent_open_sender(agent, settings, err);
    if (result < 0 && settings->every) /* they stay the caller's */
        agent->rings_fd = agent->token_fd = -1;
    if (result < 0)
        return result;
    agent->place = (struct watch_place){ .outbox = &agent->outbox,
                                         .resume = &agent->resume,
                                         .split = agent->split,
                                         .run = settings->every ? "" : agent->run.id,
                                         .node = agent->node,
                                         .report_exits = agent->run.ranks == 0,
                                         .looks = &agent->looks };
    if (settings->sense || settings->kmsg)
        agent->sensors =
            node_sensors_create(&(struct node_sensors_settings){ .node = agent->node,
                                                                 .root = settings->sysroot,
                                                                 .kmsg = settings->kmsg,
                                                                 .put = agent_on_finding,
                                                                 .jobs = agent_jobs,
                                                                 .user = agent });
    *ret = TAKE(agent);
    return 0;
}
