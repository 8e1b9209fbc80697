/* lab_child.h - runs a program of this package in a child process and reads what it prints.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_LAB_CHILD_H
#define LOCKSTEP_LAB_LAB_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/words.h"

struct lab_child {
    pid_t pid;  /* the caller waits for it */
    int out_fd; /* its standard output; the caller closes it */
};

/* `program` is the name of a sibling.  `state`: its LOCKSTEP_STATE; NULL: as ours.  `errors_fd`: its standard error; -1:
 * nowhere.  It gets SIGTERM when we die.
 */
int lab_child_start(const char *program, const struct words *words, const char *state,
                    int errors_fd, struct lab_child *ret, struct err *err);
/* Reads to the end.  false: the time was over before, or it printed too much. */
bool lab_child_read(const struct lab_child *child, struct buf *out, int64_t limit_ns);

#endif
