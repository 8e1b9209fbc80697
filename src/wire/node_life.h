/* node_life.h - where a node is in its life at a site, and what is remembered of it.
 *
 * The site's core writes one frame for each change; the newest one of a node has all of its memory, so a log that starts over
 * begins with it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_NODE_LIFE_H
#define LOCKSTEP_WIRE_NODE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "wire/facts.h"

enum node_life_state { /* numbers are wire format */
    NODE_NEW = 1,      /* it has sent something, and nothing more is known */
    NODE_CHECKED = 2,  /* a health check passed */
    NODE_IN_SERVICE = 3,
    NODE_SUSPECT = 4,  /* something speaks against it */
    NODE_OUT = 5,      /* the scheduler gives it no further job */
    NODE_VERIFIED = 6, /* out, and fit again by its checks */
    NODE_BACK = 7,     /* given to the scheduler again, and not used since */
    NODE_LIFE_COUNT
};

#define NODE_NAMINGS 8
#define NODE_REASON 128

struct node_life {
    int64_t since_real_ns; /* of the state */
    char node[FACT_NAME];
    uint8_t state, before;    /* before: where a suspect node was; 0: nowhere */
    bool by_person;           /* taken out by a person, not for a fault */
    bool lemon;               /* named again and again over weeks */
    bool refault;             /* came back, and failed in the same way */
    char why[200];            /* the evidence of the newest change */
    char reason[NODE_REASON]; /* that we gave to the scheduler; "": it is not out by us */
    char cause[FACT_NAME];    /* what it was named for last; "": never */
    char stage[FACT_NAME];    /* whose checks must pass before it may come back; "": none */
    uint32_t passes;          /* so far */
    int64_t pass_real_ns;     /* of the newest */
    int64_t back_real_ns;     /* when it came back last; 0: never */
    uint32_t namings;         /* all; the array holds the newest, a day apart */
    int64_t naming_real_ns[NODE_NAMINGS];
};

const char *node_life_name(unsigned state); /* "in-service"; "unknown" out of range */
void node_life_put(struct buf *out, const struct node_life *life);
int node_life_get(struct reader in, struct node_life *ret); /* -EPROTO */

#endif
