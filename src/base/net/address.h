/* address.h - strict parsing of network addresses.
 *
 * A port is one to five digits from 0 to 65535 and nothing else: getaddrinfo() accepts 99999 and listens on 34463.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_ADDRESS_H
#define LOCKSTEP_BASE_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/err.h"

#define ADDRESS_HOST 256  /* a name or an address, with its end */
#define ADDRESS_NUMBER 46 /* an address in numbers: INET6_ADDRSTRLEN */

struct address {
    char host[ADDRESS_HOST]; /* lower case; an IPv6 address without brackets */
    bool has_port;
    uint16_t port;
};

/* "HOST:PORT", "HOST", "[::1]:PORT", "[::1]": as in a Host header.  -EINVAL: anything else. */
int address_parse(const char *text, size_t size, struct address *ret);
/* "http://HOST:PORT" or "https://HOST:PORT" with any number of slashes behind it.  -EINVAL: anything else: a path, a
 * user, a query, blanks.
 */
struct address_url {
    bool tls;
    struct address at;
    size_t size; /* of the text without the slashes at its end */
};
int address_url_parse(const char *text, struct address_url *ret);
/* "ADDRESS:PORT" in numbers, or localhost: where to listen.  -EINVAL with a sentence. */
int address_listen(const char *text, struct sockaddr_storage *ret, socklen_t *size,
                   struct err *err);

/* A socket, close-on-exec and without blocking, that listens there, and the port that it got.  -EINVAL, -EADDRINUSE ... with a
 * sentence.
 */
int address_socket(const char *text, int backlog, unsigned *port, struct err *err);

/* In numbers the addresses at which whoever listens there is reached: that one, or for 0.0.0.0 and [::] those of
 * this machine's interfaces, as far as there is room.  Returns how many.
 */
size_t address_own(const char *listen, char (*ret)[ADDRESS_NUMBER], size_t room);

/* Whether the host is this machine by its text alone: localhost, 127.x.x.x, ::1. */
bool address_is_loopback(const char *host);
bool sockaddr_is_loopback(const struct sockaddr *address);
/* Whether the host is that address written in numbers. */
bool address_is(const char *host, const struct sockaddr *address);

#endif
