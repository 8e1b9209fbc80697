/* rules.c - the list of rules, in the order in which they decide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>

#include "policy/policy_private.h"

const struct rule policy_rules[] = {
    { .name = "restart-hang",
      .verdict = restart_hang_verdict,
      .tick = restart_hang_tick,
      .follow_log = restart_hang_follow_log },
    { .name = "crash-loop",
      .verdict = crash_loop_verdict,
      .tick = crash_loop_tick,
      .follow_log = crash_loop_follow_log },
    { .name = "table",
      .verdict = table_verdict,
      .tick = table_tick,
      .follow_log = table_follow_log },
    { .name = "departures",
      .request = departures_request,
      .tick = departures_tick,
      .follow_log = departures_follow_log },
    { .name = "at-step",
      .request = at_step_request,
      .verdict = at_step_verdict,
      .outcome = at_step_outcome,
      .tick = at_step_tick,
      .follow_log = at_step_follow_log },
    { .name = "crew",
      .tick = crew_tick,
      .follow_log = crew_follow_log }, /* after those that stop it */
    { .name = NULL },
};
