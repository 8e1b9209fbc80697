/* kernellogs.h - kernel logs that somebody laid into a directory, with the time of each line.
 *
 * Any text file may be one: only lines that a kernel writes count, and only those that say when they were written.
 */
#ifndef LOCKSTEP_READ_KERNELLOGS_H
#define LOCKSTEP_READ_KERNELLOGS_H

#include <stdbool.h>

#include "core/err.h"
#include "wire/log_event.h"

struct kernellogs_filter {
    int64_t from_real_ns, until_real_ns;
    bool (*skip)(const char *path); /* files and folders, below the directory, that are none */
};

int kernellogs_read(const char *directory, const struct kernellogs_filter *filter, struct logs *ret,
                    struct err *err);

#endif
