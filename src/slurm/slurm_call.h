/* slurm_call.h - Slurm's programs as children: executed without a shell, each with a deadline.
 *
 * libslurm is not linked: its licence does not fit, and the programs work across versions.  A call blocks for as long as its
 * deadline allows, so a process that must not block calls from a child.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_CALL_H
#define LOCKSTEP_SLURM_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/time.h"
#include "slurm/slurm_text.h"

#define SLURM_CALL_NS (10 * NS_PER_S)
#define SLURM_ANSWER 65536
#define SLURM_SENT_NS (NS_PER_S / 2 * 3)

struct slurm_answer {
    size_t size;
    char text[SLURM_ANSWER + 1]; /* ends with NUL */
};

/* argv[0] is looked for in PATH.  `ret` may be NULL.  -ENOENT: there is no such program; -ETIME: it was killed at its deadline;
 * -EPERM: Slurm refuses it to this user; -EIO: another failure, with the first line that it printed; -EMSGSIZE: it
 * printed more than fits.
 */
int slurm_call(char *const argv[], int64_t limit_ns, struct slurm_answer *ret, struct err *err);

/* Two lines for one scontrol, which ignores SIGTERM: the job, and the caller with it, ends because of the first.  The second is not
 * waited for longer than SLURM_SENT_NS: Slurm has it then, and may answer only when the job has ended.  *ret: what scontrol
 * printed, each line behind "scontrol: " and followed by what was wrong with it.  -EIO: something was.
 */
int slurm_control(const char *lines, int64_t limit_ns, struct slurm_answer *ret, struct err *err);

int slurm_job_show(uint64_t job, int64_t limit_ns, struct slurm_job *ret, struct err *err);
int slurm_node_show(const char *node, int64_t limit_ns, struct slurm_node *ret, struct err *err);
int slurm_job_cancel(uint64_t job, int64_t limit_ns, struct err *err); /* by scancel */
/* `change`: words of `scontrol update`, such as "StartTime=now"; ends with NULL. */
int slurm_job_update(uint64_t job, const char *const change[], int64_t limit_ns, struct err *err);
int slurm_node_update(const char *node, const char *const change[], int64_t limit_ns,
                      struct err *err);

#endif
