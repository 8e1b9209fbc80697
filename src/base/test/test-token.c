/* Tokens are made, kept and compared; files that others can read are refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/token.h"

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

#include "base/net/rate.h"
#include "core/time.h"

struct scene {
    char base[64], path[128];
};

static int setup(void **state)
{
    struct scene *scene = test_calloc(1, sizeof(*scene));

    strcpy(scene->base, "/tmp/lockstep-token-XXXXXX");
    assert_non_null(mkdtemp(scene->base));
    snprintf(scene->path, sizeof(scene->path), "%s/token", scene->base);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    unlink(scene->path);
    assert_int_equal(rmdir(scene->base), 0);
    test_free(scene);
    return 0;
}

static void two_tokens_differ_and_one_is_itself(void **state)
{
    struct token one, two, none = { "" };

    (void)state;
    assert_int_equal(token_make(&one, NULL), 0);
    assert_int_equal(token_make(&two, NULL), 0);
    assert_true(token_equal(&one, &one));
    assert_false(token_equal(&one, &two));
    assert_false(token_equal(&none, &none)); /* no token opens nothing */
    two = one;
    two.text[TOKEN_SIZE - 1] ^= 1;
    assert_false(token_equal(&one, &two));
}

static void what_is_no_token_is_refused_without_repeating_it(void **state)
{
    static const char *const bad[] = { "", "lst_", "secret-of-mine",
                                       "lst_zz"
                                       "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                       "zzzzzzzzzzzzz" };
    struct token token = { "" };
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(token_parse(bad[i], strlen(bad[i]), &token, &err), -EINVAL);
        assert_null(strstr(err.text, "secret"));
        assert_null(strstr(err.text, "zzz"));
    }
    assert_string_equal(token.text, "");
}

static void it_is_made_once_and_read_again(void **state)
{
    struct scene *scene = *state;
    struct token one, two;
    struct stat st;

    assert_int_equal(token_read(scene->path, &one, NULL), -ENOENT);
    assert_int_equal(token_read_or_make(scene->path, &one, NULL), 0);
    assert_int_equal(token_read_or_make(scene->path, &two, NULL), 0);
    assert_true(token_equal(&one, &two));
    assert_int_equal(stat(scene->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(token_make(&two, NULL), 0);
    assert_int_equal(token_write(scene->path, &two, NULL), 0);
    assert_int_equal(token_read(scene->path, &one, NULL), 0);
    assert_true(token_equal(&one, &two));
}

/* Several machines share the directory, and number their processes alike. */
static void another_machine_may_make_it_at_the_same_time(void **state)
{
    struct scene *scene = *state;
    struct token token;
    char beside[160];

    snprintf(beside, sizeof(beside), "%s.%d", scene->path, getpid());
    assert_int_equal(mkdir(beside, 0700), 0); /* what has our number there cannot be removed */
    assert_int_equal(token_read_or_make(scene->path, &token, NULL), 0);
    assert_int_equal(rmdir(beside), 0);
}

static void a_file_that_others_read_is_refused(void **state)
{
    struct scene *scene = *state;
    struct token token;
    struct err err;

    assert_int_equal(token_read_or_make(scene->path, &token, NULL), 0);
    assert_int_equal(chmod(scene->path, 0640), 0);
    assert_int_equal(token_read(scene->path, &token, &err), -EACCES);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_int_equal(token_read_or_make(scene->path, &token, &err), -EACCES);
}

static void a_rate_lets_a_burst_through_and_then_so_many_a_second(void **state)
{
    static struct rate rate;
    int passed = 0;

    (void)state;
    rate_init(&rate, 10, 5);
    for (int i = 0; i < 100; i++)
        passed += rate_take(&rate, 7, 1, NS_PER_S);
    assert_int_equal(passed, 5);
    assert_true(rate_take(&rate, 8, 1, NS_PER_S)); /* another one is not held back */
    for (int i = 0; i < 100; i++)
        passed += rate_take(&rate, 7, 1, NS_PER_S + NS_PER_S / 5);
    assert_int_equal(passed, 7);
    assert_true(rate_take(&rate, 9, 1000, NS_PER_S)); /* larger than the burst: once */
    assert_false(rate_take(&rate, 9, 1, 2 * NS_PER_S));
    assert_true(rate_take(&rate, 9, 1, 101 * NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tokens_differ_and_one_is_itself),
        cmocka_unit_test(what_is_no_token_is_refused_without_repeating_it),
        cmocka_unit_test_setup_teardown(it_is_made_once_and_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(another_machine_may_make_it_at_the_same_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_file_that_others_read_is_refused, setup, teardown),
        cmocka_unit_test(a_rate_lets_a_burst_through_and_then_so_many_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
