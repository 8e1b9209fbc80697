/* agent_traffic.h - the agents of a run: time of the last contact, and what each reports to have sent.
 *
 * Fed with a run's log frame by frame; a live run and a log replay give the same result.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_INDEX_AGENT_TRAFFIC_H
#define LOCKSTEP_CONTROL_INDEX_AGENT_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/map.h"
#include "wire/facts.h"
#include "wire/frame.h"

struct traffic_agent {
    uint64_t sender;
    char node[FACT_NAME];    /* "": no HELLO yet */
    int64_t newest_real_ns;  /* the tick before its newest frame; 0: there was none */
    bool has_traffic;        /* it has spoken of its sending: */
    struct fact_traffic now; /* its newest report */
    uint64_t boot;           /* of the agent that did: its counts begin there */
    double bytes_per_second; /* since the one before, or since the agent began */
    bool changed;            /* for who keeps it elsewhere: he clears it */
};

struct traffic {
    struct map place; /* sender → */
    struct traffic_agent *agent;
    size_t count, room;
    int64_t tick_real_ns;
};

int traffic_frame(struct traffic *traffic, const struct frame *frame); /* 0 or -ENOMEM */
struct traffic_agent *traffic_agent(struct traffic *traffic,
                                    uint64_t sender); /* made when it is new; NULL: no memory */
void traffic_fini(struct traffic *traffic);

#endif
