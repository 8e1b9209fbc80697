/* node_repair.h - the names of repairs that an administrator allows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_NODE_NODE_REPAIR_H
#define LOCKSTEP_CMD_NODE_NODE_REPAIR_H

#include <stdint.h>

#include "base/opt.h"
#include "core/err.h"

/* Bits of enum action.  -EINVAL: neither reset-gpu nor reboot. */
int repair_bits(const struct opt_list *names, uint32_t *ret, struct err *err);

#endif
