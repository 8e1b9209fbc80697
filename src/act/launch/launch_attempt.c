/* launch_attempt.c - one attempt: all ranks from their allocation until none is left.
 *
 * The first rank that ends and not well is the culprit; the others get a signal to end, and what they then
 * say or how they end is an echo.  One that dumps its core, or any on a busy machine, may end after those who
 * noticed it: where the controller's verdict names another one, the run exits as that did.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/attach.h"
#include "act/keeper/keeper_wire.h"
#include "act/launch/launch_private.h"
#include "act/newest_point.h"
#include "core/clean.h"
#include "core/time.h"

#define ARENA_HOLD_MOST_S 86400

#define LAUNCH_FOLLOW_NS (NS_PER_S / 4) /* between two looks at what the controller says */
#define LAUNCH_HANG_EXIT 124            /* as timeout(1) has it */
#define LAUNCH_BACKOFF_MAX_NS (60 * NS_PER_S)

static int attempt_rank_start(struct launch *launch, uint32_t rank,
                              const struct layout_start *start, struct err *err)
{
    struct buf env = { 0 };
    int fd[2];
    struct keeper_job job = { .command = 0, .token = rank, .level = TREE_RANKS, .env = &env };
    pid_t pid;
    int r;

    output_open(launch->output, rank, fd);
    layout_env(&launch->run_dir.file.layout, start, rank, &env);
    job.out_fd = fd[0];
    job.err_fd = fd[1];
    launch_warm_note(launch, rank, &env);
    r = launch_warm_use(launch, rank, &env, fd) ? 0 : keeper_spawn(launch->keeper, &job, &pid, err);
    buf_fini(&env);
    output_close(fd);
    launch->running += r == 0;
    return r;
}

/* For ranks that may be started again. */
static uint32_t attempt_arena_hold(const struct launch_plan *plan)
{
    return plan->max_restarts || plan->act
               ? (uint32_t)MIN(plan->arena_hold_ns / NS_PER_S, ARENA_HOLD_MOST_S)
               : 0;
}

/* The path of the checkpoint that all ranks begin with; "": there is none, and they decide for themselves.  Of several nodes one that
 * does not see it must not start: its ranks would begin elsewhere than the others.
 */
static int attempt_resume(struct launch *launch, char *ret, size_t room, struct err *err)
{
    struct newest_point resume = { .step = NEWEST_POINT_NONE };
    uint64_t agreed = NEWEST_POINT_NONE;
    bool several = launch_crew_resume(launch, &agreed);
    int r = several && agreed == NEWEST_POINT_NONE
                ? 0
                : newest_point_find(launch->plan->checkpoints, agreed, &resume, err);

    ret[0] = '\0';
    if (several && agreed != NEWEST_POINT_NONE && r == 0 && resume.step != agreed)
        r = err_set(err, -ENOENT, "%s: the checkpoint of step %llu is not there",
                    launch->plan->checkpoints, (unsigned long long)agreed);
    if (r < 0 && several)
        return r;
    if (r < 0)
        output_message(launch->output, "%s; LOCKSTEP_RESUME is empty", err->text);
    else if (resume.skipped[0])
        output_message(launch->output, "checkpoint not taken: %s", resume.skipped);
    if (resume.step == NEWEST_POINT_NONE)
        return 0;
    snprintf(ret, room, "%s/%s", launch->plan->checkpoints, resume.name);
    output_message(launch->output, "checkpoint to begin with: %s", resume.name);
    return 0;
}

static int attempt_ranks_start(struct launch *launch, struct err *err)
{
    char checkpoint[PATH_MAX + 128];
    struct attach attach;
    struct layout_start start = {
        .run = launch->run_dir.file.id,
        .rings = launch->run_dir.file.rings,
        .attempt = launch->run_dir.file.attempt,
        .max_restarts = launch->plan->max_restarts,
        .arena_hold_s = attempt_arena_hold(launch->plan),
        .omp_threads = getenv("OMP_NUM_THREADS") != NULL,
        .python_path = attach.python_path,
        .nccl_plugin = attach.nccl_plugin,
        .library = attach.library,
        .warm_modules = launch_warm_modules(launch),
        .place = launch_crew_place(launch),
    };
    int r = launch->plan->ranks ? layout_port(&start.port, err) : 0;

    if (r == 0 && launch->plan->checkpoints) {
        r = attempt_resume(launch, checkpoint, sizeof(checkpoint), err);
        start.resume = checkpoint;
    }
    attach_find(&attach);
    if (!run_directory_has_rings(&launch->run_dir))
        attach_nothing(&attach);
    start.nccl_next = attach.nccl_next;
    for (uint32_t rank = 0; rank < launch->count && r == 0; rank++) {
        r = attempt_rank_start(launch, rank, &start, err);
        if (r < 0 && r != -EPIPE) {
            launch->culprit = rank;
            err_wrap(err, r, "rank %u could not be started", rank);
        }
    }
    return r;
}

static void attempt_begin(struct launch *launch)
{
    struct err err = { "" };
    char text[160];
    int r;

    launch->failed = false;
    launch->hang[0] = '\0';
    for (uint32_t rank = 0; rank < launch->count; rank++)
        launch->end[rank] = -1;
    launch->attempt_real_ns = time_real_ns();
    launch->level = TREE_RANKS;
    launch_write_file(launch);
    launcher_log_command_text(launch->plan->command, text, sizeof(text));
    launch_log_run(launch, RUN_ATTEMPT_BEGIN, 0, text);
    launch_orders_begin(launch);
    launch_warm_begin(launch);
    if (launch->run_dir.file.attempt) {
        snprintf(text, sizeof(text), "attempt %u", launch->run_dir.file.attempt);
        output_mark(launch->output, text);
    }
    r = attempt_ranks_start(launch, &err);
    launch_crew_started(launch, r < 0 ? err.text : NULL);
    if (r < 0 && r != -EPIPE && !launch->running && !launch->run_dir.file.restarts &&
        !launch->crew) {
        launch->starved = err;
        launch->failed = true;
    } else if (r < 0 && r != -EPIPE) { /* the loss of the keeper is reported elsewhere */
        output_message(launch->output, "%s", err.text);
        launch->failed = true;
        launch->culprit_status = W_EXITCODE(125, 0);
        launch_crew_failed(launch, launch->culprit, 125);
    }
}

/* All ended well, one did not, or we are told to stop. */
static bool attempt_over(const struct launch *launch)
{
    return !launch->running || launch->failed || launch->stop_signal || launch->keeper_lost_seen ||
           launch_crew_stops(launch);
}

int attempt_exit_status(const struct launch *launch)
{
    if (launch->stop_signal)
        return 128 + launch->stop_signal;
    if (launch->keeper_lost_seen)
        return launcher_log_status_code(launch->lost_status);
    return launch_crew_status(
        launch, launch->failed ? launcher_log_status_code(launch->culprit_status) : 0);
}

void attempt_why(const struct launch *launch, char *ret, size_t room)
{
    if (launch->stop_signal)
        snprintf(ret, room, RUN_STOPPED "%s", sigabbrev_np(launch->stop_signal));
    else if (launch->keeper_lost_seen)
        snprintf(ret, room, "the keeper was lost");
    else if (launch->hang[0])
        snprintf(ret, room, "%s", launch->hang);
    else if (launch_crew_why(launch) && !launch->failed)
        snprintf(ret, room, "%s", launch_crew_why(launch));
    else if (launch->failed)
        launcher_log_status_text(launch->culprit_status, ret, room);
    else
        snprintf(ret, room, "all ended successfully");
}

/* A job that hangs costs as much as one that runs: it is ended where it can begin again. */
void attempt_restart(struct launch *launch, const struct decision *decision)
{
    launch->failed = true;
    launch->culprit =
        decision->rank_count && decision->rank[0] < launch->count ? decision->rank[0] : 0;
    launch->culprit_status = W_EXITCODE(LAUNCH_HANG_EXIT, 0);
    snprintf(launch->hang, sizeof(launch->hang), "%.120s (%s)", decision->why, decision->of);
    output_message(launch->output, "%s; all ranks are restarted", launch->hang);
}

/* No further attempt.  The status is that of the newest attempt that failed. */
void attempt_give_up(struct launch *launch, const struct decision *decision)
{
    launch->given_up = launch->failed = true;
    snprintf(launch->hang, sizeof(launch->hang), "%.150s", decision->why);
    output_message(launch->output, "%s; there is no further attempt", decision->why);
}

static void attempt_follow(struct launch *launch)
{
    launch_verdicts(launch);
    launch_orders_turn(launch);
    launch_save_turn(launch);
    launch_warm_turn(launch);
}

bool attempt_reconsider(struct launch *launch)
{
    struct verdict verdict;
    char text[160];

    if (!launch->failed || launch->hang[0] || !launch->plan->ranks ||
        !verdict_follow_crash(launch->run_dir.directory.text, launch->log_bytes,
                              launch->attempt_real_ns, &verdict))
        return false;
    for (uint32_t i = 0; i < MIN(verdict.rank_count, VERDICT_RANKS); i++) {
        if (verdict.rank[i] == launch->culprit)
            return false;
    }
    for (uint32_t i = 0; i < MIN(verdict.rank_count, VERDICT_RANKS); i++) {
        uint32_t rank = verdict.rank[i];

        if (rank >= launch->count || launch->end[rank] <= 0)
            continue;
        launch->culprit = rank;
        launch->culprit_status = launch->end[rank];
        launcher_log_status_text(launch->culprit_status, text, sizeof(text));
        output_message(launch->output,
                       "rank %u %s and caused the other failures; exiting with its status", rank,
                       text);
        return true;
    }
    return false;
}

void attempt_run(struct launch *launch)
{
    char why[160];

    attempt_begin(launch);
    while (!attempt_over(launch)) {
        launch_turn(launch, launch->daemons ? time_mono_ns() + LAUNCH_FOLLOW_NS : INT64_MAX);
        if (launch->daemons && !attempt_over(launch))
            attempt_follow(launch);
    }
    if (launch->daemons) /* now: agents remove the rings of ranks that have ended */
        launch_verdicts(launch);
    launch->log_bytes = verdict_follow_bytes(launch->run_dir.directory.text);
    launch_end_wait(launch, TREE_RANKS, launch_crew_grace_ns(launch));
    launch_orders_end(launch);
    output_drain(launch->output);
    attempt_why(launch, why, sizeof(why));
    launch_log_run(launch, RUN_ATTEMPT_END, attempt_exit_status(launch), why);
}

/* Most failures do not repeat: a restart is put off only if one attempt after the other fails soon. */
static int64_t attempt_pause_ns(struct launch *launch)
{
    int64_t pause_ns;

    if (time_real_ns() - launch->attempt_real_ns > LAUNCH_BACKOFF_MAX_NS)
        launch->failed_soon = 0;
    pause_ns = launch->failed_soon ? launch->plan->backoff_ns : 0;
    for (uint32_t i = 1; i < launch->failed_soon && pause_ns < LAUNCH_BACKOFF_MAX_NS; i++)
        pause_ns *= 2;
    launch->failed_soon++;
    return MIN(pause_ns, MAX(LAUNCH_BACKOFF_MAX_NS, launch->plan->backoff_ns));
}

static bool attempt_is_last(struct launch *launch)
{
    if (!launch->failed || launch->stop_signal || launch->keeper_lost_seen || launch->given_up)
        return true;
    if (!launch->hang[0] && launch_policy_ends(launch, launch->culprit_status)) {
        if (launch->run_dir.file.restarts < launch->plan->max_restarts)
            output_message(launch->output, "status %d means: do not restart",
                           WEXITSTATUS(launch->culprit_status));
        return true;
    }
    return launch->run_dir.file.restarts >= launch->plan->max_restarts;
}

bool attempt_again(struct launch *launch)
{
    struct runfile *file = &launch->run_dir.file;
    int64_t pause = attempt_pause_ns(launch), until = time_mono_ns() + pause;

    if (attempt_is_last(launch))
        return false;
    if (pause)
        output_message(launch->output, "restart %u of %u in %.1f s", file->restarts + 1,
                       launch->plan->max_restarts, (double)pause / 1e9);
    else
        output_message(launch->output, "restart %u of %u", file->restarts + 1,
                       launch->plan->max_restarts);
    while (time_mono_ns() < until && !attempt_is_last(launch)) {
        launch_turn(launch, MIN(until, time_mono_ns() + LAUNCH_FOLLOW_NS));
        launch_verdicts(launch);
        launch_orders_between(launch);
    }
    if (attempt_is_last(launch))
        return false;
    file->restarts++;
    file->attempt++;
    return true;
}

/* the ranks as a shell would start them, when there is nothing left to keep them with.
 *
 * Without a descriptor or a process for a keeper nobody can be watched, restarted or ended as a tree; but whoever asked for
 * a training shall have one.  A single command takes the place of this process: its output and its exit status are its own. */

/* `parent` 0: in its place. */
static _Noreturn void attempt_bare_exec(const struct launch *launch, uint32_t rank, uint16_t port,
                                        pid_t parent)
{
    const struct launch_plan *plan = launch->plan;
    const struct layout_start start = { .run = launch->run_dir.file.id,
                                        .attempt = launch->run_dir.file.attempt,
                                        .max_restarts = plan->max_restarts,
                                        .port = port,
                                        .omp_threads = getenv("OMP_NUM_THREADS") != NULL };
    struct buf env = { 0 };

    layout_env(&launch->run_dir.file.layout, &start, rank, &env);
    if (!env.failed)
        child_environment((const char *)env.data, env.size);
    setrlimit(RLIMIT_NOFILE, &launch->files);
    child_signals(false);
    if (parent && (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent))
        _exit(125);
    execvp(plan->command[0], plan->command);
    launcher_log_exec_failed(plan->command[0]);
    _exit(errno == ENOENT ? 127 : 126);
}

/* The first that does not end well takes the others with it. */
static int attempt_bare_wait(const pid_t *pid, uint32_t count)
{
    int status, result = 0;

    for (pid_t ended; (ended = wait(&status)) > 0 || errno == EINTR;) {
        if (ended <= 0 || status == 0 || result != 0)
            continue;
        result = launcher_log_status_code(status);
        for (uint32_t i = 0; i < count; i++)
            if (pid[i] > 0 && pid[i] != ended)
                kill(pid[i], SIGTERM);
    }
    return result;
}

int bare_run(const struct launch_plan *plan, const struct launch *launch, int *ret_exit,
             struct err *err)
{
    uint32_t count = MAX(plan->ranks, 1u);
    CLEAN(free_clean) pid_t *pid = calloc(count, sizeof(*pid));
    uint16_t port = 0;
    int why = 0;

    dprintf(STDERR_FILENO, "lockstep run: %s; starting the command without observing it\n",
            launch->starved.text);
    if (plan->ranks && layout_port(&port, err) < 0)
        port = 29500; /* as torchrun has it; nobody can be asked whether it is free */
    if (count == 1)
        attempt_bare_exec(launch, 0, port, 0);
    child_signals(false); /* whoever ends us ends the ranks with us */
    for (uint32_t rank = 0; pid && rank < count && !why; rank++) {
        pid_t self = getpid();

        pid[rank] = fork();
        if (pid[rank] == 0)
            attempt_bare_exec(launch, rank, port, self);
        why = pid[rank] < 0 ? -errno : 0;
        if (why < 0)
            err_set(err, why, "rank %u could not be started: %s", rank, strerror(-why));
    }
    for (uint32_t i = 0; why < 0 && i < count; i++)
        if (pid[i] > 0)
            kill(pid[i], SIGTERM);
    if (pid)
        *ret_exit = attempt_bare_wait(pid, count);
    return pid ? why : err_nomem(err);
}
