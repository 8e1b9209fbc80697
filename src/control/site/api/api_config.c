/* api_config.c - the configuration, and changing thresholds of an active run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/http/reply.h"
#include "judge/thresholds.h"

static struct json_object *api_threshold_json(const struct threshold *row, double value)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "name", json_object_new_string(row->name));
    json_object_object_add(root, "value", json_object_new_double(value));
    json_object_object_add(root, "default", json_object_new_double(row->value));
    json_object_object_add(root, "low", json_object_new_double(row->low));
    json_object_object_add(root, "high", json_object_new_double(row->high));
    json_object_object_add(root, "unit", json_object_new_string(row->unit));
    json_object_object_add(root, "why", json_object_new_string(row->why));
    return root;
}

static struct json_object *api_thresholds_json(const struct thresholds *thresholds)
{
    struct json_object *list = json_object_new_array();

    for (const struct threshold *row = thresholds_table; row->name; row++)
        json_object_array_add(list, api_threshold_json(row, thresholds_get(thresholds, row)));
    return list;
}

static void site_thresholds(const struct site *site, struct thresholds *ret)
{
    thresholds_default(ret);
    if (site->settings.thresholds)
        *ret = *site->settings.thresholds;
}

void api_get_config(struct api_call *call)
{
    const struct site *site = call->site;
    struct json_object *root = json_object_new_object();
    struct thresholds thresholds;

    site_thresholds(site, &thresholds);
    json_object_object_add(root, "version", json_object_new_string(LOCKSTEP_VERSION));
    json_object_object_add(root, "frame_version", json_object_new_int(FRAME_VERSION));
    json_object_object_add(root, "listen", json_object_new_string(site->settings.listen));
    json_object_object_add(root, "tls", json_object_new_boolean(site->tls.cert_pem != NULL));
    json_object_object_add(root, "body_bytes_max", json_object_new_int64(SITE_BODY_MAX));
    json_object_object_add(root, "thresholds", api_thresholds_json(&thresholds));
    reply_cached(call->exchange, root);
}

struct site_run *call_open_run(struct api_call *call)
{
    struct site_run *run = NULL;
    struct err err = { "" };
    int result;

    if (site_get(call->site, call->run, false, &run, &err) < 0) {
        reply_error(call->exchange, 404, "%s", err.text);
        return NULL;
    }
    result = run_open(run, &err);
    if (result < 0) {
        reply_error(call->exchange, run_status(result), "%s", err.text);
        return NULL;
    }
    return run;
}

static void api_answer_thresholds(struct api_call *call, const struct site_run *run)
{
    struct json_object *root = json_object_new_object();
    struct thresholds thresholds;

    runlog_thresholds(run->log, &thresholds);
    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "thresholds", api_thresholds_json(&thresholds));
    reply_cached(call->exchange, root);
}

void api_get_thresholds(struct api_call *call)
{
    struct site_run *run = call_open_run(call);

    if (run)
        api_answer_thresholds(call, run);
}

/* {"name": "verdict.least-cost", "value": 0.05}: from the next tick on, and in the log. */
void api_post_thresholds(struct api_call *call)
{
    struct json_object *root = call_body(call), *name = NULL, *value = NULL;
    struct site_run *run = call_open_run(call);
    struct err err = { "" };
    char what[HTTP_NOTE];
    int result = -EINVAL;

    if (run && root && json_object_is_type(root, json_type_object) &&
        json_object_object_get_ex(root, "name", &name) &&
        json_object_is_type(name, json_type_string) &&
        json_object_object_get_ex(root, "value", &value) &&
        (json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int)))
        result = runlog_set(run->log, json_object_get_string(name), json_object_get_double(value),
                            call->who[0] ? call->who : "agent", &err);
    else
        err_set(&err, 0, "expected {\"name\": NAME, \"value\": NUMBER}");
    if (run && result == 0) {
        snprintf(what, sizeof(what), "threshold %.60s = %g", json_object_get_string(name),
                 json_object_get_double(value));
        http_note_what(call->exchange, what);
        log_info("run %s: threshold %s set to %g by %s", run->dir.run, json_object_get_string(name),
                 json_object_get_double(value), call->who[0] ? call->who : "the token of the run");
        api_answer_thresholds(call, run);
    } else if (run)
        reply_error(call->exchange,
                    result == -EALREADY                                           ? 409
                    : result == -EINVAL || result == -ENOENT || result == -ERANGE ? 400
                                                                                  : 503,
                    "%s", err.text);
    json_object_put(root);
}
