/* drill_json.c - text, numbers and times of JSON that lockstep printed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/drill/drill_json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_member.h"

const char *drill_json_text(struct json_object *object, const char *name)
{
    struct json_object *member = json_member(object, name, json_type_string);

    return member ? json_object_get_string(member) : "";
}

double drill_json_number(struct json_object *object, const char *name)
{
    struct json_object *member = NULL;

    return json_object_object_get_ex(object, name, &member) ? json_object_get_double(member) : 0;
}

/* 2026-03-01T10:42:07.123Z */
double drill_json_time_s(struct json_object *object, const char *name)
{
    struct tm tm = { 0 };
    const char *rest = strptime(drill_json_text(object, name), "%Y-%m-%dT%H:%M:%S", &tm);

    return rest ? (double)timegm(&tm) + strtod(*rest == '.' ? rest : "0", NULL) : 0;
}

bool drill_json_names(struct json_object *object, const char *name, const char *what)
{
    struct json_object *list = json_member(object, name, json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        const char *one = json_object_get_string(json_object_array_get_idx(list, i));

        if (one && strcmp(one, what) == 0)
            return true;
    }
    return false;
}
