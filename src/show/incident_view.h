/* incident_view.h - one verdict on one screen: time line, evidence, actions, cost.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_INCIDENT_VIEW_H
#define LOCKSTEP_SHOW_INCIDENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "show/record_view.h"
#include "show/style.h"
#include "wire/decision.h"
#include "wire/verdict.h"

#define INCIDENT_EVENTS 64
#define INCIDENT_ACTIONS 8

struct incident_event {
    int64_t real_ns;
    uint32_t order;     /* in which the log has them: decides between equal times */
    const char *source; /* "judge", "launcher", "node", "policy" */
    char text[240];
};

struct incident_action {
    struct decision decision;
    struct outcome_tally done;
    int64_t began_real_ns; /* the newest; 0: not known */
    bool has_outcome;
    struct outcome outcome; /* the newest that ended */
};

struct incident {
    struct verdict verdict; /* its last state */
    uint32_t states;        /* how often it was opened, changed or closed */
    double run_gpu_seconds; /* of the whole run; 0: not known */
    bool alive;
    struct incident_event event[INCIDENT_EVENTS]; /* in order of time */
    uint32_t events, events_left_out;
    struct incident_action action[INCIDENT_ACTIONS];
    uint32_t actions;
};

/* {verdict, states, alive, run_gpu_seconds, timeline: [{time, source, what}], timeline_left_out, actions: [{decision,
 * outcome}]}; the caller puts it.
 */
struct json_object *incident_json(const struct incident *incident);
void incident_text(const struct incident *incident, const struct show_style *style, FILE *out);

#endif
