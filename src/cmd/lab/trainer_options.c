/* trainer_options.c - the options of 'lockstep trainer', which is in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/trainer_options.h"

#define AT(field) offsetof(struct trainer_settings, field)
static const struct opt trainer_opts[] = {
    { "steps", 0, OPT_U64, AT(steps), "N", "steps to train", NULL, false },
    { "layout", 0, OPT_TEXT, AT(layout), "tp=A,pp=B,dp=C", "how the ranks are cut", NULL, false },
    { "step-ms", 0, OPT_F64, AT(step_ms), "MS", "how long a healthy step takes", NULL, false },
    { "host-work-ms", 0, OPT_F64, AT(host_work_ms), "MS", "CPU time of the host a step", NULL,
      false },
    { "micro-batches", 0, OPT_U32, AT(micro_batches), "N", "micro-batches a step", NULL, false },
    { "seed", 0, OPT_U64, AT(seed), "N", "where all random numbers come from", NULL, false },
    { "checkpoint-dir", 0, OPT_TEXT, AT(checkpoint_dir), "DIR", "where checkpoints go", NULL,
      false },
    { "checkpoint-every", 0, OPT_U64, AT(checkpoint_every), "N", "steps between checkpoints", NULL,
      false },
    { "data-dir", 0, OPT_TEXT, AT(data_dir), "DIR", "where batches are read from", NULL, false },
    { "net-dir", 0, OPT_TEXT, AT(net_dir), "DIR", "where the networks of nodes are", NULL, false },
    { "plan", 0, OPT_TEXT, AT(plan), "FILE", "the faults to make", NULL, false },
    { "stop-file", 0, OPT_TEXT, AT(stop_file), "FILE", "stop in order once this exists", NULL,
      false },
    { "timeout", 0, OPT_DURATION, AT(timeout_ns), "TIME", "how long to wait for a silent peer",
      NULL, false },
    { "rank", 0, OPT_U32, AT(rank), "N", "this rank", "RANK", false },
    { "world-size", 0, OPT_U32, AT(world), "N", "how many ranks there are", "WORLD_SIZE", false },
    { "restart", 0, OPT_U32, AT(attempt), "N", "attempts before this one", "LOCKSTEP_RESTART",
      false },
    { "master-addr", 0, OPT_TEXT, AT(master_addr), "ADDR", "where rank 0 listens", "MASTER_ADDR",
      false },
    { "master-port", 0, OPT_TEXT, AT(master_port), "PORT", "where rank 0 listens", "MASTER_PORT",
      false },
    { 0 },
};

const struct command command_trainer = {
    .name = "trainer",
    .operands = "",
    .summary = "one rank of the demo's training job",
    .details = "Started by a launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.",
    .opt = trainer_opts,
    .hidden = true,
};
