/* test-session.c - links and sessions of the page: once, and not for ever.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/http/session.h"
#include "core/clean.h"
#include "core/time.h"

static struct sessions sessions;

static void cookie_of(const struct session *session, char ret[static 256])
{
    snprintf(ret, 256, "%s=%s", sessions.cookie_name, session->cookie.text);
}

static const struct session *begin(int64_t now_ns, struct token *ticket)
{
    const struct session *session = NULL;
    struct err err = { "" };

    assert_int_equal(session_link_make(&sessions, "reader", now_ns, ticket, &err), 0);
    assert_int_equal(session_begin(&sessions, ticket->text, now_ns, &session, &err), 0);
    return session;
}

static void a_link_works_once(void **state)
{
    const struct session *session = NULL;
    struct token ticket;
    struct err err = { "" };

    (void)state;
    sessions_init(&sessions, 1);
    begin(1, &ticket);
    assert_int_equal(session_begin(&sessions, ticket.text, 2, &session, &err), -EACCES);
    assert_non_null(strstr(err.text, "used already"));
}

static void a_link_is_over_after_ten_minutes(void **state)
{
    const struct session *session = NULL;
    struct token ticket;
    struct err err = { "" };

    (void)state;
    sessions_init(&sessions, 1);
    assert_int_equal(session_link_make(&sessions, "reader", 5, &ticket, &err), 0);
    assert_int_equal(
        session_begin(&sessions, ticket.text, 5 + SESSION_LINK_S * NS_PER_S, &session, &err),
        -EACCES);
    assert_int_equal(
        session_begin(&sessions, ticket.text, 4 + SESSION_LINK_S * NS_PER_S, &session, &err), 0);
}

static void a_session_ends(void **state)
{
    const struct session *session;
    struct token ticket;
    char cookie[256];

    (void)state;
    sessions_init(&sessions, 1);
    session = begin(1, &ticket);
    cookie_of(session, cookie);
    assert_true(session_check(&sessions, cookie, session->key.text, SESSION_S * NS_PER_S));
    assert_false(session_check(&sessions, cookie, session->key.text, 1 + SESSION_S * NS_PER_S));
}

static void both_halves_must_be_of_one_session(void **state)
{
    const struct session *one, *two;
    struct token ticket;
    char cookie[256];

    (void)state;
    sessions_init(&sessions, 1);
    one = begin(1, &ticket);
    two = begin(2, &ticket);
    cookie_of(one, cookie);
    assert_true(session_check(&sessions, cookie, one->key.text, 3));
    assert_false(session_check(&sessions, cookie, two->key.text, 3));
    assert_false(session_check(&sessions, cookie, NULL, 3));
    assert_false(session_check(&sessions, NULL, one->key.text, 3));
    assert_false(session_check(&sessions, one->cookie.text, one->key.text, 3));
}

static void nothing_is_no_session(void **state)
{
    (void)state;
    sessions_init(&sessions, 1);
    assert_false(session_check(&sessions, "lockstep-0000000000000001=", "", 1));
}

static void the_oldest_session_makes_room(void **state)
{
    const struct session *session = NULL;
    struct token ticket;
    char cookie[256], key[TOKEN_SIZE + 1];

    (void)state;
    sessions_init(&sessions, 1);
    session = begin(1, &ticket);
    cookie_of(session, cookie);
    memcpy(key, session->key.text, sizeof(key));
    for (int i = 1; i < SESSIONS_MAX; i++)
        session = begin(1 + i, &ticket);
    assert_true(session_check(&sessions, cookie, key, 100));
    session = begin(99, &ticket);
    assert_false(session_check(&sessions, cookie, key, 100));
    cookie_of(session, cookie);
    assert_true(session_check(&sessions, cookie, session->key.text, 100));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_works_once),
        cmocka_unit_test(a_link_is_over_after_ten_minutes),
        cmocka_unit_test(a_session_ends),
        cmocka_unit_test(both_halves_must_be_of_one_session),
        cmocka_unit_test(nothing_is_no_session),
        cmocka_unit_test(the_oldest_session_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
