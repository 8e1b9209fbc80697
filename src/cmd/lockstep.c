/* lockstep.c - the table of subcommands.  Those without a function are in lockstep-lab, which is started for them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lockstep.h"

#include <errno.h>
#include <unistd.h>

#include "base/command_program.h"
#include "base/log.h"
#include "base/sibling.h"
#include "cmd/lab/bench_options.h"
#include "cmd/lab/demo_options.h"
#include "cmd/lab/drill_options.h"
#include "cmd/lab/trainer_options.h"
#include "cmd/settings.h"

#define LAB "lockstep-lab"

/* By what a user wants, one a line; the topics below name the first of each. */
/* clang-format off */
static const struct command *const commands[] = {
    &command_demo,
    &command_run,

    &command_why,
    &command_top,
    &command_stacks,
    &command_incident,
    &command_report,
    &command_ps,
    &command_diff,
    &command_trace_export,
    &command_whatif,

    &command_request_checkpoint,
    &command_request_depth,
    &command_request_cancel,
    &command_act,
    &command_drill,

    &command_ckpt_ls,
    &command_ckpt_verify,
    &command_ckpt_seal,
    &command_ckpt_scrub,
    &command_ckpt_gc,
    &command_ckpt_export,
    &command_ckpt_push,
    &command_ckpt_pull,
    &command_ckpt_serve,
    &command_ckpt_mirror,
    &command_ckpt_plan,

    &command_doctor,
    &command_sense,
    &command_check,
    &command_fabric_test,
    &command_fabric_serve,

    &command_control,
    &command_agent,
    &command_nodes,
    &command_node_out,
    &command_node_in,
    &command_request_inspect,
    &command_request_verify,
    &command_slurm_install,
    &command_send,
    &command_relay,

    &command_completion,
    &command_version,

    &command_bench_control,
    &command_bench_ckpt,
    &command_bench_probe,
    &command_bench_dumps,
    &command_bench_autopsy,
    &command_bench_noise,
    &command_bench_replay,
    &command_bench_verdicts,
    &command_bench_matrix,
    &command_bench_page,
    &command_bench_agent,
    &command_bench_fabric,
    &command_bench_kmsg,
    &command_bench_recover,

    &command_trainer,
    &command_slow_disk,
    &command_node_agent,
    &command_orders,
    &command_alert,
    &command_site_act,
    &command_node_repair,
    &command_slurm_hook,
    NULL,
};

static const struct command_topic topics[] = {
    { &command_demo, "start a job", false },
    { &command_why, "look at a run", false },
    { &command_request_checkpoint, "ask a run for something, act on it", false },
    { &command_ckpt_ls, "checkpoints", false },
    { &command_doctor, "check this machine and its network", false },
    { &command_control, "set up and run a site", false },
    { &command_completion, "lockstep itself", false },
    { &command_bench_control, "measure lockstep ('lockstep help bench' says more)", true },
    { NULL, NULL, false },
};
/* clang-format on */

const struct command *const *lockstep_commands(void)
{
    return commands;
}

/* Its words stay as they were typed: ps shows what was asked for. */
static int lockstep_lab_run(char **argv)
{
    struct err err = { "" };
    struct path self, lab;
    int result = sibling_find(LAB, &lab, &err);

    if (result == 0)
        execv(lab.text, argv);
    if (result == 0)
        log_error("%s: %m", lab.text);
    else if (result == -ENOENT && sibling_directory(&self, &err) == 0)
        log_error(LAB " is not installed beside %s/lockstep; install the package " LAB, self.text);
    else
        log_error("%s", err.text);
    return 3;
}

int main(int argc, char **argv)
{
    static const struct command_program program = {
        .name = "lockstep",
        .summary = "which rank, on which node, in which layer is slow, stuck or broken",
        .more =
            "'lockstep help COMMAND' says more about one, 'man lockstep' about all.\n"
            "Exit status: 0 yes or healthy, 1 no or unhealthy, 2 bad usage, 3 could not tell.\n",
        .commands = commands,
        .topics = topics,
        .check = settings_check,
        .run_elsewhere = lockstep_lab_run,
    };

    return program_main(&program, argc, argv);
}
