/* remove_tree.h - removes a directory with all that is in it.
 *
 * Each step is one name below an open directory: a link is removed and never followed, also when another user exchanges
 * it for a directory meanwhile, and a mount point stays.  What cannot be removed stays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_REMOVE_TREE_H
#define LOCKSTEP_BASE_REMOVE_TREE_H

#define TREE_DEPTH 64 /* levels; what is deeper stays, with -ELOOP */

/* Returns 0, or -errno of the first failure.  The path up to the last name is the caller's own. */
int tree_remove(const char *path);
int tree_empty(int dir_fd); /* what is in it; AT_FDCWD: in the working directory */

#endif
