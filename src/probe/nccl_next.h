/* nccl_next.h - the profiler plugin that the user chose: called after ours, with all that it asks for.
 *
 * NCCL loads one plugin.  Where $LOCKSTEP_NCCL_NEXT names another, each event goes to both; what NCCL holds is then a number
 * for a pair, our handle and the other's.  Its tables may be of the version that NCCL calls us by, or older down to 4; of
 * version 3 only 3 itself.  One that cannot be loaded is reported on stderr once, and the training goes on without it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_NCCL_NEXT_H
#define LOCKSTEP_PROBE_NCCL_NEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/nccl_abi.h"

/* A communicator as NCCL tells of it; version 3 tells nothing. */
struct nccl_next_comm {
    const char *name;
    uint64_t id;
    int nodes, ranks, rank;
    void *log;
};

typedef int nccl_start_call(void *context, void **handle, void *descr); /* descr: its version's */

struct nccl_own { /* what of ours is called for each event */
    int version;
    nccl_start_call *start;
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
};

/* Loads it at the first call.  False: there is none. */
bool nccl_next_is_there(int version);
/* It was loaded. */
bool nccl_next_is_on(void);

/* After ours was opened: *context becomes that of both, *mask what either wants.  With 1,024 communicators open the next one is ours alone. */
void nccl_next_open(void **context, int *mask, const struct nccl_next_comm *comm);

/* What NCCL calls, once nccl_next_is_on(): these call ours, then the other's. */
int nccl_next_start(const struct nccl_own *own, void *context, void **handle, void *descr);
int nccl_next_stop(const struct nccl_own *own, void *handle);
int nccl_next_record(const struct nccl_own *own, void *handle, int state, union nccl_state *args);
int nccl_next_finalize(const struct nccl_own *own, void *context);

#endif
