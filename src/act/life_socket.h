/* life_socket.h - a socket that is open as long as some process of a launcher's job lives on this node.
 *
 * It listens, and nobody accepts.  Launcher, keeper and ranks hold it, and the children of ranks that inherit their descriptors.  So the
 * kernel closes it when the last of them has ended: who was connected gets a reset, and who asks again is refused.  A
 * node that is only cut off, or a launcher that is only stopped, answers neither.  A process that closed it may live on and
 * write, so it is opened only where the user says that none does so (--trust-ends).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_LIFE_SOCKET_H
#define LOCKSTEP_ACT_LIFE_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/net/address.h"

struct life_socket {
    int fd; /* 0: there is none */
    uint16_t port;
    char host[ADDRESS_NUMBER];
};

/* The address of this machine, in numbers, by which the machine behind that URL sees it.  -EADDRNOTAVAIL. */
int life_socket_host(const char *url, char *ret, size_t room);
/* At that address.  -errno. */
int life_socket_open(const char *url, struct life_socket *ret);
void life_socket_close(struct life_socket *life);

#endif
