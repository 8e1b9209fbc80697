/* paths.h - where runs live on this machine.
 *
 * The state directory is $LOCKSTEP_STATE, else $XDG_STATE_HOME/lockstep, else
 * ~/.local/state/lockstep.  A run is a directory STATE/runs/RUN that has a run.json, or a log.lsf
 * where a site's controller keeps it.  Runs have a folder of their own because users choose their
 * names: beside them, a run called "tokens" would be the controller's own folder.
 * docs/state-directory.md lists what else the state directory holds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_PATHS_H
#define LOCKSTEP_BASE_PATHS_H

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct path {
    char text[PATH_MAX];
};

/* Joins with a slash.  -ENAMETOOLONG. */
int path_join(struct path *ret, const char *directory, const char *name, struct err *err);
/* mkdir -p with mode 0700 for what is missing.  -ENOTDIR when a file is in the way. */
int path_make(const char *directory, struct err *err);

int paths_state(struct path *ret, struct err *err);        /* not created here */
int paths_launch_token(struct path *ret, struct err *err); /* STATE/tokens/launch.token */

/* Letters, digits, '.', '-' and '_', not beginning with '.' or '-', 63 bytes at most: a run's
 * name is a directory, a label and a word on a command line.
 */
int paths_check_run(const char *run, struct err *err); /* -EINVAL */
/* STATE/runs/RUN; -EINVAL for a name that is not valid.  Not created here. */
int paths_run_of(const char *state, const char *run, struct path *ret, struct err *err);
int paths_run(const char *run, struct path *ret,
              struct err *err); /* in the user's state directory */
/* STATE/runs for readdir(); NULL with 0 where nothing made it yet, -ENOENT without a STATE. */
int paths_runs_open(const char *state, DIR **ret, struct err *err);
/* A fresh name, "20260301-104207-3f9a": names sort by time. */
void paths_name_run(int64_t real_ns, uint64_t random, char ret[static 64]);

struct run_entry {
    char name[64];
    int64_t born_real_ns; /* when its directory was made */
};

/* All runs, newest first; *ret is the caller's to free.  Returns how many; no state directory
 * is no runs.
 */
int64_t paths_list(struct run_entry **ret, struct err *err);

/* What a person may call a run: NULL or "" is the newest; a name, or the beginning of exactly one
 * name; or a directory (anything with a slash, and "."), wherever it is.  -ENOENT with a
 * sentence that says what was looked for.
 */
int paths_find(const char *what, struct path *ret, struct err *err);

/* Where the rings of a run go: below /dev/shm when `need_bytes` fit there with as much to spare,
 * else below $TMPDIR or /tmp.  Not created here.
 */
int paths_rings(const char *run, uint64_t need_bytes, struct path *ret, struct err *err);

#endif
