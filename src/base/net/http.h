/* http.h - a small HTTP server in our own loop: handlers get complete requests and may respond later.
 *
 * No threads: libmicrohttpd's epoll descriptor is watched by the loop.  A request that is too large,
 * too slow or one too many is refused here; a handler gets a complete request of limited size.
 *
 *     static void handle(void *arg, struct http_exchange *exchange)
 *     {
 *         http_answer(exchange, 200, "text/plain", &body);   // now, or keep it and answer later
 *     }
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_HTTP_H
#define LOCKSTEP_BASE_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "core/buf.h"
#include "core/err.h"

struct http;
struct
    http_exchange; /* a request and its answer; lives until the answer is sent or the peer gone */

struct http_settings {
    const char *listen;             /* "127.0.0.1:8787", "[::]:0" */
    const char *key_pem, *cert_pem; /* NULL: no TLS */
    size_t body_max;                /* more is answered 413 */
    size_t charge_max; /* of bodies under way that count to one key; of all: four times that */
    unsigned connections_max; /* 0: as many as files are allowed */
    /* For each of: the headers, the body, taking the answer. */
    int64_t request_ns;
    /* When only the headers are there.  False: it has been answered, the body need not come. */
    bool (*admit)(void *arg, struct http_exchange *exchange);
    void (*handle)(void *arg, struct http_exchange *exchange);
    /* Once per exchange that is answered here or by a handler, with its status; NULL: nobody wants to know. */
    void (*answered)(void *arg, const struct http_exchange *exchange, unsigned status);
    void *arg;
};

int http_open(struct loop *loop, const struct http_settings *settings, struct http **ret,
              struct err *err);     /* -EINVAL: no address; -EADDRINUSE */
void http_close(struct http *http); /* NULL is fine */
unsigned http_port(const struct http *http);
bool http_address_is_loopback(const char *listen,
                              struct err *err); /* false with err set: no address */

struct http_counts {
    uint64_t requests, refused_large, refused_slow;
    uint64_t connections;                  /* now */
    unsigned connections_max, address_max; /* of one address; 0: any number */
    bool short_of; /* so many are taken that those without a request are closed soon */
};
void http_counts(const struct http *http, struct http_counts *ret);

const char *http_method(const struct http_exchange *exchange);
const char *http_path(const struct http_exchange *exchange);
const char *http_query(const struct http_exchange *exchange, const char *name);  /* NULL: none */
const char *http_header(const struct http_exchange *exchange, const char *name); /* NULL: none */
unsigned http_header_count(const struct http_exchange *exchange, const char *name);
bool http_is_1_0(const struct http_exchange *exchange); /* HTTP/1.0, which needs no Host */
const struct buf *http_body(const struct http_exchange *exchange);
uint64_t http_peer(const struct http_exchange *exchange); /* hash of the peer's address */
void http_peer_text(const struct http_exchange *exchange, char *ret, size_t room); /* in numbers */
/* Who asks, by the name of a token, and what for; copied, cut to HTTP_NOTE bytes.  For `answered`. */
#define HTTP_NOTE 96
void http_note_who(struct http_exchange *exchange, const char *who);
void http_note_what(struct http_exchange *exchange, const char *what);
const char *http_who(const struct http_exchange *exchange); /* "": nobody that is known */
const char *http_what(const struct http_exchange *exchange);
/* The address of ours that the peer connected to; false: not known. */
bool http_local(const struct http_exchange *exchange, struct sockaddr_storage *ret);
/* The peer has shown who it is.  Its connection stays when places run short, though it is silent: for as long as a
 * request may take, and when there is no place left at all for 10 s.  No other limit is lifted by it.
 */
void http_trust(struct http_exchange *exchange);
/* The bytes of its body count to whoever `key` stands for, from the first one until it has been answered.  False: that one, or
 * all together, have as many under way as the settings allow; a body that goes beyond it is hung up on.
 */
bool http_charge(struct http_exchange *exchange, uint64_t key);

/* Before the answer; both texts are copied. */
void http_answer_header(struct http_exchange *exchange, const char *name, const char *value);
/* Takes the body.  Once per exchange. */
void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 struct buf *body);

/* An answer without an end.  More than `pending_max` unsent bytes: the reader is too slow and is
 * dropped.  `gone` is called when the exchange ends, for streams and for answers that are still owed.
 */
void http_on_gone(struct http_exchange *exchange, void (*gone)(void *owner), void *owner);
void *http_owner(const struct http_exchange *exchange); /* as set last; NULL: never */
void http_stream(struct http_exchange *exchange, const char *type, size_t pending_max);
bool http_stream_put(struct http_exchange *exchange, const void *data, size_t size);

#endif
