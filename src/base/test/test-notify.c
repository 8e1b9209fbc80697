/* test-notify.c - what a service manager hears.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/time.h"

/* A manager with an abstract name of its own. */
static int manager(char *name, size_t room)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), size;

    snprintf(name, room, "@lockstep-test-notify-%d", getpid());
    size = snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    address.sun_path[0] = '\0';
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size)),
                     0);
    return fd;
}

static const char *received(int fd)
{
    static char text[512];
    ssize_t size = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[size > 0 ? size : 0] = '\0';
    return text;
}

static void the_manager_hears_ready_alive_and_stopping(void **state)
{
    struct notify notify;
    char name[64];
    int fd = manager(name, sizeof(name));

    (void)state;
    setenv("NOTIFY_SOCKET", name, 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    notify_open(&notify);
    assert_null(getenv("NOTIFY_SOCKET"));
    notify_ready(&notify, "3 runs");
    assert_string_equal(received(fd), "READY=1\nSTATUS=3 runs");
    notify_alive(&notify, 10 * NS_PER_S);
    assert_string_equal(received(fd), "WATCHDOG=1");
    notify_alive(&notify,
                 10 * NS_PER_S + NS_PER_S / 2); /* not due: half of the patience is a second */
    assert_string_equal(received(fd), "");
    notify_alive(&notify, 11 * NS_PER_S);
    assert_string_equal(received(fd), "WATCHDOG=1");
    notify_stopping(&notify);
    assert_string_equal(received(fd), "STOPPING=1");
    close(fd);
    notify_ready(&notify, "nobody there"); /* and nothing happens */
    notify_close(&notify);
}

static void nobody_asked(void **state)
{
    static const char *const names[] = { NULL, "", "relative", "/no/such/socket", "@" };
    struct notify notify;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i])
            setenv("NOTIFY_SOCKET", names[i], 1);
        setenv("WATCHDOG_USEC", "1000", 1);
        notify_open(&notify);
        assert_int_equal(notify.fd, -1);
        notify_ready(&notify, "");
        notify_alive(&notify, NS_PER_S);
        notify_close(&notify);
    }
}

static void a_watchdog_of_another_process_is_not_ours(void **state)
{
    struct notify notify;
    char name[64];
    int fd = manager(name, sizeof(name));

    (void)state;
    setenv("NOTIFY_SOCKET", name, 1);
    setenv("WATCHDOG_USEC", "2000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    notify_open(&notify);
    notify_alive(&notify, NS_PER_S);
    assert_string_equal(received(fd), "");
    notify_close(&notify);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manager_hears_ready_alive_and_stopping),
        cmocka_unit_test(nobody_asked),
        cmocka_unit_test(a_watchdog_of_another_process_is_not_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
