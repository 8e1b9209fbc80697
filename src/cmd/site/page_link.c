/* page_link.c - asks the controller of a directory for a one-time link to its page.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/site/page_link.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/net/client.h"
#include "base/net/control_url.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define ASK_NS (10 * NS_PER_S)

struct link_answer {
    struct loop *loop;
    unsigned status;
    char path[160], why[256];
};

static void link_answer_fini(struct link_answer *answer)
{
    loop_destroy(answer->loop);
}

static void link_text_of(struct json_object *root, const char *name, char *ret, size_t room)
{
    struct json_object *value = NULL;

    ret[0] = '\0';
    if (root && json_object_is_type(root, json_type_object) &&
        json_object_object_get_ex(root, name, &value))
        snprintf(ret, room, "%s", json_object_get_string(value));
}

static void link_on_answer(void *arg, const struct client_answer *got)
{
    struct link_answer *answer = arg;
    struct json_tokener *tokener = json_tokener_new_ex(8);
    struct json_object *root = NULL;

    if (tokener && got->body->size && got->body->size < 65536)
        root = json_tokener_parse_ex(tokener, (const char *)got->body->data, (int)got->body->size);
    answer->status = got->status;
    link_text_of(root, "path", answer->path, sizeof(answer->path));
    if (got->status)
        link_text_of(root, "error", answer->why, sizeof(answer->why));
    else
        snprintf(answer->why, sizeof(answer->why), "%s", got->why);
    json_object_put(root);
    if (tokener)
        json_tokener_free(tokener);
    loop_stop(answer->loop);
}

/* The controller of one run leaves its token beside its address, a site's in a folder. */
static int link_access(const char *directory, struct control_url *url, struct path *cert,
                       struct err *err)
{
    struct path token;
    int result = control_url_read(directory, url, err);

    if (result == -ENOENT)
        return err_set(
            err, result,
            "no controller is running in %s; for a run that has ended, 'lockstep report RUN "
            "-o FILE' saves the page",
            directory);
    if (result == 0)
        result = path_join(cert, directory, "tls/cert.pem", err);
    if (result < 0 || url->token.text[0])
        return result;
    result = path_join(&token, directory, "tokens/reader.token", err);
    return result < 0 ? result : token_read(token.text, &url->token, err);
}

int page_link_ask(const char *directory, char ret[static 512], struct err *err)
{
    CLEAN(link_answer_fini) struct link_answer answer = { 0 };
    struct client_settings settings = { .timeout_ns = ASK_NS };
    struct control_url url = { .url = "" };
    struct client *client = NULL;
    struct buf body = { 0 };
    struct path cert;
    int result = link_access(directory, &url, &cert, err);

    if (result == 0)
        result = loop_create(&answer.loop, err);
    settings.url = url.url;
    if (result == 0 && access(cert.text, R_OK) == 0)
        settings.ca_file = cert.text;
    if (result == 0)
        result = client_open(answer.loop, &settings, &client, err);
    buf_put(&body, "{}", 2);
    if (result == 0) {
        result =
            client_call(client, "/api/v1/login-links", &url.token, &body, link_on_answer, &answer);
        if (result < 0)
            err_set(err, result, "%s: %s", url.url, strerror(-result));
    }
    if (result == 0)
        result = loop_run(answer.loop, err);
    client_close(client);
    buf_fini(&body);
    if (result < 0)
        return result;
    if (answer.status != 200 || strncmp(answer.path, "/login", 6) != 0)
        return err_set(err, answer.status ? -EPROTO : -EHOSTUNREACH, "%s: %s", url.url,
                       answer.why[0] ? answer.why : "no link in the answer");
    snprintf(ret, 512, "%s%s", url.url, answer.path);
    return 0;
}

void page_link_print(const char *address, FILE *out)
{
    const char *host = strstr(address, "://"), *colon = host ? strchr(host + 3, ':') : NULL;
    char name[256] = "HOST";

    fprintf(out, "%s\n", address);
    if (!getenv("SSH_CONNECTION") || !colon)
        return;
    gethostname(name, sizeof(name) - 1);
    fprintf(out, "from your own machine first: ssh -N -L %d:%.*s:%d %s\n", atoi(colon + 1),
            (int)(colon - host - 3), host + 3, atoi(colon + 1), name);
}
