/* send.h - a process that sends the spools of a run to the site's controller.
 *
 * `lockstep run` starts it instead of its own controller: it registers the run, sends the launcher's facts while the
 * agents send theirs, and at the end the facts that an agent could not send.  Started by hand, it sends the spools
 * of an ended run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_SEND_H
#define LOCKSTEP_AGENT_SEND_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/client.h"
#include "core/err.h"

struct send_settings {
    const char *run_dir;     /* NULL: the spools are in the working directory */
    const char *run;         /* its name */
    const char *launch_file; /* token that may begin runs */
    /* The token of a run that is already registered; NULL: it is registered here, and its token kept in
     * RUN_DIR/agent.token.
     */
    const struct token *token;
    struct client_settings control;
    bool child;          /* with a launcher: until it is ended; else until all is sent */
    int64_t patience_ns; /* how long to try at the end */
};

/* 0: all is on the controller's disk.  -ETIMEDOUT: not all; what was not sent stays in the spools. */
int send_run(const struct send_settings *settings, struct err *err);

#endif
