/* attach.h - Python programs among the ranks attach by themselves, and so does NCCL in any.
 *
 * Python imports a module `sitecustomize` at its start.  Ours lies in a directory of its own beside
 * the Python package; ranks get it first on PYTHONPATH.  NCCL loads the profiler plugin that
 * NCCL_PROFILER_PLUGIN names: liblockstep.so is one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ATTACH_H
#define LOCKSTEP_ACT_ATTACH_H

#include "base/paths.h"

struct attach {
    char python_path[2 * PATH_MAX]; /* the ranks' PYTHONPATH; empty: it stays as it is */
    char nccl_plugin[PATH_MAX];     /* NCCL_PROFILER_PLUGIN; empty: likewise */
    const char
        *nccl_next; /* LOCKSTEP_NCCL_NEXT: the user's own plugin, of the environment; NULL: none */
    char library[PATH_MAX]; /* LOCKSTEP_LAUNCHER_LIB, for probe-inline.h; empty: likewise */
    struct err
        trouble; /* why Python programs cannot attach, though nobody asked for that; "": they can */
};

/* Not an error when there is none: the ranks need not be Python or use NCCL, and $LOCKSTEP_ATTACH may be 0.  A plugin that
 * the user has named is called behind ours.
 */
void attach_find(struct attach *ret);
void attach_nothing(struct attach *ret);                     /* there is no ring to write to */
int attach_package_file(const char *name, struct path *ret); /* of the Python package; -ENOENT */

#endif
