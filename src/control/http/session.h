/* session.h - sessions of the page in a browser: a one-time link begins one, a cookie and a key continue it.
 *
 * Whoever has a token asks for a link; a browser that opens it gets a session with the rights of a reader.  A link works
 * once and for ten minutes, a session for twelve hours; both are in memory only and end with the process.
 *
 * A browser sends a cookie to every port of a host, and on a shared machine another user may listen on one of them.  So
 * the cookie alone opens nothing: each request also has the header Lockstep-Key, which the page keeps in the storage of
 * its own origin, to which the port belongs.  Other pages can set neither.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_SESSION_H
#define LOCKSTEP_CONTROL_HTTP_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/token.h"
#include "core/err.h"

#define SESSION_LINKS_MAX 16
#define SESSIONS_MAX 64
#define SESSION_LINK_S 600
#define SESSION_S (12 * 3600)

#define SESSION_WHO 80

struct session {
    struct token cookie, key;
    char who[SESSION_WHO]; /* "page of reader-ada": of whoever asked for the link */
    int64_t until_ns;      /* 0: none */
};

struct session_link {
    struct token ticket;
    char who[SESSION_WHO];
    int64_t until_ns; /* 0: none */
};

struct sessions {
    char cookie_name[32]; /* of this process: controllers on other ports have others */
    struct session_link link[SESSION_LINKS_MAX];
    struct session session[SESSIONS_MAX];
};

void sessions_init(struct sessions *sessions, uint64_t epoch);
/* A new link for whoever has the token of that name; the oldest is dropped when there are too many. */
int session_link_make(struct sessions *sessions, const char *name, int64_t now_ns,
                      struct token *ret, struct err *err);
/* Uses up a link.  *ret stays valid until the next session begins.  -EACCES: no such link, or it is over. */
int session_begin(struct sessions *sessions, const char *ticket, int64_t now_ns,
                  const struct session **ret, struct err *err);
/* `cookies`: the header Cookie; `key`: the header Lockstep-Key.  NULL: not there.  Returns NULL if there is no such session. */
const struct session *session_check(const struct sessions *sessions, const char *cookies,
                                    const char *key, int64_t now_ns);

#endif
