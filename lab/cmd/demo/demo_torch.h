/* demo_torch.h - the demo's training in Python: which Python, which script, which faults.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_CMD_DEMO_TORCH_H
#define LOCKSTEP_LAB_CMD_DEMO_TORCH_H

#include <limits.h>

#include "base/paths.h"
#include "lab/faults/fault.h"

struct demo_torch {
    char python[PATH_MAX];
    struct path script;
};

/* A Python that has torch: $LOCKSTEP_PYTHON, else the first python3 of $PATH, else Debian's own.
 * -ENOENT: none has, and the error says what to install.
 */
int demo_torch_find(struct demo_torch *ret, struct err *err);
/* -ENOTSUP: the script does not make it.  Who writes checkpoints is not left to chance: it is rank 0. */
int demo_torch_check(struct fault *fault, struct err *err);

#endif
