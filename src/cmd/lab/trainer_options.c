/* trainer_options.c - the options of 'lockstep trainer', which is in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/trainer_options.h"

#define AT(field) offsetof(struct trainer_settings, field)
static const struct opt trainer_opts[] = {
    { "steps", 0, OPT_U64, AT(steps), "N", "steps to train", NULL, false },
    { "layout", 0, OPT_TEXT, AT(layout), "tp=A,pp=B,dp=C", "parallel layout", NULL, false },
    { "step-ms", 0, OPT_F64, AT(step_ms), "MS", "duration of a healthy step", NULL, false },
    { "host-work-ms", 0, OPT_F64, AT(host_work_ms), "MS", "CPU time of the host per step", NULL,
      false },
    { "micro-batches", 0, OPT_U32, AT(micro_batches), "N", "micro-batches per step", NULL, false },
    { "stamps", 0, OPT_FLAG, AT(stamps), NULL,
      "report the device as one under NCCL, by stamps and operations", NULL, false },
    { "seed", 0, OPT_U64, AT(seed), "N", "seed of all random numbers", NULL, false },
    { "checkpoint-dir", 0, OPT_TEXT, AT(checkpoint_dir), "DIR", "directory of the checkpoints",
      NULL, false },
    { "checkpoint-every", 0, OPT_U64, AT(checkpoint_every), "N", "steps between checkpoints", NULL,
      false },
    { "data-dir", 0, OPT_TEXT, AT(data_dir), "DIR", "directory of the batches", NULL, false },
    { "net-dir", 0, OPT_TEXT, AT(net_dir), "DIR",
      "directory of the network namespaces of the nodes", NULL, false },
    { "plan", 0, OPT_TEXT, AT(plan), "FILE", "file with the faults to inject", NULL, false },
    { "stop-file", 0, OPT_TEXT, AT(stop_file), "FILE", "stop cleanly when this file exists", NULL,
      false },
    { "timeout", 0, OPT_DURATION, AT(timeout_ns), "TIME",
      "longest wait for a peer that does not respond", NULL, false },
    { "rank", 0, OPT_U32, AT(rank), "N", "number of this rank", "RANK", false },
    { "world-size", 0, OPT_U32, AT(world), "N", "number of ranks", "WORLD_SIZE", false },
    { "restart", 0, OPT_U32, AT(attempt), "N", "number of earlier attempts", "LOCKSTEP_RESTART",
      false },
    { "master-addr", 0, OPT_TEXT, AT(master_addr), "ADDR", "address of rank 0", "MASTER_ADDR",
      false },
    { "master-port", 0, OPT_TEXT, AT(master_port), "PORT", "port of rank 0", "MASTER_PORT", false },
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
