/* relay_sink.c - writes, and waits until what was written has arrived.
 *
 * libcurl connects and does TLS, with the same trust as everywhere else in lockstep; the bytes are ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/relay/relay_sink.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define SETTLE_MS                                                                                  \
    100 /* a receiver that closes while bytes are under way does so within this time */
#define ASK_MS 2

/* ---- what --to says ---- */

static const struct relay_scheme {
    const char *prefix;
    enum relay_sink_kind kind;
    bool syslog, tls;
} relay_schemes[] = {
    { "file:", RELAY_FILE, false, false },       { "unix:", RELAY_UNIX, false, false },
    { "tcp://", RELAY_TCP, false, false },       { "tls://", RELAY_TCP, false, true },
    { "syslog://", RELAY_TCP, true, false },     { "syslog+tls://", RELAY_TCP, true, true },
    { "syslog+unix:", RELAY_UNIX, true, false },
};

static int relay_target_fill(const char *rest, struct relay_target *ret)
{
    if (ret->kind != RELAY_TCP) {
        if (!rest[0] || strlen(rest) >= sizeof(ret->path.text))
            return -EINVAL;
        strcpy(ret->path.text, rest);
        return 0;
    }
    return address_parse(rest, strlen(rest), &ret->at) < 0 || !ret->at.has_port || !ret->at.port
               ? -EINVAL
               : 0;
}

int relay_target_parse(const char *text, struct relay_target *ret, struct err *err)
{
    if (strcmp(text, "-") == 0) {
        *ret = (struct relay_target){ .kind = RELAY_STDOUT };
        return 0;
    }
    for (size_t i = 0; i < COUNT(relay_schemes); i++) {
        const struct relay_scheme *scheme = &relay_schemes[i];
        struct relay_target target = { .kind = scheme->kind,
                                       .syslog = scheme->syslog,
                                       .tls = scheme->tls };
        size_t size = strlen(scheme->prefix);

        if (strncmp(text, scheme->prefix, size) != 0)
            continue;
        if (relay_target_fill(text + size, &target) < 0)
            break;
        *ret = target;
        return 0;
    }
    return err_set(err, -EINVAL,
                   "'%.100s': expected file:PATH, unix:PATH, tcp://HOST:PORT, tls://HOST:PORT, "
                   "syslog://HOST:PORT, syslog+tls://HOST:PORT, syslog+unix:PATH or -",
                   text);
}

/* ---- open and close ---- */

void relay_sink_init(struct relay_sink *sink, const struct relay_target *target,
                     const struct relay_sink_settings *settings)
{
    *sink = (struct relay_sink){ .target = *target, .settings = *settings, .fd = -1 };
}

void relay_sink_close(struct relay_sink *sink)
{
    if (sink->curl)
        curl_easy_cleanup(sink->curl); /* closes the socket */
    else if (sink->fd >= 0 && sink->target.kind != RELAY_STDOUT)
        close(sink->fd);
    sink->curl = NULL;
    sink->fd = -1;
}

/* A line that a killed relay did not finish gets its end; the event is sent again behind it. */
static int relay_file_mend(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char last;

    if (size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n')
        return 0;
    return write(fd, "\n", 1) == 1 ? 0 : -EIO;
}

static int relay_file_open(struct relay_sink *sink, struct err *err)
{
    const char *path = sink->target.path.text;
    struct stat st;
    int result = 0;

    sink->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (sink->fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (fstat(sink->fd, &st) < 0 || !S_ISREG(st.st_mode))
        result = err_set(err, -EINVAL, "%s: not a regular file; for a socket use unix:PATH", path);
    else if (relay_file_mend(sink->fd) < 0)
        result = err_set(err, -EIO, "%s: cannot be written", path);
    if (result < 0)
        relay_sink_close(sink);
    return result;
}

static void relay_curl_set(struct relay_sink *sink, const char *url, char *why)
{
    CURL *curl = sink->curl;

    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(sink->settings.timeout_ns / NS_PER_MS));
    curl_easy_setopt(curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (sink->settings.ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO, sink->settings.ca);
    if (sink->settings.cert) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, sink->settings.cert);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, sink->settings.key);
    }
    if (sink->target.kind == RELAY_UNIX)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, sink->target.path.text);
}

static int relay_socket_open(struct relay_sink *sink, struct err *err)
{
    const struct address *at = &sink->target.at;
    bool v6 = strchr(at->host, ':') != NULL;
    char url[ADDRESS_HOST + 32], why[CURL_ERROR_SIZE] = "";
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;

    if (sink->target.kind == RELAY_UNIX)
        snprintf(url, sizeof(url), "http://localhost");
    else
        snprintf(url, sizeof(url), "%s://%s%s%s:%u", sink->target.tls ? "https" : "http",
                 v6 ? "[" : "", at->host, v6 ? "]" : "", at->port);
    sink->curl = curl_easy_init();
    if (!sink->curl)
        return err_nomem(err);
    relay_curl_set(sink, url, why);
    code = curl_easy_perform(sink->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(sink->curl, CURLINFO_ACTIVESOCKET, &fd);
    if (code != CURLE_OK || fd == CURL_SOCKET_BAD) {
        err_set(err, 0, "%s: %s",
                sink->target.kind == RELAY_UNIX ? sink->target.path.text : strstr(url, "//") + 2,
                why[0] ? why : curl_easy_strerror(code));
        relay_sink_close(sink);
        return -ECONNREFUSED;
    }
    sink->fd = fd;
    return 0;
}

int relay_sink_open(struct relay_sink *sink, struct err *err)
{
    if (sink->fd >= 0)
        return 0;
    switch (sink->target.kind) {
    case RELAY_FILE:
        return relay_file_open(sink, err);
    case RELAY_STDOUT:
        sink->fd = STDOUT_FILENO;
        return 0;
    default:
        return relay_socket_open(sink, err);
    }
}

/* ---- put ---- */

/* logrotate(8) moves the file away. */
static bool relay_file_is_gone(const struct relay_sink *sink)
{
    struct stat here, there;

    return fstat(sink->fd, &here) < 0 || stat(sink->target.path.text, &there) < 0 ||
           here.st_ino != there.st_ino || here.st_dev != there.st_dev;
}

/* All or nothing as far as the disk allows it. */
static int relay_file_put(struct relay_sink *sink, const struct buf *bytes, struct err *err)
{
    const char *path = sink->target.path.text;
    off_t before;
    ssize_t put;
    int result = 0;

    if (relay_file_is_gone(sink)) {
        relay_sink_close(sink);
        result = relay_file_open(sink, err);
    }
    if (result < 0)
        return result;
    before = lseek(sink->fd, 0, SEEK_END);
    put = write(sink->fd, bytes->data, bytes->size);
    if (put == (ssize_t)bytes->size && fdatasync(sink->fd) == 0)
        return 0;
    result = put >= 0 && put < (ssize_t)bytes->size ? -ENOSPC : -errno;
    if (before >= 0 && ftruncate(sink->fd, before) < 0)
        err_set(err, result, "%s: %s, and a part of it stays", path, strerror(-result));
    else
        err_set(err, result, "%s: %s", path, strerror(-result));
    return result;
}

static int relay_stdout_put(const struct buf *bytes, struct err *err)
{
    for (size_t done = 0; done < bytes->size;) {
        ssize_t put = write(STDOUT_FILENO, bytes->data + done, bytes->size - done);

        if (put < 0 && errno != EINTR)
            return err_set(err, -errno, "standard output: %m");
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static bool relay_socket_wait(const struct relay_sink *sink, short events, int ms)
{
    struct pollfd wait = { .fd = sink->fd, .events = events };

    return poll(&wait, 1, ms) > 0;
}

static int relay_socket_send(struct relay_sink *sink, const struct buf *bytes, int64_t until_ns)
{
    for (size_t done = 0; done < bytes->size;) {
        size_t put = 0;
        CURLcode code = curl_easy_send(sink->curl, bytes->data + done, bytes->size - done, &put);

        done += put;
        if (code != CURLE_OK && code != CURLE_AGAIN)
            return -EPIPE;
        if (code == CURLE_AGAIN && time_mono_ns() > until_ns)
            return -ETIMEDOUT;
        if (code == CURLE_AGAIN)
            relay_socket_wait(sink, POLLOUT, SETTLE_MS);
    }
    return 0;
}

/* Until nothing is unacknowledged, and a moment longer: a receiver that went away answers with a reset. */
static int relay_socket_settle(const struct relay_sink *sink, int64_t until_ns)
{
    int unsent = 0;

    while (ioctl(sink->fd, SIOCOUTQ, &unsent) == 0 && unsent > 0) {
        if (relay_socket_wait(sink, POLLRDHUP, ASK_MS))
            return -EPIPE;
        if (time_mono_ns() > until_ns)
            return -ETIMEDOUT;
    }
    return relay_socket_wait(sink, POLLRDHUP, SETTLE_MS) ? -EPIPE : 0;
}

static int relay_socket_put(struct relay_sink *sink, const struct buf *bytes, struct err *err)
{
    int64_t until_ns = time_mono_ns() + sink->settings.timeout_ns;
    int result = relay_socket_wait(sink, POLLRDHUP, 0) ? -EPIPE : 0;

    if (result == 0)
        result = relay_socket_send(sink, bytes, until_ns);
    if (result == 0)
        result = relay_socket_settle(sink, until_ns);
    if (result < 0)
        err_set(err, result, "%s",
                result == -ETIMEDOUT ? "the receiver does not take what is sent"
                                     : "the receiver closed the connection");
    return result;
}

int relay_sink_put(struct relay_sink *sink, const struct buf *bytes, struct err *err)
{
    int result;

    switch (sink->target.kind) {
    case RELAY_FILE:
        result = relay_file_put(sink, bytes, err);
        break;
    case RELAY_STDOUT:
        result = relay_stdout_put(bytes, err);
        break;
    default:
        result = relay_socket_put(sink, bytes, err);
    }
    if (result < 0)
        relay_sink_close(sink);
    return result;
}
