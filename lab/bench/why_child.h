/* why_child.h - runs `lockstep why --json` on files in a process of its own, and measures it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_WHY_CHILD_H
#define LOCKSTEP_LAB_BENCH_WHY_CHILD_H

#include <json-c/json.h>
#include <stdint.h>

#include "core/err.h"

struct why_child {
    struct json_object
        *answer; /* NULL: it printed none, as when it can tell nothing about the file */
    int status;  /* exit status; 128 + the signal that ended it */
    double wall_seconds, cpu_seconds;
    int64_t peak_bytes; /* of resident memory */
};

/* Release with why_child_fini().  -ETIMEDOUT after `limit_seconds`, -errno where it cannot be started. */
int why_child_run(const char *operand, double limit_seconds, struct why_child *ret,
                  struct err *err);
void why_child_fini(struct why_child *child);

#endif
