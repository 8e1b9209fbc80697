/* lab.c - the program lockstep-lab: the demo, its trainer and the benches.
 *
 * Sites run lockstep as root; what makes faults, networks, file systems and load is not in it.
 * 'lockstep demo' starts 'lockstep-lab demo', found beside it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/cmd/lab.h"

#include <errno.h>
#include <stdio.h>

#include "base/command_program.h"
#include "base/log.h"
#include "cmd/lab/bench_options.h"
#include "cmd/lab/demo_options.h"
#include "cmd/lab/drill_options.h"
#include "cmd/lab/trainer_options.h"
#include "core/clean.h"

static const struct command command_lab_version = {
    .name = "version",
    .operands = "",
    .summary = "show the version of lockstep-lab",
};

static int lab_version_main(int argc, char **argv)
{
    int parsed = opt_parse_all(&command_lab_version, argc, argv, NULL);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    puts("lockstep-lab " LOCKSTEP_VERSION);
    return 0;
}

/* In the order of lockstep's table. */
static const struct lab_command {
    const struct command *command;
    int (*run)(int argc, char **argv);
} lab_commands[] = {
    { &command_demo, demo_main },
    { &command_drill, drill_main },
    { &command_bench_control, bench_control_main },
    { &command_bench_ckpt, bench_ckpt_main },
    { &command_bench_probe, bench_probe_main },
    { &command_bench_dumps, bench_dumps_main },
    { &command_bench_autopsy, bench_autopsy_main },
    { &command_bench_noise, bench_noise_main },
    { &command_bench_replay, bench_replay_main },
    { &command_bench_verdicts, bench_verdicts_main },
    { &command_bench_matrix, bench_matrix_main },
    { &command_bench_page, bench_page_main },
    { &command_bench_agent, bench_agent_main },
    { &command_bench_fabric, bench_fabric_main },
    { &command_bench_kmsg, bench_kmsg_main },
    { &command_bench_recover, bench_recover_main },
    { &command_lab_version, lab_version_main },
    { &command_trainer, trainer_main },
    { &command_slow_disk, slow_disk_main },
};

int main(int argc, char **argv)
{
    struct command command[COUNT(lab_commands)];
    const struct command *list[COUNT(lab_commands) + 1] = { NULL };
    const struct command_program program = {
        .name = "lockstep-lab",
        .summary = "the demo and the benchmarks of lockstep",
        .more = "'lockstep demo' and 'lockstep bench' start this program: see their pages.\n",
        .commands = list,
    };

    for (size_t i = 0; i < COUNT(lab_commands); i++) {
        command[i] = *lab_commands[i].command;
        command[i].run = lab_commands[i].run;
        list[i] = &command[i];
    }
    return program_main(&program, argc, argv);
}
