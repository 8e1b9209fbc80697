/* gloo_open.h - works of gloo that are not over, or whose end is not in the ring yet.
 *
 * Any thread adds; the thread that did the work says that it is over, which is two stores and no mark: gloo has two
 * threads a group, and they need no lanes.  Who has time puts the ends into the ring.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_GLOO_OPEN_H
#define LOCKSTEP_PROBE_GLOO_OPEN_H

#include <stdbool.h>
#include <stdint.h>

struct gloo_op {
    uint64_t key, end_ns;
    uint32_t epoch; /* of the ring that has its launch */
    int32_t comm;
};

/* thread: which launched it, an address that no other living one has.  false: no room. */
bool gloo_open_add(void *work, struct gloo_op op, const void *thread);
void gloo_open_over(const void *work, uint64_t now_ns);
void gloo_open_forget(const void *work); /* its end will not be known */

/* Puts ends into the ring: of all that are over, and of all that this thread launched (NULL: of no thread). */
uint32_t gloo_open_flush(const void *thread); /* how many are left */

#endif
