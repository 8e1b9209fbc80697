/* why_site.c - the answer of a site's controller, and what a node that has only a part of a run says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/why/why_site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/net/control_url.h"
#include "core/clean.h"
#include "core/text.h"

static int why_print_answer(struct json_object *root, struct err *err)
{
    struct json_object *status = NULL;
    const char *words = site_ask_text(root, "text");
    CLEAN(free_clean) char *text = words ? strdup(words) : NULL;
    int result;

    if (!text || !json_object_object_get_ex(root, "exit", &status))
        return err_set(err, -EPROTO,
                       "the controller's answer has no text; is it of another version?");
    fwrite(text, 1, text_clean(text, strlen(text), true), stdout);
    result = json_object_get_int(status);
    return result == 0 || result == 1 ? result : 3;
}

/* As the text form decides it: a verdict, or an end or silence that nothing explains. */
static int why_exit_of(struct json_object *root)
{
    struct json_object *verdicts = NULL, *unexplained = NULL, *counts = NULL, *steps = NULL;
    struct json_object *standstill = NULL, *lost = NULL;

    json_object_object_get_ex(root, "verdicts", &verdicts);
    json_object_object_get_ex(root, "unexplained", &unexplained);
    json_object_object_get_ex(root, "standstill_seconds", &standstill);
    json_object_object_get_ex(root, "lost_share", &lost);
    if (json_object_object_get_ex(root, "counts", &counts))
        json_object_object_get_ex(counts, "steps", &steps);
    if (json_object_is_type(verdicts, json_type_array) && json_object_array_length(verdicts))
        return 1;
    return json_object_get_int64(steps) && !json_object_get_boolean(unexplained) &&
                   !(json_object_get_double(standstill) > 0) && !(json_object_get_double(lost) > 0)
               ? 0
               : 3;
}

int why_site(struct site_ask *ask, const char *run, bool json, struct err *err)
{
    struct show_style style = show_style_of(stdout);
    struct json_object *root = NULL;
    char path[160];
    int result;

    snprintf(path, sizeof(path), "/api/v1/runs/%s/why%s", run,
             json         ? ""
             : style.bars ? "?text=true&bars=true"
                          : "?text=true");
    result = site_ask_json(ask, path, &root, err);
    if (result < 0)
        return result;
    if (json) {
        show_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
        result = why_exit_of(root);
    } else {
        result = why_print_answer(root, err);
    }
    json_object_put(root);
    return result;
}

static bool why_was_sent(const char *directory)
{
    struct path path;

    return path_join(&path, directory, "agent.token", NULL) == 0 && access(path.text, F_OK) == 0;
}

static void why_part_json(const struct run_summary *summary, const char *url)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(summary->run));
    json_object_object_add(root, "partial", json_object_new_boolean(true));
    json_object_object_add(root, "ranks", json_object_new_int64(summary->ranks));
    json_object_object_add(root, "ranks_seen", json_object_new_int64(summary->ranks_seen));
    json_object_object_add(root, "control", show_string_or_null(url));
    show_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    json_object_put(root);
}

bool why_is_part(const char *directory, const struct run_summary *summary, bool json)
{
    struct control_url control = { .url = "" };
    char clean[sizeof(control.url)], run[sizeof(summary->run)];

    if (summary->source != RUN_SUMMARY_SPOOLS || summary->ranks_seen >= summary->ranks ||
        !why_was_sent(directory))
        return false;
    control_url_read(directory, &control, NULL); /* where it was sent; not known is fine */
    if (json) {
        why_part_json(summary, control.url);
        return true;
    }
    printf("run %s: this machine has the facts of %u of %u ranks; the site's controller has the "
           "whole run\n  to do: lockstep why --control %s %s\n",
           show_clean(summary->run, run, sizeof(run)), summary->ranks_seen, summary->ranks,
           control.url[0] ? show_clean(control.url, clean, sizeof(clean)) : "URL", run);
    return true;
}
