/* report.h - texts of other tools about a job: NCCL's RAS, torchfrtrace, stacks of threads, nvidia-smi -q.
 *
 * A text is recognized by its content.  One that is part of a log (RAS, torchfrtrace) is a log as well; stacks and
 * nvidia-smi's text are nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_REPORT_REPORT_H
#define LOCKSTEP_READ_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/budget.h"
#include "wire/tool_report.h"

enum report_text {
    REPORT_TEXT_NONE,
    REPORT_TEXT_RAS,    /* ncclras */
    REPORT_TEXT_TRACE,  /* torchfrtrace */
    REPORT_TEXT_STACKS, /* py-spy dump, faulthandler, torch.distributed.debug */
    REPORT_TEXT_DEVICE, /* nvidia-smi -q */
};

enum report_text report_text_of(const char *data, size_t size);
/* `rank`: of the file's name; REPORT_NO_RANK.  -ENOMEM, also where the budget is used up. */
int report_add(struct reports *reports, struct budget *budget, uint32_t rank, const char *file,
               const char *data, size_t size);

#endif
