/* job_rendezvous.h - where the launchers of a job meet if there is no site's controller: one of them has it.
 *
 * All launchers are given the same endpoints, HOST:PORT[,HOST:PORT...], or find them in Slurm's variables, and the same key.  The
 * launcher on whose machine the first address is leads: it starts a controller there, for this run alone.  All launchers, the
 * leading one too, then are launchers of a site (base/net/job_key.h has why they trust each other).
 *
 * With several endpoints each launcher must have one of them.  When the controller is silent for two leases, all go on to
 * the next endpoint.  No attempt starts with half of the launchers or fewer, so that two controllers that do not know of each
 * other never both start one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_JOB_RENDEZVOUS_H
#define LOCKSTEP_ACT_JOB_RENDEZVOUS_H

#include <stdbool.h>

#include "act/daemons.h"
#include "act/launch/launch.h"
#include "act/run_directory.h"
#include "core/err.h"

#define RENDEZVOUS_KEY_VARIABLE "LOCKSTEP_JOB_KEY"

struct job_rendezvous;

/* Sets the variables of the environment by which agents and sender find the controller, and takes the key out of it: ranks need
 * none.  -errno with a sentence.
 */
int job_rendezvous_open(const struct launch_plan *plan, const struct run_directory *run_dir,
                        struct job_rendezvous **ret, struct err *err);
/* The run has ended for good: whoever leads removes the file with its key.  NULL is fine. */
void job_rendezvous_over(struct job_rendezvous *rendezvous);
void job_rendezvous_close(struct job_rendezvous *rendezvous); /* NULL is fine */
/* The controller that may have to be started here; NULL: never. */
const struct daemons_lead *job_rendezvous_lead(const struct job_rendezvous *rendezvous);
bool job_rendezvous_leads(const struct job_rendezvous *rendezvous); /* it has to be, now */
const char *job_rendezvous_url(const struct job_rendezvous *rendezvous);
/* 0: there is one endpoint. */
uint32_t job_rendezvous_quorum(const struct job_rendezvous *rendezvous);
/* To the next endpoint.  False: there is none. */
bool job_rendezvous_move(struct job_rendezvous *rendezvous);
/* Hosts of endpoints where nobody answered any more; NULL: there is no i-th. */
const char *job_rendezvous_left_behind(const struct job_rendezvous *rendezvous, size_t i);
/* The name by which the others reach this machine; NULL: it does not lead, or the endpoint is an address. */
const char *job_rendezvous_name(const struct job_rendezvous *rendezvous);

/* In a job of Slurm: "n001:12345,n002:12345", which all launchers of the step find alike.  False: this is none. */
bool job_rendezvous_slurm_endpoint(char *ret, size_t room);
/* "n[001-002],m3" and 9 make "n001:9,n002:9,m3:9".  False: it is none, or too long. */
bool job_rendezvous_hosts(const char *names, unsigned port, char *ret, size_t room);
/* A name for the run that all launchers of the step find alike; false: not in a job of Slurm. */
bool job_rendezvous_slurm_name(char ret[static 64]);

#endif
