/* demo_options.h - the options of 'lockstep demo', which is in lockstep-lab.
 *
 * Data only, in both programs: lockstep needs it for help, completions and settings files.  What they do is in
 * lab/cmd.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LAB_DEMO_OPTIONS_H
#define LOCKSTEP_CMD_LAB_DEMO_OPTIONS_H

#include "base/opt.h"

struct demo_settings {
    struct opt_list faults;
    bool list_faults, json, torch, page, stamps;
    uint32_t ranks, nodes, checkpoint_every;
    uint64_t steps, seed;
    double step_ms, host_work_ms;
    int64_t timeout_ns; /* of a collective; 0: the trainer's own */
    const char *layout, *name;
};

extern const struct command command_demo;

#endif
