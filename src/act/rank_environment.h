/* rank_environment.h - the environment variables of a rank.  Pure, but for layout_port().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_RANK_ENVIRONMENT_H
#define LOCKSTEP_ACT_RANK_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "core/buf.h"
#include "core/err.h"

struct layout_place {      /* of this launcher, where there is one on each node */
    uint32_t first, world; /* its first rank, and all ranks */
    uint32_t node, nodes;  /* its number */
    char host[64];         /* MASTER_ADDR */
    uint16_t port;         /* MASTER_PORT */
    uint64_t resume;       /* step of the checkpoint to begin with; UINT64_MAX: none */
    int64_t clock_ns;      /* of the run: time of day minus monotonic; 0: not known */
};

struct layout_start {        /* what is the same for all ranks of an attempt */
    const char *run, *rings; /* rings NULL or empty: there are none, and ranks need not say so */
    uint32_t attempt, max_restarts;
    uint32_t arena_hold_s; /* 0: LOCKSTEP_ARENA_HOLD stays as it is */
    uint16_t port;
    bool omp_threads;                 /* OMP_NUM_THREADS was set by the user */
    const char *python_path;          /* NULL or empty: PYTHONPATH stays as it is */
    const char *nccl_plugin;          /* NULL or empty: NCCL_PROFILER_PLUGIN stays as it is */
    const char *nccl_next;            /* LOCKSTEP_NCCL_NEXT; NULL: likewise */
    const char *warm_modules;         /* NULL: there is no LOCKSTEP_WARM */
    const struct layout_place *place; /* NULL: all ranks are here */
    const char *resume;  /* path of a checkpoint; "": there is none; NULL: nobody knows */
    const char *library; /* NULL or empty: there is no LOCKSTEP_LAUNCHER_LIB */
};

/* Puts NAME=VALUE and a NUL for each variable.  Of a command that is no rank only ours. */
void layout_env(const struct layout *layout, const struct layout_start *start, uint32_t rank,
                struct buf *out);

/* A port that nobody listens on now.  Not from the range that the kernel gives to outgoing connections:
 * a rank that knocks before rank 0 listens could be given that very port and meet itself.
 */
int layout_port(uint16_t *ret, struct err *err);

#endif
