/* node.c - the life of each run: found, served, idle, sent, removed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/node/node_private.h"
#include "agent/node_sensors.h"
#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "verify/check_report.h"

#define SCAN_NS (500 * NS_PER_MS)
#define LOOK_ASLEEP_NS (5 * NS_PER_S)
#define UNSERVED_NS (3 * NS_PER_S) /* a launcher's agent that died is back sooner */
#define STARTS_AT_ONCE 8
#define PAUSE_NS NS_PER_S /* before an agent that died is started again; doubled ... */
#define PAUSE_MAX_NS (60 * NS_PER_S)
#define LIVED_NS (60 * NS_PER_S)      /* ... unless it lived for so long */
#define REST_PAUSE_NS (10 * NS_PER_S) /* what could not be sent is tried again; doubled */
#define REST_PAUSE_MAX_NS (600 * NS_PER_S)
#define END_NS (12 * NS_PER_S)         /* an agent sends its last for 8 s */
#define REST_NS (40 * NS_PER_S)        /* the other gives up after 15 s */
#define SETTLED_NS (10 * NS_PER_S)     /* rings that an idle agent has certainly seen */
#define STOP_NS (1500 * NS_PER_MS)     /* from SIGTERM to SIGKILL when the daemon ends ... */
#define STOP_MAX_NS (1900 * NS_PER_MS) /* ... and to the end, whoever is left */

/* ---- its rings ---- */

static void node_run_look(struct node_run *run, int64_t now_ns)
{
    CLEAN(fd_clean) int fd = -1;
    struct stat st;

    if (now_ns < run->look_at_ns)
        return;
    run->look_at_ns = now_ns + (run->asleep ? LOOK_ASLEEP_NS : 0);
    fd = scan_open_run(run->node->scan, run->uid, run->name);
    run->there = fd >= 0 && fstat(fd, &st) == 0;
    if (!run->there)
        return;
    if (st.st_ino != run->inode || memcmp(&st.st_mtim, &run->mtime, sizeof(run->mtime)) != 0) {
        run->inode = st.st_ino;
        run->mtime = st.st_mtim;
        run->changed_ns = now_ns;
        run->asleep = false;
    }
    if (!run->begun && scan_is_locked(fd))
        run->over = true; /* somebody serves it; if he ends, it is found again */
    else if (!run->free_ns)
        run->free_ns = now_ns;
}

static bool node_is_known(void *arg, uid_t uid, const char *name)
{
    return node_find(arg, uid, name) != NULL;
}

/* A name that no run can have is nobody's. */
static void node_on_seen(void *arg, uid_t uid, const char *name)
{
    struct node *node = arg;

    if (node->owners && paths_check_run(name, NULL) == 0)
        owners_run(node->owners, uid, name, time_mono_ns());
}

static void node_on_found(void *arg, uid_t uid, gid_t gid, const char *name)
{
    node_add(arg, uid, gid, name);
}

/* ---- its process ---- */

static void node_run_pause(struct node_run *run, int64_t now_ns, int64_t least_ns, int64_t most_ns)
{
    run->pause_ns = MIN(MAX(run->pause_ns * 2, least_ns), most_ns);
    run->again_ns = now_ns + run->pause_ns;
}

/* What it wants to have now. */
static enum child_kind node_run_wants(const struct node_run *run, int64_t now_ns)
{
    if (run->over || run->pid || now_ns < run->again_ns)
        return CHILD_NONE;
    if (run->there && !run->begun)
        return now_ns - run->free_ns >= UNSERVED_NS ? CHILD_AGENT : CHILD_NONE;
    if (run->there)
        return run->asleep ? CHILD_NONE : CHILD_AGENT;
    return run->token.text[0] ? CHILD_REST : CHILD_NONE;
}

static int node_run_start(struct node_run *run, enum child_kind kind, struct err *err)
{
    struct node *node = run->node;
    CLEAN(fd_clean) int rings = -1;
    CLEAN(fd_clean) int spool = -1;
    int result;

    if (kind == CHILD_AGENT)
        rings = scan_open_run(node->scan, run->uid, run->name);
    if (kind == CHILD_AGENT && rings < 0)
        return err_set(err, rings, "its rings: %s", strerror(-rings));
    spool = store_open_spool(&node->store, run->id, run->uid, run->gid, err);
    if (spool < 0)
        return TAKE_FD(spool);
    result = child_start(&(struct child_settings){ .kind = kind,
                                                   .run = run->id,
                                                   .node = node->settings->node,
                                                   .uid = run->uid,
                                                   .gid = run->gid,
                                                   .control = &node->settings->control,
                                                   .spool_max = node->settings->spool_max,
                                                   .idle_ns = node->settings->idle_ns,
                                                   .spool_fd = spool,
                                                   .rings_fd = rings },
                         &run->pid, &run->token_fd);
    return result < 0 ? err_set(err, result, "%s", strerror(-result)) : 0;
}

static void node_run_serve(struct node_run *run, enum child_kind kind, int64_t now_ns)
{
    struct node_user *user = node_user(run->node, run->uid);
    struct err err = { "" };

    user->started = ++run->node->turns;
    if (node_run_start(run, kind, &err) < 0) {
        log_error("cannot start an agent for run %s: %s", run->id, err.text);
        node_run_pause(run, now_ns, PAUSE_NS, PAUSE_MAX_NS);
        return;
    }
    if (!run->begun)
        log_info("run %s: started an agent for its rings", run->id);
    run->begun = true;
    run->kind = kind;
    run->started_ns = now_ns;
    run->kill_at_ns = kind == CHILD_REST ? now_ns + REST_NS : 0;
    user->children++;
    run->node->children++;
    registry_give(run);
}

/* Who has the fewest processes goes first, among those the one whose turn is longest ago. */
static bool node_goes_before(const struct node_user *user, const struct node_user *other)
{
    return user->children < other->children ||
           (user->children == other->children && user->started < other->started);
}

static bool node_serve_next(struct node *node, int64_t now_ns)
{
    const struct node_settings *settings = node->settings;
    struct node_user *first = NULL;
    struct node_run *next = NULL;

    for (size_t i = 0; i < node->runs; i++) {
        struct node_user *user = node_user(node, node->run[i]->uid);

        if (node_run_wants(node->run[i], now_ns) == CHILD_NONE ||
            (first && !node_goes_before(user, first)) ||
            node_is_full(user->children, settings->runs_per_user, node->children,
                         settings->runs_max))
            continue;
        first = user;
        next = node->run[i];
    }
    if (next)
        node_run_serve(next, node_run_wants(next, now_ns), now_ns);
    return next != NULL;
}

/* ---- how it ends ---- */

static void agent_ended(struct node_run *run, int status, int64_t now_ns)
{
    if (run->asked) {
        run->again_ns = now_ns;
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_EXIT_IDLE) {
        run->asleep = now_ns - run->changed_ns > SETTLED_NS; /* else it may have missed a ring */
        run->pause_ns = 0;
        run->again_ns = now_ns;
        return;
    }
    if (now_ns - run->started_ns > LIVED_NS)
        run->pause_ns = 0;
    node_run_pause(run, now_ns, PAUSE_NS, PAUSE_MAX_NS);
    registry_forget(run); /* perhaps the controller does not know it any more */
    log_error("the agent of run %s ended with wait status %d; restarting it in %lld s", run->id,
              status, (long long)(run->pause_ns / NS_PER_S));
}

static void node_rest_ended(struct node_run *run, int status, int64_t now_ns)
{
    if (status == 0 && store_remove(&run->node->store, run->id) == 0) {
        run->over = true;
        log_info("run %s: its rings are gone, and all its facts were sent", run->id);
        return;
    }
    registry_forget(run);
    node_run_pause(run, now_ns, REST_PAUSE_NS, REST_PAUSE_MAX_NS);
    log_error("run %s: its rings are gone; facts that could not be sent stay in the spool; "
              "retrying in %lld s",
              run->id, (long long)(run->pause_ns / NS_PER_S));
}

static void node_child_ended(struct node *node, pid_t pid, int status, int64_t now_ns)
{
    for (size_t i = 0; i < node->runs; i++) {
        struct node_run *run = node->run[i];
        enum child_kind kind = run->kind;

        if (run->pid != pid)
            continue;
        run->pid = 0;
        run->kind = CHILD_NONE;
        fd_clean(&run->token_fd);
        run->token_fd = -1;
        node_user(node, run->uid)->children--;
        node->children--;
        if (kind == CHILD_AGENT)
            agent_ended(run, status, now_ns);
        else if (!node->stopping)
            node_rest_ended(run, status, now_ns);
        run->kill_at_ns = 0;
        run->asked = false;
        return;
    }
}

static void node_reap(struct node *node, int64_t now_ns)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (node->orders)
            node_orders_reaped(node->orders, pid, status);
        node_child_ended(node, pid, status, now_ns);
    }
}

/* What it was asked for and did not do is done for it. */
static void node_run_turn(struct node_run *run, int64_t now_ns)
{
    struct node *node = run->node;

    if (run->pid && !run->asked && (node->stopping || (run->kind == CHILD_AGENT && !run->there))) {
        kill(run->pid, SIGTERM);
        run->asked = true;
        run->kill_at_ns = node->stopping ? node->stop_ns + STOP_NS : now_ns + END_NS;
    }
    if (run->pid && node->stopping)
        run->kill_at_ns = MIN(run->kill_at_ns, node->stop_ns + STOP_NS);
    if (run->pid && run->kill_at_ns && now_ns >= run->kill_at_ns)
        kill(run->pid, SIGKILL);
    if (run->pid || run->there || run->over || node->stopping)
        return;
    /* Nothing has begun, or nothing is left. */
    if (!run->begun || (now_ns >= run->again_ns && store_remove(&node->store, run->id) == 0))
        run->over = true;
}

/* ---- the daemon ---- */

static void node_turn_runs(struct node *node, int64_t now_ns)
{
    for (size_t i = 0; i < node->runs; i++) {
        if (!node->stopping)
            node_run_look(node->run[i], now_ns);
        node_run_turn(node->run[i], now_ns);
    }
    node_drop_over(node);
    if (node->stopping)
        return;
    for (int i = 0; i < STARTS_AT_ONCE && node_serve_next(node, now_ns); i++)
        ;
    registry_turn(node, now_ns);
}

/* Results that `lockstep check` left: nobody else can write there. */
static int node_on_check(void *arg, const struct check *check)
{
    struct node *node = arg;
    struct check mine = *check;
    int result;

    snprintf(mine.node, sizeof(mine.node), "%s", node->settings->node);
    result = node_facts_check(node->facts, &mine, NULL);
    if (result == 0 && node->orders)
        node_orders_checked(node->orders, &mine);
    return result;
}

/* Before the orders: one that is done has its results in the spool. */
static void node_take_reports(struct node *node)
{
    struct err err = { "" };

    if (!node->facts || check_report_take(node->settings->state, node_on_check, node, &err) >= 0)
        node->reports_fail = false;
    else if (!node->reports_fail) {
        node->reports_fail = true;
        log_error("results of checks are not sent now: %s", err.text);
    }
}

static bool node_has_run(void *arg, char *why, size_t room)
{
    const struct node *node = arg;

    for (size_t i = 0; i < node->runs; i++) {
        const struct node_run *run = node->run[i];

        if (!run->pid || run->kind != CHILD_AGENT)
            continue;
        snprintf(why, room, "run %s is on this node", run->id);
        return true;
    }
    return false;
}

static void node_on_turn(void *arg, int64_t now_ns)
{
    struct node *node = arg;
    const struct scan_sink sink = {
        .is_known = node_is_known, .seen = node_on_seen, .found = node_on_found, .arg = node
    };

    node_reap(node, now_ns);
    if (!node->stopping && now_ns >= node->scan_at_ns) {
        scan_turn(node->scan, &sink);
        node->scan_at_ns = now_ns + SCAN_NS;
    }
    node_turn_runs(node, now_ns);
    if (node->facts && !node->stopping)
        node_facts_turn(node->facts);
    if (node->owners && !node->stopping)
        owners_turn(node->owners, now_ns); /* before the sensors: whose a finding is comes first */
    if (node->sensors && !node->stopping)
        node_sensors_turn(node->sensors, now_ns);
    if (!node->stopping)
        node_take_reports(node);
    if (node->orders && !node->stopping)
        node_orders_step(node->orders, now_ns);
    notify_alive(&node->notify, now_ns);
    if (node->stopping && (node->children == 0 || now_ns - node->stop_ns >= STOP_MAX_NS))
        loop_stop(node->loop);
    loop_timer_set(node->loop, &node->timer, now_ns + (node->stopping ? 50 * NS_PER_MS : SCAN_NS));
}

static void node_on_signal(void *arg, int signal)
{
    struct node *node = arg;

    if (signal != SIGCHLD && !node->stopping) {
        node->stopping = true;
        node->stop_ns = time_mono_ns();
    }
    loop_timer_set(node->loop, &node->timer, 0);
}

/* "RUN.uUID" of an earlier daemon's life: it goes on where that one was. */
static void node_on_left_run(void *arg, const char *id, uid_t uid, gid_t gid)
{
    struct node *node = arg;
    char name[64], suffix[16];
    size_t size = strlen(id), tail;
    struct node_run *run;

    snprintf(suffix, sizeof(suffix), ".u%u", uid);
    tail = strlen(suffix);
    if (size <= tail || size >= sizeof(name) || strcmp(id + size - tail, suffix) != 0) {
        if (store_remove(&node->store, id) < 0)
            log_error("ignoring %s/runs/%s: not a run of user %u", node->settings->state, id, uid);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(size - tail), id);
    run = node_add(node, uid, gid, name);
    if (run)
        run->begun = true;
}

/* Users' runs do not depend on it. */
static void node_node_facts_open(struct node *node)
{
    struct err err = { "" };

    if (node_facts_open(&(struct node_facts_settings){ .loop = node->loop,
                                                       .client = node->client,
                                                       .state = node->settings->state,
                                                       .node = node->settings->node },
                        &node->facts, &err) < 0)
        log_error("facts of this node are not sent: %s", err.text);
    if (node->facts && owners_create(node->facts, node->settings->node, &node->owners) < 0)
        log_error("owners of runs are not reported: out of memory");
}

static int node_on_finding(void *user, const struct finding *finding)
{
    struct node *node = user;

    if (node->owners)
        owners_process(node->owners, finding->pid);
    return node_facts_finding(node->facts, finding, NULL);
}

/* Of users who have a run here, by what the kernel says of their processes: a ring may name any process.  Each user has the
 * same share of the room, and what one leaves is for those who follow.
 */
static size_t node_jobs(void *user, uint32_t *pid, size_t room, bool *cut)
{
    const struct node *node = user;
    size_t count = 0, users = 0;

    for (size_t i = 0; i < node->users; i++)
        users += node->user[i].runs > 0;
    for (size_t i = 0; node->owners && i < node->users; i++) {
        size_t share, all;

        if (!node->user[i].runs)
            continue;
        share = (room - count) / users--;
        all = owners_processes(node->owners, node->user[i].uid, pid + count, share);
        *cut |= all > share;
        count += MIN(all, share);
    }
    return count;
}

static void node_sensors_open(struct node *node)
{
    if (!node->facts || !node->settings->sense)
        return;
    node->sensors =
        node_sensors_create(&(struct node_sensors_settings){ .node = node->settings->node,
                                                             .root = node->settings->sysroot,
                                                             .kmsg = node->settings->kmsg,
                                                             .put = node_on_finding,
                                                             .jobs = node_jobs,
                                                             .user = node });
}

static void node_orders_begin(struct node *node)
{
    const struct node_settings *settings = node->settings;
    const struct node_verify_settings verify = { .state = settings->state,
                                                 .node = settings->node,
                                                 .root = settings->sysroot,
                                                 .partition = settings->verify_partition,
                                                 .is_used = node_has_run,
                                                 .arg = node };
    struct err err = { "" };

    if (node->facts &&
        node_orders_open(
            &(struct node_orders_settings){ .loop = node->loop,
                                            .client = node->client,
                                            .facts = node->facts,
                                            .state = settings->state,
                                            .node = settings->node,
                                            .kmsg = settings->kmsg,
                                            .sense = settings->sense,
                                            .verify = settings->verify ? &verify : NULL,
                                            .is_used = node_has_run,
                                            .arg = node,
                                            .repair = settings->repair },
            &node->orders, &err) < 0)
        log_error("orders for this node are not taken: %s", err.text);
}

static int node_open(struct node *node, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGCHLD };
    const struct node_settings *settings = node->settings;
    int result = store_open(&node->store, settings->state, err);

    signal(SIGPIPE, SIG_IGN);
    node->timer = (struct loop_timer){ .fn = node_on_turn, .arg = node };
    if (result == 0)
        result = scan_create(settings->root ? settings->root : "/dev/shm", &node->scan, err);
    if (result == 0)
        result = loop_create(&node->loop, err);
    if (result == 0)
        result = loop_signals(node->loop, wanted, COUNT(wanted), node_on_signal, node, err);
    if (result == 0)
        result = client_open(node->loop, &settings->control, &node->client, err);
    if (result == 0)
        store_list(&node->store, node_on_left_run, node);
    if (result == 0)
        node_node_facts_open(node);
    if (result == 0 && node->facts)
        result = check_report_make(settings->state, err);
    if (result == 0)
        node_sensors_open(node);
    if (result == 0)
        node_orders_begin(node);
    return result;
}

static void node_close(struct node **at)
{
    struct node *node = *at;

    if (!node)
        return;
    node_orders_close(node->orders);
    node_sensors_destroy(node->sensors);
    owners_destroy(node->owners);
    node_facts_close(node->facts);
    client_close(node->client);
    loop_destroy(node->loop);
    node_table_fini(node);
    scan_destroy(node->scan);
    store_close(&node->store);
    free(node);
}

int node_run(const struct node_settings *settings, struct err *err)
{
    CLEAN(node_close) struct node *node = calloc(1, sizeof(*node));
    int result;

    if (!node)
        return err_nomem(err);
    node->settings = settings;
    node->store.fd = -1;
    result = node_open(node, err);
    if (result < 0)
        return result;
    notify_open(&node->notify);
    notify_ready(&node->notify, "looking for runs");
    loop_timer_set(node->loop, &node->timer, 0);
    result = loop_run(node->loop, err);
    notify_stopping(&node->notify);
    notify_close(&node->notify);
    return result;
}
