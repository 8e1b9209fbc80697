/* sense.h - runs the sensors of a node and collects what they observe.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_SENSE_H
#define LOCKSTEP_SENSE_SENSE_H

#include "sense/sensor.h"

struct sense;

typedef void sense_sink(void *user, const struct finding *finding, uint32_t line);

/* Opens every sensor that is there; `only` names one, NULL: all.  -ENOMEM. */
int sense_create(const struct sense_place *place, const char *only, struct sense **ret);
void sense_destroy(struct sense *sense); /* NULL is allowed */

/* The processes of jobs, as they are now: at most SENSE_JOBS.  `cut`: there are more. */
void sense_set_jobs(struct sense *sense, const uint32_t *pid, size_t count, bool cut);

/* Reads what is due.  The sink is called for each finding, in the order of observation. */
void sense_step(struct sense *sense, const struct sense_now *now, sense_sink *sink, void *user);
int64_t sense_next_ns(const struct sense *sense); /* on the monotonic clock: the next read */
/* Descriptors to wait for, at most `room`; returns their number. */
size_t sense_fds(const struct sense *sense, int *fd, size_t room);

/* How the sensors are: 0 it reads, -ENODEV absent, -EACCES no permission, another -errno with its words. */
struct sense_state {
    const struct sensor *sensor;
    int result;
    const char *why; /* "": none */
};
size_t sense_states(const struct sense *sense, struct sense_state *state, size_t room);

/* At most 0.5 for a line that a program wrote. */
double finding_confidence(const struct finding *finding);

#endif
