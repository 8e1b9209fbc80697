/* node_sensors.h - the sensors of a node, as an agent or the node daemon carries them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_SENSORS_H
#define LOCKSTEP_AGENT_NODE_SENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/finding.h"

struct node_sensors;

struct node_sensors_settings {
    const char *node;
    const char *root; /* stands before /proc, /sys and /dev; NULL: here */
    const char *kmsg; /* kernel records; NULL: /dev/kmsg */
    /* Takes a finding; -errno: not now.  It is then lost, and counted. */
    int (*put)(void *user, const struct finding *finding);
    /* The processes of jobs, at most `room`; returns their number, and sets `cut` if there are more.  NULL: not known. */
    size_t (*jobs)(void *user, uint32_t *pid, size_t room, bool *cut);
    void *user;
};

/* With `kmsg` and no root only the kernel records are read: they are then those of a test.  NULL: no memory. */
struct node_sensors *node_sensors_create(const struct node_sensors_settings *settings);
void node_sensors_destroy(struct node_sensors *sensors); /* NULL is allowed */
/* Reads what is due; does not block. */
void node_sensors_turn(struct node_sensors *sensors, int64_t now_ns);

#endif
