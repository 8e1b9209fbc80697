/* http.c - libmicrohttpd in our loop.
 *
 * A handler that does not respond at once leaves its connection suspended; the response resumes it.  Every byte
 * renews libmicrohttpd's own timeout, so a peer that sends or reads byte by byte could stay for days.  So we record
 * since when each connection owes us something (headers, body, reading the response) and close those that take too
 * long.  If connections run short, those without a request are closed sooner; an accepted request may complete.
 * Only a peer with a valid token may then be idle for longer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net/address.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define CONNECTION_BYTES (32u << 10) /* headers must fit; libmicrohttpd answers 431 else */
#define CONNECTIONS_MAX 20000u
#define FILES_FOR_US 256u /* logs, sockets of our own */
#define IDLE_S 60u
#define HURRY_NS (2 * NS_PER_S)  /* a connection without a request, when they run short */
#define FULL_NS NS_PER_S         /* the same when there is no place left */
#define KNOWN_NS (10 * NS_PER_S) /* then also one whose peer is known */
#define SWEEP_NS NS_PER_S
#define SWEEP_FULL_NS (200 * NS_PER_MS)
#define HEADERS_MAX 12
#define CHARGES 4096
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* of GnuTLS */

struct connection {
    struct connection *next, **back;
    int fd;
    int64_t owes_ns;                /* something, since then; INT64_MAX: it is our turn */
    struct http_exchange *exchange; /* NULL: no headers yet */
    bool known;                     /* its peer has shown who it is (http_trust) */
};

struct http {
    struct loop *loop;
    struct http_settings settings;
    struct MHD_Daemon *daemon;
    int epoll_fd;
    unsigned port, connections_max, address_max; /* address_max: of one address; 0: any number */
    struct loop_timer run, sweep;
    struct connection *connections;
    struct http_counts counts;
    bool closing;
    size_t charged[CHARGES], charged_all; /* bytes of bodies under way, by a hash of their keys */
};

struct http_exchange {
    struct http *http;
    struct MHD_Connection *connection;
    struct connection *owner_connection;
    char method[8], path[512];
    char who[HTTP_NOTE], what[HTTP_NOTE];
    struct buf body;
    size_t *charge; /* where its bytes count; NULL: nowhere */
    size_t charged;
    char *header[HEADERS_MAX][2];
    size_t headers;
    bool is_1_0, handed, suspended;
    unsigned status;
    struct MHD_Response *response; /* NULL: not answered yet */
    bool queued;
    struct buf pending; /* of a stream */
    size_t pending_max; /* 0: no stream */
    bool dropped;
    void (*gone)(void *owner);
    void *owner;
};

/* ---- exchanges ---- */

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_path(const struct http_exchange *exchange)
{
    return exchange->path;
}

const char *http_query(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

struct header_counter {
    const char *name;
    unsigned count;
};

static enum MHD_Result header_counts(void *arg, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct header_counter *counter = arg;

    (void)kind;
    (void)value;
    counter->count += strcasecmp(name, counter->name) == 0;
    return MHD_YES;
}

unsigned http_header_count(const struct http_exchange *exchange, const char *name)
{
    struct header_counter counter = { .name = name };

    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, header_counts, &counter);
    return counter.count;
}

bool http_is_1_0(const struct http_exchange *exchange)
{
    return exchange->is_1_0;
}

const struct buf *http_body(const struct http_exchange *exchange)
{
    return &exchange->body;
}

uint64_t http_peer(const struct http_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (!info || !info->client_addr)
        return 0;
    if (info->client_addr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)info->client_addr;

        return hash64(4, &v4->sin_addr, sizeof(v4->sin_addr));
    }
    /* A host has a whole /64 of these. */
    return hash64(6, &((const struct sockaddr_in6 *)info->client_addr)->sin6_addr, 8);
}

void http_peer_text(const struct http_exchange *exchange, char *ret, size_t room)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    socklen_t size = info && info->client_addr && info->client_addr->sa_family == AF_INET6
                         ? sizeof(struct sockaddr_in6)
                         : sizeof(struct sockaddr_in);

    if (!info || !info->client_addr ||
        getnameinfo(info->client_addr, size, ret, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(ret, room, "unknown");
}

void http_note_who(struct http_exchange *exchange, const char *who)
{
    snprintf(exchange->who, sizeof(exchange->who), "%s", who);
}

void http_note_what(struct http_exchange *exchange, const char *what)
{
    snprintf(exchange->what, sizeof(exchange->what), "%s", what);
}

const char *http_who(const struct http_exchange *exchange)
{
    return exchange->who;
}

const char *http_what(const struct http_exchange *exchange)
{
    return exchange->what;
}

bool http_local(const struct http_exchange *exchange, struct sockaddr_storage *ret)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    socklen_t size = sizeof(*ret);

    return info && getsockname(info->connect_fd, (struct sockaddr *)ret, &size) == 0;
}

void http_trust(struct http_exchange *exchange)
{
    if (exchange->owner_connection)
        exchange->owner_connection->known = true;
}

static void http_poke(struct http *http)
{
    loop_timer_set(http->loop, &http->run, 0);
}

static void exchange_resume(struct http_exchange *exchange)
{
    if (!exchange->suspended)
        return;
    exchange->suspended = false;
    MHD_resume_connection(exchange->connection);
    http_poke(exchange->http);
}

void http_answer_header(struct http_exchange *exchange, const char *name, const char *value)
{
    if (exchange->headers == HEADERS_MAX)
        return;
    exchange->header[exchange->headers][0] = strdup(name);
    exchange->header[exchange->headers++][1] = strdup(value);
}

static void http_answer_dress(struct http_exchange *exchange, const char *type)
{
    struct MHD_Response *response = exchange->response;

    if (!response)
        return;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Lockstep-Version", LOCKSTEP_VERSION);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < exchange->headers; i++)
        MHD_add_response_header(response, exchange->header[i][0], exchange->header[i][1]);
}

static void http_answer_begin(struct http_exchange *exchange, unsigned status)
{
    const struct http_settings *settings = &exchange->http->settings;

    exchange->status = status;
    if (settings->answered)
        settings->answered(settings->arg, exchange, status);
}

void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 struct buf *body)
{
    if (exchange->response)
        return;
    http_answer_begin(exchange, status);
    exchange->response =
        MHD_create_response_from_buffer(body->size, body->data, MHD_RESPMEM_MUST_FREE);
    if (exchange->response)
        *body = (struct buf){ 0 };
    else
        buf_fini(body);
    http_answer_dress(exchange, type);
    exchange_resume(exchange);
}

void http_on_gone(struct http_exchange *exchange, void (*gone)(void *owner), void *owner)
{
    exchange->gone = gone;
    exchange->owner = owner;
}

void *http_owner(const struct http_exchange *exchange)
{
    return exchange->owner;
}

static ssize_t http_stream_read(void *arg, uint64_t at, char *out, size_t room)
{
    struct http_exchange *exchange = arg;
    size_t size = MIN(room, exchange->pending.size);

    (void)at;
    if (exchange->dropped || exchange->http->closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!size) {
        exchange->suspended = true;
        MHD_suspend_connection(exchange->connection);
        return 0;
    }
    memcpy(out, exchange->pending.data, size);
    buf_drop_front(&exchange->pending, size);
    return (ssize_t)size;
}

void http_stream(struct http_exchange *exchange, const char *type, size_t pending_max)
{
    if (exchange->response)
        return;
    http_answer_begin(exchange, 200);
    exchange->pending_max = pending_max;
    exchange->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, http_stream_read, exchange, NULL);
    http_answer_dress(exchange, type);
    exchange_resume(exchange);
}

bool http_stream_put(struct http_exchange *exchange, const void *data, size_t size)
{
    buf_put(&exchange->pending, data, size);
    if (exchange->pending.failed || exchange->pending.size > exchange->pending_max)
        exchange->dropped = true;
    exchange_resume(exchange);
    return !exchange->dropped;
}

static struct http_exchange *exchange_create(struct http *http, struct MHD_Connection *connection,
                                             const char *path, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    exchange->http = http;
    exchange->connection = connection;
    exchange->owner_connection = info ? info->socket_context : NULL;
    if (exchange->owner_connection) {
        exchange->owner_connection->exchange = exchange;
        exchange->owner_connection->owes_ns = time_mono_ns(); /* the body */
    }
    snprintf(exchange->method, sizeof(exchange->method), "%s", method);
    snprintf(exchange->path, sizeof(exchange->path), "%s", path);
    http->counts.requests++;
    return exchange;
}

static void http_on_completed(void *arg, struct MHD_Connection *connection, void **state,
                              enum MHD_RequestTerminationCode why)
{
    struct http_exchange *exchange = *state;

    (void)arg;
    (void)connection;
    (void)why;
    if (!exchange)
        return;
    *state = NULL;
    if (exchange->gone)
        exchange->gone(exchange->owner);
    if (exchange->owner_connection) {
        exchange->owner_connection->owes_ns = time_mono_ns();
        exchange->owner_connection->exchange = NULL;
    }
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    for (size_t i = 0; i < exchange->headers; i++) {
        free(exchange->header[i][0]);
        free(exchange->header[i][1]);
    }
    if (exchange->charge) {
        *exchange->charge -= exchange->charged;
        exchange->http->charged_all -= exchange->charged;
    }
    buf_fini(&exchange->body);
    buf_fini(&exchange->pending);
    free(exchange);
}

static enum MHD_Result exchange_queue(struct http_exchange *exchange)
{
    if (!exchange->response)
        return MHD_NO; /* no memory: hang up */
    exchange->queued = true;
    if (exchange->owner_connection && !exchange->pending_max)
        exchange->owner_connection->owes_ns = time_mono_ns(); /* that it takes the answer */
    return MHD_queue_response(exchange->connection, exchange->status, exchange->response);
}

static enum MHD_Result http_refuse_large(struct http_exchange *exchange)
{
    struct buf body = { 0 };
    char text[128];

    exchange->http->counts.refused_large++;
    snprintf(text, sizeof(text), "{\"error\":\"the body is larger than %zu bytes\"}\n",
             exchange->http->settings.body_max);
    buf_put(&body, text, strlen(text));
    http_answer_header(exchange, "Connection", "close");
    http_answer(exchange, 413, "application/json", &body);
    return exchange_queue(exchange);
}

/* The headers are there.  An answer given here spares the body. */
static enum MHD_Result exchange_begin(struct http_exchange *exchange)
{
    const struct http_settings *settings = &exchange->http->settings;
    const char *length = http_header(exchange, "Content-Length");

    if (length && strtoull(length, NULL, 10) > settings->body_max)
        return http_refuse_large(exchange);
    if (settings->admit && !settings->admit(settings->arg, exchange))
        return exchange_queue(exchange);
    return MHD_YES;
}

static enum MHD_Result exchange_hand_over(struct http_exchange *exchange)
{
    if (exchange->owner_connection)
        exchange->owner_connection->owes_ns = INT64_MAX;
    if (!exchange->handed) {
        exchange->handed = true;
        exchange->http->settings.handle(exchange->http->settings.arg, exchange);
    }
    if (exchange->response)
        return exchange_queue(exchange);
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
    return MHD_YES;
}

/* Who shares a place with others by chance shares its bound: which ones do differs from process to process. */
bool http_charge(struct http_exchange *exchange, uint64_t key)
{
    struct http *http = exchange->http;

    exchange->charge =
        &http->charged[hash64_u64((uint64_t)(uintptr_t)http, key) % COUNT(http->charged)];
    return *exchange->charge < http->settings.charge_max &&
           http->charged_all < 4 * http->settings.charge_max;
}

static bool http_charge_add(struct http_exchange *exchange, size_t size)
{
    struct http *http = exchange->http;

    if (!exchange->charge)
        return true;
    if (*exchange->charge + size > http->settings.charge_max ||
        http->charged_all + size > 4 * http->settings.charge_max)
        return false;
    *exchange->charge += size;
    exchange->charged += size;
    http->charged_all += size;
    return true;
}

/* NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's */
static enum MHD_Result http_on_request(void *arg, struct MHD_Connection *connection,
                                       const char *url, const char *method, const char *version,
                                       const char *data, size_t *size, void **state)
{
    struct http *http = arg;
    struct http_exchange *exchange = *state;

    if (!exchange) {
        exchange = exchange_create(http, connection, url, method);
        *state = exchange;
        if (!exchange)
            return MHD_NO;
        exchange->is_1_0 = strcmp(version, "HTTP/1.0") == 0;
        return exchange_begin(exchange);
    }
    if (*size == 0)
        return exchange_hand_over(exchange);
    if (exchange->body.size + *size >
            http->settings.body_max || /* chunked: the length was not known */
        !http_charge_add(exchange, *size)) {
        http->counts.refused_large++;
        return MHD_NO;
    }
    buf_put(&exchange->body, data, *size);
    *size = 0;
    return exchange->body.failed ? MHD_NO : MHD_YES;
}

/* ---- connections ---- */

static bool http_is_short(const struct http *http)
{
    return http->counts.connections > http->connections_max / 4 * 3;
}

static bool http_is_full(const struct http *http)
{
    return http->counts.connections + http->connections_max / 16 >= http->connections_max;
}

static void connection_begin(struct http *http, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *one = calloc(1, sizeof(*one));

    if (!one)
        return;
    one->fd = info ? info->connect_fd : -1;
    one->owes_ns = time_mono_ns();
    one->next = http->connections;
    one->back = &http->connections;
    if (one->next)
        one->next->back = &one->next;
    http->connections = one;
    http->counts.connections++;
    *context = one;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = arg;
    struct connection *one = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        connection_begin(http, connection, context);
        return;
    }
    if (!one)
        return;
    *one->back = one->next;
    if (one->next)
        one->next->back = one->back;
    if (http_is_short(http))
        http_poke(http); /* libmicrohttpd looks only when run whether there is place again */
    http->counts.connections--;
    free(one);
    *context = NULL;
}

/* How long a connection may owe us what it owes now.  An agent that waits for something to tell is not
 * what makes them run short, unless there is no place left at all.
 */
static int64_t http_patience_ns(const struct http *http, const struct connection *one)
{
    int64_t most_ns = http->settings.request_ns;

    if (one->exchange || !http_is_short(http))
        return most_ns;
    if (one->known)
        return http_is_full(http) ? MIN(KNOWN_NS, most_ns) : most_ns;
    return MIN(http_is_full(http) ? FULL_NS : HURRY_NS, most_ns);
}

static void http_on_sweep(void *arg, int64_t now_ns)
{
    struct http *http = arg;

    for (struct connection *one = http->connections; one; one = one->next) {
        if (one->owes_ns != INT64_MAX && now_ns - one->owes_ns > http_patience_ns(http, one) &&
            one->fd >= 0) {
            shutdown(one->fd, SHUT_RDWR);
            one->fd = -1; /* libmicrohttpd closes it when it sees the end */
            http->counts.refused_slow++;
        }
    }
    if (http_is_short(http))
        http_poke(http);
    loop_timer_set(
        http->loop, &http->sweep,
        now_ns + MIN(http_is_full(http) ? SWEEP_FULL_NS : SWEEP_NS, http->settings.request_ns));
}

/* ---- a socket that listens ---- */

bool http_address_is_loopback(const char *listen, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;

    return address_listen(listen, &address, &size, err) == 0 &&
           sockaddr_is_loopback((const struct sockaddr *)&address);
}

static int http_listen(const char *listen_on, unsigned *port, struct err *err)
{
    const int one = 1;
    int fd = address_socket(listen_on, 4096, port, err);

    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* inherited */
    return fd;
}

/* ---- the daemon ---- */

static void http_on_run(void *arg, int64_t now_ns)
{
    struct http *http = arg;
    MHD_UNSIGNED_LONG_LONG left_ms;

    MHD_run(http->daemon);
    if (MHD_get_timeout(http->daemon, &left_ms) == MHD_YES)
        now_ns += (int64_t)MIN(left_ms, 60000ull) * NS_PER_MS;
    else
        now_ns = INT64_MAX;
    loop_timer_set(http->loop, &http->run, MIN(now_ns, http->run.at_ns));
}

static void http_on_ready(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    http_on_run(arg, time_mono_ns());
}

static unsigned connections_allowed(unsigned wanted)
{
    struct rlimit limit;
    unsigned most = wanted ? wanted : CONNECTIONS_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return MIN(most, 512u);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < most + FILES_FOR_US)
        most = (unsigned)MAX(limit.rlim_cur, FILES_FOR_US + 16) - FILES_FOR_US;
    return most;
}

static struct MHD_Daemon *http_daemon_start(struct http *http, int fd)
{
    const struct http_settings *settings = &http->settings;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)settings->key_pem },
        { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)settings->cert_pem },
        { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES },
        { MHD_OPTION_END, 0, NULL },
    };

    if (settings->cert_pem)
        flags |= MHD_USE_TLS;
    else
        options[0] = options[COUNT(options) - 1];
    return MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_CONNECTION_LIMIT, http->connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, http->address_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_ARRAY, options,
        MHD_OPTION_END);
}

static void http_clean(struct http **http)
{
    http_close(*http);
}

int http_open(struct loop *loop, const struct http_settings *settings, struct http **ret,
              struct err *err)
{
    CLEAN(http_clean) struct http *http = calloc(1, sizeof(*http));
    const union MHD_DaemonInfo *info;
    int fd;

    if (!http)
        return err_nomem(err);
    http->loop = loop;
    http->settings = *settings;
    http->epoll_fd = -1;
    http->run = (struct loop_timer){ .fn = http_on_run, .arg = http };
    http->sweep = (struct loop_timer){ .fn = http_on_sweep, .arg = http };
    http->connections_max = connections_allowed(settings->connections_max);
    /* No host takes all places from the others; on loopback there is only one. */
    if (!http_address_is_loopback(settings->listen, NULL))
        http->address_max = MAX(1, http->connections_max / 2);
    fd = http_listen(settings->listen, &http->port, err);
    if (fd < 0)
        return fd;
    http->daemon = http_daemon_start(http, fd);
    if (!http->daemon) {
        close(fd);
        return err_set(err, -EIO, "%s: the HTTP server cannot start; check the certificate",
                       settings->listen);
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || loop_watch(loop, info->epoll_fd, EPOLLIN, http_on_ready, http) < 0)
        return err_set(err, -EIO, "%s: the HTTP server has no descriptor to wait for",
                       settings->listen);
    http->epoll_fd = info->epoll_fd;
    loop_timer_set(loop, &http->run, 0);
    loop_timer_set(loop, &http->sweep, time_mono_ns() + NS_PER_S);
    *ret = TAKE(http);
    return 0;
}

/* libmicrohttpd cannot stop while connections are suspended. */
static void http_resume_all(struct http *http)
{
    struct buf nothing = { 0 };

    for (struct connection *one = http->connections; one; one = one->next) {
        if (!one->exchange || !one->exchange->suspended)
            continue;
        if (!one->exchange->response)
            http_answer(one->exchange, 503, "text/plain", &nothing);
        exchange_resume(one->exchange);
    }
    MHD_run(http->daemon);
}

void http_close(struct http *http)
{
    if (!http)
        return;
    http->closing = true;
    if (http->daemon)
        http_resume_all(http);
    if (http->epoll_fd >= 0)
        loop_forget(http->loop, http->epoll_fd);
    loop_timer_drop(http->loop, &http->run);
    loop_timer_drop(http->loop, &http->sweep);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    free(http);
}

unsigned http_port(const struct http *http)
{
    return http->port;
}

void http_counts(const struct http *http, struct http_counts *ret)
{
    *ret = http->counts;
    ret->connections_max = http->connections_max;
    ret->address_max = http->address_max;
    ret->short_of = http_is_short(http);
}
