/* fault.h - the faults that the lab can make, one row each, and how people write them.
 *
 * KIND[:name=value,...], as in `gpu-slow:rank=3,factor=1.25,step=20`.  A parameter that is missing is
 * taken from the kind's defaults or drawn from the seed by fault_resolve().
 *
 * The trainer itself makes some faults; it reads them from a plan file that no other process reads (plan.h);
 * the others are made from outside, on its processes (inject.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_FAULT_H
#define LOCKSTEP_LAB_FAULTS_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

enum fault_id {
    FAULT_NONE,
    FAULT_GPU_SLOW,
    FAULT_HOST_SLEEP,
    FAULT_CPU_QUOTA,
    FAULT_NEIGHBOURS,
    FAULT_UNEVEN_DATA,
    FAULT_HEAVY_STAGE,
    FAULT_SLOW_INPUT,
    FAULT_KILL,
    FAULT_EXIT,
    FAULT_SLOW_CHECKPOINT,
    FAULT_SLOW_FABRIC,
    FAULT_SLOW_NIC,
    FAULT_BIT_FLIP,
    FAULT_NAN,
    FAULT_FROZEN,
    FAULT_STOP,
    FAULT_STUCK_DATA,
    FAULT_STUCK_CODE,
    FAULT_STUCK_STORAGE,
    FAULT_STUCK_CHECKPOINT,
    FAULT_SLOW_STORAGE,
    FAULT_SLOW_DATASET,
    FAULT_SLOW_LINK,
    FAULT_LINK_DOWN,
    FAULT_LONG_SEQUENCES,
    FAULT_GPU_HANG,
    FAULT_FROZEN_LINK,
    FAULT_OTHER_OP,
    FAULT_OTHER_SIZE,
    FAULT_OTHER_ORDER,
    FAULT_SEGFAULT,
    FAULT_ABORT,
    FAULT_EXCEPTION,
    FAULT_OOM,
    FAULT_EVAL,
    FAULT_COMPILE,
    FAULT_SLOW_START,
    FAULT_BUSY,
    FAULT_ALL_SLOW,
    FAULT_WANDERING,
    FAULT_STUCK_GIL,
    FAULT_ELASTIC,
    FAULT_FEW_CHANNELS,
};

enum fault_param { /* bits */
    FAULT_RANK = 1,
    FAULT_NODE = 2,
    FAULT_STAGE = 4,
    FAULT_FACTOR = 8,
    FAULT_MS = 16,
    FAULT_STEP = 32,
    FAULT_STEPS = 64,
    FAULT_COUNT = 128,
    FAULT_PHASE = 256,
    FAULT_EVERY = 512,
    FAULT_OVER = 1024,
    FAULT_COMM = 2048,
    FAULT_ATTEMPT = 4096,
};

enum fault_maker {
    FAULT_BY_NOBODY,
    FAULT_BY_TRAINER,
    FAULT_BY_INJECTOR
};
enum fault_need {
    FAULT_NEEDS_CGROUP = 1,  /* a cgroup directory that we may write */
    FAULT_NEEDS_STORAGE = 2, /* a file system of our own (slowfs.h): root, and /dev/fuse */
    FAULT_NEEDS_TORCH = 4,   /* only the training in Python can make it */
    FAULT_NEEDS_NET = 8      /* networks of our own (net.h): root, and iproute2 */
};

struct fault_kind {
    enum fault_id id;
    const char *name, *summary;
    uint32_t params;     /* enum fault_param: those it takes */
    uint32_t all_params; /* those of them that, left out, mean all of them rather than one drawn */
    enum fault_maker maker;
    uint32_t needs; /* enum fault_need */
    double factor;  /* defaults */
    uint64_t step;
    const char *expect; /* kind and layer that a judge should say; NULL: nothing */
};

struct fault {
    const struct fault_kind *kind;
    uint32_t set; /* enum fault_param: given, or resolved */
    uint32_t rank, node, stage, count;
    double factor, ms;
    uint64_t step, steps; /* steps 0: to the end */
    uint64_t every;       /* of these steps only the first of so many; 0: each */
    uint64_t over;        /* steps in which it grows to its factor; 0: it is there at once */
    int phase;            /* enum lockstep_phase */
    int comm;             /* enum lockstep_comm_kind: whose transfers */
    uint32_t attempt;     /* not before this one, and then, if no step is given, from its first */
};

struct fault_shape { /* of the run that the faults are for */
    uint32_t world, nodes, stages;
    uint64_t seed;
};

#define FAULT_TEXT 160

const struct fault_kind *fault_kinds(size_t *count);
int fault_parse(const char *text, struct fault *ret, struct err *err); /* -EINVAL */
/* Draws rank, node or stage where none was given, and checks that they exist.  `which` makes the
 * draws of several faults differ.
 */
int fault_resolve(struct fault *fault, const struct fault_shape *shape, uint32_t which,
                  struct err *err);
void fault_format(const struct fault *fault, char out[static FAULT_TEXT]); /* parses back */
void fault_list(FILE *out); /* the text of --list-faults */

/* Does the job need to be started again to get over it? */
bool fault_ends_attempt(const struct fault *fault);
bool fault_active(const struct fault *fault, uint64_t step);
/* Its factor in this step, one in which it is active: less while it still grows. */
double fault_factor(const struct fault *fault, uint64_t step);
/* The nodes of a pretended cluster hold ranks in contiguous blocks. */
uint32_t fault_node_of_rank(uint32_t rank, uint32_t world, uint32_t nodes);

#endif
