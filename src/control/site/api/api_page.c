/* api_page.c - the page: its three files, and how a browser logs in.
 *
 * The files hold no data and are given to everyone.  The page reads the API like any other client, with the session that
 * a one-time link began.  All that runs in it comes from here: the policy forbids inline scripts and other origins.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/http/reply.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "show/page_files.h"

#define PAGE_POLICY                                                                                \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "  \
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct page_file {
    const char *path, *type;
    const unsigned char *data, *gzip;
    const size_t *size, *gzip_size;
};

static const struct page_file page_files[] = {
    { "/", "text/html; charset=utf-8", page_html, page_html_gzip, &page_html_size,
      &page_html_gzip_size },
    { "/app.js", "text/javascript; charset=utf-8", page_script, page_script_gzip, &page_script_size,
      &page_script_gzip_size },
    { "/app.css", "text/css; charset=utf-8", page_style, page_style_gzip, &page_style_size,
      &page_style_gzip_size },
};

static void page_headers(struct http_exchange *exchange)
{
    http_answer_header(exchange, "Content-Security-Policy", PAGE_POLICY);
    http_answer_header(exchange, "Referrer-Policy", "no-referrer");
    http_answer_header(exchange, "Cross-Origin-Opener-Policy", "same-origin");
    http_answer_header(exchange, "Cross-Origin-Resource-Policy", "same-origin");
}

void api_get_page(struct api_call *call)
{
    const char *accepts = http_header(call->exchange, "Accept-Encoding"),
               *known = http_header(call->exchange, "If-None-Match");
    const struct page_file *file = page_files;
    struct buf body = { 0 };
    char tag[24];

    while (strcmp(file->path, http_path(call->exchange)) != 0)
        file++;
    page_headers(call->exchange);
    snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", hash64(0, file->data, *file->size));
    http_answer_header(call->exchange, "ETag", tag);
    http_answer_header(call->exchange, "Cache-Control", "no-cache");
    http_answer_header(call->exchange, "Vary", "Accept-Encoding");
    if (known && strstr(known, tag)) {
        http_answer(call->exchange, 304, file->type, &body);
    } else if (accepts && strstr(accepts, "gzip")) {
        http_answer_header(call->exchange, "Content-Encoding", "gzip");
        buf_put(&body, file->gzip, *file->gzip_size);
        http_answer(call->exchange, 200, file->type, &body);
    } else {
        buf_put(&body, file->data, *file->size);
        http_answer(call->exchange, 200, file->type, &body);
    }
}

/* A sentence for a person: whoever opens a link has a browser and no tool that reads JSON. */
static void page_refuse(struct api_call *call, unsigned status, const char *why)
{
    struct buf body = { 0 };

    buf_put(&body, why, strlen(why));
    buf_put(&body, "\n", 1);
    http_answer(call->exchange, status, "text/plain; charset=utf-8", &body);
}

/* The link of `lockstep control --page`.  The key is in the fragment, which browsers send to nobody. */
void api_get_login(struct api_call *call)
{
    const struct session *session = NULL;
    struct site *site = call->site;
    struct err err = { "" };
    struct buf body = { 0 };
    char text[256];
    int result;

    page_headers(call->exchange);
    http_answer_header(call->exchange, "Cache-Control", "no-store");
    if (strcmp(http_method(call->exchange), "HEAD") == 0) { /* a preview does not use up the link */
        http_answer(call->exchange, 200, "text/plain", &body);
        return;
    }
    result = session_begin(&site->sessions, http_query(call->exchange, "ticket"), time_mono_ns(),
                           &session, &err);
    if (result < 0) {
        bool slow = !rate_take(&site->auth.failures, http_peer(call->exchange), 1, time_mono_ns());

        site->auth.refused++;
        page_refuse(call, slow ? 429 : 403, err.text);
        return;
    }
    http_note_who(call->exchange, session->who);
    snprintf(text, sizeof(text), "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
             site->sessions.cookie_name, session->cookie.text, SESSION_S,
             site->tls.cert_pem ? "; Secure" : "");
    http_answer_header(call->exchange, "Set-Cookie", text);
    snprintf(text, sizeof(text), "/#key=%s", session->key.text);
    http_answer_header(call->exchange, "Location", text);
    http_answer(call->exchange, 303, "text/plain", &body);
}

/* {path, seconds}: only for those who have a token; a session does not beget others. */
void api_post_login_links(struct api_call *call)
{
    struct json_object *root;
    struct token ticket;
    struct err err = { "" };
    char path[128];

    if (call->role == AUTH_NOBODY || call->by_proxy ||
        !http_header(call->exchange, "Authorization")) {
        reply_error(call->exchange, 403, "a link needs a token: Authorization: Bearer TOKEN");
        return;
    }
    if (session_link_make(&call->site->sessions, call->who, time_mono_ns(), &ticket, &err) < 0) {
        reply_error(call->exchange, 503, "%s", err.text);
        return;
    }
    snprintf(path, sizeof(path), "/login?ticket=%s", ticket.text);
    root = json_object_new_object();
    json_object_object_add(root, "path", json_object_new_string(path));
    json_object_object_add(root, "seconds", json_object_new_int(SESSION_LINK_S));
    http_answer_header(call->exchange, "Cache-Control", "no-store");
    reply_json(call->exchange, 200, root);
}
