/* launcher_log.h - the launcher's facts: attempts, exits and outcomes, as frames in spool/launcher.lsf.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_LAUNCHER_LOG_H
#define LOCKSTEP_ACT_LAUNCHER_LOG_H

#include <stdint.h>

#include "core/err.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/member.h"
#include "wire/policy_table.h"

struct launcher_log;

/* `spool` is the run's spool directory.  Says hello at once. */
int launcher_log_open(const char *spool, const char *run, const char *node,
                      struct launcher_log **ret, struct err *err);
void launcher_log_close(struct launcher_log *log); /* NULL is fine */

/* All return -errno (a full disk) with a message; the run continues without that fact.  With NULL they do nothing. */
int launcher_log_run(struct launcher_log *log, const struct fact_run *fact, struct err *err);
int launcher_log_exit(struct launcher_log *log, const struct fact_exit *fact, struct err *err);

int launcher_log_request(struct launcher_log *log, const struct request *request, struct err *err);
int launcher_log_policy(struct launcher_log *log, const struct policy_table *table,
                        struct err *err);
int launcher_log_means(struct launcher_log *log, const struct policy_means *means, struct err *err);
int launcher_log_outcome(struct launcher_log *log, const struct outcome *outcome, struct err *err);
int launcher_log_places(struct launcher_log *log, const struct places *places, struct err *err);
/* *ret: the number of its frame. */
int launcher_log_member(struct launcher_log *log, const struct member *member, uint64_t *ret,
                        struct err *err);

/* "exited with 3", "killed by signal 9 (SIGKILL)" */
void launcher_log_status_text(int status, char *ret, size_t room);
int launcher_log_status_code(int status); /* as a shell has it: 128+n for a signal */
/* A word as UTF-8 that can be shown: other bytes become \\xNN.  Cut to fit, between characters. */
void launcher_log_word_text(const char *word, char *ret, size_t room);
/* Of a child that could not execute its program: a line on stderr, with errno's reason, which stays. */
void launcher_log_exec_failed(const char *program);
/* The command as one line of such words, quoted where a shell would need it; cut to fit. */
void launcher_log_command_text(char *const *command, char *ret, size_t room);

#endif
