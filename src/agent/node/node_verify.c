/* node_verify.c - watch, run, and end when a job comes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_verify.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/node/node_idle.h"
#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "verify/verify.h"

#define WATCH_NS (3 * NS_PER_S) /* so long nobody may use the node before */
#define LIMIT_NS                                                                                   \
    (3000 * NS_PER_S)          /* in all, also waiting for Slurm: less than the order's own limit */
#define KILL_NS (1 * NS_PER_S) /* from SIGTERM to SIGKILL */
#define KILL_JOB_NS (10 * NS_PER_S) /* the same of srun, which ends its job first */
#define WORDS 16

enum verify_phase {
    VERIFY_IDLE,
    VERIFY_WATCH,
    VERIFY_RUN,
    VERIFY_END, /* its process was asked to end, for the reason in `why` */
};

struct node_verify {
    struct node_verify_settings settings;
    char program[PATH_MAX]; /* an upgrade puts another one in its place */
    enum verify_phase phase;
    unsigned stage;
    bool job;  /* it is a job of Slurm's */
    pid_t pid; /* 0: none; also the group of its processes */
    int status;
    int64_t began_ns, ended_ns, began_real_ns;
    struct node_idle idle;
    bool reported;
    struct check all;
    char why[120];
};

int node_verify_create(const struct node_verify_settings *settings, struct node_verify **ret)
{
    struct node_verify *verify = calloc(1, sizeof(*verify));

    if (!verify)
        return -ENOMEM;
    verify->settings = *settings;
    if (readlink("/proc/self/exe", verify->program, sizeof(verify->program) - 1) < 0)
        verify->program[0] = '\0';
    *ret = verify;
    return 0;
}

void node_verify_destroy(struct node_verify *verify)
{
    if (!verify)
        return;
    if (verify->pid) {
        kill(-verify->pid, verify->job ? SIGTERM : SIGKILL);
        if (!verify->job)
            waitpid(verify->pid, NULL, 0);
    }
    free(verify);
}

int node_verify_begin(struct node_verify *verify, int64_t argument, int64_t now_ns)
{
    int64_t stage = VERIFY_STAGE_OF(argument);

    if (verify->phase != VERIFY_IDLE)
        return -EBUSY;
    if (stage < 1 || stage > VERIFY_STAGES)
        return -EINVAL;
    verify->stage = (unsigned)stage - 1;
    verify->job = verify->settings.partition && !(argument & VERIFY_NODE_IS_OUT);
    verify->phase = VERIFY_WATCH;
    verify->began_ns = now_ns;
    verify->began_real_ns = time_real_ns();
    verify->reported = false;
    verify->why[0] = '\0';
    node_idle_init(&verify->idle, verify->settings.root ? verify->settings.root : "");
    return 0;
}

/* ---- its process ---- */

struct verify_words {
    char text[WORDS][PATH_MAX + 32];
    char *list[WORDS + 1];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void verify_word(struct verify_words *words,
                                                              const char *format, ...)
{
    va_list args;

    if (words->count == WORDS)
        abort(); /* there is a fixed number of them */
    va_start(args, format);
    vsnprintf(words->text[words->count], sizeof(words->text[0]), format, args);
    va_end(args);
    words->list[words->count] = words->text[words->count];
    words->count++;
}

static void verify_words_fill(const struct node_verify *verify, struct verify_words *words)
{
    const struct node_verify_settings *settings = &verify->settings;

    if (verify->job) {
        verify_word(words, "srun");
        verify_word(words, "--partition=%s", settings->partition);
        verify_word(words, "--nodelist=%s", settings->node);
        verify_word(words, "--nodes=1");
        verify_word(words, "--ntasks=1");
        verify_word(words, "--exclusive");
        verify_word(words, "--job-name=lockstep-verify");
        verify_word(words, "--chdir=/");
        verify_word(words, "--quiet");
    }
    verify_word(words, "%s", verify->job ? verify->program : "lockstep");
    verify_word(words, "check");
    verify_word(words, "--background");
    verify_word(words, "--stage=%s", verify_stage_name(verify->stage));
    verify_word(words, "--node=%s", settings->node);
    verify_word(words, "--agent-state=%s", settings->state);
    if (settings->root)
        verify_word(words, "--sysroot=%s", settings->root);
}

/* The daemon is spared when memory runs out; its checks go first. */
static void verify_give_way(void)
{
    CLEAN(fd_clean) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, "900", 3) != 3)
        log_error("oom_score_adj: %s", strerror(errno));
}

__attribute__((noreturn)) static void verify_exec(const struct node_verify *verify,
                                                  struct verify_words *words)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    verify_give_way();
    prctl(PR_SET_PDEATHSIG, verify->job ? SIGTERM : SIGKILL);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0) {
        if (verify->job)
            execvp("srun", words->list);
        else
            execv("/proc/self/exe", words->list);
    }
    _exit(127);
}

static void verify_run_begin(struct node_verify *verify)
{
    CLEAN(free_clean) struct verify_words *words = calloc(1, sizeof(*words));

    if (!words || !verify->program[0]) {
        snprintf(verify->why, sizeof(verify->why), "the checks could not be started");
        return;
    }
    verify_words_fill(verify, words);
    verify->pid = fork();
    if (verify->pid == 0)
        verify_exec(verify, words);
    if (verify->pid < 0) {
        verify->pid = 0;
        snprintf(verify->why, sizeof(verify->why), "the checks could not be started");
        return;
    }
    setpgid(verify->pid, verify->pid);
    verify->phase = VERIFY_RUN;
    log_info("checks of stage %s begin%s%s", verify_stage_name(verify->stage),
             verify->job ? ", as a job in partition " : "",
             verify->job ? verify->settings.partition : "");
}

static void verify_run_end(struct node_verify *verify, int64_t now_ns)
{
    kill(-verify->pid, SIGTERM);
    verify->phase = VERIFY_END;
    verify->ended_ns = now_ns;
    log_info("checks of stage %s end: %s", verify_stage_name(verify->stage), verify->why);
}

void node_verify_reaped(struct node_verify *verify, pid_t pid, int status)
{
    if (pid != verify->pid)
        return;
    verify->pid = 0;
    verify->status = status;
}

void node_verify_checked(struct node_verify *verify, const struct check *check)
{
    if (verify->phase == VERIFY_IDLE || strcmp(check->name, CHECK_NAME_ALL) != 0 ||
        strcmp(check->stage, verify_stage_name(verify->stage)) != 0 ||
        check->real_ns < verify->began_real_ns)
        return;
    verify->reported = true;
    verify->all = *check;
}

/* ---- turns ---- */

static bool verify_is_used(struct node_verify *verify, int64_t now_ns)
{
    const struct node_verify_settings *settings = &verify->settings;

    if (verify->job)
        return false; /* Slurm gives the node to nobody else */
    return (settings->is_used &&
            settings->is_used(settings->arg, verify->why, sizeof(verify->why))) ||
           node_idle_is_used(&verify->idle, verify->pid, now_ns, verify->why, sizeof(verify->why));
}

static enum outcome_result verify_result_of(const struct node_verify *verify, char *text,
                                            size_t room)
{
    const char *stage = verify_stage_name(verify->stage);

    if (verify->reported) {
        snprintf(text, room, "stage %s: %s%s%.120s", stage, check_state_name(verify->all.state),
                 verify->all.why[0] ? ": " : "", verify->all.why);
        return OUTCOME_DONE;
    }
    if (verify->why[0])
        snprintf(text, room, "%s", verify->why);
    else if (WIFSIGNALED(verify->status) && WTERMSIG(verify->status) == SIGTERM)
        snprintf(text, room, "ended: another check, or a prolog, needed the node");
    else if (WIFSIGNALED(verify->status))
        snprintf(text, room, "the checks ended by signal %d", WTERMSIG(verify->status));
    else
        snprintf(text, room, "the checks ended with status %d and without a report",
                 WEXITSTATUS(verify->status));
    return OUTCOME_NOT_EXECUTED;
}

static void verify_turn_run(struct node_verify *verify, int64_t now_ns)
{
    if (verify->phase == VERIFY_RUN && now_ns - verify->began_ns >= LIMIT_NS)
        snprintf(verify->why, sizeof(verify->why), "they took too long");
    if (verify->phase == VERIFY_RUN && (verify->why[0] || verify_is_used(verify, now_ns)))
        verify_run_end(verify, now_ns);
    if (verify->phase == VERIFY_END &&
        now_ns - verify->ended_ns >= (verify->job ? KILL_JOB_NS : KILL_NS))
        kill(-verify->pid, SIGKILL);
}

bool node_verify_turn(struct node_verify *verify, int64_t now_ns, enum outcome_result *result,
                      char *text, size_t room)
{
    if (verify->phase == VERIFY_IDLE)
        return false;
    if (verify->pid) {
        verify_turn_run(verify, now_ns);
        return false;
    }
    if (verify->phase == VERIFY_WATCH && !verify_is_used(verify, now_ns)) {
        if (verify->job || now_ns - verify->began_ns >= WATCH_NS)
            verify_run_begin(verify);
        if (!verify->why[0])
            return false;
    }
    *result = verify_result_of(verify, text, room);
    verify->phase = VERIFY_IDLE;
    return true;
}
