/* walk.h - the files below a directory, sorted by name; links are not followed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_WALK_H
#define LOCKSTEP_READ_WALK_H

#include <fts.h>

#include "core/err.h"

FTS *walk_open(const char *directory, struct err *err); /* NULL and errno: it cannot be read */
void walk_clean(FTS **fts);                             /* for CLEAN */
/* As it is called below the directory; "": the directory itself. */
const char *walk_name(const char *directory, const FTSENT *entry);

#endif
