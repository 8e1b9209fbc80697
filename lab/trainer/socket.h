/* socket.h - bytes to and from a peer, with an end to every wait.
 *
 * A socket here is non-blocking.  Every call ends when its bytes are through, when the
 * peer is gone (-ECONNRESET, also for an orderly end of stream: a rank that leaves in the
 * middle of a job is lost either way), when the time is up (-ETIMEDOUT) or when a caller
 * makes `cancel_fd` readable (-ECANCELED).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_SOCKET_H
#define LOCKSTEP_LAB_TRAINER_SOCKET_H

#include <stddef.h>
#include <stdint.h>

struct socket_wait {
    int cancel_fd; /* -1: none */
    int timeout_ms;
};

int socket_prepare(int fd); /* non-blocking, close-on-exec, no delay */
int socket_send(int fd, const void *data, size_t bytes, const struct socket_wait *wait);
int socket_recv(int fd, void *data, size_t bytes, const struct socket_wait *wait);
/* Both at once, so that two peers that send more than their buffers hold do not stand still. */
int socket_exchange(int fd, const void *out, void *in, size_t bytes,
                    const struct socket_wait *wait);
/* Waits until fd is ready for `events`; 0 or -errno. */
int socket_poll(int fd, short events, const struct socket_wait *wait);

#endif
