/* fabric_private.h - what the commands of `lockstep fabric` share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_FABRIC_FABRIC_PRIVATE_H
#define LOCKSTEP_CMD_FABRIC_FABRIC_PRIVATE_H

#include "cmd/lockstep.h"
#include "verify/fabric/fabric_run.h"

#define FABRIC_PORT 8791
#define FABRIC_TOKEN "fabric.token" /* in the tokens of the state directory */

struct fabric_test_options {
    const char *nodes, *slurm, *topology, *token_file, *with;
    bool json, dry_run, full;
    uint32_t port, streams;
    double rate, expect;
    int64_t time_ns, wait_ns;
};

/* 0 all is sound, 1 something is named, 3 could not tell. */
int fabric_report_status(const struct fabric_run *run);
void fabric_report_plan(const struct fabric_run *run, const struct fabric_test_options *options);
void fabric_report_text(const struct fabric_run *run, const char *spine);
void fabric_report_json(const struct fabric_run *run, const char *spine);

#endif
