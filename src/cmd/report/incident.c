/* incident.c - lockstep incident: one verdict on one screen.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/report/run_source.h"
#include "control/report/incident.h"
#include "core/clean.h"

#define ID_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-"

struct incident_settings {
    bool json;
    const char *run;
    struct site_options site;
};

static const struct opt incident_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct incident_settings, json), NULL, "one JSON object", NULL,
      false },
    { "run", 0, OPT_TEXT, offsetof(struct incident_settings, run), "RUN",
      "run that has the verdict, default: the newest one that has it", NULL, false },
    SITE_ASK_OPTS(offsetof(struct incident_settings, site)),
    { .name = NULL },
};

static void incident_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

/* Which run of the site has that verdict. */
static int incident_ask_run(const char *id, const struct site_options *site, char ret[static 64],
                            struct err *err)
{
    CLEAN(incident_ask_clean) struct site_ask *ask = NULL;
    struct json_object *root = NULL, *list = NULL;
    const char *run = NULL;
    char path[128];
    int result = site_ask_open(site, &ask, err);

    snprintf(path, sizeof(path), "/api/v1/verdicts?id=%s&limit=1", id);
    if (result == 0)
        result = site_ask_json(ask, path, &root, err);
    if (root && json_object_object_get_ex(root, "verdicts", &list) &&
        json_object_is_type(list, json_type_array))
        run = site_ask_text(json_object_array_get_idx(list, 0), "run");
    if (result == 0 && !run)
        result = err_set(err, -ENOENT, "no run of the site has a verdict %s", id);
    if (result == 0)
        result = paths_check_run(run, err);
    if (result == 0)
        snprintf(ret, 64, "%s", run);
    json_object_put(root);
    return result;
}

static int incident_read_of(const char *run, const char *id, const struct site_options *site,
                            struct incident *ret, struct err *err)
{
    CLEAN(run_source_close) struct run_source source = { 0 };
    int result = run_source_open(run, site, &source, err);

    return result < 0 ? result : incident_read(source.directory.text, id, ret, err);
}

/* The runs of this machine, the newest first. */
static int incident_read_any(const char *id, const struct site_options *site, struct incident *ret,
                             struct err *err)
{
    CLEAN(free_clean) struct run_entry *entry = NULL;
    int64_t count = paths_list(&entry, err);

    for (int64_t i = 0; i < count; i++) {
        int result = incident_read_of(entry[i].name, id, site, ret, err);

        if (result == 0 || result == -ENOMEM)
            return result;
    }
    return count < 0
               ? (int)count
               : err_set(err, -ENOENT,
                         "no run on this machine has a verdict %s; lockstep why prints ids", id);
}

static int incident_find(const char *id, const struct incident_settings *settings,
                         struct incident *ret, struct err *err)
{
    char run[64];
    int result;

    if (!id[0] || strlen(id) > 19 || strspn(id, ID_LETTERS) != strlen(id))
        return err_set(err, -EINVAL, "'%.40s' is not the id of a verdict; lockstep why prints ids",
                       id);
    if (settings->run)
        return incident_read_of(settings->run, id, &settings->site, ret, err);
    if (!settings->site.control)
        return incident_read_any(id, &settings->site, ret, err);
    result = incident_ask_run(id, &settings->site, run, err);
    return result < 0 ? result : incident_read_of(run, id, &settings->site, ret, err);
}

static int incident_print(const char *id, const struct incident_settings *settings)
{
    CLEAN(free_clean) struct incident *incident = calloc(1, sizeof(*incident));
    struct show_style style = show_style_of(stdout);
    struct err err = { "" };
    int result = incident ? incident_find(id, settings, incident, &err) : err_nomem(&err);

    if (result < 0) {
        log_error("%s", err.text);
        return site_ask_exit(result);
    }
    if (settings->json) {
        struct json_object *root = incident_json(incident);

        show_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
        json_object_put(root);
    } else {
        incident_text(incident, &style, stdout);
    }
    return incident->verdict.until_real_ns ? 0 : 1;
}

static int incident_main(int argc, char **argv)
{
    struct incident_settings settings = { 0 };
    const char *id = NULL;

    for (int first = opt_parse(&command_incident, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_incident, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        if (id) {
            log_error("one verdict at a time: '%s' is one too many", argv[first]);
            return 2;
        }
        id = argv[first];
        argv += first;
        argc -= first;
    }
    if (!id) {
        log_error("expected a verdict: lockstep incident VERDICT; lockstep why prints their ids");
        return 2;
    }
    return incident_print(id, &settings);
}

const struct command command_incident = {
    .name = "incident",
    .operands = "VERDICT",
    .summary = "one verdict on one screen: time line, evidence, actions, cost",
    .details = "VERDICT is the id that lockstep why prints.\n"
               "Exit status: 0 it is closed, 1 it is open, 2 no such verdict, 3 cannot tell.",
    .opt = incident_opts,
    .run = incident_main,
};
