/* Tokens go out encrypted, or over loopback.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/client.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"

static void refuses_clear_text_to_other_machines(void **state)
{
    static const char *const urls[] = { "http://192.0.2.1:80", "http://controller.example",
                                        "http://localhost.example:80", "http://[2001:db8::1]:80" };
    struct err err = { "" };

    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        assert_int_equal(client_check_url(urls[i], false, &err), -EINVAL);
        assert_non_null(strstr(err.text, "--insecure-http"));
        assert_int_equal(client_check_url(urls[i], true, &err), 0);
    }
}

static void allows_loopback_and_tls(void **state)
{
    static const char *const urls[] = { "http://localhost:80", "http://127.0.0.1:8787",
                                        "http://[::1]:1/", "https://controller.example:8787" };

    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++)
        assert_int_equal(client_check_url(urls[i], false, NULL), 0);
}

static void opens_only_what_it_would_send_to(void **state)
{
    struct loop *loop;
    struct client *client = NULL;

    (void)state;
    assert_int_equal(loop_create(&loop, NULL), 0);
    assert_int_equal(
        client_open(loop, &(struct client_settings){ .url = "http://192.0.2.1:80" }, &client, NULL),
        -EINVAL);
    assert_null(client);
    assert_int_equal(
        client_open(loop, &(struct client_settings){ .url = "http://localhost:80" }, &client, NULL),
        0);
    client_close(client);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_clear_text_to_other_machines),
        cmocka_unit_test(allows_loopback_and_tls),
        cmocka_unit_test(opens_only_what_it_would_send_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
