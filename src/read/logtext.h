/* logtext.h - logs of ranks, launchers, NCCL and kernels, searched for the end of a job.
 *
 * One reader for all, because a rank's log may contain lines of NCCL and of its launcher.  Known lines are a table
 * of phrases (logtext_job.c, logtext_kernel.c); Python tracebacks are parsed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOGTEXT_H
#define LOCKSTEP_READ_LOGTEXT_H

#include <stdbool.h>

#include "core/err.h"
#include "read/budget.h"
#include "wire/log_event.h"

struct logtext { /* a gatherer; zero it before the first */
    struct logs logs;
    size_t note_room, rank_room;
    /* Not 0: only lines that say when they were written, not before or after this, count. */
    int64_t from_real_ns, until_real_ns;
    /* Not 0: what lines say of when they were written is told; without a year it is the one nearest to this. */
    int64_t near_real_ns;
    struct budget *budget; /* of its tables; NULL: no limit */
};

bool logtext_is(const char *text, size_t bytes); /* text at all? */
/* `rank`: by the file's name, or LOG_EVENT_NO_RANK.  -ENOMEM. */
int logtext_add(struct logtext *logtext, uint32_t rank, const char *file, const char *text,
                size_t bytes);
/* Only what a kernel says. */
int logtext_add_kernel(struct logtext *logtext, const char *file, const char *text, size_t bytes);
/* Forgets all notes but the first `notes`, and lets go of their memory: of a file that was not read to its end. */
void logtext_cut(struct logtext *logtext, size_t notes);
int logtext_take(struct logtext *logtext, struct logs *ret);
void logtext_fini(struct logtext *logtext);

#endif
