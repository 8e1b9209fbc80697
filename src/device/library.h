/* library.h - opens a vendor's library at run time; a machine without it is the usual case, not an error of ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_LIBRARY_H
#define LOCKSTEP_DEVICE_LIBRARY_H

#include "core/err.h"

struct library;

/* By a name for the loader's search ("libcuda.so.1") or an absolute path, nothing else: never from the directory that
 * the process happens to be in.  -ENOENT: it is not there, -ELIBBAD: it cannot be loaded; both with the loader's text.
 */
int library_open(const char *name, struct library **ret, struct err *err);
void library_close(struct library *library); /* NULL is allowed */
void *library_find(void *library, const char *name);

#endif
