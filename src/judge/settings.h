/* settings.h - what the settings of a job mean for its communication.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SETTINGS_H
#define LOCKSTEP_JUDGE_SETTINGS_H

#include "judge/state.h"

struct setting {                     /* a variable or library of some ranks */
    const char *name, *value, *node; /* node "": of several */
    uint32_t ranks, first_rank;
};

/* How long NCCL waits for a port that is down before it fails: 4.096 us x 2^NCCL_IB_TIMEOUT x NCCL_IB_RETRY_CNT.  The
 * smallest of the job's settings; the defaults are those of the job's NCCL, or of the newest one.
 */
int64_t settings_port_bridge_ns(const struct setting *setting, size_t count);

/* Adds settings that are known to slow communication to the evidence of open sync stalls. */
void settings_judge(struct judge_state *judge, const struct setting *setting, size_t count);

#endif
