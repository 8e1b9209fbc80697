/* launch_warm.c - standby processes: of each rank one that has imported what the rank needs.
 *
 * Most of a restart of a Python program is its imports.  Once the first rank of this node has made its first process group it has written down what was
 * imported (RUN/warm.modules, _warm.py); then one standby per rank is started, which imports the same at a fifth of a processor
 * and waits at a socket (standby.py).  At a restart it gets the rank's environment and output, and becomes the rank.
 *
 * It is started with exec, not forked from another: threads and handles of a process do not survive a fork.  It is a child
 * of the keeper at the level of agents, so it stays when the ranks are ended, and is moved to the level of ranks before it
 * begins.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/attach.h"
#include "act/launch/launch_private.h"
#include "core/clean.h"
#include "core/time.h"

#define WARM_MODULES "warm.modules"
#define WARM_READY "warm.ready"
#define WARM_STARTS_MAX 8 /* of a rank in a run: a module that must be left out costs one */

struct warm_rank {
    pid_t pid;  /* 0: none */
    pid_t used; /* the process of this rank was a standby; 0: it was not */
    int socket;
    bool ready;
    unsigned starts;
    struct buf env; /* of the rank, as it was started last; the standby has the same */
};

struct launch_warm {
    struct path modules, script;
    char **argv;
    struct warm_rank *rank;
    bool reason_printed;
    struct path marker; /* a file that is there while all are ready */
    bool marked;
};

/* ---- whether it can be done ---- */

static bool warm_is_python(const char *program)
{
    const char *slash = strrchr(program, '/');

    return strncmp(slash ? slash + 1 : program, "python", 6) == 0;
}

/* Python and a script: options of Python would have to be understood. */
static const char *warm_unfit(const struct launch_plan *plan)
{
    if (!plan->ranks || !plan->watch)
        return "it needs ranks (-n) that are observed";
    if (!warm_is_python(plan->command[0]))
        return "the command is not python";
    if (!plan->command[1] || plan->command[1][0] == '-')
        return "expected a script as the first argument of python";
    return NULL;
}

static void warm_free(struct launch_warm *warm, uint32_t ranks)
{
    if (!warm)
        return;
    unlink(warm->marker.text);
    for (uint32_t i = 0; warm->rank && i < ranks; i++) {
        fd_clean(&warm->rank[i].socket);
        buf_fini(&warm->rank[i].env);
    }
    free(warm->rank);
    free(warm->argv);
    free(warm);
}

void launch_warm_close(struct launch *launch)
{
    warm_free(launch->warm, launch->count);
    launch->warm = NULL;
}

static int warm_words(struct launch *launch, struct launch_warm *warm)
{
    char *const *command = launch->plan->command;
    size_t count = 0;

    while (command[count])
        count++;
    warm->argv = calloc(count + 3, sizeof(*warm->argv));
    if (!warm->argv)
        return -ENOMEM;
    warm->argv[0] = command[0];
    warm->argv[1] = warm->script.text;
    warm->argv[2] = warm->modules.text;
    memcpy(warm->argv + 3, command + 1, (count - 1) * sizeof(*command));
    return 0;
}

void launch_warm_open(struct launch *launch)
{
    struct launch_warm *warm;
    const char *why = launch->plan->warm ? warm_unfit(launch->plan) : NULL;

    if (!launch->plan->warm)
        return;
    if (why || !run_directory_is_somewhere(&launch->run_dir)) {
        err_set(&launch->warm_trouble, 0, "--warm has no effect: %s",
                why ? why : "the run has no directory");
        return;
    }
    warm = calloc(1, sizeof(*warm));
    if (!warm)
        return;
    warm->rank = calloc(launch->count, sizeof(*warm->rank));
    for (uint32_t i = 0; warm->rank && i < launch->count; i++)
        warm->rank[i].socket = -1;
    if (!warm->rank ||
        path_join(&warm->modules, launch->run_dir.directory.text, WARM_MODULES, NULL) < 0 ||
        path_join(&warm->marker, launch->run_dir.directory.text, WARM_READY, NULL) < 0 ||
        attach_package_file("standby.py", &warm->script) < 0 || warm_words(launch, warm) < 0) {
        err_set(&launch->warm_trouble, 0,
                "--warm has no effect: the Python package is not installed");
        warm_free(warm, launch->count);
        return;
    }
    unlink(warm->modules.text);
    unlink(warm->marker.text);
    launch->warm = warm;
}

const char *launch_warm_modules(const struct launch *launch)
{
    return launch->warm ? launch->warm->modules.text : NULL;
}

char *const *launch_warm_argv(const struct launch *launch)
{
    return launch->warm ? launch->warm->argv : NULL;
}

/* ---- standby ---- */

static void warm_drop(struct warm_rank *warm)
{
    fd_clean(&warm->socket); /* it ends by itself */
    warm->pid = 0;
    warm->ready = false;
}

static void warm_start(struct launch *launch, uint32_t rank)
{
    CLEAN(buf_fini) struct buf env = { 0 };
    struct warm_rank *warm = &launch->warm->rank[rank];
    CLEAN(fd_clean) int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct keeper_job job = { .command = launch->warm_command,
                              .token = LAUNCH_WARM_TOKEN + rank,
                              .level = TREE_AGENTS,
                              .env = &env };
    int pair[2];

    warm->starts++;
    if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return;
    buf_put(&env, warm->env.data, warm->env.size);
    buf_put(&env, "LOCKSTEP_ATTACH=0", sizeof("LOCKSTEP_ATTACH=0")); /* until it is a rank */
    fcntl(pair[1], F_SETFL, 0);                                      /* the standby waits */
    job.out_fd = pair[1];
    job.err_fd = null;
    warm->socket = pair[0];
    if (keeper_spawn(launch->keeper, &job, &warm->pid, NULL) < 0)
        warm_drop(warm);
    close(pair[1]);
}

static void warm_mark(struct launch_warm *warm, bool ready)
{
    CLEAN(fd_clean) int fd = -1;

    if (ready == warm->marked)
        return;
    warm->marked = ready;
    if (ready)
        fd = open(warm->marker.text, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    else
        unlink(warm->marker.text);
}

void launch_warm_turn(struct launch *launch)
{
    uint32_t ready = 0;
    char word[16];

    if (!launch->warm || access(launch->warm->modules.text, R_OK) < 0)
        return;
    for (uint32_t rank = 0; rank < launch->count; rank++) {
        struct warm_rank *warm = &launch->warm->rank[rank];

        if (!warm->pid && warm->starts < WARM_STARTS_MAX)
            warm_start(launch, rank);
        else if (warm->pid && !warm->ready && recv(warm->socket, word, sizeof(word), 0) == 5)
            warm->ready = true;
        ready += warm->ready;
    }
    warm_mark(launch->warm, ready == launch->count);
}

bool launch_warm_exited(struct launch *launch, struct keeper_report *report)
{
    if (report->token < LAUNCH_WARM_TOKEN || report->token >= DAEMONS_TOKEN || !launch->warm)
        return false;
    for (uint32_t rank = 0; rank < launch->count; rank++) {
        struct warm_rank *warm = &launch->warm->rank[rank];

        if (warm->used == report->pid) {
            warm->used = 0;
            report->token = rank;
            return false;
        }
        if (warm->pid == report->pid)
            warm_drop(warm);
    }
    return true;
}

/* ---- a rank of it ---- */

/* Variables that are read when modules are imported. */
static bool warm_is_early(const char *name)
{
    return strncmp(name, "OMP_", 4) == 0 || strncmp(name, "LD_", 3) == 0 ||
           strncmp(name, "PYTHON", 6) == 0;
}

static bool warm_has(const struct buf *env, const char *text)
{
    for (size_t at = 0; at < env->size; at += strlen((const char *)env->data + at) + 1) {
        if (strcmp((const char *)env->data + at, text) == 0)
            return true;
    }
    return false;
}

/* The first of these in `env` that the other does not have alike; NULL: none. */
static const char *warm_difference(const struct buf *env, const struct buf *other)
{
    for (size_t at = 0; at < env->size; at += strlen((const char *)env->data + at) + 1) {
        const char *text = (const char *)env->data + at;

        if (warm_is_early(text) && !warm_has(other, text))
            return text;
    }
    return NULL;
}

static int warm_send(int fd, const struct buf *env, const int out[2])
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct iovec part = { .iov_base = env->data, .iov_len = env->size };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control.room) };

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(&control.header), out, 2 * sizeof(int));
    return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void warm_reason(struct launch *launch, uint32_t rank, const char *why)
{
    if (!launch->warm->reason_printed)
        output_message(launch->output, "rank %u is started cold: %s", rank, why);
    launch->warm->reason_printed = true;
}

bool launch_warm_use(struct launch *launch, uint32_t rank, struct buf *env, const int out[2])
{
    struct warm_rank *warm = launch->warm ? &launch->warm->rank[rank] : NULL;
    const char *difference;
    char word[16];
    bool used = false;

    if (!warm || !launch->run_dir.file.restarts)
        return false;
    if (warm->pid && !warm->ready)
        warm->ready = recv(warm->socket, word, sizeof(word), 0) == 5;
    difference = warm->ready ? warm_difference(env, &warm->env) : NULL;
    if (!warm->ready) {
        warm_reason(launch, rank, "its standby process is not ready");
    } else if (difference) {
        char text[160];

        snprintf(text, sizeof(text), "%.*s differs", (int)strcspn(difference, "="), difference);
        warm_reason(launch, rank, text);
    } else {
        if (!getenv("LOCKSTEP_ATTACH"))
            buf_put(env, "LOCKSTEP_ATTACH=1", sizeof("LOCKSTEP_ATTACH=1"));
        else
            buf_put(env, "LOCKSTEP_ATTACH=0", sizeof("LOCKSTEP_ATTACH=0"));
        /* Before it begins: the keeper must find it among the ranks when the lease of this launcher is over. */
        keeper_promote(launch->keeper, warm->pid);
        used = !env->failed && warm_send(warm->socket, env, out) == 0;
    }
    if (used)
        warm->used = warm->pid;
    warm_drop(warm);
    return used;
}

/* Before it is compared with what its standby has, so: only if that has none yet. */
void launch_warm_note(struct launch *launch, uint32_t rank, const struct buf *env)
{
    struct warm_rank *warm = launch->warm ? &launch->warm->rank[rank] : NULL;

    if (!warm || warm->pid)
        return;
    buf_fini(&warm->env);
    warm->env = (struct buf){ 0 };
    buf_put(&warm->env, env->data, env->size);
}

void launch_warm_begin(struct launch *launch)
{
    if (!launch->warm)
        return;
    launch->warm->reason_printed = false;
    warm_mark(launch->warm, false);
}
