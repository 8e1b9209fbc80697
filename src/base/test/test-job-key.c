/* test-job-key.c - launchers that have one key find the same token and the same certificate.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/job_key.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/net/tls.h"
#include "base/remove_tree.h"
#include "core/clean.h"

static void one_key_gives_one_token_and_one_pin(void **state)
{
    char directory[] = "/tmp/lockstep-job-key-XXXXXX", pin[64], other_pin[64];
    unsigned char seed[JOB_KEY_BYTES], other_seed[JOB_KEY_BYTES];
    struct token token, again, other_token, parsed;
    struct job_key key, same, other;
    CLEAN(tls_fini) struct tls tls = { 0 };
    const char *const names[] = { "192.0.2.7" };

    (void)state;
    assert_int_equal(job_key_of("0123456789abcdef", &key, NULL), 0);
    assert_int_equal(job_key_of(" 0123456789abcdef\n", &same, NULL), 0);
    assert_int_equal(job_key_of("0123456789abcdeg", &other, NULL), 0);
    job_key_token(&key, JOB_KEY_JOIN, &token);
    job_key_token(&same, JOB_KEY_JOIN, &again);
    job_key_token(&key, JOB_KEY_FACTS, &other_token);
    assert_false(token_equal(&token, &other_token));
    job_key_token(&other, JOB_KEY_JOIN, &other_token);
    assert_true(token_equal(&token, &again));
    assert_false(token_equal(&token, &other_token));
    assert_int_equal(token_parse(token.text, strlen(token.text), &parsed, NULL), 0);
    job_key_seed(&key, seed);
    job_key_seed(&other, other_seed);
    assert_int_equal(tls_pin_of_seed(seed, pin, NULL), 0);
    assert_int_equal(tls_pin_of_seed(other_seed, other_pin, NULL), 0);
    assert_string_not_equal(pin, other_pin);
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2; i++) { /* also where there is one of an earlier start */
        assert_int_equal(tls_make_of_seed(directory, seed, NULL), 0);
        tls_fini(&tls);
        assert_int_equal(tls_read_or_make(directory, names, 1, &tls, NULL), 0);
        assert_string_equal(tls.pin, pin);
        assert_true(tls.reissued); /* with the name, and the same key */
    }
    assert_int_equal(tree_remove(directory), 0);
}

static void what_can_be_guessed_is_no_key(void **state)
{
    struct job_key key;
    struct err err = { "" };

    (void)state;
    assert_int_equal(job_key_of("short       ", &key, &err), -EINVAL);
    assert_null(strstr(err.text, "short"));
    assert_int_equal(job_key_of("", &key, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_gives_one_token_and_one_pin),
        cmocka_unit_test(what_can_be_guessed_is_no_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
