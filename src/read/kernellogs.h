/* kernellogs.h - kernel logs in the directory of a run, with the time of each line.
 *
 * Any text file may contain one: only lines in the form of a kernel message and with a time count.
 *
 * SPDX-License-Identifier: Apache-2.0
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
