/* slurm_site.h - takes a node out of Slurm's hands and gives it back: drain, undrain, down.  It needs an operator's rights.
 *
 * Each call looks first, and changes only what is as expected: a node that others drained stays as it is, and only a node that is
 * still drained with exactly our reason is given back.  It looks again afterwards, so a call whose answer was lost is known to have
 * worked, or is reported as not known.  Calls block, each scontrol for SLURM_CALL_NS at most.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_SITE_H
#define LOCKSTEP_SLURM_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slurm/slurm_reach.h"

enum slurm_did {
    SLURM_DID,       /* it is as wanted, by this call or by an earlier one of ours */
    SLURM_NOT_OURS,  /* somebody else has changed the node; nothing was done */
    SLURM_REFUSED,   /* by `may`, or by Slurm: no rights */
    SLURM_FAILED,    /* nothing has changed */
    SLURM_NOT_KNOWN, /* it was ordered, and nobody knows what became of it */
};

struct slurm_site {
    const char *node, *reason;
    uint64_t job;  /* of down: the job of the run that lost the node; 0: none */
    uint32_t user; /* of down: whose run it is, as root's daemon on the node has seen */
    bool look;     /* only: change nothing */
    /* Of down, for a test; NULL: slurm_reach(). */
    enum slurm_reach (*reach)(const char *node, char *ret, size_t room);
    /* Asked right before each change; false with the reason. */
    bool (*may)(void *arg, char *why, size_t room);
    void *arg;
};

/* `ret`: one sentence. */
enum slurm_did slurm_site_drain(const struct slurm_site *what, char *ret, size_t room);
enum slurm_did slurm_site_undrain(const struct slurm_site *what, char *ret, size_t room);
/* Before a repair: SLURM_DID if the node is still drained by lockstep, whatever the reason says behind that, and no job is on it. */
#define SLURM_SITE_REASON "lockstep: "
enum slurm_did slurm_site_is_free(const char *node, char *ret, size_t room);
/* A dead node: if nothing answers at its slurmd's port either.  Down if `job` is `user`'s and the only one on it, so that nobody else loses a
 * job; else drain.  SLURM_REFUSED: it answers.
 */
enum slurm_did slurm_site_down(const struct slurm_site *what, char *ret, size_t room);

#endif
