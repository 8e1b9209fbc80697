/* nativestack.h - the native stack of another process's first thread.
 *
 * Stops that thread for a moment (PTRACE_SEIZE and PTRACE_INTERRUPT: no signal reaches it), reads, and lets it go.
 * To be called in a process of its own with a time limit: when the caller dies, the kernel lets the thread go.
 * elfutils' libdw is loaded when it is there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_NATIVESTACK_H
#define LOCKSTEP_AGENT_PROC_NATIVESTACK_H

#include <stddef.h>

#include "agent/proc/proc.h"
#include "core/err.h"

/* "function", innermost first, one a line.  -ENOSYS: no libdw here; -EPERM: not permitted, or not the owner's any more. */
int nativestack_read(const struct proc_ref *proc, char *ret, size_t room, struct err *err);

#endif
