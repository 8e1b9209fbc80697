/* peer.h - points of another node, over HTTP: what `lockstep ckpt serve` gives (peer_serve.h).
 *
 *     GET  /v1/points                                  lines "STEP JOB", verified points, newest first; JOB in 16 hex digits
 *     GET  /v1/points/STEP-JOB/NAME?at=N&bytes=M       of a file of the point, at most 4 MiB; fewer at its end
 *     POST /v1/points/STEP-JOB/copied?us=N             the caller has committed and verified it
 *
 * Each request has a bearer token.  Certificates and clear text: as everywhere (base/client.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_PEER_H
#define LOCKSTEP_CKPT_TIERS_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "base/net/client.h"
#include "base/net/token.h"
#include "core/buf.h"
#include "core/err.h"

#define PEER_BYTES_MAX (4u << 20) /* of one answer */

struct peer;

struct peer_point {
    uint64_t step, job;
};

int peer_open(const struct client_settings *settings, const struct token *token, struct peer **ret,
              struct err *err);
void peer_close(struct peer *peer); /* NULL is fine */
/* At most `room`.  -EHOSTUNREACH: no answer; -EACCES: the token is refused; -EREMOTEIO: another answer than expected. */
int peer_points(struct peer *peer, struct peer_point *ret, size_t room, size_t *ret_count,
                struct err *err);
struct peer_range {
    struct peer_point point;
    const char *name;   /* of a file */
    uint64_t at, bytes; /* bytes 0: the whole file */
    size_t most;        /* a longer answer is an error */
};

/* -ENOENT: the node does not have it any more. */
int peer_get(struct peer *peer, const struct peer_range *range, struct buf *ret, struct err *err);
/* `took_us`: for as long as the copy took; 0: not known. */
int peer_copied(struct peer *peer, struct peer_point point, uint64_t took_us, struct err *err);

/* The list as it comes.  -EPROTO: it is none. */
int peer_points_parse(const char *text, size_t size, struct peer_point *ret, size_t room,
                      size_t *ret_count, struct err *err);

#endif
