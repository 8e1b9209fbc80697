/* command_program.c - finds the command that was asked for, and runs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/command_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/suggest.h"

#define NAME_WIDTH "18" /* of the longest name, "request checkpoint" */
#define LINE_WIDTH 80

/* "bench" is the group of "bench probe". */
static bool command_in_group(const struct command *command, const char *group)
{
    size_t size = strlen(group);

    return strncmp(command->name, group, size) == 0 && command->name[size] == ' ';
}

static bool program_group_exists(const struct command_program *program, const char *group)
{
    for (size_t i = 0; program->commands[i]; i++) {
        if (command_in_group(program->commands[i], group))
            return true;
    }
    return false;
}

/* Finds "bench" "probe" or "run"; *words is how many of `word` it took. */
static const struct command *command_find(const struct command_program *program, int count,
                                          char **word, int *words)
{
    for (size_t i = 0; program->commands[i]; i++) {
        const char *name = program->commands[i]->name, *space = strchr(name, ' ');

        if (!space && strcmp(word[0], name) == 0) {
            *words = 1;
            return program->commands[i];
        }
        if (space && count > 1 && command_in_group(program->commands[i], word[0]) &&
            strcmp(word[1], space + 1) == 0) {
            *words = 2;
            return program->commands[i];
        }
    }
    return NULL;
}

/* "  bench control, ckpt, probe", in lines of LINE_WIDTH; `column` is where the one before ended, 0: there is none. */
static size_t list_command_name(const struct command *command, size_t column, FILE *out)
{
    const char *space = strchr(command->name, ' ');
    const char *name = column && space ? space + 1 : command->name;
    size_t size = strlen(name);

    if (column + 2 + size >= LINE_WIDTH) {
        fprintf(out, ",\n      %s", name);
        return 6 + size;
    }
    fprintf(out, "%s%s", column ? ", " : "  ", name);
    return column + 2 + size;
}

static void list_commands(const struct command_program *program, const char *group, FILE *out)
{
    const struct command_topic *next = group ? NULL : program->topics, *topic = NULL;
    size_t column = 0;

    for (size_t i = 0; program->commands[i]; i++) {
        const struct command *command = program->commands[i];

        if (command->hidden || (group && !command_in_group(command, group)))
            continue;
        if (next && next->first == command) {
            topic = next++;
            fprintf(out, "%s%s:\n", i ? "\n" : "", topic->title);
        }
        if (!topic || !topic->brief)
            fprintf(out, "  %-" NAME_WIDTH "s  %s\n", command->name, command->summary);
        else
            column = list_command_name(command, column, out);
    }
    fputs(column ? "\n" : "", out);
}

static void program_usage(const struct command_program *program, FILE *out)
{
    fprintf(out, "%s - %s\n\nusage: %s COMMAND [OPTION...] [OPERAND...]\n\n", program->name,
            program->summary, program->name);
    list_commands(program, NULL, out);
    fprintf(out, "\n%s", program->more);
}

static void program_usage_group(const struct command_program *program, const char *group, FILE *out)
{
    fprintf(out, "usage: %s %s COMMAND [OPTION...]\n\n", program->name, group);
    list_commands(program, group, out);
}

static int program_unknown_command(const struct command_program *program, int count, char **word)
{
    bool in_group = program_group_exists(program, word[0]) && count > 1;
    char typed[160];
    struct suggest suggest = { .typed = typed };

    snprintf(typed, sizeof(typed), "%s%s%s", word[0], in_group ? " " : "", in_group ? word[1] : "");
    for (size_t i = 0; program->commands[i]; i++) {
        if (!program->commands[i]->hidden)
            suggest_offer(&suggest, program->commands[i]->name);
    }
    if (suggest.best)
        log_error("unknown command '%s'; did you mean '%s'?", typed, suggest.best);
    else
        log_error("unknown command '%s'; '%s help' lists them", typed, program->name);
    return 2;
}

static bool program_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int program_help(const struct command_program *program, int count, char **word)
{
    const struct command *command;
    int words = 0;

    if (count == 0) {
        program_usage(program, stdout);
        return 0;
    }
    command = command_find(program, count, word, &words);
    if (command && words == count) {
        opt_help(command, stdout);
        return 0;
    }
    if (count == 1 && program_group_exists(program, word[0])) {
        program_usage_group(program, word[0], stdout);
        return 0;
    }
    return program_unknown_command(program, count, word);
}

/* Agents, controllers and ranks that we start find the same file, wherever they begin. */
static int program_config_hand_down(const char *given)
{
    char absolute[PATH_MAX];

    if (!realpath(given, absolute)) {
        log_error("%s: %m", given);
        return -errno;
    }
    return setenv("LOCKSTEP_CONFIG", absolute, 1);
}

static int command_prepare(const struct command_program *program, const struct command *command,
                           int argc, char **argv)
{
    const char *given = opt_config(command, argc, argv);

    if (given && program_config_hand_down(given) < 0)
        return -EINVAL;
    return program->check ? program->check(command, argc, argv) : 0;
}

static int program_dispatch(const struct command_program *program, int argc, char **argv)
{
    const struct command *command;
    int words = 0;

    if (argc < 2) {
        program_usage(program, stderr);
        return 2;
    }
    if (program_is_help(argv[1]))
        return program_help(program, argc - 2, argv + 2);
    if (strcmp(argv[1], "--version") == 0)
        argv[1] += 2; /* what everybody types first */
    command = command_find(program, argc - 1, argv + 1, &words);
    if (!command && program_group_exists(program, argv[1]) &&
        (argc == 2 || program_is_help(argv[2]))) {
        program_usage_group(program, argv[1], argc == 2 ? stderr : stdout);
        return argc == 2 ? 2 : 0;
    }
    if (!command)
        return program_unknown_command(program, argc - 1, argv + 1);
    log_name(command->name);
    if (!command->hidden && command_prepare(program, command, argc - words, argv + words) < 0)
        return 2;
    if (!command->run)
        return program->run_elsewhere(argv);
    argv[words] = (char *)command->name;
    return command->run(argc - words, argv + words);
}

/* A file or socket of ours must not get the number of a closed stdin, stdout or stderr: what is meant
 * for those would go into it.  Opened for reading only, so that an answer to nowhere still fails.
 */
static void program_open_stdio(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int program_main(const struct command_program *program, int argc, char **argv)
{
    int status;

    program_open_stdio();
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error of that file, and no death */
    status = program_dispatch(program, argc, argv);

    /* An answer that did not arrive was not given. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("cannot write the answer: %m");
        return 3;
    }
    return status;
}
