/* record_view.h - findings, checks, decisions and outcomes as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_RECORD_VIEW_H
#define LOCKSTEP_SHOW_RECORD_VIEW_H

#include <json-c/json.h>

#include "wire/decision.h"
#include "wire/finding.h"

/* The caller puts it.  What is not known is null. */
struct json_object *record_step_json(uint64_t step); /* NULL, which is null, for DECISION_NO_STEP */
struct json_object *finding_json(const struct finding *finding);
struct json_object *check_json(const struct check *check);
struct json_object *decision_json(const struct decision *decision);
struct json_object *outcome_json(const struct outcome *outcome);

#endif
