/* proc_look.h - reads a rank's process in a child process, within seconds or not at all.
 *
 * Files of a stuck filesystem, a debugger's lock or a hostile memory image must not hold up the agent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_PROC_LOOK_H
#define LOCKSTEP_AGENT_PROC_PROC_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/proc.h"
#include "core/buf.h"

#define PROC_LOOK_MAX (256 * 1024) /* bytes; a longer answer is none */

/* Then the child ends itself, and the kernel lets go of what it holds. */
#define PROC_LOOK_SECONDS 5

struct proc_look;

/* Runs in the child and writes the answer.  `proc` is the process, `arg` is as the parent had it. */
typedef void proc_look_run(const struct proc_ref *proc, const void *arg, struct buf *answer);

int proc_look_begin(const struct proc_ref *proc, proc_look_run *run, const void *arg,
                    int64_t now_ns, struct proc_look **ret); /* -errno */
/* 1 and *ret, which lives as long as `look`; 0: not yet; -ETIMEDOUT, -EIO: nothing came.  Does not block. */
int proc_look_poll(struct proc_look *look, int64_t now_ns, struct reader *ret);
/* Kills the child if it lives.  False: the kernel does not end it yet, so it still counts as one. */
bool proc_look_end(struct proc_look *look);

#endif
