/* settings.c - settings files are checked as a whole before any command begins.
 *
 * A command reads its own section (opt.h).  A misspelt word in another one would only be found by the
 * daemon that reads it, hours later and on another machine; so whoever starts first says so.
 */
#include "cmd/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/near.h"
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
    struct near near = { .typed = entry->section };

    for (size_t i = 0; list[i]; i++) {
        if (!list[i]->hidden)
            near_offer(&near, list[i]->name);
    }
    if (near.best)
        return conf_error(conf, entry->at, err, "unknown section '%s'; did you mean '%s'?",
                          entry->section, near.best);
    return conf_error(conf, entry->at, err,
                      "unknown section '%s'; expected a command's name, such as 'control'",
                      entry->section);
}

int settings_check_conf(const struct conf *conf, struct err *err)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];
        const struct command *command;
        int result;

        if (entry->key)
            continue;
        command = settings_command(entry->section);
        result =
            command ? opt_read_conf(command, conf, NULL, err) : settings_unknown(conf, entry, err);
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

/* Agents, controllers and ranks that we start find the same file, wherever they begin. */
static int settings_hand_down(const char *given, struct err *err)
{
    char absolute[PATH_MAX];

    if (!realpath(given, absolute))
        return err_set(err, -errno, "%s: %m", given);
    return setenv("LOCKSTEP_CONFIG", absolute, 1) < 0 ? -ENOMEM : 0;
}

int settings_check(const struct command *command, int argc, char **argv)
{
    const char *given = opt_config(command, argc, argv);
    struct path path[CONF_FILES_MAX];
    struct err err = { "" };
    int must, result = given ? settings_hand_down(given, &err) : 0;
    size_t count = conf_files(given, path, &must);

    for (size_t i = 0; i < count && result == 0; i++)
        result = settings_check_file(path[i].text, must, &err);
    if (result < 0)
        log_error("%s", err.text);
    return result;
}
