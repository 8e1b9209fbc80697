/* launch_print.c - what the launcher prints: its plan (--dry-run), each verdict when it is reached, one line at the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act/attach.h"
#include "act/launch/launch_private.h"
#include "act/rings.h"
#include "base/net/control_url.h"
#include "core/clean.h"

/* ---- the plan ---- */

static void print_env(const struct layout *layout, const struct layout_start *start, uint32_t rank,
                      FILE *out)
{
    struct buf env = { 0 };

    layout_env(layout, start, rank, &env);
    for (size_t at = 0; at < env.size; at += strlen((const char *)env.data + at) + 1)
        fprintf(out, " %s", (const char *)env.data + at);
    buf_fini(&env);
}

int launch_show(const struct launch_plan *plan, FILE *out, struct err *err)
{
    struct run_directory run_dir;
    struct layout_start start = { .max_restarts = plan->max_restarts };
    struct attach attach;
    struct path rings;
    char command[1024];
    int r = run_directory_plan(plan, &run_dir, err);

    if (r == 0)
        r = paths_rings(run_dir.file.id, 0, &rings, err);
    if (r == 0 && plan->ranks)
        r = layout_port(&start.port, err);
    if (r < 0)
        return r;
    start.run = run_dir.file.id;
    start.rings = rings.text;
    start.omp_threads = getenv("OMP_NUM_THREADS") != NULL;
    attach_find(&attach);
    start.python_path = attach.python_path;
    start.nccl_plugin = attach.nccl_plugin;
    start.nccl_next = attach.nccl_next;
    start.library = attach.library;
    launcher_log_command_text(plan->command, command, sizeof(command));
    fprintf(out, "run %s in %s\n", run_dir.file.id,
            run_directory_is_somewhere(&run_dir) ? run_dir.directory.text : run_dir.trouble.text);
    for (uint32_t rank = 0; rank < (plan->ranks ? plan->ranks : 1); rank++) {
        if (plan->ranks)
            fprintf(out, "rank %u:", rank);
        print_env(&run_dir.file.layout, &start, rank, out);
        fprintf(out, " %s\n", command);
    }
    return 0;
}

/* ---- the job ---- */

static void verdict_print_lines(struct launch *launch, char *text)
{
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        output_message(launch->output, "%s", line);
}

static void verdict_print(struct launch *launch, const struct verdict *verdict)
{
    CLEAN(free_clean) char *text = NULL;
    size_t size = 0;
    FILE *out = launch->plan->quiet || !launch->plan->brief ? NULL : open_memstream(&text, &size);

    if (!out)
        return;
    launch->plan->brief(verdict, out);
    if (fclose(out) == 0)
        verdict_print_lines(launch, text);
}

/* The controller leaves a one-time link beside its address as soon as it listens. */
static void launch_print_page(struct launch *launch)
{
    CLEAN(file_clean) FILE *file = NULL;
    char address[512] = "", host[256] = "HOST";
    const char *port;
    struct path path;

    if (path_join(&path, launch->run_dir.directory.text, PAGE_URL_FILE, NULL) < 0)
        return;
    file = fopen(path.text, "re");
    if (!file || !fgets(address, sizeof(address), file) || !strchr(address, '\n'))
        return;
    launch->page_printed = true;
    address[strcspn(address, "\n")] = '\0';
    output_message(launch->output, "page, for one browser within ten minutes: %s", address);
    port = strstr(address, "127.0.0.1:");
    if (!getenv("SSH_CONNECTION") || !port)
        return;
    gethostname(host, sizeof(host) - 1);
    output_message(launch->output, "from your own machine first: ssh -N -L %d:127.0.0.1:%d %s",
                   atoi(port + 10), atoi(port + 10), host);
}

void launch_verdicts(struct launch *launch)
{
    enum verdict_follow_what what;
    struct decision decision;
    struct verdict verdict;

    if (launch->plan->page && !launch->page_printed && launch->daemons)
        launch_print_page(launch);
    if (!launch->observed && run_directory_has_rings(&launch->run_dir))
        launch->observed = rings_any(launch->run_dir.file.rings);
    if (launch->daemons)
        daemons_relay(launch->daemons, launch->output);
    while (launch->follow && (what = verdict_follow_next(launch->follow, &verdict, &decision))) {
        if (what == VERDICT_FOLLOW_DECISION)
            launch_policy_print(launch, &decision);
        else if (verdict_follow_is_new(launch->follow))
            verdict_print(launch, &verdict);
    }
    if (launch->follow && verdict_follow_has_rings(launch->follow))
        launch->observed = true;
}

/* As 'lockstep why' finds it: by its name in the state directory, else by its path. */
static const char *launch_run_to_ask_for(const struct launch *launch)
{
    const char *directory = launch->run_dir.directory.text;
    struct path usual;
    char resolved[PATH_MAX];

    if (paths_run(launch->run_dir.file.id, &usual, NULL) == 0 && realpath(usual.text, resolved) &&
        strcmp(resolved, directory) == 0)
        return launch->run_dir.file.id;
    return directory;
}

void launch_print_attach(struct launch *launch)
{
    struct attach attach;

    attach_find(&attach);
    if (attach.trouble.text[0])
        output_message(launch->output, "%s", attach.trouble.text);
}

static void verdict_print_unobserved(struct launch *launch)
{
    output_message(launch->output, "steps were not observed: no process loaded the lockstep probe; "
                                   "only crashes and exits were recorded");
    output_message(launch->output,
                   "  to do: train with torch (python3 without -I, -E and -S), or call the "
                   "probe in your program (lockstep/probe.h)");
}

void launch_conclude(struct launch *launch)
{
    size_t count;

    if (!launch->daemons)
        return;
    launch_verdicts(launch);
    count = launch->follow ? verdict_follow_count(launch->follow) : 0;
    if (!launch->observed && !launch->plan->quiet)
        verdict_print_unobserved(launch);
    if (count)
        output_message(launch->output, "%zu verdict%s; details: lockstep why %s", count,
                       count == 1 ? "" : "s", launch_run_to_ask_for(launch));
    else if (launch->follow && launch->observed && !launch->plan->quiet)
        output_message(launch->output, "no verdicts; details: lockstep why %s",
                       launch_run_to_ask_for(launch));
    else if (launch->plan->remote && !launch->rendezvous && !launch->plan->quiet &&
             !daemons_relayed(launch->daemons))
        output_message(launch->output,
                       "verdicts are at the controller: lockstep why %s --control %s",
                       launch->run_dir.file.id, getenv("LOCKSTEP_CONTROL"));
}
