/* lockstep.h - every subcommand of the program.  Each is one file of this room and one line in
 * the list of lockstep.c.  Those of lockstep-lab are in cmd/lab, without code.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LOCKSTEP_H
#define LOCKSTEP_CMD_LOCKSTEP_H

#include "base/opt.h"

extern const struct command command_agent;
extern const struct command command_completion;
extern const struct command command_control;
extern const struct command command_diff;
extern const struct command command_doctor;
extern const struct command command_node_agent;
extern const struct command command_ps;
extern const struct command command_run;
extern const struct command command_send;
extern const struct command command_stacks;
extern const struct command command_version;
extern const struct command command_whatif;
extern const struct command command_why;

const struct command *const *lockstep_commands(void); /* ends with NULL */

#endif
