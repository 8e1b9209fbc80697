/* why_remains.h - `lockstep why` of a directory that is not a run of ours, or that holds more than that. */
#ifndef LOCKSTEP_CMD_WHY_REMAINS_H
#define LOCKSTEP_CMD_WHY_REMAINS_H

#include <stdbool.h>

#include "core/err.h"
#include "show/account.h"

/* Tells it and returns the exit status; -ENOENT when there is nothing in it. */
int why_remains(const char *directory, bool json, struct err *err);
/* Dumps that lie in a run's directory: their verdicts are added to the account. */
int why_add_remains(const char *directory, struct account *account, struct err *err);

#endif
