/* log_reader.h - reads logs of ranks, launchers, NCCL and kernels, in pieces of any size, and keeps the lines that matter.
 *
 * One reader for all, because a rank's log may contain lines of NCCL and of its launcher.  Bytes become lines (UTF-16 and
 * colours are removed, a progress bar's carriage returns end a line), prefixes are taken off (line.h), and what is left is
 * compared with one table of patterns (patterns.h).  Python's tracebacks are followed to their exception.  Memory does not
 * depend on the size of a log: of lines that mean the same, the first and the last ones of a file are kept.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_LOG_READER_H
#define LOCKSTEP_READ_LOG_LOG_READER_H

#include <stdbool.h>

#include "core/err.h"
#include "read/budget.h"
#include "read/name_rank.h"
#include "read/source/stream.h"
#include "wire/log_event.h"

struct log_source { /* a file, or a member of an archive */
    const char *name;
    uint32_t rank;        /* by its name; LOG_EVENT_NO_RANK */
    bool local;           /* it counts on its node only */
    uint32_t part;        /* of a rotated log: higher is older */
    int64_t near_real_ns; /* dates without a year are nearest to this; 0: of no interest */
};

struct log_reader {
    struct budget *budget; /* of its tables; NULL: no limit */
    /* Not 0: only kernel messages with a time count, and not those before or after this. */
    int64_t from_real_ns, until_real_ns;
    struct logs logs;
    size_t event_room, rank_room;
    uint32_t local_log; /* one in which ranks count on their node */
    bool local, locals; /* there is one, there are several */
    struct log_engine
        *engine; /* matcher, buffers and the file at hand; made when they are needed */
};

/* There are lines of this rank.  -ENOMEM. */
int log_reader_saw_rank(struct log_reader *reader, uint32_t rank);

/* Ranks in this log count on its node.  Several such logs are those of several nodes, or of several jobs. */
void log_reader_saw_local(struct log_reader *reader, uint32_t log);

bool log_is_text(const void *head, size_t bytes); /* text at all?  UTF-16 is */

/* -ENOMEM, or what the stream returns; what was read before an error counts. */
int log_reader_stream(struct log_reader *reader, const struct log_source *source,
                      struct stream *stream, struct err *err);
/* The ranks of files by their names, which may be known only when all are; `path` in the order of reading.  -ENOMEM. */
int log_reader_ranks(struct log_reader *reader, const char *const *path,
                     const struct name_rank *rank, size_t count);
/* Ends the reading: events in the order of files and lines, ranks sorted. */
int log_reader_take(struct log_reader *reader, struct logs *ret);
void log_reader_truncated(struct log_reader *reader, size_t events); /* drops the ones behind */
void log_reader_fini(struct log_reader *reader);

#endif
