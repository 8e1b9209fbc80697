/* tell.h - the launcher's facts: attempts and exits, as frames in spool/launcher.lsf. */
#ifndef LOCKSTEP_ACT_TELL_H
#define LOCKSTEP_ACT_TELL_H

#include <stdint.h>

#include "core/err.h"
#include "wire/facts.h"

struct tell;

/* `spool` is the run's spool directory.  Says hello at once. */
int tell_open(const char *spool, const char *run, const char *node, struct tell **ret,
              struct err *err);
void tell_close(struct tell *tell); /* NULL is fine */

/* All give -errno (a full disk) with a sentence; the run goes on without that fact.  NULL: nothing is told. */
int tell_run(struct tell *tell, const struct fact_run *fact, struct err *err);
int tell_exit(struct tell *tell, const struct fact_exit *fact, struct err *err);

/* "exited with 3", "killed by signal 9 (SIGKILL)" */
void tell_status_text(int status, char *ret, size_t room);
int tell_status_code(int status); /* as a shell has it: 128+n for a signal */
/* The command as one line, words quoted where a shell would need it; cut to fit. */
void tell_command_text(char *const *command, char *ret, size_t room);

#endif
