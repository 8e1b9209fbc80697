/* other_load.h - what other programs did while something was measured: a rate that is low beside them says nothing about the part.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_OTHER_LOAD_H
#define LOCKSTEP_VERIFY_OTHER_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "verify/verify.h"

struct other_load {
    const char *root; /* stands before /proc and /sys */
    int64_t began_ns;
    uint64_t busy, own; /* clock ticks of all processors, and of this process */
    bool has_times;
    char disk[64];  /* "": of no disk, or that is not known */
    uint64_t moved; /* bytes that the disk has read and written */
};

/* `dir`: on the disk that is measured; NULL: none is. */
void other_load_begin(struct other_load *load, const char *root, const char *dir);

/* Results from the one at `first` on that are worse than ok, because a value is low, become unknown if others used more than a
 * twentieth of the processors (without a disk), or moved more than a tenth of `bytes`, which this process moved on the disk.
 */
void other_load_judge(const struct other_load *load, uint64_t bytes, struct verify_report *report,
                      size_t first);

#endif
