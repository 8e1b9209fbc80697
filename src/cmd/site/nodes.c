/* nodes.c - `lockstep nodes`: where each node of a site is in its life; `node out` and `node in`: what a person asks for one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_member.h"
#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/site/ps_site.h"
#include "cmd/site/site_ask.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"

#define NODES_LOOK_NS (250 * NS_PER_MS)
#define NODES_WAIT_NS (60 * NS_PER_S)

struct nodes_settings {
    struct site_options site;
    const char *when;
    int64_t wait_ns;
    bool json, dry_run;
};

static const struct opt nodes_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct nodes_settings, json), NULL, "one JSON array", NULL,
      false },
    SITE_ASK_OPTS(offsetof(struct nodes_settings, site)),
    { .name = NULL },
};

#define NODE_ASK_OPTS                                                                              \
    { "json",   0,                                                                                 \
      OPT_FLAG, offsetof(struct nodes_settings, json),                                             \
      NULL,     "one JSON object: the request, its decisions and their outcomes",                  \
      NULL,     false },                                                                           \
        { "wait",       0,                                                                         \
          OPT_DURATION, offsetof(struct nodes_settings, wait_ns),                                  \
          "TIME",       "how long to wait for the end, default 1m; 0s: do not wait",               \
          NULL,         false },                                                                   \
        { "dry-run", 0,                                                                            \
          OPT_FLAG,  offsetof(struct nodes_settings, dry_run),                                     \
          NULL,      "print what would be requested, and request nothing",                         \
          NULL,      false },                                                                      \
        SITE_ASK_OPTS(offsetof(struct nodes_settings, site))

static const struct opt node_out_opts[] = {
    { "when", 0, OPT_TEXT, offsetof(struct nodes_settings, when), "WHEN",
      "idle: its jobs run to their end; checkpoint: runs with spares save, then leave it; now: "
      "they "
      "leave it at once; default idle",
      NULL, false },
    NODE_ASK_OPTS,
    { .name = NULL },
};

static const struct opt node_in_opts[] = {
    NODE_ASK_OPTS,
    { .name = NULL },
};

static void nodes_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

static struct json_object *nodes_member(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    if (root)
        json_object_object_get_ex(root, name, &value);
    return value;
}

/* ---- the list ---- */

static struct json_object *nodes_row_json(struct json_object *row)
{
    static const struct {
        const char *name, *from;
    } members[] = { { "state", "state" },     { "since", "since_time" },
                    { "why", "why" },         { "lemon", "lemon" },
                    { "refault", "refault" }, { "reason", "reason" },
                    { "stage", "stage" },     { "passes", "passes" },
                    { "named", "named" },     { "maintenance", "maintenance" } };
    struct json_object *object = json_object_new_object(), *life = nodes_member(row, "life");

    json_object_object_add(object, "node", json_object_get(nodes_member(row, "node")));
    for (size_t i = 0; i < COUNT(members); i++)
        json_object_object_add(object, members[i].name,
                               json_object_get(nodes_member(life, members[i].from)));
    json_object_object_add(object, "health", json_object_get(nodes_member(row, "state")));
    json_object_object_add(object, "heard", json_object_get(nodes_member(row, "heard_time")));
    json_object_object_add(object, "checks", json_object_get(nodes_member(row, "checks")));
    return object;
}

static void nodes_age(struct json_object *life, int64_t now_ns, char *ret, size_t room)
{
    const char *text = site_ask_text(life, "since_time");
    struct tm date = { 0 };

    snprintf(ret, room, "-");
    if (text && strptime(text, "%Y-%m-%dT%H:%M:%S", &date))
        ps_age(now_ns - timegm(&date) * NS_PER_S, ret, room);
}

static void nodes_row_print(struct json_object *row, int64_t now_ns)
{
    struct json_object *life = nodes_member(row, "life");
    const char *name = site_ask_text(row, "node"), *state = site_ask_text(life, "state"),
               *health = site_ask_text(row, "state"), *why = site_ask_text(life, "why");
    bool lemon = json_object_get_boolean(nodes_member(life, "lemon")),
         refault = json_object_get_boolean(nodes_member(life, "refault"));
    char age[32], clean[4][256];

    nodes_age(life, now_ns, age, sizeof(age));
    printf("%-16s %-11s %-8s %7s  %s%s\n", show_clean(name ? name : "?", clean[0], 64),
           show_clean(state ? state : "?", clean[1], 16),
           show_clean(health ? health : "?", clean[2], 16), age,
           lemon     ? "lemon: "
           : refault ? "failed again after it came back: "
                     : "",
           show_clean(why ? why : "", clean[3], sizeof(clean[3])));
}

static void nodes_print(struct json_object *root, struct json_object *rows)
{
    const char *mode = site_ask_text(root, "mode");
    size_t count = rows ? json_object_array_length(rows) : 0;
    int64_t now_ns = time_real_ns();

    if (count)
        printf("%-16s %-11s %-8s %7s  %s\n", "NODE", "STATE", "HEALTH", "SINCE", "WHY");
    else
        log_info(
            "no node has sent anything with a token of its own ('lockstep agent --every-run')");
    for (size_t i = 0; i < count; i++)
        nodes_row_print(json_object_array_get_idx(rows, i), now_ns);
    if (count && mode && strcmp(mode, "act") != 0)
        log_info(
            strcmp(mode, "off") == 0
                ? "the kill switch is on: no node is taken out or given back"
                : "no node is taken out or given back: the controller was started without --act");
}

static int nodes_list(const struct nodes_settings *settings, struct err *err)
{
    CLEAN(nodes_ask_clean) struct site_ask *ask = NULL;
    CLEAN(json_clean) struct json_object *root = NULL;
    struct json_object *rows, *list;
    int result = site_ask_open(&settings->site, &ask, err);

    if (result == 0)
        result = site_ask_json(
            ask, settings->json ? "/api/v1/node-states?checks=true" : "/api/v1/node-states", &root,
            err);
    if (result < 0)
        return result;
    rows = nodes_member(root, "nodes");
    if (!json_object_is_type(rows, json_type_array))
        return err_set(err, -EPROTO, "the controller's answer has no list of nodes");
    if (!settings->json) {
        nodes_print(root, rows);
        return 0;
    }
    list = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        json_object_array_add(list, nodes_row_json(json_object_array_get_idx(rows, i)));
    show_json(list, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    json_object_put(list);
    return 0;
}

static int nodes_run(int argc, char **argv)
{
    struct nodes_settings settings = { .json = false };
    struct err err = { "" };
    int result = opt_parse_all(&command_nodes, argc, argv, &settings);

    if (result < 0)
        return OPT_EXIT(result);
    if (!settings.site.control) {
        log_error("needs --control URL or LOCKSTEP_CONTROL: the site's controller knows its nodes");
        return 2;
    }
    result = nodes_list(&settings, &err);
    if (result < 0)
        log_error("%s", err.text);
    return result < 0 ? site_ask_exit(result) : 0;
}

/* ---- out and in ---- */

static struct json_object *nodes_newest(struct json_object *root, const char *list, const char *id)
{
    struct json_object *rows = nodes_member(root, list);

    for (size_t i = rows && json_object_is_type(rows, json_type_array)
                        ? json_object_array_length(rows)
                        : 0;
         i > 0; i--) {
        struct json_object *row = json_object_array_get_idx(rows, i - 1);
        const char *of = id ? site_ask_text(row, "of") : NULL;

        if (!id || (of && strcmp(of, id) == 0))
            return row;
    }
    return NULL;
}

/* Until it is over; *ret is its decision as far as it is known. */
static int nodes_wait(struct site_ask *ask, const char *node, const char *id, int64_t wait_ns,
                      struct json_object **ret, struct err *err)
{
    const struct timespec pause = time_spec(NODES_LOOK_NS);
    int64_t until_ns = time_mono_ns() + wait_ns;
    char path[192];

    snprintf(path, sizeof(path), "/api/v1/nodes/%s/requests?id=%s", node, id);
    for (;;) {
        int result;

        json_object_put(*ret);
        *ret = NULL;
        result = site_ask_json(ask, path, ret, err);
        if (result < 0)
            return result;
        if (!json_object_get_boolean(nodes_member(*ret, "open")) &&
            nodes_newest(*ret, "decisions", NULL))
            return 0;
        if (time_mono_ns() > until_ns)
            return err_set(err, -ETIMEDOUT, "request %s is not answered yet", id);
        nanosleep(&pause, NULL);
    }
}

/* The exit status. */
static int nodes_report(const char *node, struct json_object *root, bool json)
{
    struct json_object *decision = nodes_newest(root, "decisions", NULL),
                       *outcome = nodes_newest(decision, "outcomes", NULL);
    const char *state = site_ask_text(decision, "state"), *why = site_ask_text(decision, "why"),
               *result = site_ask_text(outcome, "result"), *text = site_ask_text(outcome, "text");
    bool done = state && strcmp(state, "ordered") == 0 && result && strcmp(result, "done") == 0;
    char clean[300];

    if (json)
        show_json(root, JSON_C_TO_STRING_PRETTY);
    if (done && json)
        return 0;
    if (done) {
        printf("%s: %s\n", node, show_clean(text ? text : "done", clean, sizeof(clean)));
        return 0;
    }
    log_error("%s: %s%s%s", node, result ? result : "", result ? ": " : "",
              show_clean(text && result ? text
                         : why          ? why
                                        : "nothing was decided",
                         clean, sizeof(clean)));
    return result && strcmp(result, "unknown") == 0 ? 3 : 1;
}

static int nodes_ask_open(struct nodes_settings *settings, struct path *token,
                          struct site_ask **ret, struct err *err)
{
    struct path state;
    int result = 0;

    if (!settings->site.token_file) {
        result = paths_state(&state, err);
        if (result == 0)
            result = path_join(token, state.text, "tokens/admin.token", err);
        settings->site.token_file = token->text;
    }
    return result < 0 ? result : site_ask_open(&settings->site, ret, err);
}

static int nodes_send(struct nodes_settings *settings, const char *node, const char *body)
{
    CLEAN(nodes_ask_clean) struct site_ask *ask = NULL;
    CLEAN(json_clean) struct json_object *root = NULL;
    struct err err = { "" };
    struct path token;
    char path[160], id[32] = "";
    const char *request;
    int result = paths_check_run(node, &err); /* the same letters */

    if (result == 0)
        result = nodes_ask_open(settings, &token, &ask, &err);
    snprintf(path, sizeof(path), "/api/v1/nodes/%s/requests", node);
    if (result == 0)
        result = site_ask_post(ask, path, body, &root, &err);
    request = site_ask_text(root, "request");
    if (request)
        snprintf(id, sizeof(id), "%s", request);
    if (result == 0 && !settings->wait_ns) {
        printf("%s\n", id);
        return 0;
    }
    json_object_put(root);
    root = NULL;
    if (result == 0)
        result = nodes_wait(ask, node, id, settings->wait_ns, &root, &err);
    if (result < 0)
        log_error("%s", err.text);
    return result == -ETIMEDOUT ? 3
           : result < 0         ? site_ask_exit(result)
                                : nodes_report(node, root, settings->json);
}

static int nodes_main(const struct command *command, int argc, char **argv, const char *kind)
{
    struct nodes_settings settings = { .wait_ns = NODES_WAIT_NS };
    int first = opt_parse(command, argc, argv, &settings);
    char body[64], when[40] = "";

    if (first < 0)
        return OPT_EXIT(first);
    if (first + 1 != argc) {
        log_error("expected one node");
        return 2;
    }
    if (!settings.site.control) {
        log_error(
            "needs --control URL or LOCKSTEP_CONTROL: the site's controller takes its nodes out");
        return 2;
    }
    if (settings.when && strcmp(settings.when, "idle") != 0 &&
        strcmp(settings.when, "checkpoint") != 0 && strcmp(settings.when, "now") != 0) {
        log_error("--when %s: expected idle, checkpoint or now", settings.when);
        return 2;
    }
    if (settings.when)
        snprintf(when, sizeof(when), ",\"when\":\"%s\"", settings.when);
    snprintf(body, sizeof(body), "{\"kind\":\"%s\"%s}", kind, when);
    if (settings.dry_run) {
        printf("would request %s of node %s at %s\n", kind, argv[first], settings.site.control);
        return 0;
    }
    return nodes_send(&settings, argv[first], body);
}

static int nodes_out_run(int argc, char **argv)
{
    return nodes_main(&command_node_out, argc, argv, "node-out");
}

static int nodes_in_run(int argc, char **argv)
{
    return nodes_main(&command_node_in, argc, argv, "node-in");
}

const struct command command_nodes = {
    .name = "nodes",
    .operands = "",
    .summary = "list the nodes of a site: in service, suspect, out, and why",
    .opt = nodes_opts,
    .run = nodes_run,
};

const struct command command_node_out = {
    .name = "node out",
    .operands = "NODE",
    .summary = "take a node out of the scheduler's hands, for maintenance",
    .details = "Needs the administrator's token, and a controller that was started with --act.  "
               "Jobs of others\nare never ended.",
    .opt = node_out_opts,
    .run = nodes_out_run,
};

const struct command command_node_in = {
    .name = "node in",
    .operands = "NODE",
    .summary = "give a node back to the scheduler, after a check",
    .details = "Only a node that lockstep took out, that has passed its checks since, and that is "
               "still drained\nwith exactly lockstep's reason.",
    .opt = node_in_opts,
    .run = nodes_in_run,
};
