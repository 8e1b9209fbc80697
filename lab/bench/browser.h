/* browser.h - a real browser without a window, driven over two pipes by the DevTools protocol of Chromium.
 *
 *     browser_open("/usr/bin/chromium", profile, 1440, 900, &browser, &err);
 *     browser_go(browser, "http://127.0.0.1:8787/", &err);
 *     browser_ask(browser, "document.title", &value, &err);      // a JavaScript expression, as JSON
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_BROWSER_H
#define LOCKSTEP_LAB_BENCH_BROWSER_H

#include <stdint.h>

#include <json-c/json.h>

#include "core/err.h"

struct browser;

/* `profile`: a directory of its own.  -ENOENT: no such program. */
int browser_open(const char *program, const char *profile, unsigned width, unsigned height,
                 struct browser **ret, struct err *err);
void browser_close(struct browser *browser); /* ends its processes; NULL is fine */

int browser_go(struct browser *browser, const char *url, struct err *err);
/* The value of an expression; a promise is awaited.  The caller puts *ret.  -EPROTO: the expression threw. */
int browser_ask(struct browser *browser, const char *expression, struct json_object **ret,
                struct err *err);
/* A key, as a person presses and releases it: "ArrowLeft", "+". */
int browser_press(struct browser *browser, const char *key, struct err *err);
/* Asks again until the expression is true.  -ETIMEDOUT. */
int browser_await(struct browser *browser, const char *expression, int64_t limit_ns,
                  struct err *err);

#endif
