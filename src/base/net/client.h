/* client.h - HTTP requests in our own loop, with one callback each (libcurl).
 *
 * A call never blocks.  The token is read from memory and sent as a bearer token; it is never logged.  A certificate
 * is trusted if the system trusts it, or if its key is the configured pin; TLS is 1.2 or newer.  Plain HTTP is for
 * loopback only, because anyone on the network path could read the token.  Redirects are not followed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_CLIENT_H
#define LOCKSTEP_BASE_NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/net/token.h"
#include "base/opt.h"
#include "core/buf.h"
#include "core/err.h"

struct client;

struct client_settings {
    const char *url;     /* "https://control:8787", without a path */
    const char *ca_file; /* a certificate to trust; NULL: the system's */
    const char *pin; /* "sha256//BASE64" of the server's public key: trusted with any signature */
    bool insecure_http; /* plain HTTP also to other machines; else only over loopback */
    int64_t timeout_ns; /* of a whole call */
};

/* Rows of an option table: how the controller is trusted, at these offsets of the command's settings. */
#define CLIENT_TRUST_OPTS(ca, pin, insecure)                                                       \
    { "control-ca",          0,    OPT_TEXT, (ca), "FILE", "certificate to trust, in PEM",         \
      "LOCKSTEP_CONTROL_CA", false },                                                              \
        { "control-pin",                                                                           \
          0,                                                                                       \
          OPT_TEXT,                                                                                \
          (pin),                                                                                   \
          "PIN",                                                                                   \
          "trust the controller that has this key: sha256//..., as it prints it",                  \
          "LOCKSTEP_CONTROL_PIN",                                                                  \
          false },                                                                                 \
    {                                                                                              \
        "insecure-http", 0, OPT_FLAG, (insecure), NULL,                                            \
            "send tokens without encryption to a controller on another machine",                   \
            "LOCKSTEP_INSECURE_HTTP", false                                                        \
    }

/* status 0: no response, `why` has the reason; `body` lives until the callback returns. */
struct client_answer {
    unsigned status;
    const char *why;
    const struct buf *body;
};
typedef void client_fn(void *arg, const struct client_answer *answer);

/* -EINVAL: no URL of a controller, or plain HTTP to another machine where that is not allowed. */
int client_check_url(const char *url, bool insecure_http, struct err *err);
int client_open(struct loop *loop, const struct client_settings *settings, struct client **ret,
                struct err *err);         /* -EINVAL: the url is none */
void client_close(struct client *client); /* open calls end without a callback; NULL is fine */
/* `body` is taken; NULL: a GET.  The callback comes from the loop, never from here. */
int client_call(struct client *client, const char *path, const struct token *token,
                struct buf *body, client_fn *fn, void *arg);

/* Bytes that TCP has sent for all calls so far, by the kernel's own count: HTTP and TLS with them, and what was sent twice
 * because it was lost; not the headers of packets.  0: the kernel does not tell.
 */
uint64_t client_wire_bytes(const struct client *client);

#endif
