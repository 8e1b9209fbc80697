/* auth.h - access control: tokens in files, compared in constant time.
 *
 *     STATE/tokens/admin.token     everything
 *     STATE/tokens/launch.token    create runs (and launch-NAME.token: for a user of that name)
 *     STATE/tokens/reader.token    read everything (and reader-NAME.token)
 *     STATE/tokens/proxy-NAME.token  a proxy that authenticates users itself (--user-header)
 *     STATE/runs/RUN/agent.token   send facts of that run only
 *
 * The first of each kind is created if it is missing, except a proxy's.  Reading and writing need a token, unless the operator allows
 * everyone on loopback to read.
 *
 * A valid token is always accepted.  Unknown tokens are counted by the peer's address, in a table of fixed size; above a
 * rate they get status 429 and the connection is closed.  Other clients of the same address do not affect a valid token:
 * a lockout could be abused, and 256 bits need none against guessing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_AUTH_H
#define LOCKSTEP_CONTROL_HTTP_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net/rate.h"
#include "base/net/token.h"
#include "core/err.h"

enum auth_role {
    AUTH_NOBODY, /* no token */
    AUTH_PROXY,  /* reads for the user whom it names in a header, as the operator configured it */
    AUTH_READER,
    AUTH_LAUNCH,
    AUTH_ADMIN,
};

#define AUTH_KEYS_MAX 256
struct auth_key {
    char name[64]; /* "launch-ada" */
    enum auth_role role;
    struct token token;
};

struct auth {
    struct auth_key key[AUTH_KEYS_MAX];
    size_t keys;
    bool open_reads;      /* reading needs no token */
    struct rate failures; /* wrong tokens, by peer */
    uint64_t refused;
};

/* Reads STATE/tokens, and makes what is missing.  Call it again to see new files. */
int auth_load(struct auth *auth, const char *state, struct err *err);

/* One more, which no file has.  -E2BIG. */
int auth_add(struct auth *auth, const char *name, enum auth_role role, const struct token *token,
             struct err *err);

/* "Bearer lst_..." as a request has it; NULL is no token.  -EACCES: no such token; -EBUSY: the same, and too many
 * wrong ones came from that peer.  *name: of the key, "" for nobody.
 */
int auth_check(struct auth *auth, const char *authorization, uint64_t peer, int64_t now_ns,
               enum auth_role *role, const char **name);
/* The token of such a header.  -EINVAL: it has none. */
int auth_bearer(const char *authorization, struct token *ret);

#endif
