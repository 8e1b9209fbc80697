/* keeper_wire.h - what launcher and keeper say to each other: both are the same program.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_KEEPER_WIRE_H
#define LOCKSTEP_ACT_KEEPER_WIRE_H

#include <stdint.h>

#include "act/keeper/keeper.h"

enum keeper_ask {
    KEEPER_SPAWN = 1,
    KEEPER_END = 2,
    KEEPER_PROMOTE = 4, /* 3 is a report: */
    KEEPER_LEASE = 5,
    KEEPER_KILL = 6
};
#define KEEPER_SPAWNED 3 /* a report beside enum keeper_event: pid, or status -errno */

struct keeper_request { /* one packet: this, then `env_bytes` of environment; a spawn has two fds */
    uint32_t ask, command, token, level;
    uint32_t env_bytes;
    int32_t signal;   /* to end with */
    int32_t pid;      /* to promote, or to kill */
    int64_t grace_ns; /* between that and SIGKILL */
    int64_t until_ns; /* of a lease; 0: none */
};

/* What a child needs between fork and exec: variables over those it has, and signals as after boot. */
void child_environment(const char *env, size_t size);
void child_signals(bool daemon);

/* The keeper's life.  Never returns. */
_Noreturn void keeper_serve(const struct keeper_plan *plan, int socket);

#endif
