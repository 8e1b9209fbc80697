/* api.c - the routes of the API and the token that each needs, in one table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/http/reply.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/time.h"

#define API "/api/v1/"
#define JSON_BODY_MAX 4096
#define API_USER_MAX 80 /* of a user's name that a proxy gives */

enum need {
    NEED_NOTHING,
    NEED_READER,
    NEED_LAUNCH,
    NEED_ADMIN,
    NEED_AGENT,  /* of the run that is named */
    NEED_OWNER,  /* the same, or the launch token that created the run */
    NEED_MEMBER, /* the same, or a token that may read */
    NEED_ORDERS, /* the token of the run or of the node that the query names */
    NEED_NODE,   /* the token of the node that is named */
};

struct route {
    const char *method, *path; /* "*" is one segment: the name of a run or node; "#" a number */
    enum need need;
    void (*handle)(struct api_call *call);
};

/* ---- plain answers ---- */

static void api_get_health(struct api_call *call)
{
    struct buf body = { 0 };

    buf_put(&body, "ok\n", 3);
    http_answer(call->exchange, 200, "text/plain", &body);
}

/* A full or read-only disk is found by writing, not by asking. */
static int api_try_to_write(const struct site *site, struct err *err)
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
    else if (api_try_to_write(call->site, &err) < 0)
        reply_error(call->exchange, 503, "%s", err.text);
    else
        api_get_health(call);
}

static void api_get_metrics(struct api_call *call)
{
    struct buf body = { 0 };

    metrics_put(call->site, &body);
    http_answer(call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void api_get_events(struct api_call *call)
{
    events_listen(&call->site->events, call->exchange, call->who);
}

/* ---- runs begin, speak and end ---- */

static int api_owner_write(struct site_run *run, const char *who, struct err *err)
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

static const char *api_run_of_body(struct json_object *root)
{
    struct json_object *name = NULL;

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, "run", &name) ||
        !json_object_is_type(name, json_type_string))
        return NULL;
    return json_object_get_string(name);
}

static void api_begin_run(struct api_call *call, const char *name)
{
    struct site_run *run;
    struct err err = { "" };
    struct json_object *answer;
    int result = name ? site_get(call->site, name, true, &run, &err)
                      : err_set(&err, -EINVAL, "expected {\"run\": \"NAME\"}");

    if (result < 0) {
        reply_error(call->exchange,
                    result == -EINVAL   ? 400
                    : result == -ENOENT ? 404
                                        : 503,
                    "%s", err.text);
        return;
    }
    if (!run->owner[0])
        result = api_owner_write(run, call->who, &err);
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

static void api_post_runs(struct api_call *call)
{
    struct json_object *root = call_body(call);

    api_begin_run(call, api_run_of_body(root));
    json_object_put(root);
}

static void api_post_frames(struct api_call *call)
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

static void api_post_node_frames(struct api_call *call)
{
    if (!rate_take(&call->site->ingest, hash64(1, call->run, strlen(call->run)),
                   (double)http_body(call->exchange)->size, time_mono_ns()))
        reply_error(call->exchange, 429, "node '%s' exceeds its rate limit", call->run);
    else
        ingest_node(call->site, call->run, call->exchange);
}

/* The launcher's word that all has been sent: the books can be closed. */
static void api_post_finish(struct api_call *call)
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
    run->finishes++;
    run_turn(run, time_mono_ns(), &err);
    answer = json_object_new_object();
    json_object_object_add(answer, "run", json_object_new_string(run->dir.run));
    json_object_object_add(answer, "closed",
                           json_object_new_boolean(run->log && runlog_is_closed(run->log)));
    reply_json(call->exchange, 200, answer);
}

/* ---- the table ---- */

static const struct route routes[] = {
    { "GET", "/healthz", NEED_NOTHING, api_get_health },
    { "GET", "/readyz", NEED_NOTHING, api_get_ready },
    { "GET", "/openapi.json", NEED_NOTHING, api_get_openapi },
    { "GET", "/", NEED_NOTHING, api_get_page },
    { "GET", "/app.js", NEED_NOTHING, api_get_page },
    { "GET", "/app.css", NEED_NOTHING, api_get_page },
    { "GET", "/login", NEED_NOTHING, api_get_login },
    { "GET", "/metrics", NEED_READER, api_get_metrics },
    { "POST", API "login-links", NEED_READER, api_post_login_links },
    { "GET", API "events", NEED_READER, api_get_events },
    { "GET", API "config", NEED_READER, api_get_config },
    { "GET", API "nodes", NEED_READER, api_get_nodes },
    { "GET", API "node-states", NEED_READER, api_get_node_states },
    { "GET", API "nodes/*", NEED_READER, api_get_node },
    { "POST", API "nodes/*/frames", NEED_NODE, api_post_node_frames },
    { "GET", API "nodes/*/requests", NEED_READER, api_get_node_request },
    { "POST", API "nodes/*/requests", NEED_ADMIN, api_post_node_requests },
    { "GET", API "verdicts", NEED_READER, api_get_verdicts },
    { "GET", API "evidence", NEED_READER, api_get_evidence },
    { "GET", API "findings", NEED_READER, api_get_findings },
    { "GET", API "decisions", NEED_READER, api_get_decisions },
    { "GET", API "outcomes", NEED_READER, api_get_outcomes },
    { "GET", API "checks", NEED_READER, api_get_checks },
    { "GET", API "runs", NEED_READER, api_get_runs },
    { "GET", API "runs/*", NEED_READER, api_get_run },
    { "GET", API "runs/*/why", NEED_READER, api_get_why },
    { "GET", API "runs/*/log", NEED_READER, api_get_log },
    { "GET", API "runs/*/ranks", NEED_READER, api_get_ranks },
    { "GET", API "runs/*/steps", NEED_READER, api_get_steps },
    { "GET", API "runs/*/steps/#", NEED_READER, api_get_step },
    { "GET", API "runs/*/shapes", NEED_READER, api_get_shapes },
    { "GET", API "runs/*/verdicts", NEED_READER, api_get_verdicts },
    { "GET", API "runs/*/evidence", NEED_READER, api_get_evidence },
    { "GET", API "runs/*/findings", NEED_READER, api_get_findings },
    { "GET", API "runs/*/decisions", NEED_READER, api_get_decisions },
    { "GET", API "runs/*/outcomes", NEED_READER, api_get_outcomes },
    { "GET", API "runs/*/checks", NEED_READER, api_get_checks },
    { "GET", API "runs/*/ledger", NEED_READER, api_get_ledger },
    { "GET", API "runs/*/matrix", NEED_READER, api_get_matrix },
    { "GET", API "runs/*/matrix/#", NEED_READER, api_get_matrix_columns },
    { "GET", API "runs/*/matrix/#/#/#", NEED_READER, api_get_matrix_tile },
    { "GET", API "runs/*/nodes", NEED_READER, api_get_nodes },
    { "GET", API "runs/*/thresholds", NEED_READER, api_get_thresholds },
    { "GET", API "runs/*/requests", NEED_MEMBER, api_get_request },
    { "POST", API "runs/*/requests", NEED_OWNER, api_post_requests },
    { "GET", API "orders", NEED_ORDERS, api_get_orders },
    { "POST", API "runs/*/thresholds", NEED_AGENT, api_post_thresholds },
    { "POST", API "runs", NEED_LAUNCH, api_post_runs },
    { "POST", API "frames", NEED_AGENT, api_post_frames },
    { "POST", API "runs/*/finish", NEED_AGENT, api_post_finish },
};

/* The end of a path: each "#" of the pattern is a number. */
static bool api_tail_matches(const char *pattern, const char *path, uint64_t number[static 3])
{
    for (size_t count = 0; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        if (*path < '0' || *path > '9')
            return false;
        for (number[count] = 0; *path >= '0' && *path <= '9'; path++) {
            if (number[count] > UINT32_MAX)
                return false;
            number[count] = number[count] * 10 + (uint64_t)(*path - '0');
        }
        count++;
    }
    return !*path;
}

static bool api_path_matches(const char *pattern, const char *path, char run[static 64],
                             uint64_t number[static 3])
{
    const char *star = strchr(pattern, '*');
    size_t before = star ? (size_t)(star - pattern) : 0, length;

    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    length = strcspn(path + before, "/");
    if (!length || length >= 64 || !api_tail_matches(star + 1, path + before + length, number))
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
        if (!api_path_matches(routes[i].path, path, call->run, call->number))
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

static void api_refuse_token(struct api_call *call, int result)
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

/* A proxy with a token of its own has authenticated the user, whom it names in a header.  Without a name, or where no header
 * was configured, its token opens nothing.
 */
static void api_call_by_proxy(struct api_call *call)
{
    const char *name = call->site->settings.user_header,
               *user = name ? http_header(call->exchange, name) : NULL;

    call->by_proxy = true;
    call->role = AUTH_NOBODY;
    if (!user || !user[0] || strlen(user) > API_USER_MAX ||
        http_header_count(call->exchange, name) != 1)
        return;
    call->role = AUTH_READER;
    snprintf(call->who, sizeof(call->who), "user %s", user);
    call->who[text_clean(call->who, strlen(call->who), false)] = '\0';
}

static int api_call_identify(struct api_call *call, const char *header)
{
    const struct session *session = NULL;
    const char *who = "";
    int result = auth_check(&call->site->auth, header, http_peer(call->exchange), time_mono_ns(),
                            &call->role, &who);

    if (!header)
        session = session_check(&call->site->sessions, http_header(call->exchange, "Cookie"),
                                http_header(call->exchange, "Lockstep-Key"), time_mono_ns());
    if (session) { /* of the page in a browser */
        call->role = AUTH_READER;
        who = session->who;
    }
    snprintf(call->who, sizeof(call->who), "%s", who);
    if (call->role == AUTH_PROXY)
        api_call_by_proxy(call);
    http_note_who(call->exchange, call->who);
    return result;
}

/* A token beside that of the run itself. */
static bool api_role_suffices(const struct api_call *call, const struct site_run *run)
{
    switch (call->route->need) {
    case NEED_OWNER:
        return call->role == AUTH_ADMIN ||
               (call->role == AUTH_LAUNCH && run && strcmp(run->owner, call->who) == 0);
    case NEED_MEMBER:
        return call->role >= AUTH_READER;
    default:
        return call->role == AUTH_ADMIN;
    }
}

/* For the audit trail: the token of that run or node. */
static void api_note_machine(struct api_call *call, const char *kind)
{
    char who[HTTP_NOTE];

    snprintf(who, sizeof(who), "%s %s", kind, call->run);
    http_note_who(call->exchange, who);
}

/* An agent's token opens its own run and nothing else; the administrator's opens all. */
static bool api_admit_agent(struct api_call *call)
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
    if (run && auth_bearer(header, &given) == 0 && token_equal(&run->agent, &given)) {
        api_note_machine(call, "run");
        return true;
    }
    result = api_call_identify(call, header);
    if (result == 0 && !api_role_suffices(call, run))
        reply_error(call->exchange, 403, "token is not valid for run '%s'", call->run);
    else if (result < 0)
        api_refuse_token(call, result);
    else if (!run)
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
    return result == 0 && api_role_suffices(call, run) && run;
}

/* A node's token opens that node and nothing else. */
static bool api_admit_node(struct api_call *call)
{
    const char *header = http_header(call->exchange, "Authorization");
    struct token token = { "" }, given;
    struct path path;
    int result;

    if (!header) {
        reply_error(call->exchange, 401,
                    "a token is required to write: Authorization: Bearer TOKEN");
        return false;
    }
    if (!call->site->local && auth_bearer(header, &given) == 0 &&
        site_node_token(call->site->state.text, call->run, false, &path, &token, NULL) == 0 &&
        token_equal(&token, &given)) {
        api_note_machine(call, "node");
        return true;
    }
    result = api_call_identify(call, header);
    if (result < 0)
        api_refuse_token(call, result);
    else if (call->role != AUTH_ADMIN)
        reply_error(call->exchange, 403, "token is not valid for node '%s'", call->run);
    return result == 0 && call->role == AUTH_ADMIN;
}

/* A node's name takes the place of the run's. */
static bool api_admit_orders(struct api_call *call)
{
    const char *node = http_query(call->exchange, "node");

    if (!node)
        return api_admit_agent(call);
    if (call->run[0]) {
        reply_error(call->exchange, 400, "expected run or node, not both");
        return false;
    }
    snprintf(call->run, sizeof(call->run), "%s", node);
    return api_admit_node(call);
}

static bool api_admit_role(struct api_call *call, enum need need)
{
    int result = api_call_identify(call, http_header(call->exchange, "Authorization"));
    enum auth_role least = need == NEED_ADMIN    ? AUTH_ADMIN
                           : need == NEED_LAUNCH ? AUTH_LAUNCH
                                                 : AUTH_READER;

    if (result < 0) {
        api_refuse_token(call, result);
        return false;
    }
    if (need == NEED_READER && call->site->auth.open_reads)
        return true;
    if (call->role >= least)
        return true;
    if (call->role == AUTH_NOBODY && call->by_proxy)
        reply_error(call->exchange, 401, "%s%s",
                    call->site->settings.user_header
                        ? "the proxy did not name one user in the header "
                        : "the token of a proxy needs --user-header",
                    call->site->settings.user_header ? call->site->settings.user_header : "");
    else if (call->role == AUTH_NOBODY)
        reply_error(call->exchange, 401,
                    "a token is required, such as the one in tokens/reader.token of the "
                    "controller's state directory: Authorization: Bearer TOKEN");
    else if (need == NEED_ADMIN)
        reply_error(call->exchange, 403, "this needs the administrator's token");
    else
        reply_error(call->exchange, 403, "token allows reading only");
    return false;
}

static bool api_call_admit(struct api_call *call)
{
    switch (call->route->need) {
    case NEED_NOTHING:
        return true;
    case NEED_AGENT:
    case NEED_OWNER:
        return api_admit_agent(call);
    case NEED_NODE:
        return api_admit_node(call);
    case NEED_MEMBER:
        return call->site->auth.open_reads || api_admit_agent(call);
    case NEED_ORDERS:
        return api_admit_orders(call);
    default:
        return api_admit_role(call, call->route->need);
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
static bool api_call_charge(struct api_call *call)
{
    uint64_t whose = hash64(call->route->need == NEED_NODE, call->run, strlen(call->run));

    if ((call->route->need != NEED_AGENT && call->route->need != NEED_OWNER &&
         call->route->need != NEED_NODE) ||
        http_charge(call->exchange, whose))
        return true;
    http_answer_header(call->exchange, "Retry-After", "1");
    reply_error(call->exchange, 503, "too many requests of '%s' are in progress; try again",
                call->run);
    return false;
}

/* Until its body is there, or its peer gone. */
static bool api_call_keep(const struct api_call *call)
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
    if (!api_call_admit(&call) || !api_call_charge(&call))
        return false;
    /* By a token only: what anybody may ask, such as /healthz, tells nothing about who asks. */
    if (call.route->need == NEED_AGENT || call.route->need == NEED_OWNER ||
        call.route->need == NEED_NODE || call.route->need == NEED_ORDERS ||
        call.role != AUTH_NOBODY)
        http_trust(exchange);
    return api_call_keep(&call);
}

/* The body is there; who may send it was asked before it came. */
void api_handle(void *arg, struct http_exchange *exchange)
{
    CLEAN(free_clean) struct api_call *call = http_owner(exchange);

    (void)arg;
    http_on_gone(exchange, NULL, NULL);
    call->route->handle(call);
}

void api_answered(void *arg, const struct http_exchange *exchange, unsigned status)
{
    struct site *site = arg;

    audit_answered(&site->audit, exchange, status, time_mono_ns());
}
