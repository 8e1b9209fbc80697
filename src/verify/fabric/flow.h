/* flow.h - transfers between two workers: latency first, then as many bytes as arrive in a given time.
 *
 * Both ends prove that they know the key of the flow before a byte of load is sent: a worker cannot be made to send to anyone
 * who is not part of the test.  A receiver listens until one connection has proved it, so that a stranger who connects first, and says
 * nothing, does not make the link look broken.  The receiver counts, and leaves out the first quarter of the time, in which TCP starts.
 * Rate, bytes and time of a flow are bounded by the sender.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_FLOW_H
#define LOCKSTEP_VERIFY_FABRIC_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "verify/fabric/fabric_message.h"

struct flow;

struct flows {
    struct flow *flow;
    uint32_t count;
    bool sends;
    unsigned char key[FABRIC_MAC];
    int64_t time_ns, wait_ns;
    uint64_t rate, bytes;
    uint32_t pings;
};

/* Listens on `own` (an address in numbers for each rail) for the flows of a message, and sets their ports in it. */
int flows_listen(struct flows *flows, struct fabric_message *message, char own[][ADDRESS_NUMBER],
                 uint32_t rails, struct err *err);
/* Begins to connect. */
int flows_connect(struct flows *flows, const struct fabric_message *message,
                  char own[][ADDRESS_NUMBER], uint32_t rails, struct err *err);
/* Until all have ended, or `stop_fd` becomes readable.  Fills in the results; the errors of single flows are among them. */
int flows_run(struct flows *flows, int stop_fd, struct fabric_message *results);
uint64_t flows_bytes(
    const struct flows *flows); /* of load, sent or received, also before time counts */
void flows_close(struct flows *flows);

#endif
