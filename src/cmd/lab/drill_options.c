/* drill_options.c - the options of 'lockstep drill' and of its helper, which are in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/drill_options.h"

static const struct opt drill_opts[] = {
    { "two-am", 0, OPT_FLAG, offsetof(struct drill_settings, two_am), NULL,
      "a whole incident on a Slurm cluster that is started here: a node fails, and no person acts",
      NULL, false },
    { "seed", 0, OPT_U64, offsetof(struct drill_settings, seed), "N",
      "seed of what fails, where and when, default 1", NULL, false },
    { "nights", 0, OPT_U32, offsetof(struct drill_settings, nights), "N",
      "with --two-am: so many, with --seed and those that follow, default 1", NULL, false },
    { "fault", 'f', OPT_LIST, offsetof(struct drill_settings, faults), "NAME",
      "inject this fault; may be given several times, default all, in an order drawn by --seed",
      NULL, false },
    { "list-faults", 0, OPT_FLAG, offsetof(struct drill_settings, list_faults), NULL,
      "list the faults and their bars", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct drill_settings, json), NULL, "print one JSON object",
      NULL, false },
    { "html", 0, OPT_TEXT, offsetof(struct drill_settings, html), "FILE",
      "write the page as HTML, too", NULL, false },
    { "keep", 0, OPT_TEXT, offsetof(struct drill_settings, keep), "DIR",
      "with --two-am: keep what the page was read from, in DIR/SEED", NULL, false },
    { "checkpoints", 0, OPT_TEXT, offsetof(struct drill_settings, checkpoints), "DIR",
      "where RUN saves its checkpoints: for checkpoint-corrupted and disk-full", NULL, false },
    { "disk", 0, OPT_TEXT, offsetof(struct drill_settings, disk), "DIR",
      "for disk-full: take all room of this file system, which only RUN uses, for 15 s", NULL,
      false },
    { "wait", 0, OPT_DURATION, offsetof(struct drill_settings, wait_ns), "TIME",
      "how long a fault may take until the job trains again, default 60s", NULL, false },
    { .name = NULL },
};

const struct command command_drill = {
    .name = "drill",
    .operands = "[RUN]",
    .summary = "inject real faults into a job that consented, and score what follows",
    .details =
        "RUN was started with 'lockstep run --drill' by this user, on this machine.  Faults are\n"
        "injected one after the other; detection, verdict, recovery and lost work are compared\n"
        "with bars.  With --two-am there is no RUN; it needs root.  Exits 0 if every fault\n"
        "that was injected passed, 1 if one did not, 2 for a run that did not consent, 3 if\n"
        "nothing could be injected.",
    .opt = drill_opts,
};

static const struct opt slow_disk_opts[] = {
    { "at", 0, OPT_TEXT, offsetof(struct slow_disk_settings, at), "DIR",
      "mount it here, in the mount namespace of the caller", NULL, false },
    { "backing", 0, OPT_TEXT, offsetof(struct slow_disk_settings, backing), "DIR",
      "where its files are", NULL, false },
    { "delay-ms", 0, OPT_F64, offsetof(struct slow_disk_settings, delay_ms), "MS",
      "how much later a read is answered when it is slow, default 60", NULL, false },
    { .name = NULL },
};

const struct command command_slow_disk = {
    .name = "slow-disk",
    .operands = "",
    .summary = "a disk of one node, which SIGUSR1 makes slow and SIGUSR2 fast again",
    .details = "Prints a line when it is mounted, and serves until it is ended.",
    .opt = slow_disk_opts,
    .hidden = true,
};
