/* ras_look.h - what NCCL's RAS knows about one process of a job.
 *
 * Each process of a job on NCCL (2.24 and later) answers for all of them at a port of its own node.  It is asked in the child that looks
 * at a stuck rank, at the loopback interface only, and has a second and a half.  Only sentences of a known form are taken, and only those about
 * the process's own pid: whoever else answers there says nothing about it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_RAS_LOOK_H
#define LOCKSTEP_AGENT_PROC_RAS_LOOK_H

#include <stddef.h>
#include <stdint.h>

/* "" where nothing answers, or nothing is wrong with it. */
void ras_look(int proc_fd, char *ret, size_t room);

/* The lines of ncclras's text about this process, joined by "; ". */
void ras_parse(const char *text, uint32_t pid, char *ret, size_t room);

#endif
