/* owners.h - which user each run and each process on this node belongs to, as root sees it.
 *
 * The controller needs it to know whose a finding is (wire/finding.h: NODE_OWNS_UID).  Processes are looked at now and then,
 * because the one that a line of the kernel log names is often gone when the line is read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_OWNERS_H
#define LOCKSTEP_AGENT_NODE_OWNERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/node/node_facts.h"

struct owners;

int owners_create(struct node_facts *facts, const char *node, struct owners **ret); /* -ENOMEM */
void owners_destroy(struct owners *owners); /* NULL is fine */

/* A user has a directory of rings with that name: reported once, and for a limited number of names in an hour. */
void owners_run(struct owners *owners, uid_t uid, const char *run, int64_t now_ns);
/* A finding names this process: reported before the finding. */
void owners_process(struct owners *owners, uint32_t pid);
/* The processes of a user, as of the last look, at most `room`; returns how many there are. */
size_t owners_processes(const struct owners *owners, uid_t uid, uint32_t *pid, size_t room);
void owners_turn(struct owners *owners, int64_t now_ns); /* looks at /proc when it is due */

#endif
