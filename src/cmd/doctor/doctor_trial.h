/* doctor_trial.h - what 'lockstep run' would do with its directories here, found out by doing it.
 *
 * Permissions alone do not say it: file systems refuse what their mode allows, and the launcher goes to another directory
 * where the usual one fails.  So the launcher's own code takes a run's directory and rings, and both are removed again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_DOCTOR_DOCTOR_TRIAL_H
#define LOCKSTEP_CMD_DOCTOR_DOCTOR_TRIAL_H

#include "base/paths.h"
#include "core/err.h"

struct doctor_trial {
    struct path directory;        /* in which the run's directory was made; "": nowhere */
    struct err directory_trouble; /* why not in the state directory; "": it was */
    struct path rings;            /* in which the rings' directory was made; "": nowhere */
    struct err rings_trouble;     /* why not where they should be; "": they were */
};

/* Leaves nothing behind.  -errno: it could not be tried. */
int doctor_trial_run(struct doctor_trial *ret, struct err *err);
/* Can files be made in this directory, after it is made where it is missing?  -errno with the directory and the cause. */
int doctor_trial_directory(const char *directory, struct err *err);
/* Ends a path at its nearest directory that exists. */
void doctor_trial_existing(struct path *path);

#endif
