/* launch_save.c - a signal that ends the run: a checkpoint first.
 *
 * A scheduler sends one some time before it kills a job that it preempts, or whose time is over.  The launcher asks for a checkpoint of
 * all ranks at the same step, as a person would, and ends its ranks when those here have answered, or when that is refused, or too late.
 * Each launcher of a run gets the signal; the one of rank 0 asks, the others only if no order comes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "act/launch/launch_private.h"
#include "core/clean.h"
#include "core/time.h"

#define SAVE_REPEAT_NS (2 * NS_PER_S) /* Slurm sends the same signal twice at once */
#define SAVE_OTHERS_NS (2 * NS_PER_S) /* for the launcher of rank 0 to ask */

static void save_ask(struct launch *launch)
{
    struct launch_save *save = &launch->save;
    struct request wanted = { .mono_ns = time_mono_ns(),
                              .real_ns = time_real_ns(),
                              .kind = REQUEST_CHECKPOINT_NOW,
                              .who = "launcher" };

    save->ask_ns = INT64_MAX;
    request_identify(&wanted);
    snprintf(wanted.text, sizeof(wanted.text), "SIG%s", sigabbrev_np(save->signal));
    launcher_log_request(launch->log, &wanted, NULL);
}

/* The ranks are ended as always. */
static void save_end(struct launch *launch, const char *why)
{
    struct launch_save *save = &launch->save;

    output_message(launch->output, "%s; ending the ranks", why);
    launch->stop_signal =
        save->signal == SIGUSR1 || save->signal == SIGUSR2 ? SIGTERM : save->signal;
    save->until_ns = 0;
}

static bool launch_save_waits(const struct launch *launch)
{
    return launch->save.until_ns != 0;
}

bool launch_save_begin(struct launch *launch, int number)
{
    struct launch_save *save = &launch->save;
    int64_t now_ns = time_mono_ns();

    if (launch_save_waits(launch)) {
        if (number != save->signal || now_ns - save->began_ns > SAVE_REPEAT_NS)
            save_end(launch, "another signal came before the checkpoint");
        return true;
    }
    if (!launch->plan->save_ns || number == SIGINT || !launch->orders || !launch->running ||
        launch->failed)
        return false;
    *save = (struct launch_save){ .signal = number,
                                  .began_ns = now_ns,
                                  .until_ns = now_ns + launch->plan->save_ns,
                                  .ask_ns = now_ns + SAVE_OTHERS_NS };
    output_message(launch->output, "SIG%s: the ranks are asked for a checkpoint, and ended then",
                   sigabbrev_np(number));
    if (launch_crew_leads(launch))
        save_ask(launch);
    return true;
}

void launch_save_order(struct launch *launch, const struct decision *decision)
{
    if (!launch_save_waits(launch) || decision->action != ACTION_CHECKPOINT)
        return;
    memcpy(launch->save.order, decision->id, sizeof(launch->save.order));
    launch->save.step = decision->step;
    launch->save.ask_ns = INT64_MAX;
}

void launch_save_outcome(struct launch *launch, const struct outcome *outcome)
{
    char why[120];

    if (!launch_save_waits(launch) || !launch->save.order[0] || !outcome->ended_real_ns ||
        strcmp(outcome->decision, launch->save.order) != 0 ||
        strncmp(outcome->part, "rank ", 5) == 0 || outcome->result == OUTCOME_PAST)
        return; /* past: it is asked again for a later step */
    if (outcome->result == OUTCOME_DONE)
        snprintf(why, sizeof(why), "the ranks here have saved after step %" PRIu64,
                 launch->save.step);
    else
        snprintf(why, sizeof(why), "no checkpoint: %.90s",
                 outcome->text[0] ? outcome->text : outcome_result_name(outcome->result));
    save_end(launch, why);
}

void launch_save_turn(struct launch *launch)
{
    struct launch_save *save = &launch->save;
    int64_t now_ns = time_mono_ns();

    if (!launch_save_waits(launch))
        return;
    if (now_ns >= save->until_ns)
        save_end(launch, "no checkpoint in time");
    else if (now_ns >= save->ask_ns)
        save_ask(launch);
}
