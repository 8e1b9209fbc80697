/* plan.h - what the injector tells the trainer, and what the trainer says it really did.
 *
 * The plan is a small text file that only trainers read:
 *
 *     lockstep-plan 1
 *     truth /path/to/truth
 *     nodes 4
 *     fault gpu-slow:rank=3,factor=1.25,step=20
 *
 * Each rank writes what it did to truth.rank-R.attempt-A, one line of fixed length a fault,
 * brought up to date every step so that it stands also after SIGKILL.  Only the scorer reads it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_PLAN_H
#define LOCKSTEP_LAB_FAULTS_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "lab/faults/fault.h"

#define PLAN_FAULTS 32
#define PLAN_PATH 1024

struct fault_plan {
    char truth[PLAN_PATH]; /* "": nobody wants to know */
    struct fault fault[PLAN_FAULTS];
    uint32_t count;
    uint32_t nodes; /* of the pretended cluster; 0: not said, one */
};

int plan_write(const char *path, const struct fault_plan *plan, struct err *err);
int plan_read(const char *path, struct fault_plan *ret, struct err *err);
int plan_parse(const char *text, size_t size, struct fault_plan *ret,
               struct err *err); /* -EINVAL */

struct plan_deed {  /* what one fault did in one rank and attempt */
    uint32_t fault; /* its place in the plan */
    uint32_t rank, attempt;
    uint64_t first_step, steps; /* steps in which it acted; 0: never */
    int64_t first_ns;           /* monotonic, when it acted first */
    int64_t injected_ns;        /* how much longer it made things, all in all */
    uint32_t pid;               /* of the rank; 0: not told */
};

struct truth;

/* The writing end.  An empty plan, or one that names no truth file, gives a truth that writes nothing. */
int truth_open(const struct fault_plan *plan, uint32_t rank, uint32_t attempt, struct truth **ret,
               struct err *err);
void truth_close(struct truth *truth);
/* The fault acted in this step and made it longer by so much (may be called again in a step). */
void truth_add(struct truth *truth, uint32_t fault, uint64_t step, int64_t injected_ns);
void truth_flush(struct truth *truth); /* once a step, and before dying on purpose */

/* The reading end: the deeds of all ranks and attempts beside `path`.  Returns how many. */
int truth_read(const char *path, struct plan_deed *deed, size_t room, struct err *err);
int truth_parse(const char *line, struct plan_deed *ret); /* -EINVAL */

#endif
