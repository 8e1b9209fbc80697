/* become.h - turns a root process into a process of a user that the user cannot take over.
 *
 * It keeps its open descriptors and continues without an exec, so it is never dumpable: its user cannot trace it, or
 * open its memory, files or working directory through /proc.  The user can stop and kill it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_BECOME_H
#define LOCKSTEP_AGENT_NODE_BECOME_H

#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

/* For good, and verified.  Ends with its parent. */
int become_user(uid_t uid, gid_t gid, struct err *err);
/* What it may use beside the limits of its user's jobs; `file_bytes` is the largest file that it writes. */
int become_limited(uint64_t file_bytes, struct err *err);

#endif
