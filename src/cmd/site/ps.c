/* ps.c - lockstep ps: the runs of the state directory, newest first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/launcher_log.h"
#include "base/log.h"
#include "base/net/control_url.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "cmd/site/ps_site.h"
#include "control/log/rundir.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

struct ps_settings {
    bool json;
    struct site_options site;
};

static const struct opt ps_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct ps_settings, json), NULL, "one JSON object", NULL,
      false },
    SITE_ASK_OPTS(offsetof(struct ps_settings, site)),
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

void ps_age(int64_t ns, char *ret, size_t room)
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
    printf("%-24s %-10s %6s %8u %8s %5s  %s\n", row->file.id, row->state, ranks, row->file.restarts,
           age, status, show_clean(command, clean, sizeof(clean)));
}

static struct json_object *ps_word_json(const char *word)
{
    size_t room = 4 * strlen(word) + 1; /* each byte may be escaped */
    CLEAN(free_clean) char *text = malloc(room);

    if (!text)
        return NULL;
    launcher_log_word_text(word, text, room);
    return json_object_new_string(text);
}

/* Where its controller listens; NULL: nowhere.  Never the token. */
static struct json_object *ps_control_json(const struct ps_row *row)
{
    struct control_url control;

    if (strcmp(row->state, "running") != 0 ||
        control_url_read(row->directory.text, &control, NULL) < 0)
        return NULL;
    return json_object_new_string(control.url);
}

static struct json_object *ps_json(const struct ps_row *row, int64_t now_ns)
{
    struct json_object *object = json_object_new_object(), *command = json_object_new_array();
    bool ended = strcmp(row->state, "ended") == 0;
    char started[32];

    time_format_utc(row->file.started_real_ns, started);
    for (char **word = row->file.command; *word; word++)
        json_object_array_add(command, ps_word_json(*word));
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
    json_object_object_add(object, "control", ps_control_json(row));
    return object;
}

/* ---- a site's runs: their launchers are elsewhere, their logs are here ---- */

#define PS_LOG_PART (1u << 20) /* bytes read at a log's begin and at its end: it may be long */

struct ps_site {
    const char *name, *state;
    struct path directory;
    char refused[256]; /* why; "": it is not */
    bool begun, ended, last;
    uint32_t ranks, attempt;
    int status;
    int64_t begin_real_ns;
    char command[160];
};

static void site_frame(struct ps_site *site, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_tick tick;
    struct fact_run run;

    if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
        site->last = tick.flags & TICK_LAST;
    if (frame->type != FRAME_RUN || fact_run_get(in, &run) < 0)
        return;
    site->ended = run.event == RUN_END;
    site->status = run.status;
    site->ranks = run.ranks;
    site->attempt = MAX(site->attempt, run.attempt);
    if (run.event == RUN_BEGIN && !site->begun) {
        site->begun = true;
        site->begin_real_ns = run.real_ns;
        snprintf(site->command, sizeof(site->command), "%s", run.text);
    }
}

static int site_read_log(struct ps_site *site, const char *log, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    int result = spool_reader_open(log, &reader, err);
    struct frame frame;
    struct stat st;

    if (result < 0 || stat(log, &st) < 0)
        return result < 0 ? result : err_set(err, -errno, "%s: %m", log);
    while (spool_reader_offset(reader) < PS_LOG_PART && spool_next(reader, &frame, NULL) == 1)
        site_frame(site, &frame);
    if ((uint64_t)st.st_size > 2 * (uint64_t)PS_LOG_PART)
        spool_reader_seek(reader, (uint64_t)st.st_size - PS_LOG_PART);
    while (spool_next(reader, &frame, NULL) == 1)
        site_frame(site, &frame);
    return 0;
}

/* RUN/refused says why, in its first line. */
static bool site_read_refused(struct ps_site *site)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;

    if (path_join(&path, site->directory.text, "refused", NULL) < 0 ||
        !(file = fopen(path.text, "re")))
        return false;
    if (fgets(site->refused, sizeof(site->refused), file))
        site->refused[strcspn(site->refused, "\n")] = '\0';
    return true;
}

static int site_read(const char *name, struct ps_site *ret, struct err *err)
{
    struct rundir dir;
    int r;

    *ret = (struct ps_site){ .name = name };
    r = paths_run(name, &ret->directory, err);
    if (r == 0)
        r = rundir_open(&dir, ret->directory.text, err);
    if (r < 0)
        return r;
    if (site_read_refused(ret)) {
        ret->state = "refused";
        return 0;
    }
    r = site_read_log(ret, dir.log.text, err);
    if (ret->ended || ret->last)
        ret->state = "ended";
    else
        ret->state = rundir_is_controlled(&dir) ? "running" : "unfinished";
    return r;
}

static void site_print(const struct ps_site *site, int64_t now_ns)
{
    char age[32] = "-", status[16] = "-", ranks[16] = "-", restarts[16] = "-", clean[256];
    const char *words = site->refused[0] ? site->refused : site->command;

    if (site->begun)
        ps_age(now_ns - site->begin_real_ns, age, sizeof(age));
    if (site->ended)
        snprintf(status, sizeof(status), "%d", site->status);
    if (site->ranks)
        snprintf(ranks, sizeof(ranks), "%u", site->ranks);
    if (site->begun)
        snprintf(restarts, sizeof(restarts), "%u", site->attempt);
    printf("%-24s %-10s %6s %8s %8s %5s  %s\n", site->name, site->state, ranks, restarts, age,
           status, show_clean(words, clean, sizeof(clean)));
}

static struct json_object *site_json(const struct ps_site *site, int64_t now_ns)
{
    struct json_object *object = json_object_new_object(), *command = json_object_new_array();
    double age = (double)(now_ns - site->begin_real_ns) / 1e9;

#define ADD(name, value) json_object_object_add(object, name, value)
    ADD("id", json_object_new_string(site->name));
    ADD("state", json_object_new_string(site->state));
    ADD("dir", json_object_new_string(site->directory.text));
    if (strcmp(site->state, "refused") == 0) {
        json_object_put(command);
        ADD("refused", json_object_new_string(site->refused));
        return object;
    }
    if (site->command[0])
        json_object_array_add(command, show_string(site->command));
    ADD("ranks", json_object_new_int64(site->ranks));
    ADD("attempt", json_object_new_int64(site->attempt));
    ADD("restarts", json_object_new_int64(site->attempt));
    ADD("started", show_time(site->begin_real_ns));
    ADD("age_seconds", site->begun ? json_object_new_double(age) : NULL);
    ADD("exit", site->ended ? json_object_new_int(site->status) : NULL);
    ADD("command", command);
#undef ADD
    return object;
}

/* The exit status. */
static int ps_site(const char *name, int64_t now_ns, struct json_object *runs)
{
    struct ps_site site;
    struct err err = { "" };

    if (site_read(name, &site, &err) < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (runs)
        json_object_array_add(runs, site_json(&site, now_ns));
    else
        site_print(&site, now_ns);
    return 0;
}

void ps_print_head(void)
{
    printf("%-24s %-10s %6s %8s %8s %5s  %s\n", "RUN", "STATE", "RANKS", "RESTARTS", "AGE", "EXIT",
           "COMMAND");
}

/* Rows as they come; the exit status. */
static int ps_list(const struct run_entry *list, int64_t count, struct json_object *runs)
{
    int64_t now = time_real_ns();
    int status = 0;

    if (!runs && count)
        ps_print_head();
    for (int64_t i = 0; i < count; i++) {
        struct err err = { "" };
        struct ps_row row;
        int r = ps_read(list[i].name, &row, &err);

        if (r == -ENOENT) { /* a site's controller keeps its log here; it runs elsewhere */
            status = MAX(status, ps_site(list[i].name, now, runs));
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

static void ps_print_none(void)
{
    struct path state;

    if (paths_state(&state, NULL) == 0)
        log_info("no runs in %s%s", state.text,
                 access(state.text, F_OK) < 0 ? ": the directory does not exist" : "");
}

static int ps_run(int argc, char **argv)
{
    struct ps_settings settings = { 0 };
    CLEAN(free_clean) struct run_entry *list = NULL;
    int parsed = opt_parse_all(&command_ps, argc, argv, &settings), status;
    struct json_object *top = NULL, *runs = NULL;
    struct err err = { "" };
    int64_t count;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.site.control)
        return ps_site_list(&settings.site, settings.json);
    count = paths_list(&list, &err);
    if (count < 0) {
        log_error("%s", err.text);
        return site_ask_exit((int)count);
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
        ps_print_none();
    json_object_put(top);
    return status;
}

const struct command command_ps = {
    .name = "ps",
    .operands = "",
    .summary = "list the runs of the state directory and their states",
    .details =
        "A run is running while its launcher lives (or the keeper that ends its ranks), "
        "ended when it has an\n"
        "exit status, and crashed when it has neither.  In a site's state directory, a run is "
        "unfinished when\nits end was not received and its controller does not run, and "
        "refused when its facts are not accepted.",
    .opt = ps_opts,
    .run = ps_run,
};
