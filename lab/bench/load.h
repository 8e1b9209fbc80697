/* load.h - plays agents of a fleet and readers of events against a real controller.
 *
 * Each call is the life of a process of its own.  An agent is one connection that sends its node's
 * steps when they end and beats once a second, and what has gathered meanwhile when an answer was late,
 * as real ones do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_LOAD_H
#define LOCKSTEP_LAB_BENCH_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/net/token.h"
#include "core/err.h"
#include "core/sketch.h"

#define LOAD_STEPS_MAX 600

struct load_shared {                           /* in memory that all processes of a bench share */
    _Atomic int64_t begin_ns;                  /* of the first step */
    _Atomic int64_t sent_ns[LOAD_STEPS_MAX];   /* the last frame of a step was sent */
    _Atomic int64_t judged_ns[LOAD_STEPS_MAX]; /* so many steps were said to be judged */
    _Atomic uint64_t failed, bodies, bytes, verdicts, greeted, listening;
    struct load_delays { /* one a process: nobody shares a sketch */
        struct sketch us;
    } agents[16], readers;
};

struct load_settings {
    unsigned port;
    const char *run;
    struct token token, reader;   /* of the run; of readers */
    uint32_t nodes, first, count; /* of all; those that this process plays */
    uint32_t ops, steps, process;
    int64_t step_ns; /* a step every so long */
    uint32_t slow_rank, slow_from;
    struct load_shared *shared;
};

int load_agents(const struct load_settings *settings, struct err *err);
/* So many connections to the event stream, until a signal ends the process. */
int load_readers(const struct load_settings *settings, uint32_t readers, struct err *err);

#endif
