/* notify.h - reports readiness, life signs and shutdown to the service manager.
 *
 * The protocol of sd_notify(3): datagrams to the socket in $NOTIFY_SOCKET.  Without that variable every call does
 * nothing.  Never blocks and never fails: a missing service manager must not stop the program.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NOTIFY_H
#define LOCKSTEP_BASE_NOTIFY_H

#include <stdint.h>

struct notify {
    int fd;           /* -1: no service manager */
    int64_t every_ns; /* the manager's patience, halved; 0: it has no watchdog */
    int64_t next_ns;
};

void notify_open(
    struct notify *notify); /* reads and removes the variables: they are not for children */
void notify_close(struct notify *notify);
void notify_ready(struct notify *notify, const char *status); /* "16 runs at 127.0.0.1:8787" */
void notify_alive(struct notify *notify, int64_t now_ns);     /* call it often; it sends when due */
void notify_stopping(struct notify *notify);

#endif
