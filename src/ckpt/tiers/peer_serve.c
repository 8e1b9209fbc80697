/* peer_serve.c - answers the requests of other nodes for points.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/peer_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/http.h"
#include "ckpt/store/point.h"
#include "ckpt/tiers/peer.h"
#include "core/clean.h"
#include "core/time.h"

#define POINTS_PATH "/v1/points"
#define BODY_MAX 4096
#define REQUEST_NS (60 * NS_PER_S)

struct peer_server {
    struct http *http;
    struct token token;
    int dir_fd;
};

static void serve_answer(struct http_exchange *exchange, unsigned status, const char *text)
{
    struct buf body = { .data = NULL };

    buf_put(&body, text, strlen(text));
    http_answer(exchange, status, "text/plain", &body);
}

static bool serve_admit(void *arg, struct http_exchange *exchange)
{
    const struct peer_server *server = arg;
    const char *given = http_header(exchange, "Authorization");
    struct token token = { "" };

    if (given && strncasecmp(given, "Bearer ", 7) == 0 &&
        token_parse(given + 7, strlen(given + 7), &token, NULL) == 0 &&
        token_equal(&server->token, &token)) {
        http_trust(exchange);
        return true;
    }
    http_answer_header(exchange, "WWW-Authenticate", "Bearer");
    serve_answer(exchange, 401, "token is missing or not valid\n");
    return false;
}

static int serve_commit_of(const struct peer_server *server, const struct point *point,
                           struct commit *ret)
{
    CLEAN(fd_clean) int fd = point_open(server->dir_fd, point, NULL);

    return fd < 0 ? fd : point_commit(fd, point->step, ret, NULL);
}

/* Points that were read back: what a peer copies is right where it comes from. */
static void serve_list(const struct peer_server *server, struct http_exchange *exchange)
{
    struct points points = { .point = NULL };
    struct buf body = { .data = NULL };
    char line[64];

    if (points_read(server->dir_fd, POINTS_MARKS, &points, NULL) < 0) {
        serve_answer(exchange, 500, "the directory cannot be read\n");
        return;
    }
    for (size_t i = 0; i < points.count; i++) {
        struct commit commit = { .step = 0 };

        if (points.point[i].state != POINT_COMMITTED || !points.point[i].read_back ||
            serve_commit_of(server, &points.point[i], &commit) < 0)
            continue;
        buf_put(&body, line,
                (size_t)snprintf(line, sizeof(line), "%" PRIu64 " %016" PRIx64 "\n", commit.step,
                                 commit.job));
        commit_fini(&commit);
    }
    points_fini(&points);
    http_answer(exchange, 200, "text/plain", &body);
}

/* ---- one point ---- */

struct serve_name {
    struct peer_point point;
    char file[64];
};

/* "/v1/points/STEP-JOB/FILE", exactly as it would be written. */
static bool serve_name_parse(const char *path, struct serve_name *ret)
{
    char again[256];

    if (sscanf(path, POINTS_PATH "/%" SCNu64 "-%" SCNx64 "/%63[A-Za-z0-9.-]", &ret->point.step,
               &ret->point.job, ret->file) != 3)
        return false;
    snprintf(again, sizeof(again), POINTS_PATH "/%" PRIu64 "-%016" PRIx64 "/%s", ret->point.step,
             ret->point.job, ret->file);
    return strcmp(again, path) == 0;
}

static bool serve_file_allowed(const char *name)
{
    static const char *const endings[] = { "manifest", "safetensors" };
    char again[64];

    if (strcmp(name, "COMMIT") == 0)
        return true;
    for (size_t i = 0; i < COUNT(endings); i++) {
        if (strncmp(name, "rank-", 5) != 0)
            return false;
        point_rank_name((uint32_t)strtoul(name + 5, NULL, 10), endings[i], again, sizeof(again));
        if (strcmp(again, name) == 0)
            return true;
    }
    return false;
}

/* Its directory; -ENOENT: there is no such point, or it is another user's. */
static int serve_point_open(const struct peer_server *server, struct peer_point wanted)
{
    struct points points = { .point = NULL };
    int fd = -ENOENT;

    if (points_read(server->dir_fd, POINTS_NAMES, &points, NULL) < 0)
        return -ENOENT;
    for (size_t i = 0; fd < 0 && i < points.count; i++) {
        struct commit commit = { .step = 0 };

        if (points.point[i].step != wanted.step || points.point[i].state == POINT_FOREIGN ||
            serve_commit_of(server, &points.point[i], &commit) < 0)
            continue;
        if (commit.job == wanted.job)
            fd = point_open(server->dir_fd, &points.point[i], NULL);
        commit_fini(&commit);
    }
    points_fini(&points);
    return fd;
}

static int serve_bytes_read(int fd, uint64_t at, size_t size, struct buf *ret)
{
    CLEAN(free_clean) unsigned char *bytes = malloc(size + 1);
    size_t got = 0;

    if (!bytes)
        return -ENOMEM;
    while (got < size) {
        ssize_t part = pread(fd, bytes + got, size - got, (off_t)(at + got));

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        if (part == 0)
            break;
        got += (size_t)part;
    }
    posix_fadvise(fd, (off_t)at, (off_t)size, POSIX_FADV_DONTNEED);
    buf_put(ret, bytes, got);
    return ret->failed ? -ENOMEM : 0;
}

static bool serve_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;

    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return !errno && !*end && *ret <= most;
}

static void serve_file(const struct peer_server *server, const struct serve_name *name,
                       struct http_exchange *exchange)
{
    CLEAN(fd_clean) int point_fd = serve_point_open(server, name->point);
    CLEAN(fd_clean) int fd = -1;
    struct buf body = { .data = NULL };
    uint64_t at = 0, bytes = 0;
    struct stat st;

    if (!serve_number(http_query(exchange, "at"), INT64_MAX - PEER_BYTES_MAX, &at) ||
        !serve_number(http_query(exchange, "bytes"), PEER_BYTES_MAX, &bytes) || !bytes) {
        serve_answer(exchange, 400, "expected at=N and bytes=N, at most 4194304\n");
        return;
    }
    if (point_fd >= 0)
        fd = openat(point_fd, name->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        serve_answer(exchange, 404, "no such point or file\n");
        return;
    }
    if (serve_bytes_read(fd, at, (size_t)bytes, &body) < 0) {
        buf_fini(&body);
        serve_answer(exchange, 500, "the file cannot be read\n");
        return;
    }
    http_answer(exchange, 200, "application/octet-stream", &body);
}

static void serve_copied(const struct peer_server *server, const struct serve_name *name,
                         struct http_exchange *exchange)
{
    CLEAN(fd_clean) int fd = serve_point_open(server, name->point);
    const char *took = http_query(exchange, "us");
    uint64_t took_us = 0;

    if (took && !serve_number(took, INT64_MAX, &took_us))
        serve_answer(exchange, 400, "expected us=N\n");
    else if (fd < 0)
        serve_answer(exchange, 404, "no such point\n");
    else if (point_mark_copied(fd, POINT_PEER, name->point.job, took_us, NULL) < 0)
        serve_answer(exchange, 500, "the mark cannot be written\n");
    else
        serve_answer(exchange, 200, "");
}

static void serve_handle(void *arg, struct http_exchange *exchange)
{
    const struct peer_server *server = arg;
    const char *path = http_path(exchange), *method = http_method(exchange);
    bool get = strcmp(method, "GET") == 0;
    struct serve_name name;
    bool named = serve_name_parse(path, &name);

    if (get && strcmp(path, POINTS_PATH) == 0)
        serve_list(server, exchange);
    else if (named && get && serve_file_allowed(name.file))
        serve_file(server, &name, exchange);
    else if (named && strcmp(method, "POST") == 0 && strcmp(name.file, "copied") == 0)
        serve_copied(server, &name, exchange);
    else
        serve_answer(exchange, 404, "no such path\n");
}

int peer_server_open(struct loop *loop, const struct peer_server_settings *settings,
                     struct peer_server **ret, struct err *err)
{
    struct peer_server *server = calloc(1, sizeof(*server));
    struct http_settings http = { .listen = settings->listen,
                                  .body_max = BODY_MAX,
                                  .charge_max = 16 * BODY_MAX,
                                  .connections_max = 64,
                                  .request_ns = REQUEST_NS,
                                  .admit = serve_admit,
                                  .handle = serve_handle,
                                  .arg = server };
    int result;

    if (!server)
        return err_nomem(err);
    if (settings->tls) {
        http.key_pem = settings->tls->key_pem;
        http.cert_pem = settings->tls->cert_pem;
    }
    server->token = settings->token;
    server->dir_fd = settings->dir_fd;
    result = http_open(loop, &http, &server->http, err);
    if (result < 0) {
        free(server);
        return result;
    }
    *ret = server;
    return 0;
}

void peer_server_close(struct peer_server *server)
{
    if (!server)
        return;
    http_close(server->http);
    free(server);
}

unsigned peer_server_port(const struct peer_server *server)
{
    return http_port(server->http);
}
