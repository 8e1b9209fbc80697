/* drill_json.h - members of what why, incident and the API print: absent ones have a value, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_DRILL_DRILL_JSON_H
#define LOCKSTEP_LAB_DRILL_DRILL_JSON_H

#include <stdbool.h>

#include <json-c/json.h>

double drill_json_time_s(struct json_object *object, const char *name);    /* 0: none */
const char *drill_json_text(struct json_object *object, const char *name); /* "": none */
double drill_json_number(struct json_object *object, const char *name);    /* 0: none */
/* Whether an array of strings has it. */
bool drill_json_names(struct json_object *object, const char *name, const char *what);

#endif
