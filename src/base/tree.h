/* tree.h - removes a directory that we made, with all that is in it. */
#ifndef LOCKSTEP_BASE_TREE_H
#define LOCKSTEP_BASE_TREE_H

/* Follows no links; what cannot be removed stays.  Returns 0, or -errno of the first failure. */
int tree_remove(const char *path);

#endif
