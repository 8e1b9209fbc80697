/* environment.h - the fingerprint of a rank's world: driver, kernel, libraries, settings.
 *
 * Secrets never leave: values are taken only of variables whose names are on a list.  Of other variables the name and 20
 * bits of a digest are taken, which show that two ranks differ and are too few to confirm a guess; of names that sound
 * like secrets nothing is taken.  Libraries are named by their files and by the build ids in their memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_ENVIRONMENT_H
#define LOCKSTEP_SENSE_ENVIRONMENT_H

#include "core/err.h"
#include "wire/finding.h"

/* Reads the process whose directory in /proc is open as `proc_fd`, and below `root` ("": here) what is the same for all
 * processes of the node.  Sets count and pair; free with environment_fini().
 */
int environment_collect(const char *root, int proc_fd, struct environment *ret, struct err *err);

/* ---- the parsers: `pair` has room for ENVIRONMENT_PAIRS; both change the text ---- */

/* NAME=VALUE, each ended by NUL; text[bytes] is one, too. */
void environment_add_variables(struct environment *environment, char *text, size_t bytes);
/* The lines of a maps file, ended by NUL; `memory`: to read build ids from, -1: none. */
void environment_add_libraries(struct environment *environment, int memory, char *maps);

/* ---- environment_storage.c ---- */

/* File systems of servers with their options, the interfaces that lead to them ("storage.interface"), and the firmware of the node's
 * network adapters; from the texts of mountinfo and net/route.
 */
void environment_add_storage(struct environment *environment, const char *root,
                             const char *mountinfo, const char *routes);

/* ---- environment_image.c ---- */

struct environment_texts {
    const char *variables; /* NAME=VALUE, each ended by NUL */
    size_t variables_bytes;
    const char *mountinfo;
};
/* "image": what the container runtime calls it; "image.root": its file system; "image.os" and "image.packages": the
 * distribution, and a digest of its packages, from the root directory of the process in `proc_fd`.
 */
void environment_add_image(struct environment *environment, int proc_fd,
                           const struct environment_texts *texts);

/* ---- for the files of this part ---- */
void environment_pair_add(struct environment *environment, const char *name, const char *value,
                          bool digest);
bool environment_is_secret(const char *name);

#endif
