/* alert_send.h - gives one text to a program or to a web server.
 *
 * Both calls block, each with a limit, so only a process of its own calls them.  The program is executed without a shell and reads
 * the text on its standard input.  The server gets a POST; redirects are not followed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ALERT_SEND_H
#define LOCKSTEP_ACT_ALERT_SEND_H

#include <stdint.h>

#include "core/err.h"

/* -EIO: it did not exit with 0; -ETIME: it was killed at the end of its time. */
int alert_exec(const char *program, const char *text, int64_t limit_ns, struct err *err);
/* -EIO: no status of 200 to 299; the error has no part of the URL behind the host, which may be a secret. */
int alert_post(const char *url, const char *text, int64_t limit_ns, struct err *err);

#endif
