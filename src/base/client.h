/* client.h - HTTP calls to the outside in our own loop, one callback each (libcurl).
 *
 * A call never blocks.  The token is read from memory and sent as a bearer; it is never logged.
 * A certificate is trusted when the system trusts it, or when its key is the one that
 * the site's controller printed; TLS is 1.2 or newer.  Plain HTTP is for loopback, since
 * anybody on the way would read the token.  No redirect is followed.
 */
#ifndef LOCKSTEP_BASE_CLIENT_H
#define LOCKSTEP_BASE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/token.h"
#include "core/buf.h"
#include "core/err.h"

struct client;

struct client_settings {
    const char *url;     /* "https://control:8787", without a path */
    const char *ca_file; /* a certificate to trust; NULL: the system's */
    const char *pin;    /* "sha256//BASE64" of the server's public key: trusted whoever signed it */
    bool insecure_http; /* plain HTTP also to other machines; else only over loopback */
    int64_t timeout_ns; /* of a whole call */
};

/* status 0: nobody answered, and `why` says more; `body` lives until the callback returns. */
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
