/* kernellogs.c - searches a directory for text files and keeps the kernel messages in them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/kernellogs.h"

#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "read/logtext.h"
#include "read/read_file.h"
#include "read/walk.h"

#define DEPTH_MAX 3

/* What cannot be read is no reason to tell nothing of a run. */
static int kernellogs_take_file(struct logtext *logtext, const char *path, const char *name)
{
    CLEAN(read_file_fini) struct file_content file = { 0 };
    int result = read_file(path, logtext->budget, &file, NULL);

    if (result == 0 && logtext_is(file.data, file.size))
        result = logtext_add_kernel(logtext, name, file.data, file.size);
    return result == -ENOMEM && !logtext->budget->refused ? result : 0;
}

int kernellogs_read(const char *directory, const struct kernellogs_filter *filter, struct logs *ret,
                    struct err *err)
{
    CLEAN(walk_clean) FTS *fts = walk_open(directory, err);
    struct budget budget = { .limit = BUDGET_WHY };
    CLEAN(logtext_fini)
    struct logtext logtext = { .from_real_ns = filter->from_real_ns,
                               .until_real_ns = filter->until_real_ns,
                               .budget = &budget };
    FTSENT *entry;
    int result = 0;

    if (!fts)
        return -errno; /* walk_open() has said why */
    while (result == 0 && (entry = fts_read(fts))) {
        const char *name = walk_name(directory, entry);

        if (*name && (entry->fts_level > DEPTH_MAX || filter->skip(name)))
            fts_set(fts, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F)
            result = kernellogs_take_file(&logtext, entry->fts_path, name);
    }
    if (result == 0)
        result = logtext_take(&logtext, ret);
    return result < 0
               ? err_set(err, result, "%s: out of memory while reading its kernel logs", directory)
               : 0;
}
