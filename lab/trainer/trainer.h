/* trainer.h - the demo trainer: one process is one rank.
 *
 * It trains a small network for real (toy_model.h) over real sockets (group.h) while the time of
 * its device is modelled (device.h).  A launcher tells it its place by RANK, WORLD_SIZE and so
 * on, as torchrun does.  About itself it speaks only through include/lockstep/probe.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_TRAINER_H
#define LOCKSTEP_LAB_TRAINER_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

#define TRAINER_RANKS_MAX 4096
#define TRAINER_STEP_MS_MAX 3600000

struct trainer_layout {
    uint32_t tp, pp, dp;
};

struct trainer_config {
    uint32_t rank, world, attempt;
    uint32_t generation; /* of an elastic training: how often it was started anew in this attempt */
    bool
        continues; /* ... so that a stop is not the end: another worker goes on from a checkpoint */
    const char *master_addr, *master_port;
    uint64_t steps, seed, checkpoint_every; /* every 0: never */
    struct trainer_layout layout;
    double step_ms, host_work_ms;
    uint32_t micro_batches;                        /* 0: what suits the layout */
    const char *checkpoint_dir, *plan, *stop_file; /* NULL: none */
    const char *net_dir;  /* networks of the nodes (net.h); NULL: that which we are in */
    const char *data_dir; /* batches are read from there in each step; NULL: made up ahead of it */
    int timeout_ms;       /* for a peer that says nothing */
    bool stamps;          /* its device reports as under NCCL: stamps, operations */
};

/* "tp=2,pp=2,dp=2" in any order, what is left out is 1; NULL or "" is all data parallel.
 * -EINVAL when the product is not `world`.
 */
int trainer_layout_parse(const char *text, uint32_t world, struct trainer_layout *ret,
                         struct err *err);

/* Trains to the end.  What it has to say goes to stdout (the loss, from rank 0) and stderr (what
 * was skipped and why).  0, or -errno with the reason; 1 when it was told to stop before the end.
 */
int trainer_run(const struct trainer_config *config, struct err *err);
/* The same; where the plan says so, by workers of its own that end and begin again (trainer_elastic.c). */
int trainer_elastic_run(const struct trainer_config *config, struct err *err);

#endif
