/* relay.h - the relay as a process: reads the logs of a state directory and sends what happened to one destination.
 *
 * At least once: the cursor moves only over what was delivered.  Events of one run, and records of one audit trail, arrive in their
 * order; after a lost connection the newest ones may come again, with the same ids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RELAY_RELAY_H
#define LOCKSTEP_CONTROL_RELAY_RELAY_H

#include "control/relay/relay_sink.h"

struct relay_settings {
    const char *state; /* directory */
    const char *name;  /* of the cursor: STATE/relay/NAME.cursor */
    struct relay_target target;
    struct relay_sink_settings sink;
    const char *sd_id; /* of structured data in syslog messages */
    bool once;         /* ends when all that is there was delivered */
    bool new_only;     /* without a cursor: begins with what happens from now on */
};

struct relay_counts {
    uint64_t events, sources;
};

/* Until SIGTERM or SIGINT.  -EBUSY: another relay has that name; -EINVAL: settings or a damaged cursor; with `once` also
 * what the destination answered.
 */
int relay_run(const struct relay_settings *settings, struct relay_counts *counts, struct err *err);

#endif
