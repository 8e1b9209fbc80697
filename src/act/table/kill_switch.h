/* kill_switch.h - one file that turns all actions off, in running jobs too.
 *
 * /etc/lockstep/act.off is the site's, STATE/act.off the user's.  Whoever acts looks right before it does something.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_TABLE_KILL_SWITCH_H
#define LOCKSTEP_ACT_TABLE_KILL_SWITCH_H

#include <stdbool.h>
#include <stddef.h>

#define KILL_SWITCH_NAME "act.off"
#define KILL_SWITCH_SITE "/etc/lockstep/" KILL_SWITCH_NAME

/* Whether a file is there, or nobody can tell; its path, for people. */
bool kill_switch_is_on(char *ret, size_t room);

#endif
