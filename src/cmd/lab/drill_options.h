/* drill_options.h - the options of 'lockstep drill' and of its helper, which are in lockstep-lab.
 *
 * Data only, in both programs: lockstep needs it for help, completions and settings files.  What they do is in
 * lab/cmd.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LAB_DRILL_OPTIONS_H
#define LOCKSTEP_CMD_LAB_DRILL_OPTIONS_H

#include "base/opt.h"

struct drill_settings {
    struct opt_list faults;
    const char *html, *keep, *checkpoints, *disk;
    uint64_t seed;
    uint32_t nights;
    int64_t wait_ns;
    bool two_am, json, list_faults;
};

struct slow_disk_settings {
    const char *at, *backing;
    double delay_ms;
};

extern const struct command command_drill;
extern const struct command command_slow_disk;

#endif
