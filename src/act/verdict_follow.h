/* verdict_follow.h - what the controller says, for the launcher to act on.
 *
 * The launcher reads the log as anybody does; nothing is asked of the controller, and nothing happens
 * without it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_VERDICT_FOLLOW_H
#define LOCKSTEP_ACT_VERDICT_FOLLOW_H

#include <stddef.h>

#include "wire/decision.h"
#include "wire/verdict.h"

struct verdict_follow;

int verdict_follow_create(const char *run_dir,
                          struct verdict_follow **ret); /* -ENOMEM, -ENAMETOOLONG */
void verdict_follow_destroy(struct verdict_follow *follow);
enum verdict_follow_what {
    VERDICT_FOLLOW_NONE, /* that is all for now */
    VERDICT_FOLLOW_VERDICT,
    VERDICT_FOLLOW_DECISION
};
/* The next verdict or decision in the log, new or changed. */
enum verdict_follow_what verdict_follow_next(struct verdict_follow *follow, struct verdict *verdict,
                                             struct decision *decision);
/* It is the first state of this verdict or decision that verdict_follow_next() gave. */
bool verdict_follow_is_new(const struct verdict_follow *follow);
/* The log says that some process opened a ring. */
bool verdict_follow_has_rings(const struct verdict_follow *follow);
/* The controller has closed the log. */
bool verdict_follow_is_closed(const struct verdict_follow *follow);
/* How many different ones there were. */
size_t verdict_follow_count(const struct verdict_follow *follow);

/* How long the log is now; 0: there is none. */
uint64_t verdict_follow_bytes(const char *run_dir);
/* The earliest crash that is told behind the first `from` bytes of the log, is sure enough, and was decided
 * after `since_real_ns`: 1 and *ret, or 0.  Reads what is there and waits for nothing.
 */
int verdict_follow_crash(const char *run_dir, uint64_t from, int64_t since_real_ns,
                         struct verdict *ret);

#endif
