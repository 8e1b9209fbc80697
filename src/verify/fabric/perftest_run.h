/* perftest_run.h - runs ib_write_bw and ib_write_lat between two workers, where a site has them and allows it.
 *
 * The receiver starts both as servers, the sender runs their clients one after the other.  The addresses are those of the rails, which
 * rdma_cm (-R) turns into a device.  perftest itself knows no token: its servers listen only while a test waits for them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_PERFTEST_RUN_H
#define LOCKSTEP_VERIFY_FABRIC_PERFTEST_RUN_H

#include <sys/types.h>

#include "verify/fabric/fabric_message.h"

struct perftest_servers {
    pid_t pid[2 * FABRIC_RAILS];
    size_t count;
};

/* Starts the servers of the flows of a message, and sets their ports in it: bandwidth, and latency on the next one. */
int perftest_serve(const char *dir, struct fabric_message *message, struct perftest_servers *ret,
                   struct err *err);
/* Until all have ended, the time is over or `stop_fd` is readable; ends those that are left. */
void perftest_serve_wait(struct perftest_servers *servers, int stop_fd, int64_t until_ns);
/* The clients.  -EDESTADDRREQ: a flow without an address.  A flow whose program printed no result has the error EPROTO, which says nothing about the network. */
int perftest_measure(const char *dir, const struct fabric_message *message, int stop_fd,
                     struct fabric_message *results);

#endif
