/* The address of a controller is read as it was written; a token that others can read is refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/control_url.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct scene {
    char base[64], path[128];
};

static int setup(void **state)
{
    struct scene *scene = test_calloc(1, sizeof(*scene));

    strcpy(scene->base, "/tmp/lockstep-url-XXXXXX");
    assert_non_null(mkdtemp(scene->base));
    snprintf(scene->path, sizeof(scene->path), "%s/control.url", scene->base);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    control_url_remove(scene->base);
    assert_int_equal(rmdir(scene->base), 0); /* so nothing else was left */
    test_free(scene);
    return 0;
}

static void an_address_with_a_token_is_read_back(void **state)
{
    struct control_url value = { .url = "http://127.0.0.1:43210" }, back;
    struct scene *scene = *state;
    struct stat st;

    assert_int_equal(control_url_read(scene->base, &back, NULL), -ENOENT);
    assert_int_equal(token_make(&value.token, NULL), 0);
    assert_int_equal(control_url_write(scene->base, &value, NULL), 0);
    assert_int_equal(stat(scene->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(control_url_read(scene->base, &back, NULL), 0);
    assert_string_equal(back.url, value.url);
    assert_true(token_equal(&back.token, &value.token));
}

static void an_address_of_a_site_has_no_token(void **state)
{
    struct control_url value = { .url = "https://[2001:db8::1]:8787" }, back;
    struct scene *scene = *state;

    assert_int_equal(control_url_write(scene->base, &value, NULL), 0);
    assert_int_equal(control_url_read(scene->base, &back, NULL), 0);
    assert_string_equal(back.url, value.url);
    assert_string_equal(back.token.text, "");
}

static void a_token_that_others_can_read_is_refused(void **state)
{
    struct control_url value = { .url = "http://127.0.0.1:43210" }, back = { .url = "" };
    struct scene *scene = *state;
    struct err err = { "" };

    assert_int_equal(token_make(&value.token, NULL), 0);
    assert_int_equal(control_url_write(scene->base, &value, NULL), 0);
    assert_int_equal(chmod(scene->path, 0644), 0);
    assert_int_equal(control_url_read(scene->base, &back, &err), -EACCES);
    assert_string_equal(back.url, "");
    assert_null(strstr(err.text, "lst_"));
}

static void anything_else_is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "\n",
                                       "http://127.0.0.1:1",
                                       "ftp://127.0.0.1:1\n",
                                       "http://127.0.0.1:1\nlst_12\n",
                                       "http://127.0.0.1:1/path\n" };
    struct control_url back;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(control_url_parse(bad[i], strlen(bad[i]), &back, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_with_a_token_is_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(an_address_of_a_site_has_no_token, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_that_others_can_read_is_refused, setup, teardown),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
