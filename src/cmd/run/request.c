/* request.c - `lockstep request checkpoint` and `request depth`: asks all ranks of a run for something at the same step;
 * `request cancel` takes that back; `request inspect` asks a node for a look at itself, `request verify` for health checks.
 *
 * The request goes to the controller of the run, which chooses the step; the command waits until every rank has answered, and
 * prints what each did.  A node is asked by the site's controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_member.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/net/client.h"
#include "base/net/control_url.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"
#include "verify/verify.h"
#include "wire/decision.h"
#include "wire/ring.h"

#define LOOK_NS (250 * NS_PER_MS)
#define UNREACHABLE_NS (10 * NS_PER_S) /* a controller that was killed is started again by then */

struct request_options {
    struct client_settings control;
    const char *token_file, *depth, *stage;
    int64_t wait_ns;
    bool json, dry_run;
};

#define COMMON_OPTS                                                                                \
    { "control",                                                                                   \
      0,                                                                                           \
      OPT_TEXT,                                                                                    \
      offsetof(struct request_options, control.url),                                               \
      "URL",                                                                                       \
      "the site's controller, for a run without a controller of its own",                          \
      "LOCKSTEP_CONTROL",                                                                          \
      false },                                                                                     \
        CLIENT_TRUST_OPTS(offsetof(struct request_options, control.ca_file),                       \
                          offsetof(struct request_options, control.pin),                           \
                          offsetof(struct request_options, control.insecure_http)),                \
        { "token-file",                                                                            \
          0,                                                                                       \
          OPT_TEXT,                                                                                \
          offsetof(struct request_options, token_file),                                            \
          "FILE",                                                                                  \
          "token that created the run, or the administrator's; default: the run's own",            \
          "LOCKSTEP_TOKEN_FILE",                                                                   \
          false },                                                                                 \
        { "wait",       0,                                                                         \
          OPT_DURATION, offsetof(struct request_options, wait_ns),                                 \
          "TIME",       "how long to wait for the ranks, default 15m; 0s: do not wait",            \
          NULL,         false },                                                                   \
        { "json", 0,    OPT_FLAG, offsetof(struct request_options, json), NULL, "one JSON object", \
          NULL,   false },                                                                         \
    {                                                                                              \
        "dry-run", 0, OPT_FLAG, offsetof(struct request_options, dry_run), NULL,                   \
            "print what would be requested of which controller, and request nothing", NULL, false  \
    }

static const struct opt checkpoint_opts[] = {
    COMMON_OPTS,
    { .name = NULL },
};

static const struct opt depth_opts[] = {
    { "depth", 0, OPT_TEXT, offsetof(struct request_options, depth), "DEPTH",
      "what ranks record: all, steps (neither phases nor spans of devices), none", NULL, false },
    COMMON_OPTS,
    { .name = NULL },
};

static const struct opt verify_opts[] = {
    { "stage", 0, OPT_TEXT, offsetof(struct request_options, stage), "STAGE",
      "quick, prolog (default), deep or burn", NULL, false },
    COMMON_OPTS,
    { .name = NULL },
};

/* ---- the controller of a run ---- */

struct access {
    struct path directory; /* "": the run is not on this machine */
    bool is_node;          /* and what is named `run` is a node */
    char run[64];
    struct control_url url;
    struct token token;
};

/* The file names the run's own controller, with a token, or the site's. */
static int access_local(const struct request_options *options, struct access *ret, struct err *err)
{
    struct path token;
    int result = control_url_read(ret->directory.text, &ret->url, NULL);

    if (result == 0 && ret->url.token.text[0]) {
        result = path_join(&token, ret->directory.text, "tokens/agent.token", err);
        return result < 0 ? result : token_read(token.text, &ret->token, err);
    }
    if (result < 0 && !options->control.url)
        return err_set(
            err, -ENOENT,
            "no controller of run %s is running; with a site's controller, give --control",
            ret->run);
    if (options->control.url)
        snprintf(ret->url.url, sizeof(ret->url.url), "%s", options->control.url);
    if (options->token_file)
        return token_read(options->token_file, &ret->token, err);
    result = path_join(&token, ret->directory.text, "agent.token", err);
    return result < 0 ? result : token_read(token.text, &ret->token, err);
}

static int access_remote(const struct request_options *options, struct access *ret, struct err *err)
{
    struct path state, token;
    int result = paths_check_run(ret->run, err);

    if (result < 0)
        return result;
    snprintf(ret->url.url, sizeof(ret->url.url), "%s", options->control.url);
    if (options->token_file)
        return token_read(options->token_file, &ret->token, err);
    result = paths_state(&state, err);
    if (result == 0)
        result = path_join(&token, state.text,
                           ret->is_node ? "tokens/admin.token" : "tokens/launch.token", err);
    return result < 0 ? result : token_read(token.text, &ret->token, err);
}

static int access_find_node(const struct request_options *options, const char *what,
                            struct access *ret, struct err *err)
{
    if (!options->control.url)
        return err_set(
            err, -EINVAL,
            "needs --control URL or LOCKSTEP_CONTROL: the site's controller asks its nodes");
    if (strlen(what) >= sizeof(ret->run))
        return err_set(err, -EINVAL, "'%.63s...' is not a node name", what);
    strcpy(ret->run, what);
    return access_remote(options, ret, err);
}

/* A run of this machine by its directory, another one by its name at the site's controller. */
static int access_find(const struct request_options *options, const char *what, struct access *ret,
                       struct err *err)
{
    struct runfile file;
    int result;

    if (ret->is_node)
        return access_find_node(options, what, ret, err);
    result = paths_find(what, &ret->directory, err);

    if (result == -ENOENT && options->control.url && !strchr(what, '/') &&
        strlen(what) < sizeof(ret->run)) {
        ret->directory.text[0] = '\0';
        strcpy(ret->run, what);
        return access_remote(options, ret, err);
    }
    if (result == 0)
        result = runfile_read(ret->directory.text, &file, err);
    if (result < 0)
        return result;
    snprintf(ret->run, sizeof(ret->run), "%s", file.id);
    runfile_fini(&file);
    return access_local(options, ret, err);
}

/* ---- one call ---- */

struct conversation {
    struct loop *loop;
    bool answered;
    unsigned status;
    struct json_object *root; /* NULL: none */
    char why[256];
};

static void conversation_fini(struct conversation *talk)
{
    json_object_put(talk->root);
    loop_destroy(talk->loop);
}

static void request_on_answer(void *arg, const struct client_answer *answer)
{
    struct conversation *talk = arg;
    struct json_tokener *tokener = json_tokener_new_ex(16);

    talk->answered = true;
    talk->status = answer->status;
    snprintf(talk->why, sizeof(talk->why), "%s", answer->status ? "" : answer->why);
    if (tokener && answer->body->size && answer->body->size < INT32_MAX)
        talk->root = json_tokener_parse_ex(tokener, (const char *)answer->body->data,
                                           (int)answer->body->size);
    if (tokener)
        json_tokener_free(tokener);
    loop_stop(talk->loop);
}

static const char *request_member_text(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return "";
    return json_object_get_string(value);
}

static bool request_member_true(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    return root && json_object_object_get_ex(root, name, &value) && json_object_get_boolean(value);
}

/* *ret is the caller's.  -EAGAIN: the controller cannot be reached now, or is starting. */
static int request_call(const struct request_options *options, const struct access *access,
                        const char *path, struct buf *body, struct json_object **ret,
                        struct err *err)
{
    CLEAN(conversation_fini) struct conversation talk = { 0 };
    struct client_settings control = options->control;
    struct client *client = NULL;
    int result = loop_create(&talk.loop, err);

    control.url = access->url.url;
    if (result == 0)
        result = client_open(talk.loop, &control, &client, err);
    if (result == 0)
        result = client_call(client, path, &access->token, body, request_on_answer, &talk);
    if (result < 0 && client)
        err_set(err, result, "%s: %s", path, strerror(-result));
    if (result == 0)
        result = loop_run(talk.loop, err);
    client_close(client);
    if (result < 0)
        return result;
    if (talk.status == 200 || talk.status == 202) {
        *ret = TAKE(talk.root);
        return *ret ? 0 : err_set(err, -EPROTO, "the controller's answer is no JSON");
    }
    if (!talk.status)
        return err_set(err, -EAGAIN, "%s", talk.why);
    return err_set(err, talk.status == 503 || talk.status == 401 ? -EAGAIN : -EPROTO,
                   "the controller responded with status %u: %s", talk.status,
                   request_member_text(talk.root, "error"));
}

/* ---- asking, and waiting for the answers ---- */

static void request_path(const struct access *access, const char *id, char *ret, size_t room)
{
    snprintf(ret, room, "/api/v1/%s/%s/requests%s%s", access->is_node ? "nodes" : "runs",
             access->run, id ? "?id=" : "", id ? id : "");
}

static int request_post(const struct request_options *options, const struct access *access,
                        const struct request *request, char ret_id[static DECISION_ID],
                        struct err *err)
{
    struct json_object *root = NULL;
    struct buf body = { 0 };
    char path[128], text[128];
    int result;

    request_path(access, NULL, path, sizeof(path));
    if (request->kind == REQUEST_VERIFY)
        snprintf(text, sizeof(text), "{\"kind\":\"%s\",\"stage\":\"%s\"}",
                 request_kind_name(request->kind), options->stage);
    else
        snprintf(text, sizeof(text), "{\"kind\":\"%s\",\"argument\":%" PRId64 ",\"of\":\"%s\"}",
                 request_kind_name(request->kind), request->argument, request->of);
    buf_put(&body, text, strlen(text));
    result = request_call(options, access, path, &body, &root, err);
    buf_fini(&body);
    if (result < 0)
        return result;
    snprintf(ret_id, DECISION_ID, "%s", request_member_text(root, "request"));
    json_object_put(root);
    return ret_id[0] ? 0 : err_set(err, -EPROTO, "the controller's answer names no request");
}

static struct json_object *request_last_decision(struct json_object *root)
{
    struct json_object *list = NULL;
    size_t count;

    if (!json_object_object_get_ex(root, "decisions", &list) ||
        !json_object_is_type(list, json_type_array))
        return NULL;
    count = json_object_array_length(list);
    return count ? json_object_array_get_idx(list, count - 1) : NULL;
}

/* Each decision once: a renewed request has several. */
static void request_print_decision(struct json_object *root, char printed[static DECISION_ID])
{
    struct json_object *decision = request_last_decision(root), *step = NULL;
    const char *id = decision ? request_member_text(decision, "id") : "";

    if (!id[0] || strcmp(id, printed) == 0 ||
        strcmp(request_member_text(decision, "state"), "ordered") != 0 ||
        !json_object_object_get_ex(decision, "step", &step) || !step) /* a node has no steps */
        return;
    snprintf(printed, DECISION_ID, "%s", id);
    log_info("ordered for the end of step %s", json_object_get_string(step));
}

/* 0 and *ret: it is over; -ETIMEDOUT: not yet, *ret has what is known (NULL: nothing). */
static int request_wait(const struct request_options *options, const char *what,
                        struct access *access, const char *id, struct json_object **ret,
                        struct err *err)
{
    int64_t until_ns = time_mono_ns() + options->wait_ns, lost_ns = 0;
    char path[192], printed[DECISION_ID] = "";

    request_path(access, id, path, sizeof(path));
    do {
        struct timespec pause = time_spec(LOOK_NS);
        struct json_object *root = NULL;
        int result = request_call(options, access, path, NULL, &root, err);
        int64_t now_ns = time_mono_ns();

        if (result < 0 && result != -EAGAIN)
            return result;
        lost_ns = result == 0 ? 0 : lost_ns ? lost_ns : now_ns;
        if (lost_ns && now_ns - lost_ns > UNREACHABLE_NS)
            return err_wrap(err, -EAGAIN, "the controller is gone");
        if (root) {
            json_object_put(*ret);
            *ret = root;
            request_print_decision(root, printed);
            if (!request_member_true(root, "open"))
                return 0;
        } else {
            access_find(options, what, access, NULL); /* it may be another process by now */
        }
        nanosleep(&pause, NULL);
    } while (time_mono_ns() < until_ns);
    return err_set(err, -ETIMEDOUT, "request %s is not answered yet", id);
}

/* ---- what each rank did ---- */

/* A rank's word, or a node's: that of a launcher is about its ranks. */
static bool request_is_executed(struct json_object *part, struct json_object *decision)
{
    const char *of_node =
        strcmp(request_member_text(decision, "target"), "nodes") == 0 ? "node " : "rank ";

    return strncmp(request_member_text(part, "part"), of_node, 5) == 0;
}

static void request_print_part(struct json_object *part, struct json_object *decision,
                               bool checkpoint)
{
    const char *result = request_member_text(part, "result"),
               *text = request_member_text(part, "text");
    struct json_object *step = NULL;
    bool has_step = json_object_object_get_ex(part, "step", &step) && step;

    if (!request_is_executed(part, decision))
        return;
    printf("%s: %s", request_member_text(part, "part"),
           strcmp(result, "done") == 0      ? (checkpoint ? "saved" : "done")
           : strcmp(result, "unknown") == 0 ? "no answer"
                                            : result);
    if (has_step && strcmp(result, "unknown") != 0)
        printf(" at step %s", json_object_get_string(step));
    printf("%s%s\n", text[0] ? ": " : "", text);
}

/* True: all ranks did it at the step of the newest decision. */
static bool request_is_done(struct json_object *root)
{
    struct json_object *decision = request_last_decision(root), *list = NULL;
    size_t done = 0, ranks = 0;

    if (!decision || request_member_true(root, "open") ||
        strcmp(request_member_text(decision, "state"), "ordered") != 0 ||
        !json_object_object_get_ex(decision, "outcomes", &list))
        return false;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *part = json_object_array_get_idx(list, i);

        if (!request_is_executed(part, decision))
            continue;
        ranks++;
        done += strcmp(request_member_text(part, "result"), "done") == 0;
    }
    return ranks > 0 && done == ranks;
}

static void print_request(struct json_object *root, bool checkpoint)
{
    struct json_object *decision = request_last_decision(root), *list = NULL;

    if (!decision) {
        log_error("nothing was decided");
        return;
    }
    if (json_object_object_get_ex(decision, "outcomes", &list)) {
        for (size_t i = 0; i < json_object_array_length(list); i++)
            request_print_part(json_object_array_get_idx(list, i), decision, checkpoint);
    }
    if (strcmp(request_member_text(decision, "state"), "expired") == 0)
        log_error("%s", request_member_text(decision, "why"));
}

/* What was to be cancelled is over: by that, or by itself. */
static int request_cancel_end(const struct request_options *options, struct json_object *root,
                              const char *id)
{
    struct json_object *decision = request_last_decision(root);
    const char *why = decision ? request_member_text(decision, "why") : "";
    bool cancelled = strncmp(why, "cancelled", 9) == 0;

    if (options->json)
        show_json(root, JSON_C_TO_STRING_PRETTY);
    else
        printf("request %s: %s\n", id, cancelled ? why : "was over already");
    return cancelled ? 0 : 1;
}

static int request_end(const struct request_options *options, struct json_object *root, int result,
                       bool checkpoint, const struct err *err)
{
    if (root && options->json)
        show_json(root, JSON_C_TO_STRING_PRETTY);
    else if (root)
        print_request(root, checkpoint);
    if (result < 0) {
        log_error("%s", err->text);
        return 3;
    }
    return request_is_done(root) ? 0 : 1;
}

static bool request_is_of_node(const struct request *request)
{
    return request->kind == REQUEST_INSPECT || request->kind == REQUEST_VERIFY;
}

static int request_send(const struct request_options *options, const char *what,
                        const struct request *request)
{
    CLEAN(json_clean) struct json_object *root = NULL;
    struct access access = { .is_node = request_is_of_node(request) };
    struct err err = { "" };
    char id[DECISION_ID];
    int result = access_find(options, what, &access, &err);

    if (result == 0 && options->dry_run) {
        printf("would request %s of %s %s at %s\n", request_kind_name(request->kind),
               access.is_node ? "node" : "run", access.run, access.url.url);
        return 0;
    }
    if (result == 0)
        result = request_post(options, &access, request, id, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOENT || result == -EINVAL ? 2 : 3;
    }
    if (!options->wait_ns) {
        printf("%s\n", id);
        return 0;
    }
    if (request->kind != REQUEST_CANCEL)
        log_info("request %s", id);
    result = request_wait(options, what, &access, id, &root, &err);
    if (request->kind == REQUEST_CANCEL && result == 0)
        return request_cancel_end(options, root, id);
    return request_end(options, root, result, request->kind == REQUEST_CHECKPOINT_NOW, &err);
}

/* ---- the commands ---- */

static bool request_id_parse(const char *text, char ret[static DECISION_ID])
{
    if (strncmp(text, "q-", 2) != 0 || strlen(text) >= DECISION_ID ||
        strspn(text + 2, "0123456789abcdef") != strlen(text + 2))
        return false;
    strcpy(ret, text);
    return true;
}

static int request_main(const struct command *command, int argc, char **argv,
                        struct request *request)
{
    struct request_options options = { .wait_ns = 15 * 60 * NS_PER_S,
                                       .stage = "prolog",
                                       .control.timeout_ns = 30 * NS_PER_S };
    int first = opt_parse(command, argc, argv, &options);

    if (first < 0)
        return OPT_EXIT(first);
    if (request->kind == REQUEST_CANCEL && first + 2 == argc) {
        if (!request_id_parse(argv[--argc], request->of)) {
            log_error("'%s' is not the id of a request, such as q-0123456789abcdef", argv[argc]);
            return 2;
        }
    }
    if (first + 1 != argc) {
        log_error(request_is_of_node(request)       ? "expected one node"
                  : request->kind == REQUEST_CANCEL ? "expected one run, and perhaps a request"
                                                    : "expected one run");
        return 2;
    }
    if (request->kind == REQUEST_DEPTH) {
        const char *depth = options.depth ? options.depth : "";

        request->argument = strcmp(depth, "all") == 0     ? 0
                            : strcmp(depth, "steps") == 0 ? 1
                            : strcmp(depth, "none") == 0  ? RING_REQUEST_DEPTH_OFF
                                                          : -1;
        if (request->argument < 0) {
            log_error(options.depth ? "--depth %s: expected all, steps or none"
                                    : "expected --depth all, steps or none%s",
                      depth);
            return 2;
        }
    }
    if (request->kind == REQUEST_VERIFY && verify_stage_of(options.stage) < 0) {
        log_error("--stage %s: expected quick, prolog, deep or burn", options.stage);
        return 2;
    }
    return request_send(&options, argv[first], request);
}

static int request_checkpoint_main(int argc, char **argv)
{
    struct request request = { .kind = REQUEST_CHECKPOINT_NOW };

    return request_main(&command_request_checkpoint, argc, argv, &request);
}

static int request_depth_main(int argc, char **argv)
{
    struct request request = { .kind = REQUEST_DEPTH };

    return request_main(&command_request_depth, argc, argv, &request);
}

static int request_cancel_main(int argc, char **argv)
{
    struct request request = { .kind = REQUEST_CANCEL };

    return request_main(&command_request_cancel, argc, argv, &request);
}

static int request_inspect_main(int argc, char **argv)
{
    struct request request = { .kind = REQUEST_INSPECT };

    return request_main(&command_request_inspect, argc, argv, &request);
}

static int request_verify_main(int argc, char **argv)
{
    struct request request = { .kind = REQUEST_VERIFY };

    return request_main(&command_request_verify, argc, argv, &request);
}

const struct command command_request_checkpoint = {
    .name = "request checkpoint",
    .operands = "RUN",
    .summary = "ask all ranks of a run for a checkpoint at the same step",
    .details = "Waits until every rank has answered, and prints what each did.  Exits 0 if all "
               "saved, 1 if "
               "not,\n3 if that is not known.",
    .opt = checkpoint_opts,
    .run = request_checkpoint_main,
};

const struct command command_request_depth = {
    .name = "request depth",
    .operands = "RUN",
    .summary = "change how much all ranks of a run record, from the same step on",
    .opt = depth_opts,
    .run = request_depth_main,
};

const struct command command_request_cancel = {
    .name = "request cancel",
    .operands = "RUN [REQUEST]",
    .summary = "take back an open request of a run",
    .details =
        "Without REQUEST it is the only open one.  A request that no rank was asked for is not "
        "carried out.\nRanks that were asked already still do it at the step they were given, "
        "because another\nrank may have done so.",
    .opt = checkpoint_opts,
    .run = request_cancel_main,
};

const struct command command_request_inspect = {
    .name = "request inspect",
    .operands = "NODE",
    .summary = "ask the daemon of a node to read all its sensors, and report checks",
    .details = "Needs the administrator's token of the site's controller.  Exits 0 if the node did "
               "it, 1 if not,\n3 if that is not known.",
    .opt = checkpoint_opts,
    .run = request_inspect_main,
};

const struct command command_request_verify = {
    .name = "request verify",
    .operands = "NODE",
    .summary = "ask the daemon of a node for health checks while no job uses it",
    .details =
        "Needs the administrator's token of the site's controller.  Exits 0 if the checks were "
        "done, whatever\ntheir results, 1 if not, 3 if that is not known.",
    .opt = verify_opts,
    .run = request_verify_main,
};
