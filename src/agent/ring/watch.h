/* watch.h - one ring and its process, from its creation to the last beat.
 *
 * Records become steps, gaps and notes; data of /proc becomes beats.  If the spool cannot be written, a watch keeps
 * the current fact and stops reading: the ring is the buffer, and records that it overwrites are counted as a gap.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_WATCH_H
#define LOCKSTEP_AGENT_RING_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/outbox.h"
#include "agent/resume.h"
#include "core/err.h"

#define WATCH_SAMPLE_NS (100 * INT64_C(1000000)) /* between two looks at /proc, at least */
#define WATCH_BEAT_NS INT64_C(1000000000)

struct watch;

struct watch_place { /* what all watches of an agent share */
    struct outbox *outbox;
    struct resume *resume;
    struct nodesplit *split;
    const char *run, *node;
    bool report_exits; /* no launcher does */
    unsigned *looks;   /* ranks that are looked at now, each by a process */
};

/* `name` in the directory of rings.  -EAGAIN: the ring is still being made; -EXDEV: it is another run's; -EPROTO …: it is no ring. */
int watch_open(const struct watch_place *place, int rings_fd, const char *name, struct watch **ret,
               struct err *err);
void watch_close(struct watch *watch);
uint32_t watch_attempt(const struct watch *watch); /* that the ring is of */
uint32_t watch_pid(const struct watch *watch);     /* on this node; 0: not known */
/* Reads the ring and /proc, writes facts.  Returns false when all was written and the watch can be closed. */
bool watch_tick(struct watch *watch, int64_t now_ns);
/* All watches have had their tick: tells what waited for the steps of other ranks. */
void watch_settle(struct watch *watch, int64_t now_ns);
/* The agent is about to end: first all watches read everything, then each tells what is whole, and a
 * last beat.  A step that a living rank is still in stays in its ring for the next agent.
 */
void watch_read_all(struct watch *watch, int64_t now_ns);
void watch_end(struct watch *watch, int64_t now_ns);

#endif
