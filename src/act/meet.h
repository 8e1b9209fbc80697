/* meet.h - where the launchers of a job meet if there is no site's controller: one of them has it.
 *
 * All launchers are given the same endpoint, HOST:PORT, or find it in Slurm's variables, and the same key.  The launcher on
 * whose machine that address is leads: it starts a controller there, for this run alone.  All launchers, the leading one
 * too, then are launchers of a site (base/net/job_key.h has why they trust each other).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_MEET_H
#define LOCKSTEP_ACT_MEET_H

#include <stdbool.h>

#include "act/daemons.h"
#include "act/launch.h"
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
/* The controller to start here; NULL: another launcher leads. */
const struct daemons_lead *meet_lead(const struct meet *meet);
const char *meet_url(const struct meet *meet);
/* The name by which the others reach this machine; NULL: it does not lead, or the endpoint is an address. */
const char *meet_name(const struct meet *meet);

/* In a job of Slurm: "n001:12345", which all launchers of the step find alike.  False: this is none. */
bool meet_slurm_endpoint(char *ret, size_t room);
/* A name for the run that all launchers of the step find alike; false: not in a job of Slurm. */
bool meet_slurm_name(char ret[static 64]);

#endif
