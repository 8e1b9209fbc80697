/* json_member.h - members of JSON objects that others wrote: of the expected type, or absent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_JSON_MEMBER_H
#define LOCKSTEP_BASE_JSON_MEMBER_H

#include <json-c/json.h>

static inline void json_clean(struct json_object **object) /* for CLEAN; NULL is fine */
{
    json_object_put(*object);
}

/* NULL: there is none of this type.  It lives as long as `object`. */
static inline struct json_object *json_member(struct json_object *object, const char *name,
                                              enum json_type type)
{
    struct json_object *value = NULL;

    if (!json_object_object_get_ex(object, name, &value) || !json_object_is_type(value, type))
        return NULL;
    return value;
}

#endif
