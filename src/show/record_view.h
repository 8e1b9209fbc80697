/* record_view.h - findings, checks, decisions and outcomes as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_RECORD_VIEW_H
#define LOCKSTEP_SHOW_RECORD_VIEW_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/decision.h"
#include "wire/finding.h"

/* The caller puts it.  What is not known is null. */
struct json_object *record_step_json(uint64_t step); /* NULL, which is null, for DECISION_NO_STEP */
struct json_object *finding_json(const struct finding *finding);
struct json_object *check_json(const struct check *check);
struct json_object *decision_json(const struct decision *decision);
struct json_object *outcome_json(const struct outcome *outcome);

/* What became of a decision, on all of its parts. */
struct outcome_tally {
    uint32_t began, ended; /* words of parts */
    uint8_t worst;         /* of those that ended */
};

bool outcome_only_began(const struct outcome *outcome); /* its end is still to come */
void outcome_tally_add(struct outcome_tally *tally, const struct outcome *outcome);
/* What came of it, and before that the state of the decision: "ordered", "begun", "done", "failed". */
const char *decision_word(unsigned state, const struct outcome_tally *tally);
/* "done" and so on; null: nobody reported an end. */
struct json_object *outcome_tally_json(const struct outcome_tally *tally);

#endif
