/* send.c - `lockstep send`: brings a run's facts to the site's controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runinfo.h"
#include "agent/send/send.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"

struct send_options {
    const char *run_dir, *control, *ca, *pin, *token_file;
    int64_t patience_ns;
    bool insecure_http;
};

static const struct opt send_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct send_options, run_dir), "DIR",
      "directory of a running run: send until a signal comes", NULL, false },
    { "control", 0, OPT_TEXT, offsetof(struct send_options, control), "URL",
      "the site's controller", "LOCKSTEP_CONTROL", false },
    CLIENT_TRUST_OPTS(offsetof(struct send_options, ca), offsetof(struct send_options, pin),
                      offsetof(struct send_options, insecure_http)),
    { "token-file", 0, OPT_TEXT, offsetof(struct send_options, token_file), "FILE",
      "token that may register runs, default tokens/launch.token in the state directory",
      "LOCKSTEP_TOKEN_FILE", false },
    { "patience", 0, OPT_DURATION, offsetof(struct send_options, patience_ns), "TIME",
      "how long to try at the end, default 15s", NULL, false },
    { .name = NULL },
};

static int send_run_name(const char *directory, char ret[static 64], struct err *err)
{
    struct runfile file;
    int result = runfile_read(directory, &file, err);

    if (result < 0)
        return result;
    snprintf(ret, 64, "%s", file.id);
    runfile_fini(&file);
    return paths_check_run(ret, err);
}

/* One word of a command that can be pasted into a shell. */
static void send_put_word(const char *word, FILE *out)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@+%[]";

    if (word[0] && strspn(word, plain) == strlen(word)) {
        fprintf(out, " %s", word);
        return;
    }
    fputs(" '", out);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, out);
    fputc('\'', out);
}

static void put_option(const char *name, const char *value, FILE *out)
{
    char resolved[PATH_MAX];

    if (!value)
        return;
    fprintf(out, " %s", name);
    send_put_word(realpath(value, resolved) ? resolved : value, out); /* from any directory */
}

/* The command that sends the rest later. */
static void send_print_next(const struct send_settings *settings)
{
    CLEAN(free_clean) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    fputs("lockstep send", out);
    put_option("--control", settings->control.url, out);
    put_option("--control-ca", settings->control.ca_file, out);
    put_option("--control-pin", settings->control.pin, out);
    put_option("--token-file", settings->launch_file, out);
    if (settings->control.insecure_http)
        fputs(" --insecure-http", out);
    send_put_word(settings->run_dir, out);
    if (fclose(out) == 0)
        log_error("the facts stay in %s/spool; to send them: %s", settings->run_dir, text);
}

static int send_main(int argc, char **argv)
{
    struct send_options options = { .patience_ns = 15 * NS_PER_S };
    int first = opt_parse(&command_send, argc, argv, &options);
    struct path directory, token = { "" };
    struct err err = { "" };
    struct send_settings settings;
    char run[64] = "";
    int result = 0;

    if (first < 0)
        return OPT_EXIT(first);
    if (!options.control || first + 1 < argc || (first < argc && options.run_dir)) {
        log_error(options.control ? "expected one run" : "needs --control URL or LOCKSTEP_CONTROL");
        return 2;
    }
    if (options.run_dir)
        snprintf(directory.text, sizeof(directory.text), "%s", options.run_dir);
    else
        result = paths_find(first < argc ? argv[first] : NULL, &directory, &err);
    if (result == 0 && options.token_file)
        snprintf(token.text, sizeof(token.text), "%s", options.token_file);
    else if (result == 0)
        result = paths_launch_token(&token, &err);
    settings = (struct send_settings){ .run_dir = directory.text,
                                       .run = run,
                                       .launch_file = token.text,
                                       .control = { .url = options.control,
                                                    .ca_file = options.ca,
                                                    .pin = options.pin,
                                                    .insecure_http = options.insecure_http,
                                                    .timeout_ns = 30 * NS_PER_S },
                                       .child = options.run_dir != NULL,
                                       .patience_ns = options.patience_ns };
    if (result == 0)
        result = send_run_name(directory.text, run, &err);
    if (result == 0)
        result = runinfo_check_owner(directory.text, &err);
    if (result == 0)
        result = send_run(&settings, &err);
    if (result == 0)
        return 0;
    log_error("%s", err.text);
    if (result == -ETIMEDOUT && strstr(err.text, "certificate") && !options.ca && !options.pin)
        log_error(
            "to trust the controller, set LOCKSTEP_CONTROL_CA to the file of its certificate, "
            "or LOCKSTEP_CONTROL_PIN to its key as it prints it");
    if (result == -ETIMEDOUT)
        send_print_next(&settings);
    return result == -EINVAL || result == -ENOENT ? 2 : 3;
}

const struct command command_send = {
    .name = "send",
    .operands = "[RUN]",
    .summary = "send the facts of a run to the site's controller",
    .details = "'lockstep run' starts it when LOCKSTEP_CONTROL names a controller.  By hand it "
               "sends what a "
               "run\ncould not send while it was running; facts that the controller has are not "
               "sent again.",
    .opt = send_opts,
    .run = send_main,
};
