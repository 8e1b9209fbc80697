/* processes.h - the processes of the ranks of a run, with node and start, from its log and spools.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_PROCESSES_H
#define LOCKSTEP_CONTROL_REPORT_PROCESSES_H

#include <stddef.h>

#include "core/err.h"
#include "wire/log_event.h"

struct processes {
    struct logprocess *process;
    size_t count;
    int64_t end_real_ns; /* the newest time that anybody tells; 0: none does */
};

int processes_read(const char *run_dir, struct processes *ret, struct err *err);
void processes_fini(struct processes *processes);

#endif
