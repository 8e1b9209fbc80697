/* client.c - curl's multi interface in our loop: curl names sockets and timeouts, the loop waits for them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <linux/tcp.h> /* the libc's own has no counts of bytes */
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net/address.h"
#include "core/clean.h"
#include "core/time.h"

#define ANSWER_BYTES_MAX (4u << 20)
#define SOCKETS_MAX 16 /* whose bytes are counted while they are open; more than there ever are */

struct client_call {
    struct client_call *next, **back;
    struct client *client;
    CURL *easy;
    struct curl_slist *headers;
    struct buf body, answer;
    char why[CURL_ERROR_SIZE];
    client_fn *fn;
    void *arg;
};

struct client {
    struct loop *loop;
    CURLM *multi;
    struct loop_timer timer;
    struct client_call *calls;
    char url[512], ca_file[PATH_MAX], pin[64];
    int64_t timeout_ns;
    bool loopback_only;    /* whatever the host's name is resolved to */
    int open[SOCKETS_MAX]; /* sockets; 0: none */
    uint64_t closed_bytes; /* that TCP sent through those that are closed by now */
};

static void call_free(struct client_call *call)
{
    if (call->easy) {
        curl_multi_remove_handle(call->client->multi, call->easy);
        curl_easy_cleanup(call->easy);
    }
    *call->back = call->next;
    if (call->next)
        call->next->back = call->back;
    curl_slist_free_all(call->headers);
    buf_fini(&call->body);
    buf_fini(&call->answer);
    free(call);
}

static void call_end(struct client_call *call, CURLcode code)
{
    struct client_answer answer = { .body = &call->answer };
    long status = 0;

    if (code == CURLE_OK)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    answer.status = (unsigned)status;
    answer.why = call->why[0] ? call->why : curl_easy_strerror(code);
    call->fn(call->arg, &answer);
}

/* The callback may make new calls, but the client must outlive it. */
static void calls_reap(struct client *client)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left))) {
        struct client_call *call = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        call_end(call, message->data.result);
        call_free(call);
    }
}

static void client_on_ready(void *arg, int fd, uint32_t events)
{
    struct client *client = arg;
    int flags = (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                (events & EPOLLERR ? CURL_CSELECT_ERR : 0);
    int running;

    curl_multi_socket_action(client->multi, fd, flags, &running);
    calls_reap(client);
}

static void client_on_timer(void *arg, int64_t now_ns)
{
    struct client *client = arg;
    int running;

    (void)now_ns;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    calls_reap(client);
}

static int client_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct client *client = arg;

    (void)easy;
    (void)socket_arg;
    if (what == CURL_POLL_REMOVE)
        loop_forget(client->loop, fd);
    else
        loop_watch(client->loop, fd,
                   (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                   client_on_ready, client);
    return 0;
}

static int client_want_timer(CURLM *multi, long left_ms, void *arg)
{
    struct client *client = arg;

    (void)multi;
    loop_timer_set(client->loop, &client->timer,
                   left_ms < 0 ? INT64_MAX : time_mono_ns() + left_ms * NS_PER_MS);
    return 0;
}

/* ---- what goes out ---- */

static uint64_t client_socket_bytes(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent))
        return 0;
    return info.tcpi_bytes_sent;
}

static curl_socket_t client_open_socket(void *arg, curlsocktype purpose,
                                        struct curl_sockaddr *address)
{
    struct client *client = arg;
    int fd;

    (void)purpose;
    if (client->loopback_only && !sockaddr_is_loopback(&address->addr))
        return CURL_SOCKET_BAD;
    fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    for (size_t i = 0; fd > 0 && i < COUNT(client->open); i++) {
        if (client->open[i] == 0) {
            client->open[i] = fd;
            break;
        }
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int client_close_socket(void *arg, curl_socket_t fd)
{
    struct client *client = arg;

    for (size_t i = 0; i < COUNT(client->open); i++) {
        if (client->open[i] == fd) {
            client->open[i] = 0;
            client->closed_bytes += client_socket_bytes(fd);
        }
    }
    return close(fd);
}

uint64_t client_wire_bytes(const struct client *client)
{
    uint64_t bytes = client->closed_bytes;

    for (size_t i = 0; i < COUNT(client->open); i++) {
        if (client->open[i])
            bytes += client_socket_bytes(client->open[i]);
    }
    return bytes;
}

/* ---- calls ---- */

static size_t client_take_bytes(char *data, size_t size, size_t count, void *arg)
{
    struct client_call *call = arg;

    if (call->answer.size + size * count > ANSWER_BYTES_MAX)
        return 0;
    buf_put(&call->answer, data, size * count);
    return call->answer.failed ? 0 : size * count;
}

static void client_clean(struct client **client)
{
    client_close(*client);
}

int client_check_url(const char *url, bool insecure_http, struct err *err)
{
    struct address_url parsed;

    if (address_url_parse(url, &parsed) < 0 || parsed.size >= sizeof(((struct client *)NULL)->url))
        return err_set(err, -EINVAL, "'%s': expected http://HOST:PORT or https://HOST:PORT", url);
    if (parsed.tls || insecure_http || address_is_loopback(parsed.at.host))
        return 0;
    return err_set(err, -EINVAL,
                   "'%s' would send the token in clear text to another machine: use https://, or "
                   "allow it with --insecure-http (LOCKSTEP_INSECURE_HTTP=1)",
                   url);
}

int client_open(struct loop *loop, const struct client_settings *settings, struct client **ret,
                struct err *err)
{
    CLEAN(client_clean) struct client *client = calloc(1, sizeof(*client));
    struct address_url parsed;
    int r = client_check_url(settings->url, settings->insecure_http, err);

    if (!client)
        return err_nomem(err);
    client->loop = loop; /* first: client_close() needs it */
    if (r < 0 || address_url_parse(settings->url, &parsed) < 0)
        return r;
    memcpy(client->url, settings->url, parsed.size);
    client->loopback_only = !parsed.tls && !settings->insecure_http;
    snprintf(client->ca_file, sizeof(client->ca_file), "%s",
             settings->ca_file ? settings->ca_file : "");
    snprintf(client->pin, sizeof(client->pin), "%s", settings->pin ? settings->pin : "");
    client->timeout_ns = settings->timeout_ns;
    client->timer = (struct loop_timer){ .fn = client_on_timer, .arg = client };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    client->multi = curl_multi_init();
    if (!client->multi)
        return err_nomem(err);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, client_want_socket);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, client_want_timer);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    *ret = TAKE(client);
    return 0;
}

void client_close(struct client *client)
{
    if (!client)
        return;
    while (client->calls)
        call_free(client->calls);
    if (client->multi)
        curl_multi_cleanup(client->multi);
    loop_timer_drop(client->loop, &client->timer);
    free(client);
}

static int call_headers(struct client_call *call, const struct token *token)
{
    char line[TOKEN_SIZE + 40];
    static const char version[] = "Lockstep-Version: " LOCKSTEP_VERSION;
    const char *const fixed[] = { "Content-Type: application/octet-stream", "Expect:", version };
    struct curl_slist *grown;

    for (size_t i = 0; i < COUNT(fixed); i++) {
        grown = curl_slist_append(call->headers, fixed[i]);
        if (!grown)
            return -ENOMEM;
        call->headers = grown;
    }
    if (!token || !token->text[0])
        return 0;
    snprintf(line, sizeof(line), "Authorization: Bearer %s", token->text);
    grown = curl_slist_append(call->headers, line);
    if (!grown)
        return -ENOMEM;
    call->headers = grown;
    return 0;
}

static void call_dress(struct client_call *call, const char *url)
{
    struct client *client = call->client;

    curl_easy_setopt(call->easy, CURLOPT_URL, url);
    curl_easy_setopt(call->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->why);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, client_take_bytes);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_OPENSOCKETFUNCTION, client_open_socket);
    curl_easy_setopt(call->easy, CURLOPT_OPENSOCKETDATA, client);
    curl_easy_setopt(call->easy, CURLOPT_CLOSESOCKETFUNCTION, client_close_socket);
    curl_easy_setopt(call->easy, CURLOPT_CLOSESOCKETDATA, client);
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->easy, CURLOPT_FOLLOWLOCATION, 0L); /* the token is for this host alone */
    curl_easy_setopt(call->easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(call->easy, CURLOPT_NOPROXY, "*"); /* a token must not pass through one */
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)(client->timeout_ns / NS_PER_MS));
    curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "lockstep/" LOCKSTEP_VERSION);
    if (client->ca_file[0])
        curl_easy_setopt(call->easy, CURLOPT_CAINFO, client->ca_file);
    if (client->pin[0]) {
        curl_easy_setopt(call->easy, CURLOPT_PINNEDPUBLICKEY, client->pin);
        curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

int client_call(struct client *client, const char *path, const struct token *token,
                struct buf *body, client_fn *fn, void *arg)
{
    struct client_call *call = calloc(1, sizeof(*call));
    char url[1024];

    if (!call)
        return -ENOMEM;
    *call = (struct client_call){ .client = client, .fn = fn, .arg = arg, .next = client->calls };
    call->back = &client->calls;
    if (call->next)
        call->next->back = &call->next;
    client->calls = call;
    call->easy = curl_easy_init();
    if (body) {
        call->body = *body;
        *body = (struct buf){ 0 };
    }
    snprintf(url, sizeof(url), "%s%s", client->url, path);
    if (!call->easy || call_headers(call, token) < 0) {
        call_free(call);
        return -ENOMEM;
    }
    call_dress(call, url);
    if (body) {
        curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.size);
        curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS,
                         call->body.data ? (const char *)call->body.data : "");
    }
    curl_multi_add_handle(client->multi, call->easy);
    return 0;
}
