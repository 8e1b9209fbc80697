/* rendezvous.h - how the ranks of one attempt find each other.
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT; every other rank comes there, says who it is
 * and where it listens, and gets the list of all.  After that any two ranks connect by a
 * channel number that both know.  Whoever comes with another job's number is turned away.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_RENDEZVOUS_H
#define LOCKSTEP_LAB_TRAINER_RENDEZVOUS_H

#include <stdint.h>

#include "core/err.h"

struct rendezvous_config {
    uint32_t rank, world;
    const char *addr, *port;
    uint64_t job; /* equal on all ranks of this attempt, different for others */
    int timeout_ms;
};

struct rendezvous;

int rendezvous_open(const struct rendezvous_config *config, struct rendezvous **ret,
                    struct err *err);
void rendezvous_clean(struct rendezvous **rendezvous); /* connections given out stay open */

/* A connection to `peer` for `channel`; the higher rank connects, the lower accepts.  Both must
 * ask; the order does not matter.
 */
int rendezvous_connect(struct rendezvous *rendezvous, uint32_t peer, uint64_t channel, int *ret_fd,
                       struct err *err);

#endif
