/* ps.c - lockstep ps: the runs of the state directory, newest first. */
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "act/launcher_log.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"

struct ps_settings {
    bool json;
};

static const struct opt ps_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct ps_settings, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

struct ps_row {
    struct path directory;
    struct runfile file;
    const char *state;
};

/* A run that nobody holds and that did not write its end was killed, and its keeper with it or
 * after it.
 */
static int ps_read(const char *name, struct ps_row *ret, struct err *err)
{
    struct ps_row row;
    int lives = 0, r = paths_run(name, &row.directory, err);

    if (r == 0)
        r = lives = runfile_lives(row.directory.text, err);
    if (r >= 0) /* after the look at the lock: a run that ends in between has written it by then */
        r = runfile_read(row.directory.text, &row.file, err);
    if (r < 0)
        return r;
    row.state = lives ? "running" : row.file.ended ? "ended" : "crashed";
    *ret = row;
    return 0;
}

static void ps_age(int64_t ns, char *ret, size_t room)
{
    long long s = MAX(ns, 0) / NS_PER_S;

    if (s < 60)
        snprintf(ret, room, "%llds", s);
    else if (s < 3600)
        snprintf(ret, room, "%lldm%02llds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(ret, room, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(ret, room, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void ps_print(const struct ps_row *row, int64_t now_ns)
{
    char age[32], command[256], clean[256], status[16] = "-", ranks[16] = "-";

    ps_age(now_ns - row->file.started_real_ns, age, sizeof(age));
    launcher_log_command_text(row->file.command, command, sizeof(command));
    if (row->file.ended && strcmp(row->state, "ended") == 0)
        snprintf(status, sizeof(status), "%d", row->file.exit);
    if (row->file.layout.ranks)
        snprintf(ranks, sizeof(ranks), "%u", row->file.layout.ranks);
    printf("%-24s %-8s %6s %8u %8s %5s  %s\n", row->file.id, row->state, ranks, row->file.restarts,
           age, status, show_clean(command, clean, sizeof(clean)));
}

static struct json_object *ps_json(const struct ps_row *row, int64_t now_ns)
{
    struct json_object *object = json_object_new_object(), *command = json_object_new_array();
    bool ended = strcmp(row->state, "ended") == 0;
    char started[32];

    time_format_utc(row->file.started_real_ns, started);
    for (char **word = row->file.command; *word; word++)
        json_object_array_add(command, json_object_new_string(*word));
    json_object_object_add(object, "id", json_object_new_string(row->file.id));
    json_object_object_add(object, "state", json_object_new_string(row->state));
    json_object_object_add(object, "ranks", json_object_new_int64(row->file.layout.ranks));
    json_object_object_add(object, "nodes", json_object_new_int64(row->file.layout.nodes));
    json_object_object_add(object, "attempt", json_object_new_int64(row->file.attempt));
    json_object_object_add(object, "restarts", json_object_new_int64(row->file.restarts));
    json_object_object_add(object, "started", json_object_new_string(started));
    json_object_object_add(
        object, "age_seconds",
        json_object_new_double((double)(now_ns - row->file.started_real_ns) / 1e9));
    json_object_object_add(object, "pid", json_object_new_int(row->file.pid));
    json_object_object_add(object, "exit", ended ? json_object_new_int(row->file.exit) : NULL);
    json_object_object_add(object, "command", command);
    json_object_object_add(object, "dir", json_object_new_string(row->directory.text));
    return object;
}

/* A site's run that its controller refuses: RUN/refused says why, in its first line. */
static void ps_refused(const char *name, struct json_object *runs)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path directory, path;
    struct json_object *object;
    char why[256] = "";

    if (paths_run(name, &directory, NULL) < 0 ||
        path_join(&path, directory.text, "refused", NULL) < 0 || !(file = fopen(path.text, "re")))
        return;
    if (fgets(why, sizeof(why), file))
        why[strcspn(why, "\n")] = '\0';
    if (!runs) {
        printf("%-24s %-8s %6s %8s %8s %5s  %s\n", name, "refused", "-", "-", "-", "-", why);
        return;
    }
    object = json_object_new_object();
    json_object_object_add(object, "id", json_object_new_string(name));
    json_object_object_add(object, "state", json_object_new_string("refused"));
    json_object_object_add(object, "refused", json_object_new_string(why));
    json_object_object_add(object, "dir", json_object_new_string(directory.text));
    json_object_array_add(runs, object);
}

/* Rows as they come; the exit status. */
static int ps_list(const struct run_entry *list, int64_t count, struct json_object *runs)
{
    int64_t now = time_real_ns();
    int status = 0;

    if (!runs && count)
        printf("%-24s %-8s %6s %8s %8s %5s  %s\n", "RUN", "STATE", "RANKS", "RESTARTS", "AGE",
               "EXIT", "COMMAND");
    for (int64_t i = 0; i < count; i++) {
        struct err err = { "" };
        struct ps_row row;
        int r = ps_read(list[i].name, &row, &err);

        if (r == -ENOENT) { /* a site's controller keeps its log here; it runs elsewhere */
            ps_refused(list[i].name, runs);
            continue;
        }
        if (r < 0) {
            log_error("%s", err.text);
            status = 3;
            continue;
        }
        if (runs)
            json_object_array_add(runs, ps_json(&row, now));
        else
            ps_print(&row, now);
        runfile_fini(&row.file);
    }
    return status;
}

static int ps_run(int argc, char **argv)
{
    struct ps_settings settings = { 0 };
    CLEAN(free_clean) struct run_entry *list = NULL;
    int first = opt_parse(&command_ps, argc, argv, &settings), status;
    struct json_object *top = NULL, *runs = NULL;
    struct err err = { "" };
    int64_t count;

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    count = paths_list(&list, &err);
    if (count < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings.json) {
        top = json_object_new_object();
        runs = json_object_new_array();
        json_object_object_add(top, "runs", runs);
    }
    status = ps_list(list, count, runs);
    if (top)
        show_json(top, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    else if (!count)
        log_info("no runs yet");
    json_object_put(top);
    return status;
}

const struct command command_ps = {
    .name = "ps",
    .operands = "",
    .summary = "the runs on this machine and how they are",
    .details = "A run is running while its launcher lives (or the keeper that ends its ranks), "
               "ended when it has an\n"
               "exit status, and crashed when it has neither.",
    .opt = ps_opts,
    .run = ps_run,
};
