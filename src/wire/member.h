/* member.h - a launcher of a job that has one launcher on each node: where it is, and what its ranks do.
 *
 * Each launcher writes one of these when its state changes, and else several times within its lease, so that the controller
 * knows that it lives.  A launcher that the controller has not acknowledged for some part of the lease ends its ranks; one that the
 * controller received nothing from for the whole lease is lost, and by then has no ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_MEMBER_H
#define LOCKSTEP_WIRE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "wire/facts.h"

enum member_state {     /* numbers are wire format */
    MEMBER_IDLE = 1,    /* it has no ranks, and has had none */
    MEMBER_RUNNING = 2, /* its ranks of the attempt run, or are being started or ended */
    MEMBER_FAILING = 3, /* one of them failed, the others are being ended */
    MEMBER_FAILED = 4,  /* none is left, and one failed */
    MEMBER_STOPPED = 5, /* none is left: they were ended as ordered */
    MEMBER_DONE = 6,    /* none is left, and all ended successfully */
    MEMBER_LEFT = 7,    /* none is left, and the launcher ends */
    MEMBER_GONE = 8, /* by the controller: launcher, keeper and ranks have ended without a word */
    MEMBER_STATE_COUNT
};

#define MEMBER_NODES_MAX 256
#define MEMBER_LEASE_MIN_NS INT64_C(1000000000)

struct member {
    int64_t mono_ns, real_ns; /* on the launcher's clock */
    char node[FACT_NAME];
    char host[FACT_NAME]; /* the address at which others reach it */
    uint16_t port;        /* free there: for MASTER_PORT */
    uint32_t life;        /* random; not 0; of another launcher on the same node another one */
    uint8_t state;        /* enum member_state */
    bool news;            /* it is not as the one before: else only a sign of life */
    uint32_t attempt;     /* that the state is about */
    int32_t culprit;      /* the rank that failed first here; -1: none */
    int32_t status;       /* its exit status, as a shell has it */
    uint32_t ranks;       /* that it can start */
    uint32_t nodes_min, nodes_max; /* of the job, as its user wants it */
    uint32_t max_restarts;
    uint64_t resume; /* step of the newest verified checkpoint that it sees; UINT64_MAX: none */
    int64_t lease_ns;
    int64_t join_ns;    /* how long to wait for missing nodes */
    int64_t backoff_ns; /* before the second restart; doubled each time, to a minute */
    uint32_t
        quorum; /* launchers without which no attempt starts: another controller may be there; 0: none is */
    char life_host[FACT_NAME]; /* address of its life socket, in numbers; "": none */
    uint16_t life_port;        /* 0: none */
    bool off;                  /* the kill switch is on, as this launcher sees it */
};

static inline bool member_has_ranks(unsigned state)
{
    return state == MEMBER_RUNNING || state == MEMBER_FAILING;
}

void member_put(struct buf *out, const struct member *member);
int member_get(struct reader in, struct member *ret); /* -EPROTO */

#endif
