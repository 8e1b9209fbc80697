/* check_report.h - results on their way from `lockstep check` to the daemon of this node, and who may load the node.
 *
 * STATE is the state directory of the node daemon, mode 0700, so only root (or the user that the daemon runs as) can leave a report
 * there.  A report is a file of frames, STATE/checks/NAME.lsf, complete when it has this name; the daemon reads it, sends its
 * results with the node's own token, and removes it.
 *
 * A check in the background holds STATE/checks/running, with all its processes.  Whoever needs the node, such as a prolog, ends it there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_CHECK_REPORT_H
#define LOCKSTEP_VERIFY_CHECK_REPORT_H

#include <stddef.h>

#include "core/err.h"
#include "wire/finding.h"

#define CHECK_REPORT_STATE "/var/lib/lockstep-agent"
#define CHECK_REPORT_RESULTS 512 /* of one report; the daemon ignores more */

/* Complete, or not there.  -ENOENT: no node daemon has used STATE. */
int check_report_write(const char *state, const struct check *check, size_t count, struct err *err);

/* Gives each result of the reports that are there and removes these, up to a limited number.  `take` returns -errno: that report stays, and
 * comes again from its beginning.  Returns how many reports were taken, or -errno.
 */
int check_report_take(const char *state, int (*take)(void *arg, const struct check *check),
                      void *arg, struct err *err);
/* Made by the daemon. */
int check_report_make(const char *state, struct err *err);

/* *ret_fd is held until all processes that have it are gone.  -EBUSY: another check is in the background; -EAGAIN: somebody needed
 * the node a moment ago; -ENOENT: no node daemon has used STATE.
 */
int check_background_begin(const char *state, int *ret_fd, struct err *err);

/* Ends the check in the background, and waits until all its processes are gone, 2 s at most.  1: ended; 0: there was none;
 * -EPERM: it belongs to another user; -ETIMEDOUT: it has not ended.  For a minute none begins.
 */
int check_background_end(const char *state, struct err *err);

#endif
