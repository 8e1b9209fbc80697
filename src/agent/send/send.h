/* send.h - a process that brings a run's spools to the site's controller.
 *
 * `lockstep run` starts it in the place of the embedded controller: it registers the run, sends the
 * launcher's words while the agents send their own, and at the end whatever an agent could not send any
 * more.  By hand it brings what a run left behind.
 */
#ifndef LOCKSTEP_AGENT_SEND_SEND_H
#define LOCKSTEP_AGENT_SEND_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/client.h"
#include "core/err.h"

struct send_settings {
    const char *run_dir;     /* NULL: the spools are in the working directory */
    const char *run;         /* its name */
    const char *launch_file; /* token that may begin runs */
    /* The run's own, where somebody else has registered it; NULL: it is registered here, and its token kept in
     * RUN_DIR/agent.token.
     */
    const struct token *token;
    struct client_settings control;
    bool child;          /* of a launcher: until told to end; else until all is sent */
    int64_t patience_ns; /* how long to try at the end */
};

/* 0: all is on the controller's disk.  -ETIMEDOUT: not all; what was not sent stays in the spools. */
int send_run(const struct send_settings *settings, struct err *err);

#endif
