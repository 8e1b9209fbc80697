/* settings.h - every section of the settings files against the tables of all commands.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_SETTINGS_H
#define LOCKSTEP_CMD_SETTINGS_H

#include "cmd/lockstep.h"
#include "judge/thresholds.h"

/* -errno: a line was said, and the command must not begin (exit 2). */
int settings_check(const struct command *command, int argc, char **argv);
/* What the section 'judge' of the files says, over the defaults. */
int settings_thresholds(const struct command *command, int argc, char **argv,
                        struct thresholds *ret, struct err *err);
#define SETTINGS_JUDGE "judge"

#endif
