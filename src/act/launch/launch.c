/* launch.c - one run from its first attempt to its end.
 *
 * launch_run() has the stages: lock the directory, start the keeper, run attempts until success or the last one, let
 * agents and controller finish.  Whatever is waited for, it is waited for in launch_turn(), which serves all that
 * can happen in the meantime.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/launch/launch_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/rings.h"
#include "core/clean.h"
#include "core/time.h"

#define LAUNCH_DRAIN_NS (20 * NS_PER_S)    /* for agents, then for the controller */
#define LAUNCH_DRAINS 4                    /* of one that is killed while it drains */
#define LAUNCH_PATIENCE_NS (10 * NS_PER_S) /* after SIGKILL, before we say that somebody stays */

/* ---- what is written down ---- */

static void launch_check_log(struct launch *launch, int r, const struct err *err)
{
    if (r < 0 && !launch->launcher_log_failed) {
        output_message(launch->output, "%s; the record of this run is incomplete from now on",
                       err->text);
        launch->launcher_log_failed = true;
    }
}

void launch_log_run(struct launch *launch, enum run_event event, int status, const char *text)
{
    struct fact_run fact = {
        .event = (uint8_t)event,
        .attempt = launch->run_dir.file.attempt,
        .ranks = launch->crew ? launch_crew_place(launch)->world : launch->plan->ranks,
        .culprit = launch->failed && launch->plan->ranks
                       ? (int32_t)launch_crew_rank(launch, launch->culprit)
                       : -1,
        .status = status,
        .mono_ns = launch_crew_mono_ns(launch),
        .real_ns = time_real_ns(),
    };
    struct err err = { "" };

    if (event == RUN_END ? !launch_crew_reports_end(launch) : !launch_crew_leads(launch))
        return;
    snprintf(fact.text, sizeof(fact.text), "%s", text);
    launch_check_log(launch, launcher_log_run(launch->log, &fact, &err), &err);
}

static void launch_log_exit(struct launch *launch, const struct keeper_report *report,
                            bool ended_by_launcher)
{
    struct fact_exit fact = { .rank = launch_crew_rank(launch, report->token),
                              .attempt = launch->run_dir.file.attempt,
                              .mono_ns = report->mono_ns,
                              .status = report->status,
                              .ended_by_launcher = ended_by_launcher };
    struct err err = { "" };

    if (!launch->plan->ranks)
        return;
    launcher_log_status_text(report->status, fact.text, sizeof(fact.text));
    if (report->status != 0)
        output_words(launch->output, report->token, fact.words, sizeof(fact.words));
    launch_check_log(launch, launcher_log_exit(launch->log, &fact, &err), &err);
}

void launch_write_file(struct launch *launch)
{
    struct err err = { "" };

    if (run_directory_is_somewhere(&launch->run_dir))
        launch_check_log(launch,
                         runfile_write(launch->run_dir.directory.text, &launch->run_dir.file, &err),
                         &err);
}

/* ---- what can happen ---- */

static void launch_end(struct launch *launch, enum tree_level level, int64_t grace_ns)
{
    launch->ending = true;
    launch->ending_ns = time_mono_ns();
    launch->kill_ns = launch->ending_ns + grace_ns;
    launch->ended = false;
    launch->level = level;
    /* Who asks for KeyboardInterrupt to save its work shall get it.  Agents and controller know SIGTERM. */
    launch->end_signal = level == TREE_RANKS && launch->stop_signal ? launch->stop_signal : SIGTERM;
    keeper_end(launch->keeper, &(struct process_tree_ending){ .level = level,
                                                              .signal = launch->end_signal,
                                                              .grace_ns = grace_ns });
}

static void launch_print_exit(struct launch *launch, uint32_t rank, int status)
{
    char text[160];

    launcher_log_status_text(status, text, sizeof(text));
    if (launch->plan->ranks)
        output_message(launch->output, "rank %u %s", launch_crew_rank(launch, rank), text);
    else
        output_message(launch->output, "%s %s", launch->plan->command[0], text);
}

/* One that had ended before was not ended by us, though it is reported later; nor was one that died of SIGKILL within the
 * grace: a process that the kernel kills for memory may close its connections long before it is gone.  The death of the
 * keeper kills them all.
 */
static bool launch_ended(const struct launch *launch, const struct keeper_report *report)
{
    bool killed = WIFSIGNALED(report->status) && WTERMSIG(report->status) == SIGKILL;

    if (launch->keeper_lost_seen)
        return true;
    return launch->ending && report->mono_ns >= (killed ? launch->kill_ns : launch->ending_ns);
}

static void launch_on_exit(struct launch *launch, const struct keeper_report *report)
{
    bool ended_by_launcher = launch_ended(launch, report);

    if (report->token >= DAEMONS_TOKEN) {
        daemons_exited(launch->daemons, report->token, report->status, launch->output,
                       report->mono_ns);
        return;
    }
    launch->running--;
    if (launch->end &&
        !(ended_by_launcher && WIFSIGNALED(report->status) &&
          (WTERMSIG(report->status) == launch->end_signal || WTERMSIG(report->status) == SIGTERM ||
           WTERMSIG(report->status) == SIGKILL))) /* as we end them */
        launch->end[report->token] = report->status;
    if (report->status != 0 && !ended_by_launcher && !launch->failed) {
        launch->failed = true;
        launch->culprit = report->token;
        launch->culprit_status = report->status;
        launch_crew_failed(launch, report->token, launcher_log_status_code(report->status));
        launch_print_exit(launch, report->token, report->status);
    }
    launch_log_exit(launch, report, ended_by_launcher);
}

static void launch_on_signal(struct launch *launch, int number)
{
    bool again = launch->signalled;

    if (number == SIGCHLD)
        return; /* the keeper's end is seen at its socket, and orphans are reaped with the rest */
    launch->signalled = true;
    if (launch->level == TREE_RANKS && !launch->ending && launch_save_begin(launch, number))
        return;
    if (again) {
        if (number == SIGINT && launch->ending && !launch->ended)
            keeper_end(launch->keeper, &(struct process_tree_ending){
                                           .level = launch->level, .signal = launch->end_signal });
    } else if (launch->level == TREE_RANKS) {
        launch->stop_signal = number;
        output_message(launch->output, "SIG%s: ending the ranks; another SIGINT kills them",
                       sigabbrev_np(number));
    } else {
        output_message(launch->output,
                       "SIG%s: the ranks have ended; waiting for agents and controller",
                       sigabbrev_np(number));
    }
}

static void launch_on_lost(struct launch *launch)
{
    char text[160];

    launch->keeper_lost_seen = true;
    keeper_lost(launch->keeper, &launch->lost_status);
    launcher_log_status_text(launch->lost_status, text, sizeof(text));
    output_message(launch->output,
                   "the keeper process was %s; ending the run and all its processes", text);
    if (launch->ending && !launch->ended) /* it may have died with our request in its hands */
        launch_end(launch, launch->level, launch->plan->grace_ns);
}

static void launch_reports(struct launch *launch)
{
    struct keeper_report report;

    while (keeper_next(launch->keeper, &report)) {
        if (!launch->keeper_lost_seen && keeper_lost(launch->keeper, NULL))
            launch_on_lost(launch); /* before its children's exits: they are its echoes */
        if (report.event == KEEPER_EXITED && launch_warm_exited(launch, &report))
            continue;
        if (report.event == KEEPER_EXITED) {
            launch_on_exit(launch, &report);
        } else if (report.event == KEEPER_ENDED) {
            launch->ended = true;
            if (report.status)
                output_message(launch->output, "%d process%s of another user could not be ended",
                               report.status, report.status == 1 ? "" : "es");
        }
    }
    if (!launch->keeper_lost_seen && keeper_lost(launch->keeper, NULL))
        launch_on_lost(launch);
}

static int launch_timeout_ms(const struct launch *launch, int64_t until_ns)
{
    int64_t now = time_mono_ns(), pause = keeper_pause_ns(launch->keeper);

    if (launch->daemons)
        until_ns = MIN(until_ns, daemons_due_ns(launch->daemons));
    until_ns = MIN(until_ns, output_due_ns(launch->output));
    until_ns = MIN(until_ns, launch_crew_due_ns(launch));
    if (pause >= 0)
        until_ns = MIN(until_ns, now + pause);
    return time_poll_ms(until_ns, now);
}

/* poll() and not base/loop.h: the order is fixed (output, signals, exits), so that an exit is reported with the last
 * words of its rank; and epoll refuses the plain file or /dev/null that stdout often is.
 */
void launch_turn(struct launch *launch, int64_t until_ns)
{
    struct pollfd *fd = launch->poll;
    struct signalfd_siginfo info;
    size_t outputs;

    fd[0] = (struct pollfd){ .fd = keeper_fd(launch->keeper), .events = POLLIN };
    fd[1] = (struct pollfd){ .fd = launch->signals, .events = POLLIN };
    outputs = output_poll(launch->output, fd + 2);
    if (poll(fd, 2 + outputs, launch_timeout_ms(launch, until_ns)) > 0)
        output_serve(launch->output, fd + 2, outputs);
    output_show_due(launch->output, time_mono_ns());
    while (read(launch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        launch_on_signal(launch, (int)info.ssi_signo);
    launch_reports(launch);
    if (launch->daemons)
        daemons_start(launch->daemons, launch->keeper, launch->output, time_mono_ns());
    launch_crew_turn(launch);
}

void launch_end_wait(struct launch *launch, enum tree_level level, int64_t grace_ns)
{
    int64_t warn_ns = time_mono_ns() + LAUNCH_PATIENCE_NS +
                      (grace_ns > 0 ? MAX(grace_ns, TREE_WRITER_GRACE_NS) : 0);

    launch_end(launch, level, grace_ns);
    while (!launch->ended) {
        launch_turn(launch, warn_ns);
        if (time_mono_ns() >= warn_ns && !launch->ended) {
            output_message(
                launch->output,
                "some processes did not end after SIGKILL; they may be blocked in the kernel");
            warn_ns = INT64_MAX;
        }
    }
    launch->ending = false;
}

/* ---- the run ---- */

static bool launch_ignores(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* SIGHUP that is ignored when we start stays so: nohup.  SIGINT does not: a shell ignores it for all that it starts in
 * the background, and a blocked signal arrives here all the same.
 */
static int launch_signals(struct launch *launch, struct err *err)
{
    static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2 };
    size_t count = launch->plan->save_ns ? COUNT(wanted) : COUNT(wanted) - 2;
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] != SIGHUP || !launch_ignores(SIGHUP))
            sigaddset(&mask, wanted[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take the exits from us and the keeper */
    launch->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return launch->signals < 0 ? err_set(err, -errno, "signalfd: %m") : 0;
}

static int launch_keeper(struct launch *launch, struct err *err)
{
    size_t daemons = launch->daemons ? daemons_count(launch->daemons) : 0;
    struct keeper_plan plan = { .commands = 1 + daemons + (launch->warm ? 1 : 0),
                                .keep_stdin = !launch->plan->ranks,
                                .grace_ns = launch->plan->grace_ns,
                                .drain_ns = LAUNCH_DRAIN_NS,
                                .rings = launch->run_dir.file.rings,
                                .files = launch->files,
                                .life = launch->life.fd };
    int r;

    launch->command = calloc(plan.commands, sizeof(*launch->command));
    if (!launch->command)
        return err_nomem(err);
    launch->command[0].argv = launch->plan->command;
    if (launch->daemons)
        daemons_commands(launch->daemons, 1, launch->command + 1);
    launch->warm_command = (uint32_t)(1 + daemons);
    if (launch->warm)
        launch->command[launch->warm_command] =
            (struct keeper_command){ .argv = launch_warm_argv(launch), .standby = true };
    plan.command = launch->command;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    r = keeper_start(&plan, &launch->keeper, err);
    if (r == 0)
        launch->run_dir.file.keeper = keeper_pid(launch->keeper);
    return r;
}

/* Three descriptors a rank are ours, and the keeper needs some; ranks get the limit that they would have without us. */
static void launch_raise_files(struct launch *launch)
{
    struct rlimit limit;

    launch->files = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
    if (getrlimit(RLIMIT_NOFILE, &launch->files) < 0)
        return;
    limit = (struct rlimit){ launch->files.rlim_max, launch->files.rlim_max };
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Those who watch. */
static void launch_watchers(struct launch *launch)
{
    struct run_directory *run_dir = &launch->run_dir;

    if (!launch->plan->watch || !run_directory_is_somewhere(run_dir) ||
        !run_directory_has_rings(run_dir))
        return;
    if (daemons_create(&run_dir->file.layout, run_dir->directory.text,
                       (struct daemons_wanted){ .remote = launch->plan->remote,
                                                .alert = launch->plan->alert,
                                                .lead = job_rendezvous_lead(launch->rendezvous) },
                       &launch->daemons) < 0)
        err_set(&run_dir->rings_trouble, 0, "out of memory for agents; the ranks are not observed");
    else if (!launch->plan->remote &&
             verdict_follow_create(run_dir->directory.text, &launch->follow) < 0)
        err_set(&run_dir->rings_trouble, 0,
                "out of memory to follow verdicts: they are not printed");
}

static void launch_log_open(struct launch *launch)
{
    struct run_directory *run_dir = &launch->run_dir;
    struct err err = { "" };
    char node[64];

    layout_name(&run_dir->file.layout, 0, node);
    if (run_directory_is_somewhere(run_dir))
        launch_check_log(
            launch,
            launcher_log_open(run_dir->spool.text, run_dir->file.id, node, &launch->log, &err),
            &err);
}

/* Everything without which ranks cannot be kept as they should; what only watches them may be missing. */
static int launch_open(struct launch *launch, struct err *err)
{
    struct run_directory *run_dir = &launch->run_dir;
    int r = launch_signals(launch, err);

    launch_raise_files(launch);
    launch_watchers(launch);
    launch_warm_open(launch);
    if (launch->plan->trust_ends && getenv("LOCKSTEP_CONTROL"))
        life_socket_open(getenv("LOCKSTEP_CONTROL"),
                         &launch->life); /* else the lease alone counts */
    if (r == 0)
        r = launch_keeper(launch, err);
    if (r == 0)
        r = output_create(run_directory_is_somewhere(run_dir) && !launch->plan->nodes_max
                              ? run_dir->out.text
                              : "",
                          launch->plan->ranks, launch->plan->quiet, &launch->output, err);
    if (r < 0)
        return r;
    if (launch->rendezvous && launch->daemons)
        daemons_move(launch->daemons, launch->keeper, job_rendezvous_url(launch->rendezvous),
                     job_rendezvous_leads(launch->rendezvous));
    launch_log_open(launch);
    launch_orders_open(launch);
    launch->poll = calloc(2 + output_poll_max(launch->output), sizeof(*launch->poll));
    launch->end = calloc(launch->count, sizeof(*launch->end));
    if (!launch->poll || !launch->end)
        return err_nomem(err);
    return launch_crew_open(launch, err);
}

static void launch_close(struct launch *launch)
{
    keeper_stop(launch->keeper);
    output_destroy(launch->output);
    launcher_log_close(launch->log);
    daemons_destroy(launch->daemons);
    verdict_follow_destroy(launch->follow);
    launch_orders_close(launch);
    if (launch->crew && launch_crew_is_over(launch))
        job_rendezvous_over(launch->rendezvous);
    launch_crew_close(launch);
    job_rendezvous_close(launch->rendezvous);
    launch_warm_close(launch);
    life_socket_close(&launch->life);
    fd_clean(&launch->signals);
    fd_clean(&launch->run_dir.lock);
    free(launch->poll);
    free(launch->end);
    free(launch->command);
}

static void launch_begin(struct launch *launch)
{
    const struct run_directory *run_dir = &launch->run_dir;
    char text[160];

    if (run_dir->trouble.text[0])
        output_message(launch->output, "%s", run_dir->trouble.text);
    if (run_dir->rings_trouble.text[0])
        output_message(launch->output, "%s", run_dir->rings_trouble.text);
    if (launch->warm_trouble.text[0])
        output_message(launch->output, "%s", launch->warm_trouble.text);
    if (launch->daemons)
        launch_print_attach(launch);
    launch_write_file(launch); /* agents and controller read it */
    launcher_log_command_text(launch->plan->command, text, sizeof(text));
    if (!launch->crew) { /* else the first node of the first attempt does */
        launch_log_run(launch, RUN_BEGIN, 0, text);
        launch_policy_open(launch);
    }
    if (run_dir->goes_on)
        output_message(launch->output, "run %s continues with attempt %u", run_dir->file.id,
                       run_dir->file.attempt);
}

/* The keeper's death ended agents and controller before all was told, and one that was not there at
 * that moment has told nothing at all.  So they get another keeper, for their last words only.
 */
static void launch_renew(struct launch *launch)
{
    struct err err = { "" };

    launch_end_wait(launch, TREE_CONTROL, LAUNCH_DRAIN_NS);
    keeper_stop(TAKE(launch->keeper));
    free(TAKE(launch->command));
    launch->keeper_lost_seen = false;
    if (launch_keeper(launch, &err) < 0)
        output_message(launch->output, "%s; facts that agents have not written yet are lost",
                       err.text);
    else
        launch_write_file(launch); /* agents look there whether their parent is ours */
}

/* Lets agents or the controller finish.  One that is killed meanwhile has left facts in rings or spools, so it gets another
 * life for them, unless somebody wants the run to end now.
 */
static void launch_drain(struct launch *launch, enum tree_level level)
{
    int64_t until_ns = time_mono_ns() + LAUNCH_DRAIN_NS;

    for (int lives = LAUNCH_DRAINS; lives > 0; lives--) {
        launch_end_wait(launch, level, LAUNCH_DRAIN_NS);
        if (lives == 1 || launch->stop_signal || time_mono_ns() >= until_ns ||
            !daemons_finish_again(launch->daemons, level, launch->keeper, launch->output))
            break;
    }
}

static void launch_finish(struct launch *launch)
{
    struct runfile *file = &launch->run_dir.file;
    bool stopped = launch->stop_signal || launch->keeper_lost_seen;
    char why[160];

    attempt_why(launch, why, sizeof(why));
    file->exit = attempt_exit_status(launch);
    launch_log_run(launch, RUN_END, file->exit, why);
    if (launch->daemons && keeper_lost(launch->keeper, NULL))
        launch_renew(launch);
    if (launch->daemons && launch->keeper) {
        daemons_finish(launch->daemons, launch->keeper, launch->output);
        launch_drain(launch, TREE_AGENTS);
        launch_drain(launch, TREE_CONTROL);
        if (!stopped && attempt_reconsider(launch))
            file->exit = attempt_exit_status(launch);
    }
    launch_conclude(launch);
    if (run_directory_has_rings(&launch->run_dir))
        rings_remove(file->rings);
    file->ended = true;
    file->ended_real_ns = time_real_ns();
    launch_write_file(launch);
}

/* From its first attempt to its end.  False: no process could be started, and none is there. */
static bool launch_attempts(struct launch *launch)
{
    launch_begin(launch);
    if (launch->crew) {
        launch_crew_attempts(launch);
    } else {
        do
            attempt_run(launch);
        while (!launch->starved.text[0] && attempt_again(launch));
    }
    if (launch->starved.text[0])
        return false;
    launch_finish(launch);
    return true;
}

int launch_run(const struct launch_plan *plan, int *ret_exit, struct err *err)
{
    struct launch launch = { .plan = plan, .signals = -1, .count = MAX(plan->ranks, 1u) };
    int r = run_directory_plan(plan, &launch.run_dir, err);
    bool begun;

    if (r == 0)
        r = run_directory_take(&launch.run_dir, plan->name != NULL, err);
    if (r == 0 && plan->rendezvous)
        r = job_rendezvous_open(plan, &launch.run_dir, &launch.rendezvous, err);
    if (r < 0)
        return r;
    begun = launch_open(&launch, &launch.starved) == 0 && launch_attempts(&launch);
    if (!begun && plan->nodes_max) /* alone it would be another job */
        r = err_set(err, -EIO, "%s", launch.starved.text);
    *ret_exit = launch.run_dir.file.exit;
    if (!begun && run_directory_has_rings(&launch.run_dir))
        rings_remove(launch.run_dir.file.rings);
    launch_close(&launch);
    return begun || r < 0 ? r : bare_run(plan, &launch, ret_exit, err);
}
