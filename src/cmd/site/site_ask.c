/* site_ask.c - one request at a time to a site's controller, with its own loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/site/site_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/net/client.h"
#include "base/net/token.h"
#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

#define CALL_NS (30 * NS_PER_S)
#define PATIENCE_NS (60 * NS_PER_S) /* with a controller that is not ready yet */
#define AGAIN_NS (NS_PER_S / 2)
#define DEPTH 32
#define FETCH_TRIES 5 /* of a log that is compacted meanwhile */

struct site_ask {
    struct loop *loop;
    struct client *client;
    struct token token; /* "": none */
    char url[512];
    bool shows_progress; /* on the terminal, while a log is fetched */
    /* Of the newest answer: */
    bool done;
    unsigned status;
    struct buf body;
    char why[256];
};

bool site_ask_is_run(const struct site_options *options, const char *what)
{
    return options->control && (!what || (!strchr(what, '/') && strcmp(what, ".") != 0));
}

/* The one that may register runs may read, too; so does the reader's.  None is for sites that all may read. */
static int site_ask_token_default(struct token *ret, struct err *err)
{
    static const char *const names[] = { "tokens/launch.token", "tokens/reader.token" };
    struct path state, path;
    int result = paths_state(&state, err);

    for (size_t i = 0; result == 0 && i < COUNT(names); i++) {
        result = path_join(&path, state.text, names[i], err);
        if (result == 0)
            result = token_read(path.text, ret, err);
        if (result != -ENOENT)
            return result;
        result = 0;
    }
    return result;
}

static void ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

int site_ask_open(const struct site_options *options, struct site_ask **ret, struct err *err)
{
    const struct client_settings settings = { .url = options->control,
                                              .ca_file = options->ca,
                                              .pin = options->pin,
                                              .insecure_http = options->insecure_http,
                                              .timeout_ns = CALL_NS };
    CLEAN(ask_clean) struct site_ask *ask = calloc(1, sizeof(*ask));
    int result;

    if (!ask)
        return err_nomem(err);
    snprintf(ask->url, sizeof(ask->url), "%s", options->control);
    result = client_check_url(options->control, options->insecure_http, err);
    if (result == 0)
        result = options->token_file ? token_read(options->token_file, &ask->token, err)
                                     : site_ask_token_default(&ask->token, err);
    if (result < 0)
        return err_wrap(err, -EINVAL, "--control");
    result = loop_create(&ask->loop, err);
    if (result == 0)
        result = client_open(ask->loop, &settings, &ask->client, err);
    if (result == 0)
        *ret = TAKE(ask);
    return result;
}

void site_ask_close(struct site_ask *ask)
{
    if (!ask)
        return;
    client_close(ask->client);
    loop_destroy(ask->loop);
    buf_fini(&ask->body);
    explicit_bzero(&ask->token, sizeof(ask->token));
    free(ask);
}

static void site_ask_on_answer(void *arg, const struct client_answer *answer)
{
    struct site_ask *ask = arg;

    ask->done = true;
    ask->status = answer->status;
    snprintf(ask->why, sizeof(ask->why), "%s", answer->status ? "" : answer->why);
    buf_put(&ask->body, answer->body->data, answer->body->size);
}

/* `body` NULL: a GET. */
static int ask_once(struct site_ask *ask, const char *path, struct buf *body, struct err *err)
{
    int result;

    buf_fini(&ask->body);
    ask->body = (struct buf){ 0 };
    ask->done = false;
    result = client_call(ask->client, path, ask->token.text[0] ? &ask->token : NULL, body,
                         site_ask_on_answer, ask);
    if (result < 0)
        return err_set(err, result, "%s: %s", ask->url, strerror(-result));
    while (result == 0 && !ask->done)
        result = loop_turn(ask->loop, time_mono_ns() + CALL_NS, err);
    if (result == 0 && ask->status == 0)
        return err_set(err, -EHOSTUNREACH, "%s: %s", ask->url, ask->why);
    return result == 0 && ask->body.failed ? err_nomem(err) : result;
}

const char *site_ask_text(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    if (!root || !json_object_object_get_ex(root, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return NULL;
    return json_object_get_string(value);
}

static struct json_object *ask_parse(const struct site_ask *ask)
{
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH);
    struct json_object *root = NULL;

    if (tokener && ask->body.size && ask->body.size < INT32_MAX)
        root = json_tokener_parse_ex(tokener, (const char *)ask->body.data, (int)ask->body.size);
    if (tokener)
        json_tokener_free(tokener);
    return root;
}

/* What the controller says about a failure, in its own words. */
static int ask_refused(const struct site_ask *ask, struct err *err)
{
    struct json_object *root = ask_parse(ask);
    const char *words = site_ask_text(root, "error");
    char text[400] = "";
    int result;

    if (words)
        snprintf(text, sizeof(text), "%s", words);
    text_clean(text, strlen(text), false);
    result = ask->status == 404                         ? -ENOENT
             : ask->status == 401 || ask->status == 403 ? -EACCES
             : ask->status == 409                       ? -ESTALE
             : ask->status == 503 || ask->status == 429 ? -EAGAIN
                                                        : -EPROTO;
    json_object_put(root);
    return err_set(err, result, "%s: %s%sstatus %u", ask->url, text, text[0] ? "; " : "",
                   ask->status);
}

/* 0 with the answer in ask->body. */
static int ask_get(struct site_ask *ask, const char *path, struct err *err)
{
    int64_t until_ns = time_mono_ns() + PATIENCE_NS;
    struct timespec pause = time_spec(AGAIN_NS);

    for (;;) {
        int result = ask_once(ask, path, NULL, err);

        if (result == 0 && ask->status == 200)
            return 0;
        if (result == 0)
            result = ask_refused(ask, err);
        if (result != -EAGAIN || time_mono_ns() > until_ns)
            return result;
        nanosleep(&pause, NULL);
    }
}

static int ask_object(struct site_ask *ask, const char *path, struct json_object **ret,
                      struct err *err)
{
    struct json_object *root = ask_parse(ask);

    if (!root || !json_object_is_type(root, json_type_object)) {
        json_object_put(root);
        return err_set(err, -EPROTO, "%s%s: the answer is not a JSON object; is it a controller?",
                       ask->url, path);
    }
    *ret = root;
    return 0;
}

int site_ask_json(struct site_ask *ask, const char *path, struct json_object **ret, struct err *err)
{
    int result = ask_get(ask, path, err);

    return result < 0 ? result : ask_object(ask, path, ret, err);
}

int site_ask_post(struct site_ask *ask, const char *path, const char *body,
                  struct json_object **ret, struct err *err)
{
    struct buf text = { 0 };
    int result;

    buf_put(&text, body, strlen(body));
    result = ask_once(ask, path, &text, err);
    buf_fini(&text);
    if (result < 0)
        return result;
    return ask->status == 200 || ask->status == 202 ? ask_object(ask, path, ret, err)
                                                    : ask_refused(ask, err);
}

int site_ask_run(struct site_ask *ask, const char *what, char ret[static 64], struct err *err)
{
    struct json_object *root = NULL, *runs = NULL;
    const char *name = what;
    int result = 0;

    if (!what)
        result = site_ask_json(ask, "/api/v1/runs?newest_first=true&limit=1", &root, err);
    if (root && json_object_object_get_ex(root, "runs", &runs) &&
        json_object_is_type(runs, json_type_array))
        name = site_ask_text(json_object_array_get_idx(runs, 0), "run");
    if (result == 0 && !name)
        result = err_set(err, -ENOENT, "%s: no runs", ask->url);
    if (result == 0)
        result = paths_check_run(name, err);
    if (result == 0)
        snprintf(ret, 64, "%s", name);
    json_object_put(root);
    return result;
}

/* ---- its log ---- */

/* Appends from `at` on. */
static int site_ask_fetch_file(struct site_ask *ask, const char *run, const char *id, int fd,
                               uint64_t at, struct err *err)
{
    int result;

    do {
        char path[256];

        snprintf(path, sizeof(path), "/api/v1/runs/%s/log?id=%s&from=%" PRIu64, run, id, at);
        result = ask_get(ask, path, err);
        if (result == 0 && write(fd, ask->body.data, ask->body.size) != (ssize_t)ask->body.size)
            result = err_set(err, -errno, "cannot keep the log of run %s: %m", run);
        at += result == 0 ? ask->body.size : 0;
        if (ask->shows_progress)
            fprintf(stderr, "\rfetching the log of run %s: %.0f MB", run, (double)at / 1e6);
    } while (result == 0 && ask->body.size > 0);
    if (ask->shows_progress)
        fputs("\r\033[K", stderr);
    return result;
}

/* The log's id now; one that is not the id before is another log. */
static int site_ask_log_id(struct site_ask *ask, const char *run, char ret[static 48],
                           struct err *err)
{
    struct json_object *root = NULL;
    const char *id;
    char path[160];
    int result;

    snprintf(path, sizeof(path), "/api/v1/runs/%s/log", run);
    result = site_ask_json(ask, path, &root, err);
    id = site_ask_text(root, "id");
    if (result == 0 && (!id || strlen(id) > 40 || strspn(id, "0123456789abcdef-") != strlen(id)))
        result = err_set(err, -EPROTO, "%s%s: no id", ask->url, path);
    if (result == 0)
        snprintf(ret, 48, "%s", id);
    json_object_put(root);
    return result;
}

static int site_ask_fetch_try(struct site_ask *ask, const char *run, const char *file,
                              struct err *err)
{
    CLEAN(fd_clean) int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char id[48];
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", file);
    result = site_ask_log_id(ask, run, id, err);
    if (result < 0)
        return result;
    ask->shows_progress = isatty(STDERR_FILENO);
    result = site_ask_fetch_file(ask, run, id, fd, 0, err);
    ask->shows_progress = false;
    return result;
}

static int site_ask_fetch_into(struct site_ask *ask, const char *run, const struct path *run_dir,
                               struct err *err)
{
    struct path file;
    int result = path_join(&file, run_dir->text, "log.lsf", err);

    if (result == 0 && mkdir(run_dir->text, 0700) < 0)
        result = err_set(err, -errno, "%s: %m", run_dir->text);
    for (int i = 0; result == 0 && i < FETCH_TRIES; i++) {
        result = site_ask_fetch_try(ask, run, file.text, err);
        if (result != -ESTALE)
            return result;
        result = i + 1 < FETCH_TRIES ? 0 : result;
    }
    return result;
}

int site_ask_fetch(struct site_ask *ask, const char *run, struct path *ret, struct err *err)
{
    const char *base = getenv("TMPDIR");
    struct path directory, run_dir;
    int result;

    snprintf(directory.text, sizeof(directory.text), "%s/lockstep-log-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(directory.text))
        return err_set(err, -errno, "%s: %m", directory.text);
    result = path_join(&run_dir, directory.text, run, err);
    if (result == 0)
        result = site_ask_fetch_into(ask, run, &run_dir, err);
    if (result < 0) {
        tree_remove(directory.text);
        return result;
    }
    *ret = run_dir;
    return 0;
}

/* One look.  *id is that of the file; "": not known yet. */
static int site_ask_follow_once(struct site_ask *ask, const char *run, const struct path *run_dir,
                                char id[static 48], struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct path file, fresh;
    bool again = !id[0];
    char now[48];
    int result = path_join(&file, run_dir->text, "log.lsf", err);
    off_t at;

    if (result == 0)
        result = path_join(&fresh, run_dir->text, "log.new", err);
    if (result == 0)
        result = site_ask_log_id(ask, run, now, err);
    if (result < 0)
        return result;
    again = strcmp(id, now) != 0;
    fd = open(again ? fresh.text : file.text,
              O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (again ? O_TRUNC : 0), 0600);
    at = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (at < 0)
        return err_set(err, -errno, "%s: %m", file.text);
    result = site_ask_fetch_file(ask, run, now, fd, (uint64_t)at, err);
    if (result == 0 && again && rename(fresh.text, file.text) < 0)
        result = err_set(err, -errno, "%s: %m", file.text);
    snprintf(id, 48, "%s", result == 0 ? now : "");
    return result == -ESTALE ? 0 : result;
}

int site_ask_follow(struct site_ask *ask, const char *run, const struct path *run_dir,
                    int64_t delay_ns)
{
    const struct timespec pause = time_spec(delay_ns);
    struct err err = { "" };
    char id[48] = "";
    int result = 0;

    while (result == 0) {
        result = site_ask_follow_once(ask, run, run_dir, id, &err);
        nanosleep(&pause, NULL);
    }
    return result;
}

void site_ask_drop(const struct path *run_dir)
{
    struct path directory = *run_dir;
    char *slash = strrchr(directory.text, '/');

    if (!slash)
        return;
    *slash = '\0';
    tree_remove(directory.text);
}

int site_ask_exit(int result)
{
    return result == -ENOENT || result == -ENOTDIR || result == -EINVAL ? 2 : 3;
}
