/* meet.h - how the ranks of one attempt find each other.
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT; every other rank comes there, says who it is
 * and where it listens, and gets the list of all.  After that any two ranks connect by a
 * channel number that both know.  Whoever comes with another job's number is turned away.
 */
#ifndef LOCKSTEP_LAB_TRAINER_MEET_H
#define LOCKSTEP_LAB_TRAINER_MEET_H

#include <stdint.h>

#include "core/err.h"

struct meet_config {
    uint32_t rank, world;
    const char *addr, *port;
    uint64_t job; /* equal on all ranks of this attempt, different for others */
    int timeout_ms;
};

struct meet;

int meet_open(const struct meet_config *config, struct meet **ret, struct err *err);
void meet_close(struct meet *meet); /* connections given out stay open */

/* A connection to `peer` for `channel`; the higher rank connects, the lower accepts.  Both must
 * ask; the order does not matter.
 */
int meet_connect(struct meet *meet, uint32_t peer, uint64_t channel, int *ret_fd, struct err *err);

#endif
