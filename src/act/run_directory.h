/* run_directory.h - where a run lives: its directory, its lock, its rings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_RUN_DIRECTORY_H
#define LOCKSTEP_ACT_RUN_DIRECTORY_H

#include "act/launch/launch.h"
#include "base/paths.h"
#include "base/runfile.h"

struct run_directory {
    struct path directory, out, spool;
    struct runfile file; /* its command is the plan's */
    int lock;            /* held for as long as it is open, here or in the keeper */
    bool goes_on;        /* a former start of this run did not end well */
    /* Why it is not where it should be, or nowhere, and what that means; "": it is.  Of the directory, of the rings. */
    struct err trouble, rings_trouble;
};

static inline bool run_directory_is_somewhere(const struct run_directory *run_dir)
{
    return run_dir->directory.text[0] != '\0';
}

static inline bool run_directory_has_rings(const struct run_directory *run_dir)
{
    return run_dir->file.rings[0] == '/';
}

/* Layout, name and directory by the plan, nothing made yet.  Fails only for a plan that is at fault. */
int run_directory_plan(const struct launch_plan *plan, struct run_directory *ret, struct err *err);
/* Makes and locks the directory and makes the ring directory.  A run whose launcher was killed, or that
 * failed, goes on where it was, with the same command and as many ranks: its attempts count on, so that no two have
 * one number.  Waits while the keeper of a killed launcher is still ending its ranks.  -EBUSY: it is running; -EEXIST: it has ended well;
 * -EINVAL: it is another run, and nothing says that this is a job that was requeued.
 *
 * Nothing else stops a job from starting.  A directory that cannot be made or written, and one for rings that is
 * another user's, are replaced by one of an unguessable name, or by none.
 */
int run_directory_take(struct run_directory *run_dir, bool named,
                       struct err *err); /* named: the name was asked for */

#endif
