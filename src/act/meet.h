/* meet.h - where the launchers of a job meet if there is no site's controller: one of them has it.
 *
 * All launchers are given the same endpoints, HOST:PORT[,HOST:PORT...], or find them in Slurm's variables, and the same key.  The
 * launcher on whose machine the first address is leads: it starts a controller there, for this run alone.  All launchers, the
 * leading one too, then are launchers of a site (base/net/job_key.h has why they trust each other).
 *
 * With several endpoints each launcher must have one of them.  When the controller is not heard of for two leases, all go on to
 * the next endpoint.  No attempt starts with half of the launchers or fewer, so that two controllers that do not hear of each
 * other never both start one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_MEET_H
#define LOCKSTEP_ACT_MEET_H

#include <stdbool.h>

#include "act/daemons.h"
#include "act/launch/launch.h"
#include "act/run_directory.h"
#include "core/err.h"

#define MEET_KEY_VARIABLE "LOCKSTEP_JOB_KEY"

struct meet;

/* Sets the variables of the environment by which agents and sender find the controller, and takes the key out of it: ranks need
 * none.  -errno with a sentence.
 */
int meet_open(const struct launch_plan *plan, const struct run_directory *run_dir,
              struct meet **ret, struct err *err);
void meet_close(struct meet *meet); /* NULL is fine */
/* The controller that may have to be started here; NULL: never. */
const struct daemons_lead *meet_lead(const struct meet *meet);
bool meet_leads(const struct meet *meet); /* it has to be, now */
const char *meet_url(const struct meet *meet);
uint32_t meet_quorum(const struct meet *meet); /* 0: there is one endpoint */
/* To the next endpoint.  False: there is none. */
bool meet_move(struct meet *meet);
/* Hosts of endpoints where nobody answered any more; NULL: there is no i-th. */
const char *meet_left_behind(const struct meet *meet, size_t i);
/* The name by which the others reach this machine; NULL: it does not lead, or the endpoint is an address. */
const char *meet_name(const struct meet *meet);

/* In a job of Slurm: "n001:12345,n002:12345", which all launchers of the step find alike.  False: this is none. */
bool meet_slurm_endpoint(char *ret, size_t room);
/* "n[001-002],m3" and 9 make "n001:9,n002:9,m3:9".  False: it is none, or too long. */
bool meet_hosts(const char *names, unsigned port, char *ret, size_t room);
/* A name for the run that all launchers of the step find alike; false: not in a job of Slurm. */
bool meet_slurm_name(char ret[static 64]);

#endif
