/* socket.c - non-blocking sends and receives with a bounded wait.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/time.h"

int socket_prepare(int fd)
{
    int one = 1, flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    /* Fails on a socketpair, which has no delay to begin with. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return 0;
}

int socket_poll(int fd, short events, const struct socket_wait *wait)
{
    struct pollfd poll_fd[2] = { { .fd = fd, .events = events },
                                 { .fd = wait->cancel_fd, .events = POLLIN } };
    int64_t deadline = time_mono_ns() + wait->timeout_ms * NS_PER_MS;

    for (;;) {
        int left_ms = time_poll_ms(deadline, time_mono_ns()), ready;

        if (!left_ms)
            return -ETIMEDOUT;
        ready = poll(poll_fd, wait->cancel_fd < 0 ? 1 : 2, left_ms);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0)
            return poll_fd[1].revents && wait->cancel_fd >= 0 ? -ECANCELED : 0;
    }
}

/* One send or receive of what the kernel takes now: bytes, 0 when it would block, or -errno. */
static ssize_t socket_some(ssize_t done, size_t wanted)
{
    if (done > 0 || wanted == 0)
        return done;
    if (done == 0)
        return -ECONNRESET;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return errno == EPIPE ? -ECONNRESET : -errno;
}

static int socket_move(int fd, const char *out, size_t out_bytes, char *in, size_t in_bytes,
                       const struct socket_wait *wait)
{
    while (out_bytes > 0 || in_bytes > 0) {
        ssize_t sent = 0, got = 0;

        if (out_bytes > 0) {
            sent = socket_some(send(fd, out, out_bytes, MSG_NOSIGNAL), out_bytes);
            if (sent < 0)
                return (int)sent;
            out += sent;
            out_bytes -= (size_t)sent;
        }
        if (in_bytes > 0) {
            got = socket_some(recv(fd, in, in_bytes, 0), in_bytes);
            if (got < 0)
                return (int)got;
            in += got;
            in_bytes -= (size_t)got;
        }
        if (sent == 0 && got == 0 && (out_bytes > 0 || in_bytes > 0)) {
            short events = (short)((out_bytes > 0 ? POLLOUT : 0) | (in_bytes > 0 ? POLLIN : 0));
            int result = socket_poll(fd, events, wait);

            if (result < 0)
                return result;
        }
    }
    return 0;
}

int socket_send(int fd, const void *data, size_t bytes, const struct socket_wait *wait)
{
    return socket_move(fd, data, bytes, NULL, 0, wait);
}

int socket_recv(int fd, void *data, size_t bytes, const struct socket_wait *wait)
{
    return socket_move(fd, NULL, 0, data, bytes, wait);
}

int socket_exchange(int fd, const void *out, void *in, size_t bytes, const struct socket_wait *wait)
{
    return socket_move(fd, out, bytes, in, bytes, wait);
}
