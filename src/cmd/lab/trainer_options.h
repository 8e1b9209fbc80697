/* trainer_options.h - the options of 'lockstep trainer', which is in lockstep-lab.
 *
 * Data only, in both programs: lockstep needs it for help, completions and settings files.  What they do is in
 * lab/cmd.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LAB_TRAINER_OPTIONS_H
#define LOCKSTEP_CMD_LAB_TRAINER_OPTIONS_H

#include "base/opt.h"

struct trainer_settings {
    uint64_t steps, seed, checkpoint_every;
    const char *layout, *checkpoint_dir, *data_dir, *net_dir, *plan, *stop_file;
    double step_ms, host_work_ms;
    uint32_t micro_batches;
    int64_t timeout_ns;
    bool stamps;
    /* From the launcher, as torchrun tells it. */
    uint32_t rank, world, attempt;
    const char *master_addr, *master_port;
};

extern const struct command command_trainer;

#endif
