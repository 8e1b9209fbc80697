/* log.h - the conversation, on stderr.  Only the main rooms (agent, control, act, cmd, lab/cmd) and program.c log.
 *
 * Each call writes one line that begins with the command: "lockstep run: rank 3 exited with 1".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_LOG_H
#define LOCKSTEP_BASE_LOG_H

void log_name(const char *name); /* "run"; kept by reference */
void log_quiet(int quiet);       /* 1: only errors */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
