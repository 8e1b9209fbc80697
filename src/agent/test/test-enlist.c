/* test-enlist.c - what a controller may answer to the registration of a run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "agent/send/enlist.h"
#include "base/net/token.h"
#include "core/buf.h"
#include "core/clean.h"

static int answered(unsigned status, const char *text, struct token *ret, struct err *err)
{
    CLEAN(buf_fini) struct buf body = { 0 };

    buf_put(&body, text, strlen(text));
    return enlist_token(
        &(struct client_answer){ .status = status, .why = "nobody answers", .body = &body }, "r",
        ret, err);
}

static void the_token_of_the_run_is_taken(void **state)
{
    struct token made, got = { "" };
    char text[256];

    (void)state;
    assert_int_equal(token_make(&made, NULL), 0);
    snprintf(text, sizeof(text), "{\"run\":\"r\",\"token\":\"%s\"}", made.text);
    assert_int_equal(answered(200, text, &got, NULL), 0);
    assert_true(token_equal(&made, &got));
    snprintf(text, sizeof(text), "{\"run\":\"other\",\"token\":\"%s\"}", made.text);
    assert_int_equal(answered(200, text, &got, NULL), -EPROTO);
}

/* Each is refused with a sentence; `null` for a text is a value that json-c gives as a null pointer. */
static void other_answers_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "null",
        "{}",
        "{\"run\":\"r\"}",
        "{\"run\":null,\"token\":\"x\"}",
        "{\"run\":\"r\",\"token\":null}",
        "{\"run\":\"r\",\"token\":\"\"}",
        "{\"run\":\"r\",\"token\":{\"a\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct token got = { "" };
        struct err err = { "" };

        assert_true(answered(200, texts[i], &got, &err) < 0);
        assert_true(err.text[0]);
        assert_string_equal(got.text, "");
    }
}

static void an_error_is_repeated(void **state)
{
    struct token got = { "" };
    struct err err = { "" };

    (void)state;
    assert_int_equal(answered(403, "{\"error\":\"not yours\"}", &got, &err), -EPROTO);
    assert_string_equal(err.text, "the controller responded with status 403: not yours");
    assert_int_equal(answered(403, "{\"error\":null}", &got, &err), -EPROTO);
    assert_string_equal(err.text, "the controller responded with status 403 and no token");
    assert_int_equal(answered(0, "", &got, &err), -EPROTO);
    assert_string_equal(err.text, "nobody answers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_token_of_the_run_is_taken),
        cmocka_unit_test(other_answers_are_refused),
        cmocka_unit_test(an_error_is_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
