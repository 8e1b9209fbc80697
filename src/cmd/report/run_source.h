/* run_source.h - the directory of a run that a person names: on this machine, or fetched from a site's controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_RUN_SOURCE_H
#define LOCKSTEP_CMD_RUN_SOURCE_H

#include <stdbool.h>

#include "base/paths.h"
#include "cmd/site/site_ask.h"

struct run_source {
    struct path directory;
    bool fetched; /* a copy of the log, below a temporary directory */
};

/* As site_ask_run() and paths_find(); NULL is the newest run.  Close it also after an error. */
int run_source_open(const char *run, const struct site_options *site, struct run_source *ret,
                    struct err *err);
void run_source_close(struct run_source *source); /* all zero is fine */

#endif
