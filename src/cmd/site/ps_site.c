/* ps_site.c - the runs that a site's controller has, page by page.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/site/ps_site.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"

#define PAGE 200

static void ps_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

static int64_t ps_member_number(struct json_object *row, const char *name)
{
    struct json_object *value = NULL;

    return json_object_object_get_ex(row, name, &value) ? json_object_get_int64(value) : 0;
}

static bool ps_member_is(struct json_object *row, const char *name)
{
    struct json_object *value = NULL;

    return json_object_object_get_ex(row, name, &value) && value;
}

/* 0: not known. */
static int64_t ps_row_begin_ns(struct json_object *row)
{
    const char *text = site_ask_text(row, "begin_time");
    struct tm date = { 0 };

    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &date) ? timegm(&date) * NS_PER_S : 0;
}

static int64_t ps_row_restarts(struct json_object *row)
{
    return MAX(ps_member_number(row, "attempts") - 1, 0);
}

static void ps_row_print(struct json_object *row, int64_t now_ns)
{
    const char *name = site_ask_text(row, "run"), *state = site_ask_text(row, "state");
    const char *command = site_ask_text(row, "command"), *refused = site_ask_text(row, "refused");
    char age[32] = "-", status[16] = "-", ranks[16] = "-", clean[3][256];
    int64_t begin_ns = ps_row_begin_ns(row);

    if (begin_ns)
        ps_age(now_ns - begin_ns, age, sizeof(age));
    if (ps_member_is(row, "status"))
        snprintf(status, sizeof(status), "%" PRId64, ps_member_number(row, "status"));
    if (ps_member_number(row, "ranks"))
        snprintf(ranks, sizeof(ranks), "%" PRId64, ps_member_number(row, "ranks"));
    printf("%-24s %-10s %6s %8" PRId64 " %8s %5s  %s\n",
           show_clean(name ? name : "?", clean[0], sizeof(clean[0])),
           show_clean(state ? state : "?", clean[1], 11), ranks, ps_row_restarts(row), age, status,
           show_clean(refused   ? refused
                      : command ? command
                                : "",
                      clean[2], sizeof(clean[2])));
}

static struct json_object *ps_row_json(struct json_object *row, int64_t now_ns)
{
    static const struct {
        const char *name, *from;
    } members[] = { { "id", "run" },      { "state", "state" },
                    { "ranks", "ranks" }, { "started", "begin_time" },
                    { "exit", "status" }, { "refused", "refused" } };
    struct json_object *object = json_object_new_object(), *command = json_object_new_array();
    const char *words = site_ask_text(row, "command");
    int64_t begin_ns = ps_row_begin_ns(row);

    for (size_t i = 0; i < COUNT(members); i++) {
        struct json_object *value = NULL;

        json_object_object_get_ex(row, members[i].from, &value);
        json_object_object_add(object, members[i].name, json_object_get(value));
    }
    json_object_object_add(object, "attempt", json_object_new_int64(ps_row_restarts(row)));
    json_object_object_add(object, "restarts", json_object_new_int64(ps_row_restarts(row)));
    json_object_object_add(object, "age_seconds",
                           begin_ns ? json_object_new_double((double)(now_ns - begin_ns) / 1e9)
                                    : NULL);
    if (words)
        json_object_array_add(command, show_string(words));
    json_object_object_add(object, "command", command);
    return object;
}

/* One page.  Returns how many rows it has, or -errno; *after is the cursor of the last. */
static int64_t ps_page_take(struct site_ask *ask, uint64_t *after, struct json_object *list,
                            struct err *err)
{
    struct json_object *root = NULL, *rows = NULL;
    int64_t now_ns = time_real_ns();
    char path[128], from[40] = "";
    size_t count = 0;
    int result;

    if (*after)
        snprintf(from, sizeof(from), "&after=%" PRIu64, *after);
    snprintf(path, sizeof(path), "/api/v1/runs?newest_first=true&limit=%d%s", PAGE, from);
    result = site_ask_json(ask, path, &root, err);
    if (result == 0 && json_object_object_get_ex(root, "runs", &rows) &&
        json_object_is_type(rows, json_type_array))
        count = json_object_array_length(rows);
    if (!list && count && !*after)
        ps_print_head();
    for (size_t i = 0; i < count; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);

        if (list)
            json_object_array_add(list, ps_row_json(row, now_ns));
        else
            ps_row_print(row, now_ns);
        *after = (uint64_t)ps_member_number(row, "cursor");
    }
    json_object_put(root);
    return result < 0 ? result : (int64_t)count;
}

int ps_site_list(const struct site_options *options, bool json)
{
    CLEAN(ps_ask_clean) struct site_ask *ask = NULL;
    struct json_object *top = json_object_new_object(), *list = json_object_new_array();
    struct err err = { "" };
    uint64_t after = 0;
    int64_t count = site_ask_open(options, &ask, &err);

    json_object_object_add(top, "runs", list);
    do {
        if (count >= 0)
            count = ps_page_take(ask, &after, json ? list : NULL, &err);
    } while (count == PAGE && after);
    if (count >= 0 && json)
        show_json(top, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    json_object_put(top);
    if (count < 0)
        log_error("%s", err.text);
    return count < 0 ? site_ask_exit((int)count) : 0;
}
