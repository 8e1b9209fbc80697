/* lockstep.c - the table of subcommands, and how a word becomes one.
 *
 * A command's name is one word or two ("bench probe"); the first word alone lists what there is
 * under it.  stdout is the answer, stderr the conversation.
 */
#include "cmd/lockstep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/suggest.h"
#include "cmd/settings.h"

/* In the order in which people meet them, one a line. */
/* clang-format off */
static const struct command *const commands[] = {
    &command_demo,
    &command_run,
    &command_why,
    &command_diff,
    &command_whatif,
    &command_ps,
    &command_stacks,
    &command_doctor,
    &command_agent,
    &command_control,
    &command_send,
    &command_bench_control,
    &command_bench_probe,
    &command_bench_dumps,
    &command_bench_noise,
    &command_bench_replay,
    &command_bench_verdicts,
    &command_bench_matrix,
    &command_version,
    &command_trainer,
    &command_node_agent,
    &command_completion,
    NULL,
};
/* clang-format on */

const struct command *const *lockstep_commands(void)
{
    return commands;
}

/* "bench" is the group of "bench probe". */
static bool command_in_group(const struct command *command, const char *group)
{
    size_t size = strlen(group);

    return strncmp(command->name, group, size) == 0 && command->name[size] == ' ';
}

static bool group_exists(const char *group)
{
    for (size_t i = 0; commands[i]; i++) {
        if (command_in_group(commands[i], group))
            return true;
    }
    return false;
}

/* Finds "bench" "probe" or "run"; *words is how many of `word` it took. */
static const struct command *command_find(int count, char **word, int *words)
{
    for (size_t i = 0; commands[i]; i++) {
        const char *name = commands[i]->name, *space = strchr(name, ' ');

        if (!space && strcmp(word[0], name) == 0) {
            *words = 1;
            return commands[i];
        }
        if (space && count > 1 && command_in_group(commands[i], word[0]) &&
            strcmp(word[1], space + 1) == 0) {
            *words = 2;
            return commands[i];
        }
    }
    return NULL;
}

static void list_commands(const char *group, FILE *out)
{
    for (size_t i = 0; commands[i]; i++) {
        const struct command *command = commands[i];

        if (!command->hidden && (!group || command_in_group(command, group)))
            fprintf(out, "  %-16s  %s\n", command->name, command->summary);
    }
}

static void program_usage(FILE *out)
{
    fputs("lockstep - which rank, on which node, in which layer is slow, stuck or broken\n\n"
          "usage: lockstep COMMAND [OPTION...] [OPERAND...]\n\n",
          out);
    list_commands(NULL, out);
    fputs("\n'lockstep help COMMAND' says more about one, 'man lockstep' about all.\n"
          "Exit status: 0 yes or healthy, 1 no or unhealthy, 2 bad usage, 3 could not tell.\n",
          out);
}

static void usage_group(const char *group, FILE *out)
{
    fprintf(out, "usage: lockstep %s COMMAND [OPTION...]\n\n", group);
    list_commands(group, out);
}

static int program_unknown_command(int count, char **word)
{
    bool in_group = group_exists(word[0]) && count > 1;
    char typed[160];
    struct suggest suggest = { .typed = typed };

    snprintf(typed, sizeof(typed), "%s%s%s", word[0], in_group ? " " : "", in_group ? word[1] : "");
    for (size_t i = 0; commands[i]; i++) {
        if (!commands[i]->hidden)
            suggest_offer(&suggest, commands[i]->name);
    }
    if (suggest.best)
        log_error("unknown command '%s'; did you mean '%s'?", typed, suggest.best);
    else
        log_error("unknown command '%s'; 'lockstep help' lists them", typed);
    return 2;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int program_help(int count, char **word)
{
    const struct command *command;
    int words = 0;

    if (count == 0) {
        program_usage(stdout);
        return 0;
    }
    command = command_find(count, word, &words);
    if (command && words == count) {
        opt_help(command, stdout);
        return 0;
    }
    if (count == 1 && group_exists(word[0])) {
        usage_group(word[0], stdout);
        return 0;
    }
    return program_unknown_command(count, word);
}

static int program_dispatch(int argc, char **argv)
{
    const struct command *command;
    int words = 0;

    if (argc < 2) {
        program_usage(stderr);
        return 2;
    }
    if (is_help(argv[1]))
        return program_help(argc - 2, argv + 2);
    if (strcmp(argv[1], "--version") == 0)
        argv[1] += 2; /* what everybody types first */
    command = command_find(argc - 1, argv + 1, &words);
    if (!command && group_exists(argv[1]) && (argc == 2 || is_help(argv[2]))) {
        usage_group(argv[1], argc == 2 ? stderr : stdout);
        return argc == 2 ? 2 : 0;
    }
    if (!command)
        return program_unknown_command(argc - 1, argv + 1);
    log_name(command->name);
    argv[words] = (char *)command->name;
    if (!command->hidden && settings_check(command, argc - words, argv + words) < 0)
        return 2;
    return command->run(argc - words, argv + words);
}

/* A file or socket of ours must not get the number of a closed stdin, stdout or stderr: what is meant
 * for those would go into it.  Opened for reading only, so that an answer to nowhere still fails.
 */
static void open_stdio(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    int status;

    open_stdio();
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error of that file, and no death */
    status = program_dispatch(argc, argv);

    /* An answer that did not arrive was not given. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("cannot write the answer: %m");
        return 3;
    }
    return status;
}
