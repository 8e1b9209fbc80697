/* lockstep.h - every subcommand of the program.  Each is one file of this room and one line in
 * the list of lockstep.c.  Those of lockstep-lab are in cmd/lab, without code.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LOCKSTEP_H
#define LOCKSTEP_CMD_LOCKSTEP_H

#include "base/opt.h"

extern const struct command command_act;
extern const struct command command_agent;
extern const struct command command_alert;
extern const struct command command_site_act;
extern const struct command command_node_repair;
extern const struct command command_check;
extern const struct command command_ckpt_export;
extern const struct command command_ckpt_gc;
extern const struct command command_ckpt_ls;
extern const struct command command_ckpt_plan;
extern const struct command command_ckpt_pull;
extern const struct command command_ckpt_serve;
extern const struct command command_ckpt_mirror;
extern const struct command command_ckpt_push;
extern const struct command command_ckpt_scrub;
extern const struct command command_ckpt_seal;
extern const struct command command_ckpt_verify;
extern const struct command command_completion;
extern const struct command command_control;
extern const struct command command_diff;
extern const struct command command_doctor;
extern const struct command command_fabric_serve;
extern const struct command command_fabric_test;
extern const struct command command_incident;
extern const struct command command_node_agent;
extern const struct command command_node_in;
extern const struct command command_node_out;
extern const struct command command_nodes;
extern const struct command command_slurm_hook;
extern const struct command command_slurm_install;
extern const struct command command_orders;
extern const struct command command_report;
extern const struct command command_request_checkpoint;
extern const struct command command_request_depth;
extern const struct command command_request_cancel;
extern const struct command command_request_inspect;
extern const struct command command_request_verify;
extern const struct command command_ps;
extern const struct command command_run;
extern const struct command command_relay;
extern const struct command command_send;
extern const struct command command_stacks;
extern const struct command command_sense;
extern const struct command command_top;
extern const struct command command_trace_export;
extern const struct command command_version;
extern const struct command command_whatif;
extern const struct command command_why;

const struct command *const *lockstep_commands(void); /* ends with NULL */

#endif
