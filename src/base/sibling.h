/* sibling.h - the other programs of this package: they lie in the directory of the one that runs.
 *
 * The directory is that of /proc/self/exe, so it is the same in a build directory and once installed, however
 * the program was called.  $PATH is never searched: another user's directory may be in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_SIBLING_H
#define LOCKSTEP_BASE_SIBLING_H

#include "base/paths.h"

int sibling_directory(struct path *ret, struct err *err);
/* -ENOENT: no such program there that this user may execute. */
int sibling_find(const char *name, struct path *ret, struct err *err);

#endif
