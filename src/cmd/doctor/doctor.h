/* doctor.h - one row per thing that lockstep wants to see; doctor_checks.c is the list.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_DOCTOR_DOCTOR_H
#define LOCKSTEP_CMD_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_LIMITED, /* works, but sees less or runs slower */
    DOCTOR_MISSING,
    DOCTOR_UNKNOWN, /* could not be found out */
};

struct doctor_finding {
    enum doctor_state state;
    char found[240]; /* what is there, with its numbers */
    char fix[240];   /* what to do; "" when there is nothing to do */
};

struct doctor_check {
    const char *name;
    const char *why; /* what is lost without it */
    bool needed;     /* lockstep run does not work without it */
    /* `root` stands before /proc, /sys and /dev: "" here, a folder in tests. */
    void (*look)(const char *root, struct doctor_finding *finding);
};

extern const struct doctor_check doctor_checks[];
extern const size_t doctor_check_count;

#endif
