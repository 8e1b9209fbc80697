/* demo_run.h - a demo from the outside: a real run, faults made in it, and its verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_CMD_DEMO_RUN_H
#define LOCKSTEP_LAB_CMD_DEMO_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "lab/cmd/demo/demo_torch.h"
#include "lab/faults/inject.h"
#include "lab/faults/net.h"
#include "lab/faults/plan.h"
#include "lab/faults/slowfs.h"

struct demo_config {
    uint32_t ranks, nodes, restarts;
    uint64_t steps, seed;
    double step_ms, host_work_ms;
    int64_t timeout_ns; /* 0: as the trainer has it */
    uint32_t checkpoint_every;
    const char *layout; /* NULL: data parallel only */
    bool stamps;        /* the trainer's --stamps */
    bool page;          /* a link to its page is printed */
    bool
        messages; /* of the launcher go into a pipe: our screen has a line that is written again and again */
    const char *run;                /* its name */
    const struct demo_torch *torch; /* NULL: our own trainer */
};

struct demo_run {
    struct demo_config config;
    struct fault_plan plan;
    char scratch[PATH_MAX]; /* plan, truth and checkpoints: nothing that a judge reads */
    char run_dir[PATH_MAX];
    bool elsewhere; /* run_dir is not in the state directory, which cannot be written */
    struct inject *inject;
    struct slowfs storage; /* under the job's files, where a fault needs that */
    struct net net;        /* of the nodes, likewise */
    struct err net_why;
    struct err storage_why; /* there is none */
    int pid, status;        /* of `lockstep run`; pid 0: it has ended */
    int messages_fd; /* what it writes on stderr, read without waiting; -1: it goes where ours goes, as at first */
};

/* Writes the plan and starts the run.  The run ends when this process does. */
int demo_run_begin(struct demo_run *demo, struct err *err);
/* Makes faults from outside as their time comes.  Returns 1 while the run goes on, 0 when it has ended. */
int demo_run_tick(struct demo_run *demo, struct err *err);
void demo_run_stop(struct demo_run *demo); /* asks the run to end */
void demo_run_fini(struct demo_run *demo); /* and removes the scratch directory */

#endif
