/* reply.c - JSON responses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/text.h"

static void reply_put_object(struct buf *body, struct json_object *object)
{
    size_t size;
    const char *text = json_object_to_json_string_length(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);

    buf_put(body, text, size);
    if (!body->failed)
        body->size = text_clean((char *)body->data, body->size, true);
    buf_put(body, "\n", 1);
    json_object_put(object);
}

void reply_json(struct http_exchange *exchange, unsigned status, struct json_object *object)
{
    struct buf body = { 0 };

    reply_put_object(&body, object);
    http_answer(exchange, status, "application/json", &body);
}

void reply_cached(struct http_exchange *exchange, struct json_object *object)
{
    const char *known = http_header(exchange, "If-None-Match");
    struct buf body = { 0 };
    char tag[24];

    reply_put_object(&body, object);
    snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", hash64(0, body.data, body.size));
    http_answer_header(exchange, "ETag", tag);
    if (known && strstr(known, tag)) {
        buf_fini(&body);
        http_answer(exchange, 304, "application/json", &body);
        return;
    }
    http_answer(exchange, 200, "application/json", &body);
}

void reply_error(struct http_exchange *exchange, unsigned status, const char *format, ...)
{
    struct json_object *root = json_object_new_object();
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_object_object_add(root, "error", json_object_new_string(text));
    if (status == 429 || status == 503)
        http_answer_header(exchange, "Retry-After", "1");
    if (status == 401)
        http_answer_header(exchange, "WWW-Authenticate", "Bearer");
    reply_json(exchange, status, root);
}
