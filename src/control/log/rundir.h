/* rundir.h - the files in a run's directory, and which processes write to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_RUNDIR_H
#define LOCKSTEP_CONTROL_LOG_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/paths.h"
#include "core/err.h"

struct rundir {
    char run[64]; /* as run.json has it, else the directory's name */
    struct path path, log, spool, launcher;
};

/* -ENOENT, -ENOTDIR: no such directory. */
int rundir_open(struct rundir *ret, const char *path, struct err *err);

/* Asks for the lock of the file's writer and gives it back at once: a writer that begins in that
 * very moment must try again (the controller does).
 */
bool rundir_is_written(const char *file);
bool rundir_is_controlled(const struct rundir *dir); /* a controller writes the log */
bool rundir_is_alive(const struct rundir *dir);      /* a launcher or a controller is at work */

#endif
