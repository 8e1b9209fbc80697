/* serve.h - what the commands that serve other nodes until SIGTERM have in common.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_SERVE_H
#define LOCKSTEP_CMD_SERVE_H

#include "base/paths.h"
#include "core/err.h"

/* The file of the secret that both sides share: as given, or tokens/NAME of the state directory, which is made. */
int serve_token_path(const char *given, const char *name, struct path *ret, struct err *err);

/* Logs the error, if any; the exit status of the command. */
int serve_exit(int result, const struct err *err);

#endif
