/* life_watch.h - the controller of one job learns at once that all processes of a launcher have ended.
 *
 * It is connected to the life socket of each launcher (act/life_socket.h).  If a connection is reset, and a new one is refused,
 * launcher, keeper and ranks have ended, and nobody needs to wait for the lease.  Anything else, such as silence, proves nothing.
 * Only the controller that a launcher started does so: it has the rights of the job's user, and each launcher said itself
 * where it is found.  A site's controller connects to nobody.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_LIFE_WATCH_H
#define LOCKSTEP_CONTROL_SITE_LIFE_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "wire/member.h"

struct life_watch;

/* `gone` is called from the loop for a launcher that has ended, once. */
typedef void life_gone(void *arg, const struct member *member);
int life_watch_create(struct loop *loop, life_gone *gone, void *arg, struct life_watch **ret);
void life_watch_destroy(struct life_watch *watch); /* NULL is fine; before the loop */
/* Those that are there now: others are watched no longer. */
void life_watch_set(struct life_watch *watch, const struct member *member, size_t count,
                    int64_t now_ns);

#endif
