/* fuzz-session.c - the header Cookie of a request: no text opens a session that was not begun.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/http/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sessions sessions;
    const struct session *session = NULL;
    struct token ticket;
    struct err err = { "" };
    char *text = malloc(size + 1), known[256];

    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    sessions_init(&sessions, 7);
    must(session_link_make(&sessions, "reader", 1, &ticket, &err) == 0);
    must(session_begin(&sessions, text, 2, &session, &err) < 0);
    must(session_begin(&sessions, ticket.text, 2, &session, &err) == 0);
    must(!session_check(&sessions, text, session->key.text, 3));
    snprintf(known, sizeof(known), "%s=%s", sessions.cookie_name, session->cookie.text);
    must(!session_check(&sessions, known, text, 3));
    must(session_check(&sessions, known, session->key.text, 3) == session);
    free(text);
    return 0;
}
