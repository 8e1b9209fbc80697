/* session.c - a table of links and a table of sessions, both of fixed size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

void sessions_init(struct sessions *sessions, uint64_t epoch)
{
    *sessions = (struct sessions){ 0 };
    snprintf(sessions->cookie_name, sizeof(sessions->cookie_name), "lockstep-%016" PRIx64, epoch);
}

int session_link_make(struct sessions *sessions, const char *name, int64_t now_ns,
                      struct token *ret, struct err *err)
{
    struct session_link *oldest = &sessions->link[0];
    int result;

    for (size_t i = 1; i < COUNT(sessions->link); i++) {
        if (sessions->link[i].until_ns < oldest->until_ns)
            oldest = &sessions->link[i];
    }
    result = token_make(ret, err);
    if (result < 0)
        return result;
    *oldest =
        (struct session_link){ .ticket = *ret, .until_ns = now_ns + SESSION_LINK_S * NS_PER_S };
    snprintf(oldest->who, sizeof(oldest->who), "page of %s", name);
    return 0;
}

/* All are compared, whichever fits: how long it takes tells nothing. */
static struct session_link *session_link_find(struct sessions *sessions, const struct token *ticket,
                                              int64_t now_ns)
{
    struct session_link *found = NULL;

    for (size_t i = 0; i < COUNT(sessions->link); i++) {
        if (token_equal(&sessions->link[i].ticket, ticket) && sessions->link[i].until_ns > now_ns)
            found = &sessions->link[i];
    }
    return found;
}

int session_begin(struct sessions *sessions, const char *ticket, int64_t now_ns,
                  const struct session **ret, struct err *err)
{
    struct session *oldest = &sessions->session[0], made = { .until_ns = now_ns };
    struct session_link *link = NULL;
    struct token given;
    int result;

    if (ticket && token_parse(ticket, strlen(ticket), &given, NULL) == 0)
        link = session_link_find(sessions, &given, now_ns);
    if (!link)
        return err_set(err, -EACCES,
                       "this link was used already, or is older than %d minutes; 'lockstep control "
                       "--page' prints a new one",
                       SESSION_LINK_S / 60);
    memcpy(made.who, link->who, sizeof(made.who));
    *link = (struct session_link){ 0 };
    result = token_make(&made.cookie, err);
    if (result == 0)
        result = token_make(&made.key, err);
    if (result < 0)
        return result;
    for (size_t i = 1; i < COUNT(sessions->session); i++) {
        if (sessions->session[i].until_ns < oldest->until_ns)
            oldest = &sessions->session[i];
    }
    made.until_ns = now_ns + SESSION_S * NS_PER_S;
    *oldest = made;
    *ret = oldest;
    return 0;
}

/* The value of our cookie in "a=1; lockstep-...=lst_..."; of several with that name the first. */
static bool session_cookie_find(const char *cookies, const char *name, struct token *ret)
{
    size_t length = strlen(name);

    while (cookies && *cookies) {
        size_t size;

        cookies += strspn(cookies, "; ");
        size = strcspn(cookies, ";");
        if (size > length + 1 && strncmp(cookies, name, length) == 0 && cookies[length] == '=')
            return token_parse(cookies + length + 1, size - length - 1, ret, NULL) == 0;
        cookies += size;
    }
    return false;
}

const struct session *session_check(const struct sessions *sessions, const char *cookies,
                                    const char *key, int64_t now_ns)
{
    const struct session *found = NULL;
    struct token given_cookie, given_key;

    if (!key || !session_cookie_find(cookies, sessions->cookie_name, &given_cookie) ||
        token_parse(key, strlen(key), &given_key, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT(sessions->session); i++) {
        const struct session *session = &sessions->session[i];
        bool cookie_fits = token_equal(&session->cookie, &given_cookie),
             key_fits = token_equal(&session->key, &given_key);

        if (cookie_fits && key_fits && session->until_ns > now_ns)
            found = session;
    }
    return found;
}
