/* control_url.h - the file control.url: where a controller listens.
 *
 *     http://127.0.0.1:43210
 *     lst_0123...
 *
 * The first line is the address.  The controller of one run (RUN/control.url, mode 0600) adds a token that may read; a site
 * (STATE/control.url) has the first line only, and its tokens are in STATE/tokens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_CONTROL_URL_H
#define LOCKSTEP_BASE_NET_CONTROL_URL_H

#include <stddef.h>

#include "base/net/token.h"
#include "core/err.h"

#define CONTROL_URL_FILE "control.url"
#define PAGE_URL_FILE "page.url" /* beside it: a one-time link to the page of a run's controller */

struct control_url {
    char url[320];
    struct token token; /* "": none */
};

/* -EINVAL: not such a file. */
int control_url_parse(const char *text, size_t size, struct control_url *ret, struct err *err);
/* -ENOENT: no controller listens; -EACCES: it belongs to another user, or has a token that others can read. */
int control_url_read(const char *directory, struct control_url *ret, struct err *err);
/* Replaces the file, so a reader sees the old one or the new one. */
int control_url_write(const char *directory, const struct control_url *value, struct err *err);
void control_url_remove(const char *directory); /* none is fine */

#endif
