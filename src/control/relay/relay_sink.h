/* relay_sink.h - where events go: a file, standard output, or a socket with or without TLS.
 *
 *     file:PATH                  JSON lines, appended; a file that was moved away is created again
 *     -                          JSON lines on standard output
 *     unix:PATH                  JSON lines to a stream socket
 *     tcp://HOST:PORT            JSON lines
 *     tls://HOST:PORT            the same with TLS
 *     syslog://HOST:PORT         RFC 5424 over TCP, octet counting
 *     syslog+tls://HOST:PORT     RFC 5425
 *     syslog+unix:PATH           RFC 5424 to a stream socket
 *
 * What was put is delivered when a file is synced, or when the receiver's TCP has acknowledged every byte (a unix socket: its
 * process has read them) and the connection is still open a moment later.  Neither syslog nor lines have an acknowledgement of
 * their own, so a receiver that dies with bytes unread in its socket loses these.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RELAY_RELAY_SINK_H
#define LOCKSTEP_CONTROL_RELAY_RELAY_SINK_H

#include <stdbool.h>

#include "base/net/address.h"
#include "base/paths.h"
#include "core/buf.h"
#include "core/err.h"

enum relay_sink_kind {
    RELAY_FILE = 1,
    RELAY_STDOUT = 2,
    RELAY_UNIX = 3,
    RELAY_TCP = 4
};

struct relay_target { /* what --to says */
    enum relay_sink_kind kind;
    bool syslog, tls;
    struct path path; /* of a file or socket */
    struct address at;
};

/* -EINVAL with a sentence that lists what is allowed. */
int relay_target_parse(const char *text, struct relay_target *ret, struct err *err);

struct relay_sink_settings {
    const char *ca;         /* PEM; NULL: what the system trusts */
    const char *cert, *key; /* of this client; NULL: none */
    int64_t timeout_ns;     /* for a connection, and for the delivery of what was put */
};

struct relay_sink {
    struct relay_target target;
    struct relay_sink_settings settings;
    void *curl; /* NULL: no connection */
    int fd;     /* -1: not open */
};

void relay_sink_init(struct relay_sink *sink, const struct relay_target *target,
                     const struct relay_sink_settings *settings);
void relay_sink_close(struct relay_sink *sink);
int relay_sink_open(struct relay_sink *sink, struct err *err); /* 0 also when it is open already */
/* Returns when all of it is delivered; -errno: it is not known what of it arrived, and the sink is closed. */
int relay_sink_put(struct relay_sink *sink, const struct buf *bytes, struct err *err);

#endif
