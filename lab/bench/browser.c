/* browser.c - commands as JSON objects that end with a NUL byte, and their answers by id; events are passed over.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"

#define ANSWER_NS (60 * NS_PER_S)
#define ANSWER_BYTES_MAX (64u << 20)
#define END_NS (5 * NS_PER_S)
#define COMMAND_FD 3 /* where Chromium reads and writes with --remote-debugging-pipe */
#define ANSWER_FD 4

struct browser {
    pid_t pid;
    int to, from;
    unsigned next;
    char session[64];
    struct buf rest; /* bytes of the next answer */
};

/* ---- the process ---- */

static void browser_exec(const char *program, const struct words *words, int commands, int answers)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Out of the way of 3 and 4, which they may be themselves. */
    int in = fcntl(commands, F_DUPFD_CLOEXEC, 10), out = fcntl(answers, F_DUPFD_CLOEXEC, 10);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    dup2(in, COMMAND_FD);
    dup2(out, ANSWER_FD);
    execv(program, words->argv);
    _exit(127);
}

static int browser_start(struct browser *browser, const char *program, const struct words *words,
                         struct err *err)
{
    int commands[2] = { -1, -1 }, answers[2] = { -1, -1 };

    if (access(program, X_OK) < 0)
        return err_set(err, -ENOENT, "%s: %m", program);
    if (pipe2(commands, O_CLOEXEC) < 0 || pipe2(answers, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    browser->pid = fork();
    if (browser->pid == 0)
        browser_exec(program, words, commands[0], answers[1]);
    close(commands[0]);
    close(answers[1]);
    browser->to = commands[1];
    browser->from = answers[0];
    return browser->pid < 0 ? err_set(err, -errno, "fork: %m") : 0;
}

void browser_close(struct browser *browser)
{
    if (!browser)
        return;
    fd_clean(&browser->to); /* it ends by itself when nobody speaks to it any more */
    if (browser->pid > 0) {
        for (int64_t until_ns = time_mono_ns() + END_NS;
             waitpid(browser->pid, NULL, WNOHANG) == 0;) {
            struct timespec pause = time_spec(20 * NS_PER_MS);

            if (time_mono_ns() > until_ns) {
                kill(-browser->pid, SIGKILL);
                waitpid(browser->pid, NULL, 0);
                break;
            }
            nanosleep(&pause, NULL);
        }
    }
    fd_clean(&browser->from);
    buf_fini(&browser->rest);
    free(browser);
}

static void browser_clean(struct browser **browser)
{
    browser_close(*browser);
}

/* ---- messages ---- */

static int browser_write(const struct browser *browser, const char *text, struct err *err)
{
    size_t size = strlen(text) + 1; /* with its NUL */

    for (size_t done = 0; done < size;) {
        ssize_t put = write(browser->to, text + done, size - done);

        if (put < 0 && errno != EINTR)
            return err_set(err, -errno, "the browser does not take commands: %m");
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* The next message; its size with the NUL is *size. */
static int browser_read(struct browser *browser, int64_t until_ns, size_t *size, struct err *err)
{
    for (;;) {
        const unsigned char *end =
            browser->rest.size ? memchr(browser->rest.data, '\0', browser->rest.size) : NULL;
        struct pollfd wait = { .fd = browser->from, .events = POLLIN };
        char bytes[65536];
        ssize_t got;

        if (end) {
            *size = (size_t)(end - browser->rest.data) + 1;
            return 0;
        }
        if (poll(&wait, 1, time_poll_ms(until_ns, time_mono_ns())) <= 0)
            return err_set(err, -ETIMEDOUT, "the browser does not answer");
        got = read(browser->from, bytes, sizeof(bytes));
        if (got <= 0)
            return err_set(err, -EPIPE, "the browser has ended");
        buf_put(&browser->rest, bytes, (size_t)got);
        if (browser->rest.failed || browser->rest.size > ANSWER_BYTES_MAX)
            return err_set(err, -EMSGSIZE, "the browser answers too much");
    }
}

static struct json_object *browser_member(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    json_object_object_get_ex(root, name, &value);
    return value;
}

/* `params` is taken.  The caller puts *ret: the member "result". */
static int browser_call(struct browser *browser, const char *method, struct json_object *params,
                        struct json_object **ret, struct err *err)
{
    struct json_object *root = json_object_new_object();
    int64_t until_ns = time_mono_ns() + ANSWER_NS;
    unsigned id = ++browser->next;
    int result;

    json_object_object_add(root, "id", json_object_new_int((int)id));
    json_object_object_add(root, "method", json_object_new_string(method));
    json_object_object_add(root, "params", params);
    if (browser->session[0])
        json_object_object_add(root, "sessionId", json_object_new_string(browser->session));
    result =
        browser_write(browser, json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN), err);
    json_object_put(root);
    while (result == 0) {
        struct json_object *answer, *error;
        size_t size = 0;

        result = browser_read(browser, until_ns, &size, err);
        if (result < 0)
            break;
        answer = json_tokener_parse((const char *)browser->rest.data);
        buf_drop_front(&browser->rest, size);
        if (!answer || (unsigned)json_object_get_int(browser_member(answer, "id")) != id) {
            json_object_put(answer);
            continue;
        }
        error = browser_member(answer, "error");
        if (error)
            result = err_set(err, -EPROTO, "%s: %s", method, json_object_to_json_string(error));
        else
            *ret = json_object_get(browser_member(answer, "result"));
        json_object_put(answer);
        break;
    }
    return result;
}

static int browser_do(struct browser *browser, const char *method, struct json_object *params,
                      struct err *err)
{
    struct json_object *answer = NULL;
    int result = browser_call(browser, method, params, &answer, err);

    json_object_put(answer);
    return result;
}

/* ---- a tab ---- */

static int browser_attach(struct browser *browser, struct err *err)
{
    struct json_object *params = json_object_new_object(), *answer = NULL;
    int result;

    json_object_object_add(params, "url", json_object_new_string("about:blank"));
    result = browser_call(browser, "Target.createTarget", params, &answer, err);
    if (result < 0)
        return result;
    params = json_object_new_object();
    json_object_object_add(params, "targetId", json_object_get(browser_member(answer, "targetId")));
    json_object_object_add(params, "flatten", json_object_new_boolean(true));
    json_object_put(answer);
    answer = NULL;
    result = browser_call(browser, "Target.attachToTarget", params, &answer, err);
    if (result < 0)
        return result;
    snprintf(browser->session, sizeof(browser->session), "%s",
             json_object_get_string(browser_member(answer, "sessionId")));
    json_object_put(answer);
    return browser_do(browser, "Page.enable", json_object_new_object(), err);
}

int browser_open(const char *program, const char *profile, unsigned width, unsigned height,
                 struct browser **ret, struct err *err)
{
    CLEAN(browser_clean) struct browser *browser = calloc(1, sizeof(*browser));
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    int result;

    if (!browser || !words)
        return err_nomem(err);
    browser->to = browser->from = -1;
    words_add(words, "%s", program);
    words_add(words, "--headless=new");
    words_add(words, "--remote-debugging-pipe");
    words_add(words, "--user-data-dir=%s", profile);
    words_add(words, "--window-size=%u,%u", width, height);
    words_add(words, "--no-first-run");
    words_add(words, "--disable-dev-shm-usage");
    words_add(words, "--disable-background-networking");
    if (geteuid() == 0) /* its sandbox refuses root */
        words_add(words, "--no-sandbox");
    result = browser_start(browser, program, words, err);
    if (result == 0)
        result = browser_attach(browser, err);
    if (result == 0)
        *ret = TAKE(browser);
    return result;
}

int browser_go(struct browser *browser, const char *url, struct err *err)
{
    struct json_object *params = json_object_new_object();

    json_object_object_add(params, "url", json_object_new_string(url));
    return browser_do(browser, "Page.navigate", params, err);
}

int browser_ask(struct browser *browser, const char *expression, struct json_object **ret,
                struct err *err)
{
    struct json_object *params = json_object_new_object(), *answer = NULL, *value;
    int result;

    json_object_object_add(params, "expression", json_object_new_string(expression));
    json_object_object_add(params, "awaitPromise", json_object_new_boolean(true));
    json_object_object_add(params, "returnByValue", json_object_new_boolean(true));
    result = browser_call(browser, "Runtime.evaluate", params, &answer, err);
    if (result < 0)
        return result;
    value = browser_member(answer, "exceptionDetails");
    if (value)
        result = err_set(err, -EPROTO, "the page: %s", json_object_to_json_string(value));
    else
        *ret = json_object_get(browser_member(browser_member(answer, "result"), "value"));
    json_object_put(answer);
    return result;
}

int browser_press(struct browser *browser, const char *key, struct err *err)
{
    static const char *const types[] = { "keyDown", "keyUp" };
    int result = 0;

    for (size_t i = 0; i < COUNT(types) && result == 0; i++) {
        struct json_object *params = json_object_new_object();

        json_object_object_add(params, "type", json_object_new_string(types[i]));
        json_object_object_add(params, "key", json_object_new_string(key));
        result = browser_do(browser, "Input.dispatchKeyEvent", params, err);
    }
    return result;
}

int browser_await(struct browser *browser, const char *expression, int64_t limit_ns,
                  struct err *err)
{
    for (int64_t until_ns = time_mono_ns() + limit_ns;;) {
        struct timespec pause = time_spec(20 * NS_PER_MS);
        struct json_object *value = NULL;
        int result = browser_ask(browser, expression, &value, err);
        bool is = result == 0 && json_object_get_boolean(value);

        json_object_put(value);
        if (is)
            return 0;
        /* While a page is replaced there is nothing to ask. */
        if (result < 0 && result != -EPROTO)
            return result;
        if (time_mono_ns() > until_ns)
            return err_set(err, -ETIMEDOUT, "the page never showed: %s", expression);
        nanosleep(&pause, NULL);
    }
}
