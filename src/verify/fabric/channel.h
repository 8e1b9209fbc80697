/* channel.h - a control connection of a fabric test: authenticated messages both ways.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_CHANNEL_H
#define LOCKSTEP_VERIFY_FABRIC_CHANNEL_H

#include "verify/fabric/fabric_message.h"

struct fabric_channel {
    int fd; /* -1: closed */
    struct fabric_session session;
    struct buf in;
};

void channel_init(struct fabric_channel *channel, int fd, bool is_worker);
void channel_close(struct fabric_channel *channel);
/* Waits at most until then for room in the socket. */
int channel_send(struct fabric_channel *channel, const struct fabric_message *message,
                 int64_t until_ns, struct err *err);
/* Reads what is there without waiting.  -ECONNRESET: the other side has hung up. */
int channel_fill(struct fabric_channel *channel, struct err *err);
/* 1: a message; 0: none is whole yet; -errno. */
int channel_next(struct fabric_channel *channel, struct fabric_message *ret, struct err *err);
/* Waits for a message.  -ETIMEDOUT. */
int channel_wait(struct fabric_channel *channel, int64_t until_ns, struct fabric_message *ret,
                 struct err *err);

/* The first two messages: who is there?  Both return 0 when each knows that the other has the token. */
int channel_greet(struct fabric_channel *channel, const struct token *token, int64_t until_ns,
                  struct err *err); /* worker */
int channel_begin(struct fabric_channel *channel, const struct token *token,
                  const struct fabric_message *hello, int64_t until_ns,
                  struct err *err); /* tester */

#endif
