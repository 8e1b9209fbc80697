/* rings.h - the directory in which ranks make their rings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_RINGS_H
#define LOCKSTEP_ACT_RINGS_H

#include <stdbool.h>

#include "base/paths.h"
#include "core/err.h"

/* Makes it and what is missing above it, mode 0700.  What is there already must be ours alone:
 * in a directory that anybody can write to, somebody else may have been first.  -EEXIST when `fresh` and
 * it is there; -EPERM when it is not ours.
 */
int rings_make(const char *path, int fresh, struct err *err);
/* BASE/lockstep.XXXXXX, made with a name that nobody can guess, in a directory where others cannot rename it.  Others may hold
 * every name that can be guessed.  -errno: not there.
 */
int rings_private(const char *base, struct path *ret, struct err *err);
/* Removes it, the rings in it, and the directory above it when that is empty.  Quiet. */
void rings_remove(const char *path);
bool rings_any(const char *path); /* somebody has made a ring there */

#endif
