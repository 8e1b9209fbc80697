/* launcher_log.h - the launcher's facts: attempts and exits, as frames in spool/launcher.lsf. */
#ifndef LOCKSTEP_ACT_LAUNCHER_LOG_H
#define LOCKSTEP_ACT_LAUNCHER_LOG_H

#include <stdint.h>

#include "core/err.h"
#include "wire/facts.h"

struct launcher_log;

/* `spool` is the run's spool directory.  Says hello at once. */
int launcher_log_open(const char *spool, const char *run, const char *node,
                      struct launcher_log **ret, struct err *err);
void launcher_log_close(struct launcher_log *log); /* NULL is fine */

/* All return -errno (a full disk) with a message; the run continues without that fact.  With NULL they do nothing. */
int launcher_log_run(struct launcher_log *log, const struct fact_run *fact, struct err *err);
int launcher_log_exit(struct launcher_log *log, const struct fact_exit *fact, struct err *err);

/* "exited with 3", "killed by signal 9 (SIGKILL)" */
void launcher_log_status_text(int status, char *ret, size_t room);
int launcher_log_status_code(int status); /* as a shell has it: 128+n for a signal */
/* The command as one line, words quoted where a shell would need it; cut to fit. */
void launcher_log_command_text(char *const *command, char *ret, size_t room);

#endif
