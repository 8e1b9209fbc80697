/* enlist.c - POST /api/v1/runs, and the token in the response.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/send/enlist.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/net/token.h"
#include "core/buf.h"
#include "core/clean.h"

int enlist_call(struct client *client, const char *launch_file, const char *run, client_fn *fn,
                void *arg, struct err *err)
{
    CLEAN(buf_fini) struct buf body = { 0 };
    struct token launch;
    char text[128];
    int result = token_read(launch_file, &launch, err);

    if (result < 0)
        return result;
    snprintf(text, sizeof(text), "{\"run\":\"%s\"}", run);
    buf_put(&body, text, strlen(text));
    if (body.failed || client_call(client, "/api/v1/runs", &launch, &body, fn, arg) < 0)
        result = err_nomem(err);
    explicit_bzero(&launch, sizeof(launch));
    return result;
}

/* NULL: it has no such member, or that is no text. */
static const char *enlist_answer_text(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    if (!root || !json_object_object_get_ex(root, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

int enlist_token(const struct client_answer *answer, const char *run, struct token *ret,
                 struct err *err)
{
    struct json_object *root = NULL;
    struct json_tokener *tokener = json_tokener_new_ex(8);
    const char *error, *token, *name;
    int result = -EPROTO;

    if (!tokener)
        return err_nomem(err);
    if (answer->body->size)
        root = json_tokener_parse_ex(tokener, (const char *)answer->body->data,
                                     (int)answer->body->size);
    error = enlist_answer_text(root, "error");
    token = enlist_answer_text(root, "token");
    name = enlist_answer_text(root, "run");
    if (answer->status == 0)
        err_set(err, 0, "%s", answer->why);
    else if (answer->status != 200 && error)
        err_set(err, 0, "the controller responded with status %u: %s", answer->status, error);
    else if (answer->status != 200 || !token)
        err_set(err, 0, "the controller responded with status %u and no token", answer->status);
    else if (!name || strcmp(name, run) != 0)
        err_set(err, 0, "the controller responded with the token of another run");
    else
        result = token_parse(token, strlen(token), ret, err);
    json_object_put(root);
    json_tokener_free(tokener);
    return result;
}
