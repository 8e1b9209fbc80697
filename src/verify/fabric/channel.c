/* channel.c - frames over a socket, with deadlines.
 *
 * Both ends of a channel wait for one message at a time, in a process that has nothing else to do meanwhile: so they poll their one socket
 * and need no loop (base/loop.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

void channel_init(struct fabric_channel *channel, int fd, bool is_worker)
{
    *channel = (struct fabric_channel){ .fd = fd, .session = { .is_worker = is_worker } };
}

void channel_close(struct fabric_channel *channel)
{
    fd_clean(&channel->fd);
    channel->fd = -1;
    buf_fini(&channel->in);
    channel->in = (struct buf){ .data = NULL };
}

static int channel_poll(const struct fabric_channel *channel, short events, int64_t until_ns)
{
    for (;;) {
        struct pollfd one = { .fd = channel->fd, .events = events };
        int left_ms = time_poll_ms(until_ns, time_mono_ns());
        int ready = poll(&one, 1, left_ms);

        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (!left_ms)
            return -ETIMEDOUT;
    }
}

int channel_send(struct fabric_channel *channel, const struct fabric_message *message,
                 int64_t until_ns, struct err *err)
{
    struct buf out = { .data = NULL };
    int result = fabric_message_put(&channel->session, message, &out);
    size_t done = 0;

    while (result == 0 && done < out.size) {
        ssize_t sent =
            send(channel->fd, out.data + done, out.size - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0)
            done += (size_t)sent;
        else if (errno == EAGAIN)
            result = channel_poll(channel, POLLOUT, until_ns);
        else if (errno != EINTR)
            result = -errno;
    }
    buf_fini(&out);
    return result < 0 ? err_set(err, result, "cannot send: %s", strerror(-result)) : 0;
}

int channel_fill(struct fabric_channel *channel, struct err *err)
{
    unsigned char chunk[8192];

    while (channel->in.size < FABRIC_FRAME_MAX) {
        ssize_t got = recv(channel->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

        if (got == 0)
            return err_set(err, -ECONNRESET, "the connection was closed");
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? 0 : err_set(err, -errno, "cannot receive: %m");
        buf_put(&channel->in, chunk, (size_t)got);
        if (channel->in.failed)
            return err_nomem(err);
    }
    return 0;
}

int channel_next(struct fabric_channel *channel, struct fabric_message *ret, struct err *err)
{
    int size = fabric_message_size(channel->in.data, channel->in.size, err), result;

    if (size <= 0)
        return size;
    result = fabric_message_get(&channel->session, channel->in.data, (size_t)size, ret, err);
    buf_drop_front(&channel->in, (size_t)size);
    return result < 0 ? result : 1;
}

int channel_wait(struct fabric_channel *channel, int64_t until_ns, struct fabric_message *ret,
                 struct err *err)
{
    for (;;) {
        int result = channel_next(channel, ret, err);

        if (result)
            return result < 0 ? result : 0;
        result = channel_poll(channel, POLLIN, until_ns);
        if (result < 0)
            return err_set(err, result, "no answer in time");
        result = channel_fill(channel, err);
        if (result < 0)
            return result;
    }
}

int channel_greet(struct fabric_channel *channel, const struct token *token, int64_t until_ns,
                  struct err *err)
{
    struct fabric_message hello = { .type = FABRIC_HELLO }, begin;
    struct fabric_session plain;
    int size = 0, result = fabric_nonce(hello.nonce);

    if (result == 0)
        result = channel_send(channel, &hello, until_ns, err);
    while (result == 0 && size == 0) {
        size = fabric_message_size(channel->in.data, channel->in.size, err);
        if (size == 0)
            result = channel_poll(channel, POLLIN, until_ns);
        if (size == 0 && result == 0)
            result = channel_fill(channel, err);
    }
    if (result < 0 || size < 0)
        return MIN(result, size);
    /* The nonce of the tester lies behind the header; whether it is the tester's, its HMAC says. */
    if ((size_t)size < FABRIC_HEADER + FABRIC_NONCE + FABRIC_MAC)
        return err_set(err, -EPROTO, "a message that cannot be read");
    plain = channel->session;
    fabric_session_key(&channel->session, token, hello.nonce, channel->in.data + FABRIC_HEADER);
    result = channel_next(channel, &begin, err);
    if (result != 1 || begin.type != FABRIC_BEGIN) {
        channel->session = plain;
        return result < 0 ? result : err_set(err, -EPROTO, "an unexpected message");
    }
    return 0;
}

int channel_begin(struct fabric_channel *channel, const struct token *token,
                  const struct fabric_message *hello, int64_t until_ns, struct err *err)
{
    struct fabric_message begin = { .type = FABRIC_BEGIN };
    int result = fabric_nonce(begin.nonce);

    if (hello->type != FABRIC_HELLO || result < 0)
        return err_set(err, -EPROTO, "this is no worker of lockstep fabric");
    fabric_session_key(&channel->session, token, hello->nonce, begin.nonce);
    return channel_send(channel, &begin, until_ns, err);
}
