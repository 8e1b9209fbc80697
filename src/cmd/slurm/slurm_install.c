/* slurm_install.c - `lockstep slurm install`: what a site's Slurm configuration needs, and why.
 *
 * Its output is a piece of slurm.conf with the reasons as comments.  slurm.conf itself is never changed: the programs and a file with
 * the lines are written into one directory, and a person adds one line that includes it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "act/attach.h"
#include "base/json_member.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/sibling.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "show/style.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_config.h"
#include "slurm/slurm_programs.h"

#define INSTALL_DIR "/etc/lockstep/slurm"
#define INSTALL_CONF "lockstep.conf"
#define INSTALL_WANTS 16

struct install_settings {
    const char *dir;
    bool json, dry_run;
};

static const struct opt install_opts[] = {
    { "dir", 0, OPT_TEXT, offsetof(struct install_settings, dir), "DIR",
      "where the programs for Slurm are, on all nodes; default " INSTALL_DIR, NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct install_settings, dry_run), NULL,
      "print the lines, and write no file", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct install_settings, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

static const struct install_right {
    const char *who, *what, *command;
} install_rights[] = {
    { "everybody", "end of the job, for the policy", "scontrol show job" },
    { "owner of the job", "requeue, start time, excluded nodes",
      "scontrol requeue, scontrol update JobId" },
    { "owner of the job", "smaller allocation", "scontrol update JobId NodeList" },
    { "owner of the job", "end of a job that lost its batch script", "scancel" },
    { "operator", "drain, undrain, down of a node, by the site's controller (--act)",
      "scontrol update NodeName" },
    { "root on the node", "drain and undrain by prolog, epilog and health check, as SlurmdUser",
      "scontrol update NodeName" },
};

struct install {
    const struct install_settings *settings;
    struct slurm_answer answer;
    struct slurm_wanted wanted[INSTALL_WANTS];
    size_t count;
    char conf[SLURM_CONFIG_VALUE], cluster[SLURM_CONFIG_VALUE], version[SLURM_CONFIG_VALUE];
    struct path bin; /* of this program */
    struct attach attach;
    char python[PATH_MAX]; /* of the package, without the caller's PYTHONPATH */
};

/* ---- what is wanted ---- */

static char *install_word(const char *word)
{
    return (char *)(uintptr_t)word;
}

static void install_value(const struct install *install, const char *key, char *ret)
{
    if (slurm_config_value(install->answer.text, install->answer.size, key, ret,
                           SLURM_CONFIG_VALUE) < 0)
        ret[0] = '\0';
}

static int install_read(struct install *install, struct err *err)
{
    char *const argv[] = { install_word("scontrol"), install_word("show"), install_word("config"),
                           NULL };
    int result = slurm_call(argv, SLURM_CALL_NS, &install->answer, err);

    if (result < 0)
        err_wrap(err, result, "run this on a machine of the cluster, where scontrol works");
    for (size_t i = 0; result == 0 && i < MIN(slurm_want_count, (size_t)INSTALL_WANTS); i++)
        result =
            slurm_config_compare(install->answer.text, install->answer.size, install->settings->dir,
                                 &slurm_wants[i], &install->wanted[install->count++], err);
    if (result == 0)
        result = sibling_find("lockstep", &install->bin, err);
    if (result < 0)
        return result;
    install_value(install, "SLURM_CONF", install->conf);
    install_value(install, "ClusterName", install->cluster);
    install_value(install, "SLURM_VERSION", install->version);
    attach_find(&install->attach);
    snprintf(install->python, sizeof(install->python), "%.*s",
             (int)strcspn(install->attach.python_path, ":"), install->attach.python_path);
    return 0;
}

/* ---- the answer ---- */

static void install_print_line(FILE *out, const struct install *install,
                               const struct slurm_wanted *wanted)
{
    const struct slurm_want *want = wanted->want;
    const char *now = wanted->now[0] ? wanted->now : "not set";

    fprintf(out, "\n# %s: %s\n", slurm_want_state_name(wanted->state), want->why);
    switch (wanted->state) {
    case SLURM_WANT_TAKEN:
        if (want->kind == SLURM_WANT_PROGRAM)
            fprintf(out, "# %s is %s; let it call %s/%s, and end with its exit status\n", want->key,
                    now, install->settings->dir, want->value);
        else
            fprintf(out, "# %s is %s, and belongs to another %s; wanted: %s\n", want->key, now,
                    want->of, want->value);
        break;
    case SLURM_WANT_ADVICE:
        fprintf(out, "# %s is %s; better %s%s\n", want->key, now,
                want->kind == SLURM_WANT_WITHOUT ? "without " : "", want->value);
        break;
    case SLURM_WANT_NEWER:
        fprintf(out, "# %s=%s: this is Slurm %s, which does not know it\n", want->key, want->value,
                install->version);
        break;
    case SLURM_WANT_OK:
        if (want->kind == SLURM_WANT_WITHOUT)
            fprintf(out, "# %s has no %s\n", want->key, want->value);
        else
            fprintf(out, "# %s=%s\n", want->key, now);
        break;
    default:
        fprintf(out, "%s\n", wanted->line);
    }
}

static void install_print(FILE *out, const struct install *install)
{
    size_t lines = 0, people = 0;

    for (size_t i = 0; i < install->count; i++) {
        lines += install->wanted[i].line[0] != '\0';
        people += install->wanted[i].state == SLURM_WANT_TAKEN;
    }
    fprintf(out,
            "# lockstep in %s of cluster %s (Slurm %s): %zu line%s to add or change, %zu to be "
            "decided by a person\n",
            install->conf, install->cluster, install->version, lines, lines == 1 ? "" : "s",
            people);
    for (size_t i = 0; i < install->count; i++)
        install_print_line(out, install, &install->wanted[i]);
}

static void install_print_rights(FILE *out)
{
    fprintf(out, "\n# What needs which rights:\n");
    for (size_t i = 0; i < COUNT(install_rights); i++)
        fprintf(out, "#   %-17s %s (%s)\n", install_rights[i].who, install_rights[i].what,
                install_rights[i].command);
    fprintf(out, "# operator: root, SlurmUser, or an account with AdminLevel=Operator in "
                 "slurmdbd\n");
}

static void install_print_json(const struct install *install)
{
    CLEAN(json_clean) struct json_object *root = json_object_new_object();
    struct json_object *lines = json_object_new_array(), *rights = json_object_new_array();

    json_object_object_add(root, "config", show_string(install->conf));
    json_object_object_add(root, "slurm", show_string(install->version));
    json_object_object_add(root, "directory", show_string(install->settings->dir));
    for (size_t i = 0; i < install->count; i++) {
        const struct slurm_wanted *wanted = &install->wanted[i];
        struct json_object *line = json_object_new_object();

        json_object_object_add(line, "key", json_object_new_string(wanted->want->key));
        json_object_object_add(line, "wanted", json_object_new_string(wanted->want->value));
        json_object_object_add(line, "now", show_string_or_null(wanted->now));
        json_object_object_add(line, "state",
                               json_object_new_string(slurm_want_state_name(wanted->state)));
        json_object_object_add(line, "line", show_string_or_null(wanted->line));
        json_object_object_add(line, "why", json_object_new_string(wanted->want->why));
        json_object_array_add(lines, line);
    }
    for (size_t i = 0; i < COUNT(install_rights); i++) {
        struct json_object *right = json_object_new_object();

        json_object_object_add(right, "who", json_object_new_string(install_rights[i].who));
        json_object_object_add(right, "what", json_object_new_string(install_rights[i].what));
        json_object_object_add(right, "command", json_object_new_string(install_rights[i].command));
        json_object_array_add(rights, right);
    }
    json_object_object_add(root, "lines", lines);
    json_object_object_add(root, "rights", rights);
    show_json(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* ---- files ---- */

/* A shell reads it: what is between the quotes must not end them. */
static bool install_is_plain(const char *text)
{
    return !strpbrk(text, "'\\\n");
}

static int install_program_put(FILE *out, const struct install *install, const char *hook,
                               const unsigned char *text, size_t size, struct err *err)
{
    if (!install_is_plain(install->bin.text) || !install_is_plain(install->conf) ||
        !install_is_plain(install->python) || !install_is_plain(install->attach.nccl_plugin))
        return err_set(err, -EINVAL,
                       "a path has a quote or a backslash, and Slurm could not use it");
    fprintf(out,
            "#!/bin/sh\n"
            "# Written by `lockstep slurm install`, which replaces it.  slurmd gives it no PATH "
            "and no SLURM_CONF.\n"
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
            "SLURM_CONF='%s'\n"
            "LOCKSTEP='%s' HOOK='%s' PYTHON_SITE='%s' NCCL_PLUGIN='%s'\n",
            install->conf, install->bin.text, hook, install->python, install->attach.nccl_plugin);
    /* A task's environment is its user's. */
    if (strcmp(hook, "task-prolog") != 0)
        fprintf(out, "export PATH SLURM_CONF\n");
    fwrite(text, 1, size, out);
    return ferror(out) ? err_set(err, -EIO, "%m") : 0;
}

/* Beside it first, so that Slurm never starts half of one. */
static int install_write(const struct install *install, const char *name, mode_t mode,
                         const unsigned char *text, size_t size, struct err *err)
{
    CLEAN(file_clean) FILE *out = NULL;
    struct path path, beside;
    char temporary[64];
    int fd, result;

    snprintf(temporary, sizeof(temporary), ".%s.new", name);
    result = path_join(&path, install->settings->dir, name, err);
    if (result == 0)
        result = path_join(&beside, install->settings->dir, temporary, err);
    if (result < 0)
        return result;
    unlink(beside.text);
    fd = open(beside.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 || !(out = fdopen(fd, "w"))) {
        result = err_set(err, -errno, "%s: %m", beside.text);
        if (fd >= 0)
            close(fd);
        return result;
    }
    if (text)
        result = install_program_put(out, install, name, text, size, err);
    else
        install_print(out, install);
    if (result == 0 && (fflush(out) != 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0 ||
                        rename(beside.text, path.text) < 0))
        result = err_set(err, -errno, "%s: %m", path.text);
    if (result < 0)
        unlink(beside.text);
    return result;
}

/* Slurm starts it as root, or each user's job loads it: whoever can write to it, or to a directory above it, is root then.  Others may make
 * files in a directory with the sticky bit, and not replace ours.
 */
static int install_check_owner(const char *what, char *path, size_t room, struct err *err)
{
    char real[PATH_MAX];

    if (!path[0])
        return 0;
    if (!realpath(path, real))
        return err_set(err, -errno, "%s %s: %m", what, path);
    if ((size_t)snprintf(path, room, "%s", real) >= room) /* a link may be another one later */
        return err_set(err, -ENAMETOOLONG, "%s %s: too long", what, real);
    for (;;) {
        char *slash = strrchr(real, '/');
        struct stat st;

        if (stat(real[0] ? real : "/", &st) < 0)
            return err_set(err, -errno, "%s: %m", real);
        if (st.st_uid != 0 ||
            (st.st_mode & (S_IWGRP | S_IWOTH) && !(S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX)))
            return err_set(err, -EACCES,
                           "%s %s: others than root can change %s; install lockstep where only "
                           "root can write",
                           what, path, real[0] ? real : "/");
        if (!slash)
            return 0;
        *slash = '\0';
    }
}

/* Prolog and health check run as root, and whoever can write to them is root. */
static int install_directory(const char *dir, struct err *err)
{
    struct path real;
    int result;

    if (dir[0] != '/' || strpbrk(dir, " \t\n,"))
        return err_set(err, -EINVAL,
                       "--dir %s: expected an absolute path without blanks and commas", dir);
    result = path_make(dir, err);
    snprintf(real.text, sizeof(real.text), "%s", dir);
    if (result == 0)
        result = install_check_owner("--dir", real.text, sizeof(real.text), err);
    if (result == 0 && strcmp(real.text, dir) != 0) /* Slurm gets it as given */
        result =
            err_set(err, -EINVAL, "--dir %s: expected a path without links: %s", dir, real.text);
    if (result == 0 && chmod(dir, 0755) < 0) /* users start task-prolog */
        result = err_set(err, -errno, "%s: %m", dir);
    return result;
}

static int install_files(struct install *install, struct err *err)
{
    int result =
        install_check_owner("the program", install->bin.text, sizeof(install->bin.text), err);

    if (result == 0)
        result = install_check_owner("the NCCL plugin", install->attach.nccl_plugin,
                                     sizeof(install->attach.nccl_plugin), err);
    if (result == 0)
        result = install_check_owner("the Python package", install->python, sizeof(install->python),
                                     err);
    if (result == 0)
        result = install_directory(install->settings->dir, err);
    for (size_t i = 0; result == 0 && i < slurm_want_count; i++) {
        bool task = strcmp(slurm_wants[i].value, "task-prolog") == 0;

        if (slurm_wants[i].kind == SLURM_WANT_PROGRAM)
            result = install_write(install, slurm_wants[i].value, 0755,
                                   task ? slurm_task_prolog : slurm_hook,
                                   task ? slurm_task_prolog_size : slurm_hook_size, err);
    }
    if (result == 0)
        result = install_write(install, INSTALL_CONF, 0644, NULL, 0, err);
    return result;
}

static void install_done(const struct install *install)
{
    log_info("written: %s, with the programs that it names; they must be there on all nodes",
             install->settings->dir);
    log_info("add to the end of %s, then run scontrol reconfigure: Include %s/" INSTALL_CONF,
             install->conf, install->settings->dir);
}

static int install_run(int argc, char **argv)
{
    struct install_settings settings = { .dir = INSTALL_DIR };
    CLEAN(free_clean) struct install *install = calloc(1, sizeof(*install));
    struct err err = { "" };
    int result = opt_parse_all(&command_slurm_install, argc, argv, &settings);

    if (result < 0)
        return OPT_EXIT(result);
    if (!install) {
        log_error("out of memory");
        return 3;
    }
    install->settings = &settings;
    result = install_read(install, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings.json) {
        install_print_json(install);
    } else {
        install_print(stdout, install);
        install_print_rights(stdout);
    }
    if (settings.dry_run)
        return 0;
    result = install_files(install, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EINVAL ? 2 : 1;
    }
    install_done(install);
    return 0;
}

const struct command command_slurm_install = {
    .name = "slurm install",
    .operands = "",
    .summary = "what a site's Slurm configuration needs, and why",
    .details = "Prints lines for slurm.conf with the reason of each, and which rights each action "
               "needs.  Without\n--dry-run it writes the programs that the lines name.  slurm.conf "
               "is never changed.",
    .opt = install_opts,
    .run = install_run,
};
