/* launch_verdicts.c - what the launcher prints about the job: each verdict when it is reached, and one line at the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "act/attach.h"
#include "act/launch_private.h"
#include "act/rings.h"
#include "core/clean.h"

static void say_lines(struct launch *launch, char *text)
{
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        output_say(launch->output, "%s", line);
}

static void say_verdict(struct launch *launch, const struct verdict *verdict)
{
    CLEAN(free_clean) char *text = NULL;
    size_t size = 0;
    FILE *out = launch->plan->quiet || !launch->plan->brief ? NULL : open_memstream(&text, &size);

    if (!out)
        return;
    launch->plan->brief(verdict, out);
    if (fclose(out) == 0)
        say_lines(launch, text);
}

bool launch_verdicts(struct launch *launch, struct verdict *ret)
{
    struct verdict verdict;
    bool asks = false;

    if (!launch->observed && run_directory_has_rings(&launch->run_dir))
        launch->observed = rings_any(launch->run_dir.file.rings);
    if (launch->daemons)
        daemons_relay(launch->daemons, launch->output);
    while (launch->follow && verdict_follow_next(launch->follow, &verdict)) {
        if (verdict_follow_is_new(launch->follow))
            say_verdict(launch, &verdict);
        if (!verdict_follow_asks_restart(&verdict, launch->attempt_real_ns))
            continue;
        *ret = verdict;
        asks = true;
    }
    if (launch->follow && verdict_follow_has_rings(launch->follow))
        launch->observed = true;
    return asks;
}

/* As 'lockstep why' finds it: by its name in the state directory, else by its path. */
static const char *run_to_ask_for(const struct launch *launch)
{
    const char *directory = launch->run_dir.directory.text;
    struct path usual;
    char whole[PATH_MAX];

    if (paths_run(launch->run_dir.file.id, &usual, NULL) == 0 && realpath(usual.text, whole) &&
        strcmp(whole, directory) == 0)
        return launch->run_dir.file.id;
    return directory;
}

void launch_say_attach(struct launch *launch)
{
    struct attach attach;

    attach_find(&attach);
    if (attach.trouble.text[0])
        output_say(launch->output, "%s", attach.trouble.text);
}

static void say_unobserved(struct launch *launch)
{
    output_say(launch->output, "steps were not observed: no process loaded the lockstep probe; "
                               "only crashes and exits were recorded");
    output_say(launch->output,
               "  to do: train with torch (python3 without -I, -E and -S), or call the "
               "probe in your program (lockstep/probe.h)");
}

void launch_conclude(struct launch *launch)
{
    struct verdict ignored;
    size_t count;

    if (!launch->daemons)
        return;
    launch_verdicts(launch, &ignored);
    count = launch->follow ? verdict_follow_count(launch->follow) : 0;
    if (!launch->observed && !launch->plan->quiet)
        say_unobserved(launch);
    if (count)
        output_say(launch->output, "%zu verdict%s; to read on: lockstep why %s", count,
                   count == 1 ? "" : "s", run_to_ask_for(launch));
    else if (launch->follow && launch->observed && !launch->plan->quiet)
        output_say(launch->output, "no verdicts; to read on: lockstep why %s",
                   run_to_ask_for(launch));
}
