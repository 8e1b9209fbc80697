/* inject_private.h - what the injector's files share: the threads it acts on, and its ways to act.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_INJECT_PRIVATE_H
#define LOCKSTEP_LAB_FAULTS_INJECT_PRIVATE_H

#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"
#include "lab/faults/inject.h"

#define INJECT_THREADS 256
#define INJECT_HOGS 64

struct inject_target { /* the host threads of one node's ranks */
    const struct inject_config *config;
    const struct fault *fault;
    uint32_t number; /* of the fault, in its plan */
    double step_ns;  /* of a healthy step */
    uint64_t step;   /* that the job is in */
    pid_t tid[INJECT_THREADS];
    uint32_t count;
    pid_t other[INJECT_THREADS]; /* those of the other nodes, which have other CPUs */
    uint32_t foreign_load;
    double share; /* of one CPU that they shall get in all */
    double
        hogs; /* how many busy processes shall share their CPU; a half: one that is so half of the time */
    char *method; /* what was done, in words */
    size_t method_room;
};

/* Each makes its fault on these threads, makes it harder or milder as share and hogs now say, or
 * takes back all that it made.  *state is its own.  tune NULL: it is as strong as it was told to be.
 * struck: when it first hurt somebody, 0: not yet; NULL: at once.
 */
struct inject_way {
    int (*make)(const struct inject_target *target, void **state, struct err *err);
    int (*tune)(void *state, const struct inject_target *target, struct err *err);
    void (*undo)(void *state, const struct inject_target *target);
    int64_t (*struck)(const void *state);
};
extern const struct inject_way inject_quota;
extern const struct inject_way inject_neighbours;
extern const struct inject_way inject_storage;
extern const struct inject_way inject_net;

#endif
