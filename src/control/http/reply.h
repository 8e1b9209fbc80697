/* reply.h - JSON responses, and one form for errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_REPLY_H
#define LOCKSTEP_CONTROL_HTTP_REPLY_H

#include <json-c/json.h>

#include "base/net/http.h"

/* Takes the object. */
void reply_json(struct http_exchange *exchange, unsigned status, struct json_object *object);
/* The same with an ETag of its bytes: 304 when the client has them already. */
void reply_cached(struct http_exchange *exchange, struct json_object *object);
/* {"error": "..."} */
void reply_error(struct http_exchange *exchange, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
