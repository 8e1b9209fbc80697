/* enlist.h - registers a run with the site's controller and gets a token for its facts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_ENLIST_H
#define LOCKSTEP_AGENT_SEND_ENLIST_H

#include "base/net/client.h"
#include "core/err.h"

/* Asks with the token in `launch_file`, which may begin runs.  The answer comes to `fn`, unless -errno is returned.
 * A run that the same token has registered before gets its token again.
 */
int enlist_call(struct client *client, const char *launch_file, const char *run, client_fn *fn,
                void *arg, struct err *err);
int enlist_token(const struct client_answer *answer, const char *run, struct token *ret,
                 struct err *err);

#endif
