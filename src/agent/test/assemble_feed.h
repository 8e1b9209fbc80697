/* assemble_feed.h - made-up events for the tests of the assembler, and what it makes of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_TEST_ASSEMBLE_FEED_H
#define LOCKSTEP_AGENT_TEST_ASSEMBLE_FEED_H

#include "agent/ring/assemble.h"
#include "lockstep/probe.h"

#define MS INT64_C(1000000)

extern const struct assemble_id id;

void destroy(struct assemble **assemble); /* for CLEAN */

struct ring_event at(int64_t ms, uint64_t step, uint8_t kind);
void put(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind);
void put_phase(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind, uint8_t phase);
void put_op(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind, uint64_t key);
void put_span(struct assemble *a, int64_t ms, uint64_t step, int64_t enqueue, int64_t begin,
              int64_t end);
void put_lost(struct assemble *a, int64_t ms, uint64_t before, uint64_t after, uint8_t kind,
              uint64_t records);
struct assembled take(struct assemble *a, enum assembled_kind kind);
void take_nothing(struct assemble *a);

#endif
