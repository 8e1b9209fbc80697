/* peer_serve.h - gives the points of a directory to other nodes; the requests are in peer.h.
 *
 * It only reads, apart from the mark that a point was copied, and only verified points.  What it has read is dropped from the page
 * cache: the training has more use for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_PEER_SERVE_H
#define LOCKSTEP_CKPT_TIERS_PEER_SERVE_H

#include "base/loop.h"
#include "base/net/tls.h"
#include "base/net/token.h"
#include "core/err.h"

struct peer_server;

struct peer_server_settings {
    const char *listen;
    const struct tls *tls; /* NULL: loopback only */
    struct token token;
    int dir_fd;
};

/* -EINVAL: no address, or clear text on another one than loopback. */
int peer_server_open(struct loop *loop, const struct peer_server_settings *settings,
                     struct peer_server **ret, struct err *err);
void peer_server_close(struct peer_server *server);
unsigned peer_server_port(const struct peer_server *server);

#endif
