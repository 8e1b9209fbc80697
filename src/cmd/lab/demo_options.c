/* demo_options.c - the options of 'lockstep demo', which is in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/demo_options.h"

static const struct opt demo_opts[] = {
    { .name = "fault",
      .letter = 'f',
      .type = OPT_LIST,
      .offset = offsetof(struct demo_settings, faults),
      .arg = "KIND[:name=value,...]",
      .help = "a fault to inject; may be given several times; none: no fault" },
    { .name = "list-faults",
      .type = OPT_FLAG,
      .offset = offsetof(struct demo_settings, list_faults),
      .help = "list the kinds of faults and their parameters" },
    { .name = "torch",
      .type = OPT_FLAG,
      .offset = offsetof(struct demo_settings, torch),
      .help = "train a small transformer with PyTorch" },
    { .name = "ranks",
      .letter = 'n',
      .type = OPT_U32,
      .offset = offsetof(struct demo_settings, ranks),
      .arg = "N",
      .help = "number of ranks, default 8, with --torch 4" },
    { .name = "nodes",
      .type = OPT_U32,
      .offset = offsetof(struct demo_settings, nodes),
      .arg = "K",
      .help = "treat the ranks as if they were on K nodes, default 1" },
    { .name = "layout",
      .type = OPT_TEXT,
      .offset = offsetof(struct demo_settings, layout),
      .arg = "tp=A,pp=B,dp=C",
      .help = "parallel layout, default data parallel only" },
    { .name = "steps",
      .type = OPT_U64,
      .offset = offsetof(struct demo_settings, steps),
      .arg = "N",
      .help = "steps to train, default 140" },
    { .name = "step-ms",
      .type = OPT_F64,
      .offset = offsetof(struct demo_settings, step_ms),
      .arg = "MS",
      .help = "duration of a healthy step, default 100" },
    { .name = "host-work-ms",
      .type = OPT_F64,
      .offset = offsetof(struct demo_settings, host_work_ms),
      .arg = "MS",
      .help = "CPU time of a rank's host per step, default 2.5" },
    { .name = "checkpoint-every",
      .type = OPT_U32,
      .offset = offsetof(struct demo_settings, checkpoint_every),
      .arg = "N",
      .help = "steps between checkpoints, default 20; 0: none" },
    { .name = "seed",
      .type = OPT_U64,
      .offset = offsetof(struct demo_settings, seed),
      .arg = "N",
      .help = "seed of all random choices, default 1" },
    { .name = "name",
      .type = OPT_TEXT,
      .offset = offsetof(struct demo_settings, name),
      .arg = "RUN",
      .help = "name of the run, default date, time and a number" },
    { .name = "json",
      .type = OPT_FLAG,
      .offset = offsetof(struct demo_settings, json),
      .help = "print one JSON object at the end, and nothing before it" },
    { 0 },
};

const struct command command_demo = {
    .name = "demo",
    .operands = "",
    .summary =
        "train on this machine, inject faults, print the verdicts; needs no GPU and no Python",
    .details =
        "Without --fault, one rank is slow for some time; later a rank is killed, and all ranks "
        "are\n"
        "restarted from the newest checkpoint.  The directory of the run is kept, so that\n"
        "'lockstep why' can report it again.  Exits with the status of the run: 0 if training\n"
        "completed.",
    .opt = demo_opts,
};
