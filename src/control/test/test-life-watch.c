/* test-life-watch.c - what proves that a launcher has ended, and what does not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/life_socket.h"
#include "control/site/life_watch.h"
#include "core/clean.h"
#include "core/time.h"

struct scene {
    struct loop *loop;
    struct life_watch *watch;
    struct life_socket life;
    struct member member;
    unsigned gone;
};

static void on_gone(void *arg, const struct member *member)
{
    struct scene *scene = arg;

    assert_int_equal(member->life, 7);
    scene->gone++;
}

static int scene_make(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_int_equal(loop_create(&scene->loop, NULL), 0);
    assert_int_equal(life_watch_create(scene->loop, on_gone, scene, &scene->watch), 0);
    assert_int_equal(life_socket_open("https://127.0.0.1:1", &scene->life), 0);
    scene->member = (struct member){ .life = 7, .life_port = scene->life.port };
    snprintf(scene->member.life_host, sizeof(scene->member.life_host), "%s", scene->life.host);
    *state = scene;
    return 0;
}

static int scene_free(void **state)
{
    struct scene *scene = *state;

    life_watch_destroy(scene->watch);
    loop_destroy(scene->loop);
    life_socket_close(&scene->life);
    free(scene);
    return 0;
}

/* Served until nothing happens any more for a while. */
static void turns(struct scene *scene)
{
    for (int i = 0; i < 10; i++) {
        life_watch_set(scene->watch, &scene->member, 1, time_mono_ns());
        assert_true(loop_turn(scene->loop, time_mono_ns() + 10 * NS_PER_MS, NULL) >= 0);
    }
}

static int accepted(const struct scene *scene)
{
    int fd = accept4(scene->life.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void the_last_close_is_the_end(void **state)
{
    struct scene *scene = *state;
    int other = dup(scene->life.fd); /* as a rank that inherited it */

    turns(scene);
    life_socket_close(&scene->life);
    turns(scene);
    assert_int_equal(scene->gone, 0);
    close(other);
    turns(scene);
    assert_int_equal(scene->gone, 1);
    turns(scene);
    assert_int_equal(scene->gone, 1);
}

/* A machine between may reset a connection. */
static void a_reset_alone_is_no_end(void **state)
{
    struct scene *scene = *state;
    const struct linger now = { .l_onoff = 1 };
    int fd;

    turns(scene);
    fd = accepted(scene);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
    turns(scene);
    assert_int_equal(scene->gone, 0);
    life_socket_close(&scene->life); /* it is connected again */
    turns(scene);
    assert_int_equal(scene->gone, 1);
}

static void an_orderly_end_is_no_end(void **state)
{
    struct scene *scene = *state;

    turns(scene);
    close(accepted(scene));
    life_socket_close(&scene->life);
    turns(scene);
    assert_int_equal(scene->gone, 0);
}

/* A controller that was started again does not know whether anybody was there. */
static void who_never_answered_has_not_ended(void **state)
{
    struct scene *scene = *state;

    life_socket_close(&scene->life);
    turns(scene);
    assert_int_equal(scene->gone, 0);
}

static void nonsense_is_not_connected_to(void **state)
{
    struct scene *scene = *state;

    snprintf(scene->member.life_host, sizeof(scene->member.life_host), "a name");
    turns(scene);
    assert_int_equal(scene->gone, 0);
}

static void who_is_watched_no_longer_is_forgotten(void **state)
{
    struct scene *scene = *state;

    turns(scene);
    life_watch_set(scene->watch, NULL, 0, time_mono_ns());
    life_socket_close(&scene->life);
    assert_true(loop_turn(scene->loop, time_mono_ns() + 10 * NS_PER_MS, NULL) >= 0);
    assert_int_equal(scene->gone, 0);
}

#define SCENE(name) cmocka_unit_test_setup_teardown(name, scene_make, scene_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(the_last_close_is_the_end),    SCENE(a_reset_alone_is_no_end),
        SCENE(an_orderly_end_is_no_end),     SCENE(who_never_answered_has_not_ended),
        SCENE(nonsense_is_not_connected_to), SCENE(who_is_watched_no_longer_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
