/* site_ask.h - questions of the command line to a site's controller.
 *
 *     struct site_ask *ask;
 *     site_ask_open(&options, &ask, &err);
 *     site_ask_json(ask, "/api/v1/runs?limit=1", &root, &err);
 *
 * A call blocks.  While the controller cannot answer yet (its log is being read, its index rebuilt) it asks again, for a
 * minute at most.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_SITE_ASK_H
#define LOCKSTEP_CMD_SITE_ASK_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net/client.h"
#include "base/paths.h"
#include "core/err.h"

struct site_options {
    const char *control; /* NULL: nobody is asked */
    const char *ca, *pin, *token_file;
    bool insecure_http;
};

/* Rows of the option table of a command whose settings have these options at offset `at`. */
#define SITE_ASK_OPTS(at)                                                                          \
    { "control",                                                                                   \
      0,                                                                                           \
      OPT_TEXT,                                                                                    \
      (at) + offsetof(struct site_options, control),                                               \
      "URL",                                                                                       \
      "ask the site's controller at URL instead of reading this machine's state directory",        \
      "LOCKSTEP_CONTROL",                                                                          \
      false },                                                                                     \
        CLIENT_TRUST_OPTS((at) + offsetof(struct site_options, ca),                                \
                          (at) + offsetof(struct site_options, pin),                               \
                          (at) + offsetof(struct site_options, insecure_http)),                    \
    {                                                                                              \
        "token-file", 0, OPT_TEXT, (at) + offsetof(struct site_options, token_file), "FILE",       \
            "token that may read, default tokens/launch.token in the state directory",             \
            "LOCKSTEP_TOKEN_FILE", false                                                           \
    }

struct site_ask;

/* Whether that operand names a run of a site, and not a directory of this machine. */
bool site_ask_is_run(const struct site_options *options, const char *what);

/* -EINVAL: no URL, or no token in the file. */
int site_ask_open(const struct site_options *options, struct site_ask **ret, struct err *err);
void site_ask_close(struct site_ask *ask); /* NULL is fine */

/* GET.  The caller puts *ret.  -ENOENT: no such run; -EACCES: the token does not allow it; -EHOSTUNREACH: no answer;
 * -EPROTO: the answer is not as expected.
 */
int site_ask_json(struct site_ask *ask, const char *path, struct json_object **ret,
                  struct err *err);
/* POST of a JSON text; it is sent once, whatever comes of it. */
int site_ask_post(struct site_ask *ask, const char *path, const char *body,
                  struct json_object **ret, struct err *err);
/* The name of the run: `what`, or the newest one of the site if that is NULL. */
int site_ask_run(struct site_ask *ask, const char *what, char ret[static 64], struct err *err);

/* Its whole log, as DIRECTORY/RUN/log.lsf below a new temporary directory; site_ask_drop() removes that. */
int site_ask_fetch(struct site_ask *ask, const char *run, struct path *ret, struct err *err);
/* Adds to that log what the controller has beyond it, every `delay_ns`, until it does not answer.  A log that was compacted
 * is fetched again, and takes the place of the old one at once.
 */
int site_ask_follow(struct site_ask *ask, const char *run, const struct path *run_dir,
                    int64_t delay_ns);
void site_ask_drop(const struct path *run_dir); /* "" is fine */

/* Text of a member; NULL: there is none. */
const char *site_ask_text(struct json_object *root, const char *name);

/* Exit status of a command for which an answer failed: 2 for what was asked, 3 for what could not be told. */
int site_ask_exit(int result);

#endif
