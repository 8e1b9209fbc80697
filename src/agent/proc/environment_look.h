/* environment_look.h - asks once for the environment of a rank's process (sense/environment/environment.h), in a child (proc_look.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_ENVIRONMENT_LOOK_H
#define LOCKSTEP_AGENT_PROC_ENVIRONMENT_LOOK_H

#include <stdint.h>

#include "agent/proc/proc_look.h"
#include "wire/finding.h"

int environment_look_begin(const struct proc_ref *proc, int64_t now_ns,
                           struct proc_look **ret); /* -errno */
/* 1: time, count and pair of *ret are set, free with environment_fini(); 0: not yet; -ETIMEDOUT, -EIO: nothing came. */
int environment_look_poll(struct proc_look *look, int64_t now_ns, struct environment *ret);

#endif
