/* settings.c - settings files are checked as a whole before any command begins.
 *
 * A command reads its own section (opt.h).  A misspelt word in another one would only be found by the
 * daemon that reads it, hours later and on another machine; so the first command that starts reports it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/suggest.h"
#include "core/clean.h"

static const struct command *settings_command(const char *section)
{
    const struct command *const *list = lockstep_commands();

    for (size_t i = 0; list[i]; i++) {
        if (!list[i]->hidden && strcmp(list[i]->name, section) == 0)
            return list[i];
    }
    return NULL;
}

static int settings_unknown(const struct conf *conf, const struct conf_entry *entry,
                            struct err *err)
{
    const struct command *const *list = lockstep_commands();
    struct suggest suggest = { .typed = entry->section };

    for (size_t i = 0; list[i]; i++) {
        if (!list[i]->hidden)
            suggest_offer(&suggest, list[i]->name);
    }
    suggest_offer(&suggest, SETTINGS_JUDGE);
    if (suggest.best)
        return conf_error(conf, entry->at, err, "unknown section '%s'; did you mean '%s'?",
                          entry->section, suggest.best);
    return conf_error(conf, entry->at, err,
                      "unknown section '%s'; expected a command's name, such as 'control'",
                      entry->section);
}

static int settings_unknown_threshold(const struct conf *conf, const struct conf_entry *entry,
                                      struct err *err)
{
    struct suggest suggest = { .typed = entry->key };

    for (const struct threshold *row = thresholds_table; row->name; row++)
        suggest_offer(&suggest, row->name);
    return conf_error(conf, entry->at, err, "unknown key '%s' in section '%s'; %s%s%s", entry->key,
                      entry->section, suggest.best ? "did you mean '" : "see lockstep.yaml(5)",
                      suggest.best ? suggest.best : "", suggest.best ? "'?" : "");
}

/* The section 'judge' into `ret`. */
static int settings_judge(const struct conf *conf, struct thresholds *ret, struct err *err)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];
        struct err why = { "" };
        char *end;
        double value;

        if (!entry->key || strcmp(entry->section, SETTINGS_JUDGE) != 0)
            continue;
        if (!thresholds_find(entry->key))
            return settings_unknown_threshold(conf, entry, err);
        value = strtod(entry->value, &end);
        if (end == entry->value || *end)
            return conf_error(conf, entry->value_at, err, "key '%s', value '%s': expected a number",
                              entry->key, entry->value);
        if (thresholds_set(ret, entry->key, value, &why) < 0)
            return conf_error(conf, entry->value_at, err, "%s", why.text);
    }
    return 0;
}

int settings_thresholds(const struct command *command, int argc, char **argv,
                        struct thresholds *ret, struct err *err)
{
    struct path path[CONF_FILES_MAX];
    int must, result = 0;
    size_t count = conf_files(opt_config(command, argc, argv), path, &must);

    thresholds_default(ret);
    for (size_t i = 0; i < count && result == 0; i++) {
        CLEAN(conf_fini) struct conf conf = { 0 };

        result = conf_read(path[i].text, &conf, err);
        if (result == -ENOENT && !must)
            result = 0;
        else if (result == 0)
            result = settings_judge(&conf, ret, err);
    }
    return result;
}

static int settings_check_conf(const struct conf *conf, struct err *err)
{
    struct thresholds trial;

    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];
        const struct command *command;
        int result;

        if (entry->key)
            continue;
        command = settings_command(entry->section);
        if (strcmp(entry->section, SETTINGS_JUDGE) == 0)
            result = settings_judge(conf, &trial, err);
        else
            result = command ? opt_read_conf(command, conf, NULL, err)
                             : settings_unknown(conf, entry, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int settings_check_file(const char *path, int must, struct err *err)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    int result = conf_read(path, &conf, err);

    if (result < 0)
        return result == -ENOENT && !must ? 0 : result;
    return settings_check_conf(&conf, err);
}

int settings_check(const struct command *command, int argc, char **argv)
{
    const char *given = opt_config(command, argc, argv);
    struct path path[CONF_FILES_MAX];
    struct err err = { "" };
    int must, result = 0;
    size_t count = conf_files(given, path, &must);

    for (size_t i = 0; i < count && result == 0; i++)
        result = settings_check_file(path[i].text, must, &err);
    if (result < 0 && command->starts_job && !given) {
        log_error("%s; all settings files are ignored", err.text);
        return setenv("LOCKSTEP_CONFIG", "/dev/null", 1) < 0 ? -ENOMEM
                                                             : 0; /* also by our children */
    }
    if (result < 0)
        log_error("%s", err.text);
    return result;
}
