/* ras_look.h - what NCCL's RAS knows about one process of a job.
 *
 * Each process of a job on NCCL (2.24 and later) answers for all of them at a port of its own node.  It is asked in the child that looks
 * at a stuck rank, at the loopback interface only, and has a second and a half, or what the stacks left of the look; only where that interface
 * is also the rank's, and where a socket of the rank's own user listens.  Only sentences that NCCL has are taken, and only those about
 * the process's own pid on this machine: another node's process with the same pid is not meant, and whoever else answers says nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_RAS_LOOK_H
#define LOCKSTEP_AGENT_PROC_RAS_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "agent/proc/proc.h"

/* "" where nothing answers, or nothing is wrong with it. */
void ras_look(const struct proc_ref *proc, int64_t until_ns, char *ret, size_t room);

/* The lines of ncclras's text about this process, joined by "; "; "" where it names that pid on another node. */
void ras_parse(const char *text, uint32_t pid, char *ret, size_t room);

#endif
