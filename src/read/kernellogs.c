/* kernellogs.c - searches a directory for text files and keeps the kernel messages in them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/kernellogs.h"

#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "read/log/log_reader.h"
#include "read/walk.h"

#define DEPTH_MAX 3

/* A file that cannot be read is no reason to report nothing about a run. */
static int kernellogs_take_file(struct log_reader *reader, const char *path, const char *name)
{
    const struct log_source source = { .name = name,
                                       .rank = LOG_EVENT_NO_RANK,
                                       .near_real_ns = reader->until_real_ns };
    CLEAN(stream_clean) struct stream *stream = NULL;
    const unsigned char *head;
    ssize_t bytes;
    int result = stream_open(path, &stream, NULL);

    if (result == 0)
        result = stream_unpack(&stream, NULL);
    bytes = result < 0 ? result : stream_peek(stream, &head, NULL);
    if (bytes > 0 && log_is_text(head, (size_t)bytes))
        result = log_reader_stream(reader, &source, stream, NULL);
    return result == -ENOMEM && !reader->budget->refused ? result : 0;
}

int kernellogs_read(const char *directory, const struct kernellogs_filter *filter, struct logs *ret,
                    struct err *err)
{
    CLEAN(walk_clean) FTS *fts = walk_open(directory, err);
    struct budget budget = { .limit = BUDGET_WHY };
    CLEAN(log_reader_fini)
    struct log_reader reader = { .from_real_ns = filter->from_real_ns,
                                 .until_real_ns = filter->until_real_ns,
                                 .budget = &budget };
    FTSENT *entry;
    int result = 0;

    if (!fts)
        return -errno; /* walk_open() has set the message */
    while (result == 0 && (entry = fts_read(fts))) {
        const char *name = walk_name(directory, entry);

        if (*name && (entry->fts_level > DEPTH_MAX || filter->skip(name)))
            fts_set(fts, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F)
            result = kernellogs_take_file(&reader, entry->fts_path, name);
    }
    if (result == 0)
        result = log_reader_take(&reader, ret);
    return result < 0
               ? err_set(err, result, "%s: out of memory while reading its kernel logs", directory)
               : 0;
}
