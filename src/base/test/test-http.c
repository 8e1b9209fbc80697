/* A peer that is slow, however steadily, loses its place; others are served meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"

#define REQUEST_NS (300 * NS_PER_MS)
#define DRIP_NS (20 * NS_PER_MS)
#define PLACES 16
#define LARGE (8u << 20)        /* an answer that no socket takes at once */
#define FOREVER (60 * NS_PER_S) /* much longer than any limit here */

struct scene {
    struct loop *loop;
    struct http *http;
    int requests;
};

static void handle(void *arg, struct http_exchange *exchange)
{
    struct scene *scene = arg;
    struct buf body = { 0 };
    bool large = strcmp(http_path(exchange), "/large") == 0;
    char *bytes = calloc(1, LARGE);

    assert_non_null(bytes);
    scene->requests++;
    if (strcmp(http_path(exchange), "/known") == 0)
        http_trust(exchange);
    buf_put(&body, bytes, large ? LARGE : 2);
    free(bytes);
    http_answer(exchange, 200, "text/plain", &body);
}

static int setup(void **state)
{
    struct scene *scene = test_calloc(1, sizeof(*scene));
    struct http_settings settings = { .listen = "127.0.0.1:0",
                                      .body_max = 1000,
                                      .request_ns = REQUEST_NS,
                                      .handle = handle,
                                      .arg = scene };

    assert_int_equal(loop_create(&scene->loop, NULL), 0);
    assert_int_equal(http_open(scene->loop, &settings, &scene->http, NULL), 0);
    *state = scene;
    return 0;
}

/* Few places, and time enough for a request. */
static int setup_crowded(void **state)
{
    struct scene *scene = test_calloc(1, sizeof(*scene));
    struct http_settings settings = { .listen = "127.0.0.1:0",
                                      .body_max = 1000,
                                      .connections_max = PLACES,
                                      .request_ns = FOREVER,
                                      .handle = handle,
                                      .arg = scene };

    assert_int_equal(loop_create(&scene->loop, NULL), 0);
    assert_int_equal(http_open(scene->loop, &settings, &scene->http, NULL), 0);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    http_close(scene->http);
    loop_destroy(scene->loop);
    test_free(scene);
    return 0;
}

static int peer_open(const struct scene *scene, const char *text)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)http_port(scene->http)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), little = 4096;

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

static void turn(struct scene *scene) /* and a pause, or it would be no drip */
{
    int64_t until_ns = time_mono_ns() + DRIP_NS;

    while (time_mono_ns() < until_ns)
        assert_int_equal(loop_turn(scene->loop, until_ns, NULL), 0);
}

/* Another peer asks and is answered, whatever the slow one does. */
static void other_is_served(struct scene *scene)
{
    int fd = peer_open(scene, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    int64_t deadline_ns = time_mono_ns() + FOREVER;
    char text[1024] = "";

    while (recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) < 0) {
        assert_true(time_mono_ns() < deadline_ns);
        turn(scene);
    }
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    close(fd);
}

/* Sends a byte a turn until the peer is hung up on. */
static void drips_until_closed(struct scene *scene, int fd)
{
    int64_t deadline_ns = time_mono_ns() + FOREVER;
    struct http_counts counts;
    char byte;

    do {
        assert_true(time_mono_ns() < deadline_ns);
        send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        turn(scene);
    } while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    http_counts(scene->http, &counts);
    assert_int_equal(counts.refused_slow, 1);
    close(fd);
}

static void headers_that_drip_end(void **state)
{
    struct scene *scene = *state;
    int fd = peer_open(scene, "GET / HTTP/1.1\r\nX-Drip: ");

    turn(scene);
    other_is_served(scene);
    drips_until_closed(scene, fd);
    assert_int_equal(scene->requests, 1);
}

static void a_body_that_drips_ends(void **state)
{
    struct scene *scene = *state;
    int fd = peer_open(scene, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 999\r\n\r\n");

    turn(scene);
    other_is_served(scene);
    drips_until_closed(scene, fd);
    assert_int_equal(scene->requests, 1);
}

/* It reads a byte a turn, so that something always moves. */
static void an_answer_that_is_taken_too_slowly_ends(void **state)
{
    struct scene *scene = *state;
    int fd = peer_open(scene, "GET /large HTTP/1.1\r\nHost: here\r\n\r\n");
    int64_t deadline_ns = time_mono_ns() + FOREVER;
    struct http_counts counts = { 0 };
    char byte[64];

    while (counts.refused_slow == 0) {
        assert_true(time_mono_ns() < deadline_ns);
        assert_true(recv(fd, byte, sizeof(byte), MSG_DONTWAIT) != 0);
        turn(scene);
        http_counts(scene->http, &counts);
    }
    other_is_served(scene);
    close(fd);
}

static void idle_connections_end(void **state)
{
    struct scene *scene = *state;
    int64_t deadline_ns = time_mono_ns() + FOREVER;
    int fd[8];
    struct http_counts counts;

    for (size_t i = 0; i < COUNT(fd); i++)
        fd[i] = peer_open(scene, "");
    do {
        assert_true(time_mono_ns() < deadline_ns);
        turn(scene);
        http_counts(scene->http, &counts);
    } while (counts.refused_slow < COUNT(fd) || counts.connections > 0);
    for (size_t i = 0; i < COUNT(fd); i++)
        close(fd[i]);
}

static bool is_open(int fd)
{
    char text[1024];
    ssize_t size;

    while ((size = recv(fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
        ;
    return size < 0 && errno == EAGAIN;
}

/* One question that anybody may ask does not keep a place; a peer that has shown who it is keeps its own. */
static void a_stranger_that_asked_once_makes_room(void **state)
{
    struct scene *scene = *state;
    int64_t deadline_ns = time_mono_ns() + FOREVER;
    int known = peer_open(scene, "GET /known HTTP/1.1\r\nHost: here\r\n\r\n"), open;
    int fd[PLACES - 1];

    for (size_t i = 0; i < COUNT(fd); i++)
        fd[i] = peer_open(scene, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    while (scene->requests < PLACES) {
        assert_true(time_mono_ns() < deadline_ns);
        turn(scene);
    }
    do {
        assert_true(time_mono_ns() < deadline_ns);
        turn(scene);
        open = 0;
        for (size_t i = 0; i < COUNT(fd); i++)
            open += is_open(fd[i]);
    } while (open > PLACES * 3 / 4); /* so many are not short any more */
    assert_true(is_open(known));
    other_is_served(scene);
    for (size_t i = 0; i < COUNT(fd); i++)
        close(fd[i]);
    close(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers_that_drip_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_that_drips_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_taken_too_slowly_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_connections_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stranger_that_asked_once_makes_room, setup_crowded,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
