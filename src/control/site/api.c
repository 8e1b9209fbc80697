/* api.c - the routes of the API and the token that each needs, in one table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/http/reply.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define API "/api/v1/"
#define JSON_BODY_MAX 4096

enum need {
    NEED_NOTHING,
    NEED_READER,
    NEED_LAUNCH,
    NEED_AGENT, /* of the run that is named */
};

struct route {
    const char *method, *path; /* "*" is one segment: a run's name */
    enum need need;
    void (*handle)(struct api_call *call);
};

/* ---- plain answers ---- */

static void get_health(struct api_call *call)
{
    struct buf body = { 0 };

    buf_put(&body, "ok\n", 3);
    http_answer(call->exchange, 200, "text/plain", &body);
}

/* A full or read-only disk is found by writing, not by asking. */
static int try_to_write(const struct site *site, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct path path;
    int result = path_join(&path, site->state.text, "ready", err);

    if (result < 0)
        return result;
    fd = open(path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path.text);
    if (write(fd, "ready\n", 6) != 6)
        return err_set(err, errno ? -errno : -ENOSPC, "%s: %m", path.text);
    return 0;
}

static void api_get_ready(struct api_call *call)
{
    struct err err = { "" };

    if (call->site->trouble.text[0])
        reply_error(call->exchange, 503, "%s", call->site->trouble.text);
    else if (try_to_write(call->site, &err) < 0)
        reply_error(call->exchange, 503, "%s", err.text);
    else
        get_health(call);
}

static void get_metrics(struct api_call *call)
{
    struct buf body = { 0 };

    metrics_put(call->site, &body);
    http_answer(call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void get_events(struct api_call *call)
{
    events_listen(&call->site->events, call->exchange, call->who);
}

/* ---- runs begin, speak and end ---- */

static int owner_write(struct site_run *run, const char *who, struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;
    int result = path_join(&path, run->dir.path.text, "owner", err);

    if (result < 0)
        return result;
    file = fopen(path.text, "we");
    if (!file || fprintf(file, "%s\n", who) < 0 || fflush(file) != 0)
        return err_set(err, -errno, "%s: %m", path.text);
    snprintf(run->owner, sizeof(run->owner), "%s", who);
    return 0;
}

static const char *run_of_body(struct json_object *root)
{
    struct json_object *name = NULL;

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, "run", &name) ||
        !json_object_is_type(name, json_type_string))
        return NULL;
    return json_object_get_string(name);
}

static void begin_run(struct api_call *call, const char *name)
{
    struct site_run *run;
    struct err err = { "" };
    struct json_object *answer;
    int result = name ? site_get(call->site, name, true, &run, &err)
                      : err_set(&err, -EINVAL, "expected {\"run\": \"NAME\"}");

    if (result < 0) {
        reply_error(call->exchange, result == -EINVAL ? 400 : 503, "%s", err.text);
        return;
    }
    if (!run->owner[0])
        result = owner_write(run, call->who, &err);
    if (result < 0) {
        reply_error(call->exchange, 503, "%s", err.text);
        return;
    }
    if (strcmp(run->owner, call->who) != 0 && call->role != AUTH_ADMIN) {
        reply_error(call->exchange, 403, "run '%s' was created with another token", name);
        return;
    }
    answer = json_object_new_object();
    json_object_object_add(answer, "run", json_object_new_string(run->dir.run));
    json_object_object_add(answer, "token", json_object_new_string(run->agent.text));
    http_answer_header(call->exchange, "Cache-Control", "no-store");
    reply_json(call->exchange, 200, answer);
}

struct json_object *call_body(const struct api_call *call)
{
    const struct buf *body = http_body(call->exchange);
    struct json_tokener *tokener = json_tokener_new_ex(8);
    struct json_object *root = NULL;

    if (tokener && body->size && body->size <= JSON_BODY_MAX)
        root = json_tokener_parse_ex(tokener, (const char *)body->data, (int)body->size);
    if (tokener)
        json_tokener_free(tokener);
    return root;
}

static void post_runs(struct api_call *call)
{
    struct json_object *root = call_body(call);

    begin_run(call, run_of_body(root));
    json_object_put(root);
}

static void post_frames(struct api_call *call)
{
    struct site_run *run = site_find(call->site, call->run);

    if (!run)
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
    else if (!rate_take(&call->site->ingest, hash64(0, call->run, strlen(call->run)),
                        (double)http_body(call->exchange)->size, time_mono_ns()))
        reply_error(call->exchange, 429, "run '%s' exceeds its rate limit", call->run);
    else
        ingest_frames(run, call->exchange);
}

/* The launcher's word that all has been sent: the books can be closed. */
static void post_finish(struct api_call *call)
{
    struct site_run *run = site_find(call->site, call->run);
    struct err err = { "" };
    struct json_object *answer;
    int result = run ? run_open(run, &err) : -ENOENT;

    if (result < 0) {
        reply_error(call->exchange, run ? run_status(result) : 404, "%s",
                    run ? err.text : "run not found");
        return;
    }
    run->finish = true;
    run_turn(run, time_mono_ns());
    answer = json_object_new_object();
    json_object_object_add(answer, "run", json_object_new_string(run->dir.run));
    json_object_object_add(answer, "closed",
                           json_object_new_boolean(run->log && runlog_is_closed(run->log)));
    reply_json(call->exchange, 200, answer);
}

/* ---- the table ---- */

static const struct route routes[] = {
    { "GET", "/healthz", NEED_NOTHING, get_health },
    { "GET", "/readyz", NEED_NOTHING, api_get_ready },
    { "GET", "/metrics", NEED_READER, get_metrics },
    { "GET", API "events", NEED_READER, get_events },
    { "GET", API "config", NEED_READER, api_get_config },
    { "GET", API "nodes", NEED_READER, api_get_nodes },
    { "GET", API "verdicts", NEED_READER, api_get_verdicts },
    { "GET", API "findings", NEED_READER, api_get_findings },
    { "GET", API "runs", NEED_READER, api_get_runs },
    { "GET", API "runs/*", NEED_READER, api_get_run },
    { "GET", API "runs/*/ranks", NEED_READER, api_get_ranks },
    { "GET", API "runs/*/steps", NEED_READER, api_get_steps },
    { "GET", API "runs/*/shapes", NEED_READER, api_get_shapes },
    { "GET", API "runs/*/verdicts", NEED_READER, api_get_verdicts },
    { "GET", API "runs/*/findings", NEED_READER, api_get_findings },
    { "GET", API "runs/*/ledger", NEED_READER, api_get_ledger },
    { "GET", API "runs/*/nodes", NEED_READER, api_get_nodes },
    { "GET", API "runs/*/thresholds", NEED_READER, api_get_thresholds },
    { "POST", API "runs/*/thresholds", NEED_AGENT, api_post_thresholds },
    { "POST", API "runs", NEED_LAUNCH, post_runs },
    { "POST", API "frames", NEED_AGENT, post_frames },
    { "POST", API "runs/*/finish", NEED_AGENT, post_finish },
};

static bool path_matches(const char *pattern, const char *path, char run[static 64])
{
    const char *star = strchr(pattern, '*');
    size_t before = star ? (size_t)(star - pattern) : 0, length;

    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    length = strcspn(path + before, "/");
    if (!length || length >= 64 || strcmp(path + before + length, star + 1) != 0)
        return false;
    memcpy(run, path + before, length);
    run[length] = '\0';
    return true;
}

/* False with *known: the path is there, but not for this method. */
static bool route_find(struct api_call *call, bool *known)
{
    const char *method = http_method(call->exchange), *path = http_path(call->exchange),
               *query = http_query(call->exchange, "run");

    *known = false;
    snprintf(call->run, sizeof(call->run), "%s", query ? query : "");
    for (size_t i = 0; i < COUNT(routes); i++) {
        if (!path_matches(routes[i].path, path, call->run))
            continue;
        *known = true;
        if (strcmp(method, routes[i].method) == 0 ||
            (strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0)) {
            call->route = &routes[i];
            return true;
        }
    }
    return false;
}

static void refuse_token(struct api_call *call, int result)
{
    if (result == -EBUSY) {
        http_answer_header(call->exchange, "Connection",
                           "close"); /* to guess on costs a connection */
        reply_error(call->exchange, 429,
                    "token is not known; too many unknown tokens came from this address");
    } else {
        reply_error(call->exchange, 401, "token is not known");
    }
}

static int call_identify(struct api_call *call, const char *header)
{
    const char *who = "";
    int result = auth_check(&call->site->auth, header, http_peer(call->exchange), time_mono_ns(),
                            &call->role, &who);

    snprintf(call->who, sizeof(call->who), "%s", who);
    return result;
}

/* An agent's token opens its own run and nothing else; the administrator's opens all. */
static bool admit_agent(struct api_call *call)
{
    const char *header = http_header(call->exchange, "Authorization");
    struct site_run *run = NULL;
    struct token given;
    int result;

    if (!header) {
        reply_error(call->exchange, 401,
                    "a token is required to write: Authorization: Bearer TOKEN");
        return false;
    }
    site_get(call->site, call->run, false, &run, NULL);
    if (run && auth_bearer(header, &given) == 0 && token_equal(&run->agent, &given))
        return true;
    result = call_identify(call, header);
    if (result == 0 && call->role != AUTH_ADMIN)
        reply_error(call->exchange, 403, "token is not valid for run '%s'", call->run);
    else if (result < 0)
        refuse_token(call, result);
    else if (!run)
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
    return result == 0 && call->role == AUTH_ADMIN && run;
}

static bool admit_role(struct api_call *call, enum need need)
{
    int result = call_identify(call, http_header(call->exchange, "Authorization"));
    enum auth_role least = need == NEED_LAUNCH ? AUTH_LAUNCH : AUTH_READER;

    if (result < 0) {
        refuse_token(call, result);
        return false;
    }
    if (need == NEED_READER && call->site->auth.open_reads)
        return true;
    if (call->role >= least)
        return true;
    if (call->role == AUTH_NOBODY)
        reply_error(call->exchange, 401,
                    "a token is required, such as the one in tokens/reader.token of the "
                    "controller's state directory: Authorization: Bearer TOKEN");
    else
        reply_error(call->exchange, 403, "token allows reading only");
    return false;
}

static bool call_admit(struct api_call *call)
{
    switch (call->route->need) {
    case NEED_NOTHING:
        return true;
    case NEED_AGENT:
        return admit_agent(call);
    default:
        return admit_role(call, call->route->need);
    }
}

static void refuse_route(struct api_call *call, bool known)
{
    if (known)
        reply_error(call->exchange, 405, "%s does not support method %s", http_path(call->exchange),
                    http_method(call->exchange));
    else
        reply_error(call->exchange, 404, "path %s not found", http_path(call->exchange));
}

/* Bodies of one run that are under way take so much memory and no more. */
static bool call_charge(struct api_call *call)
{
    if (call->route->need != NEED_AGENT ||
        http_charge(call->exchange, hash64(0, call->run, strlen(call->run))))
        return true;
    http_answer_header(call->exchange, "Retry-After", "1");
    reply_error(call->exchange, 503, "too many requests of run '%s' are in progress; try again",
                call->run);
    return false;
}

/* Until its body is there, or its peer gone. */
static bool call_keep(const struct api_call *call)
{
    struct api_call *kept = malloc(sizeof(*kept));

    if (!kept) {
        reply_error(call->exchange, 503, "out of memory");
        return false;
    }
    *kept = *call;
    http_on_gone(call->exchange, free, kept);
    return true;
}

bool api_admit(void *arg, struct http_exchange *exchange)
{
    struct api_call call = { .site = arg, .exchange = exchange };
    bool known, found = route_find(&call, &known);

    if (!hosts_admit(&call.site->hosts, exchange))
        return false;
    if (!found) {
        refuse_route(&call, known);
        return false;
    }
    if (!call_admit(&call) || !call_charge(&call))
        return false;
    /* By a token only: what anybody may ask, such as /healthz, tells nothing about who asks. */
    if (call.route->need == NEED_AGENT || call.role != AUTH_NOBODY)
        http_trust(exchange);
    return call_keep(&call);
}

/* The body is there; who may send it was asked before it came. */
void api_handle(void *arg, struct http_exchange *exchange)
{
    CLEAN(free_clean) struct api_call *call = http_owner(exchange);

    (void)arg;
    http_on_gone(exchange, NULL, NULL);
    call->route->handle(call);
}
