/* node.c - finds runs on this node, and keeps an agent and a sender for each. */
#include "agent/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/notify.h"
#include "base/paths.h"
#include "base/token.h"
#include "base/tree.h"
#include "core/clean.h"
#include "core/time.h"

#define SCAN_NS (500 * NS_PER_MS)
#define UNSERVED_NS (3 * NS_PER_S) /* a launcher's agent that died is back sooner */
#define AGAIN_NS NS_PER_S          /* a child that died is started again */
#define RUNS_MAX 1024
#define PREFIX "lockstep-"

enum part {
    PART_AGENT,
    PART_SEND,
    PARTS
};

struct served { /* a run on this node */
    uid_t uid;
    gid_t gid;
    char id[64]; /* RUN.uUID */
    struct path rings, dir, agent_dir;
    int64_t free_ns; /* nobody has served it since then; 0: somebody does */
    bool begun, there, told;
    pid_t pid[PARTS];
    int64_t again_ns[PARTS];
    int status[PARTS]; /* how it ended when it was told to */
};

struct node {
    const struct node_settings *settings;
    const char *root;
    struct loop *loop;
    struct loop_timer timer;
    struct notify notify;
    struct served run[RUNS_MAX];
    size_t runs;
    bool told, full_told;
};

/* ---- what is there ---- */

/* A directory of that user that nobody else can write to.  Returns its fd, or -errno. */
static int open_owned(int parent, const char *name, uid_t uid, gid_t *gid)
{
    CLEAN(fd_clean)
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != uid || (st.st_mode & 022))
        return -EPERM;
    *gid = st.st_gid;
    return TAKE_FD(fd);
}

static struct served *run_get(struct node *node, uid_t uid, gid_t gid, const char *name)
{
    struct served *run;
    char id[128];

    snprintf(id, sizeof(id), "%s.u%u", name, uid);
    if (paths_check_run(name, NULL) < 0 || paths_check_run(id, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < node->runs; i++) {
        if (strcmp(node->run[i].id, id) == 0)
            return &node->run[i];
    }
    if (node->runs == RUNS_MAX) {
        if (!node->full_told)
            log_error("more than %d runs on this node; further ones are not served", RUNS_MAX);
        node->full_told = true;
        return NULL;
    }
    run = &node->run[node->runs];
    *run = (struct served){ .uid = uid, .gid = gid };
    snprintf(run->id, sizeof(run->id), "%s", id);
    if (snprintf(run->rings.text, sizeof(run->rings.text), "%s/" PREFIX "%u/%s", node->root, uid,
                 name) >= (int)sizeof(run->rings.text) ||
        path_join(&run->dir, node->settings->state, run->id, NULL) < 0)
        return NULL;
    node->runs++;
    return run;
}

static bool is_served(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return true;
    flock(fd, LOCK_UN);
    return false;
}

static void scan_user(struct node *node, int root_fd, const char *name, uid_t uid, int64_t now_ns)
{
    gid_t gid = 0;
    int fd = open_owned(root_fd, name, uid, &gid);
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        CLEAN(fd_clean) int rings = -1;
        struct served *run;

        if (entry->d_name[0] == '.')
            continue;
        rings = open_owned(dirfd(dir), entry->d_name, uid, &gid);
        run = rings < 0 ? NULL : run_get(node, uid, gid, entry->d_name);
        if (!run)
            continue;
        run->there = true;
        if (run->begun)
            continue;
        if (is_served(rings))
            run->free_ns = 0;
        else if (!run->free_ns)
            run->free_ns = now_ns;
    }
}

static void scan(struct node *node, int64_t now_ns)
{
    CLEAN(dir_clean) DIR *dir = opendir(node->root);

    for (size_t i = 0; i < node->runs; i++)
        node->run[i].there = false;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        unsigned uid;
        char rest;

        if (sscanf(entry->d_name, PREFIX "%u%c", &uid, &rest) == 1 &&
            (geteuid() == 0 || geteuid() == uid))
            scan_user(node, dirfd(dir), entry->d_name, uid, now_ns);
    }
}

/* ---- children ---- */

static int write_run(const struct served *run, const char *dir, struct err *err)
{
    struct path file;
    FILE *out;
    int result = path_join(&file, dir, "run.json", err);

    if (result < 0)
        return result;
    out = fopen(file.text, "we");
    if (!out ||
        fprintf(out,
                "{\"id\": \"%s\", \"ranks\": 0, \"nodes\": [{\"name\": \"here\"}], \"rings\": "
                "\"%s\"}\n",
                run->id, run->rings.text) < 0 ||
        fchmod(fileno(out), 0644) < 0 || fclose(out) != 0)
        return err_set(err, -errno, "%s: %m", file.text);
    return 0;
}

/* STATE/ID is the sender's, STATE/ID/agent the agent's; only the spool in it is the user's own. */
static int run_prepare(struct served *run, struct err *err)
{
    struct path spool, link;
    int result = path_join(&run->agent_dir, run->dir.text, "agent", err);

    if (result == 0)
        result = path_join(&spool, run->agent_dir.text, "spool", err);
    if (result == 0)
        result = path_join(&link, run->dir.text, "spool", err);
    if (result == 0)
        result = path_make(spool.text, err);
    if (result < 0)
        return result;
    if (chmod(run->dir.text, 0711) < 0 || chmod(run->agent_dir.text, 0711) < 0 ||
        (geteuid() == 0 && lchown(spool.text, run->uid, run->gid) < 0) ||
        (symlink("agent/spool", link.text) < 0 && errno != EEXIST))
        return err_set(err, -errno, "%s: %m", run->dir.text);
    result = write_run(run, run->dir.text, err);
    return result < 0 ? result : write_run(run, run->agent_dir.text, err);
}

/* When the sender has it, the agent gets a copy of the run's token. */
static void token_give(const struct served *run)
{
    struct path from, to;
    struct token token;
    struct err err = { "" };

    if (path_join(&from, run->dir.text, "agent.token", NULL) < 0 ||
        path_join(&to, run->agent_dir.text, "agent.token", NULL) < 0 ||
        access(to.text, F_OK) == 0 || token_read(from.text, &token, NULL) < 0)
        return;
    if (token_write(to.text, &token, &err) < 0)
        log_error("%s", err.text);
    else if (geteuid() == 0 && lchown(to.text, run->uid, run->gid) < 0)
        log_error("%s: %m", to.text);
}

static void child(const struct node *node, const struct served *run, enum part part)
{
    const char *const agent[] = {
        "lockstep", "agent", "--run-dir", run->agent_dir.text, "--node", node->settings->node, NULL
    };
    const char *const send[] = { "lockstep", "send", "--run-dir", run->dir.text, NULL };
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    unsetenv("NOTIFY_SOCKET"); /* that is between our parent and us */
    unsetenv("WATCHDOG_USEC");
    if (part == PART_AGENT) {
        unsetenv("LOCKSTEP_TOKEN_FILE");
        if (geteuid() == 0 &&
            (setgroups(0, NULL) < 0 || setgid(run->gid) < 0 || setuid(run->uid) < 0))
            _exit(126);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv("/proc/self/exe", (char *const *)(part == PART_AGENT ? agent : send));
    _exit(127);
}

static void start(struct node *node, struct served *run, enum part part, int64_t now_ns)
{
    pid_t pid = fork();

    if (pid == 0)
        child(node, run, part);
    run->pid[part] = pid > 0 ? pid : 0;
    run->again_ns[part] = now_ns + AGAIN_NS;
}

static void on_child(struct node *node)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < node->runs; i++) {
            struct served *run = &node->run[i];

            for (int part = 0; part < PARTS; part++) {
                if (run->pid[part] != pid)
                    continue;
                run->pid[part] = 0;
                run->status[part] = status;
                if (!run->told)
                    log_error("the %s of run %s ended (status %d), and is started again",
                              part == PART_AGENT ? "agent" : "sender", run->id, status);
            }
        }
    }
}

/* ---- a run's life ---- */

static void run_begin(struct served *run)
{
    struct err err = { "" };

    if (run_prepare(run, &err) < 0) {
        log_error("run %s is not served: %s", run->id, err.text);
        run->free_ns = 0; /* again when it has been free for a while */
        return;
    }
    run->begun = true;
    run->status[PART_SEND] = -1; /* until it has said that all is sent */
    log_info("run %s: its rings in %s are watched", run->id, run->rings.text);
}

/* First the agent, which tells its last; then the sender, which brings it.  True: both are gone. */
static bool run_end(struct served *run)
{
    if (!run->told && run->pid[PART_AGENT])
        kill(run->pid[PART_AGENT], SIGTERM);
    run->told = true;
    if (run->pid[PART_AGENT])
        return false;
    if (run->pid[PART_SEND])
        kill(run->pid[PART_SEND], SIGTERM);
    if (run->pid[PART_SEND])
        return false;
    if (run->begun && run->status[PART_SEND] == 0)
        tree_remove(run->dir.text); /* the controller has all of it */
    if (run->begun)
        log_info("run %s: its rings are gone%s%s", run->id,
                 run->status[PART_SEND] == 0 ? "" : "; what could not be sent stays in ",
                 run->status[PART_SEND] == 0 ? "" : run->dir.text);
    return true;
}

static void run_turn(struct node *node, struct served *run, int64_t now_ns)
{
    if (!run->begun && run->free_ns && now_ns - run->free_ns >= UNSERVED_NS)
        run_begin(run);
    if (!run->begun)
        return;
    token_give(run);
    for (int part = 0; part < PARTS; part++) {
        if (!run->pid[part] && now_ns >= run->again_ns[part])
            start(node, run, part, now_ns);
    }
}

static void on_turn(void *arg, int64_t now_ns)
{
    struct node *node = arg;
    size_t kept = 0;

    on_child(node);
    scan(node, now_ns);
    for (size_t i = 0; i < node->runs; i++) {
        struct served *run = &node->run[i];

        if (!node->told && run->there && !run->told)
            run_turn(node, run, now_ns);
        else if (run_end(run))
            continue;
        node->run[kept++] = *run;
    }
    node->runs = kept;
    notify_alive(&node->notify, now_ns);
    if (node->told && node->runs == 0)
        loop_stop(node->loop);
    loop_timer_set(node->loop, &node->timer, now_ns + SCAN_NS);
}

static void on_signal(void *arg, int signal)
{
    struct node *node = arg;

    node->told = node->told || signal != SIGCHLD;
    loop_timer_set(node->loop, &node->timer, 0);
}

int node_run(const struct node_settings *settings, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGCHLD };
    CLEAN(free_clean) struct node *node = calloc(1, sizeof(*node));
    int result;

    if (!node)
        return err_set(err, -ENOMEM, "out of memory");
    node->settings = settings;
    node->root = settings->root ? settings->root : "/dev/shm";
    node->timer = (struct loop_timer){ .fn = on_turn, .arg = node };
    result = path_make(settings->state, err);
    if (result == 0 && chmod(settings->state, 0711) < 0) /* agents pass through to their spools */
        result = err_set(err, -errno, "%s: %m", settings->state);
    if (result == 0)
        result = loop_create(&node->loop, err);
    if (result == 0)
        result = loop_signals(node->loop, wanted, COUNT(wanted), on_signal, node, err);
    if (result == 0) {
        notify_open(&node->notify);
        notify_ready(&node->notify, "looking for runs");
        loop_timer_set(node->loop, &node->timer, 0);
        result = loop_run(node->loop, err);
        notify_stopping(&node->notify);
        notify_close(&node->notify);
    }
    loop_destroy(node->loop);
    return result;
}
