/* completion.c - completions for the shells, and the option tables for other programs.
 *
 * Everything comes from the tables of the commands, so a new option is completed the day it is
 * written.  "table" prints those tables as tab-separated lines; the check of the manual reads it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/settings.h"
#include "core/clean.h"

/* Rows of a command, hidden ones left out, then those that every command has. */
static const struct opt *completion_opt_next(const struct command *command, const struct opt *opt)
{
    const struct opt *common = opt_common_rows();
    bool in_common = false;

    for (const struct opt *row = common; row->name; row++)
        in_common = in_common || row == opt;
    opt = opt ? opt + 1 : command->opt;
    while (opt && opt->name && opt->hidden)
        opt++;
    if (opt && opt->name)
        return opt;
    return in_common ? NULL : common;
}

#define EACH_OPT(opt, command)                                                                     \
    const struct opt *opt = completion_opt_next(command, NULL);                                    \
    opt;                                                                                           \
    opt = completion_opt_next(command, opt) /* NOLINT(bugprone-macro-parentheses): a name */

/* The next command that is shown, after position *at; NULL at the end. */
static const struct command *completion_command_next(size_t *at)
{
    const struct command *const *list = lockstep_commands();

    while (list[*at] && list[*at]->hidden)
        (*at)++;
    return list[*at] ? list[(*at)++] : NULL;
}

static size_t completion_first_word(const char *name)
{
    return strcspn(name, " ");
}

/* Is this the first command of its group ("bench …")?  One-word commands are their own group. */
static bool completion_leads_group(const struct command *command)
{
    size_t size = completion_first_word(command->name), at = 0;
    const struct command *other;

    while ((other = completion_command_next(&at)) && other != command) {
        if (completion_first_word(other->name) == size &&
            strncmp(other->name, command->name, size) == 0)
            return false;
    }
    return true;
}

/* Text in single quotes; `escape` is how the shell writes a quote within: '\'' or \'. */
static void completion_put_quoted(const char *text, const char *escape)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs(escape, stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

static void completion_put_first_words(void)
{
    const struct command *command;
    size_t at = 0;

    while ((command = completion_command_next(&at))) {
        if (completion_leads_group(command))
            printf("%.*s ", (int)completion_first_word(command->name), command->name);
    }
    fputs("help", stdout);
}

/* Second words of the group that `leader` leads. */
static void completion_put_second_words(const struct command *leader)
{
    size_t size = completion_first_word(leader->name), at = 0;
    const struct command *command;

    while ((command = completion_command_next(&at))) {
        if (strncmp(command->name, leader->name, size + 1) == 0)
            printf("%s ", command->name + size + 1);
    }
}

static void completion_bash_command(const struct command *command)
{
    printf("    '%s')\n        options='", command->name);
    for (EACH_OPT(opt, command)) {
        printf("--%s ", opt->name);
        if (opt->letter)
            printf("-%c ", opt->letter);
    }
    fputs("'\n        values=' ", stdout);
    for (EACH_OPT(opt, command)) {
        if (!opt->arg)
            continue;
        printf("--%s ", opt->name);
        if (opt->letter)
            printf("-%c ", opt->letter);
    }
    fputs("' ;;\n", stdout);
}

static void completion_bash(void)
{
    const struct command *command;
    size_t at = 0;

    fputs("# bash completion for lockstep, made by 'lockstep completion bash'\n"
          "_lockstep()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} options= values= commands='",
          stdout);
    completion_put_first_words();
    fputs("'\n    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ] || { [ \"$COMP_CWORD\" = 2 ] && [ \"$command\" = help ]; "
          "}; then\n"
          "        COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n        return\n    fi\n"
          "    case $command in\n",
          stdout);
    while ((command = completion_command_next(&at))) {
        size_t size = completion_first_word(command->name);

        if (!command->name[size] || !completion_leads_group(command))
            continue;
        printf("    %.*s)\n        if [ \"$COMP_CWORD\" = 2 ]; then\n"
               "            COMPREPLY=($(compgen -W '",
               (int)size, command->name);
        completion_put_second_words(command);
        fputs("' -- \"$cur\"))\n            return\n        fi\n"
              "        command=\"$command ${COMP_WORDS[2]}\" ;;\n",
              stdout);
    }
    fputs("    esac\n    case $command in\n", stdout);
    at = 0;
    while ((command = completion_command_next(&at)))
        completion_bash_command(command);
    fputs("    esac\n"
          "    if [[ \"$values\" != *\" $prev \"* && \"$cur\" == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "    fi\n}\n"
          "complete -o default -F _lockstep lockstep\n",
          stdout);
}

/* zsh reads brackets and colons in a description as its own signs. */
static void completion_zsh_text(const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            putchar('\\');
        fputs(*text == '\'' ? "'\\''" : (char[]){ *text, '\0' }, stdout);
    }
}

/* `join` is what stands between the option and its argument. */
static void completion_zsh_spelling(const struct opt *opt, const char *spelling, char join)
{
    printf(" \\\n            '%s%s", opt->type == OPT_LIST ? "*" : "", spelling);
    if (opt->arg)
        putchar(join);
    fputs("[", stdout);
    completion_zsh_text(opt->help);
    fputs("]", stdout);
    if (opt->arg) {
        fputs(":", stdout);
        completion_zsh_text(opt->arg);
        fputs(":_files", stdout);
    }
    fputs("'", stdout);
}

static void completion_zsh_option(const struct opt *opt)
{
    char spelling[64];

    snprintf(spelling, sizeof(spelling), "--%s", opt->name);
    completion_zsh_spelling(opt, spelling, '=');
    if (!opt->letter)
        return;
    snprintf(spelling, sizeof(spelling), "-%c", opt->letter);
    completion_zsh_spelling(opt, spelling, '+');
}

static void completion_zsh_commands(void)
{
    const struct command *command;
    size_t at = 0;

    fputs("    commands=(\n", stdout);
    while ((command = completion_command_next(&at))) {
        size_t size = completion_first_word(command->name);

        if (!completion_leads_group(command))
            continue;
        printf("        '%.*s:", (int)size, command->name);
        if (command->name[size])
            printf("several commands");
        else
            completion_zsh_text(command->summary);
        fputs("'\n", stdout);
    }
    fputs("        'help:about a command'\n    )\n", stdout);
}

static void completion_zsh(void)
{
    const struct command *command;
    size_t at = 0;

    fputs("#compdef lockstep\n# zsh completion for lockstep, made by 'lockstep completion zsh'\n"
          "_lockstep()\n{\n    local -a commands\n    local command=$words[2]\n",
          stdout);
    completion_zsh_commands();
    fputs("    if (( CURRENT == 2 )) || [[ $command = help ]]; then\n"
          "        _describe command commands\n        return\n    fi\n    case $command in\n",
          stdout);
    while ((command = completion_command_next(&at))) {
        size_t size = completion_first_word(command->name);

        if (!command->name[size] || !completion_leads_group(command))
            continue;
        printf("    %.*s)\n        if (( CURRENT == 3 )); then\n            compadd ", (int)size,
               command->name);
        completion_put_second_words(command);
        fputs("\n            return\n        fi\n        command=\"$command $words[3]\"\n"
              "        shift words; (( CURRENT-- )) ;;\n",
              stdout);
    }
    fputs("    esac\n    shift words; (( CURRENT-- ))\n    case $command in\n", stdout);
    at = 0;
    while ((command = completion_command_next(&at))) {
        printf("    '%s')\n        _arguments -s -S", command->name);
        for (EACH_OPT(opt, command))
            completion_zsh_option(opt);
        fputs(" \\\n            '*:operand:_files' ;;\n", stdout);
    }
    fputs(
        "    esac\n}\n"
        "# Loaded by name from the function path it is called at once; sourced, it is registered.\n"
        "if [[ $funcstack[1] = _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep "
        "lockstep; fi\n",
        stdout);
}

static void completion_fish_option(const struct command *command, const struct opt *opt)
{
    size_t size = completion_first_word(command->name);

    printf("complete -c lockstep -n '__fish_seen_subcommand_from %.*s", (int)size, command->name);
    if (command->name[size])
        printf("; and __fish_seen_subcommand_from %s", command->name + size + 1);
    printf("' -l %s", opt->name);
    if (opt->letter)
        printf(" -s %c", opt->letter);
    if (opt->arg)
        fputs(" -r", stdout);
    fputs(" -d ", stdout);
    completion_put_quoted(opt->help, "\\'");
    putchar('\n');
}

static void completion_fish(void)
{
    const struct command *command;
    size_t at = 0;

    fputs("# fish completion for lockstep, made by 'lockstep completion fish'\n"
          "complete -c lockstep -n __fish_use_subcommand -f -a help -d 'about a command'\n",
          stdout);
    while ((command = completion_command_next(&at))) {
        size_t size = completion_first_word(command->name);

        if (completion_leads_group(command)) {
            printf("complete -c lockstep -n __fish_use_subcommand -f -a %.*s -d ", (int)size,
                   command->name);
            completion_put_quoted(command->name[size] ? "several commands" : command->summary,
                                  "\\'");
            putchar('\n');
        }
        if (command->name[size]) {
            printf("complete -c lockstep -n '__fish_seen_subcommand_from %.*s' -f -a %s -d ",
                   (int)size, command->name, command->name + size + 1);
            completion_put_quoted(command->summary, "\\'");
            putchar('\n');
        }
        for (EACH_OPT(opt, command))
            completion_fish_option(command, opt);
    }
}

/* threshold NAME DEFAULT LOW HIGH UNIT WHY; command NAME SUMMARY; option COMMAND NAME LETTER VALUE ENVIRONMENT HELP; "-" where there is none */
static void completion_table(void)
{
    const struct command *command;
    size_t at = 0;

    while ((command = completion_command_next(&at))) {
        printf("command\t%s\t%s\n", command->name, command->summary);
        for (EACH_OPT(opt, command))
            printf("option\t%s\t%s\t%c\t%s\t%s\t%s\n", command->name, opt->name,
                   opt->letter ? opt->letter : '-', opt->arg ? opt->arg : "-",
                   opt->env ? opt->env : "-", opt->help);
    }
    for (const struct threshold *row = thresholds_table; row->name; row++)
        printf("threshold\t%s\t%g\t%g\t%g\t%s\t%s\n", row->name, row->value, row->low, row->high,
               row->unit, row->why);
}

/* A settings file with everything in it, commented out: what stands behind one '#' is a setting. */
static void completion_settings(void)
{
    const struct command *command;
    size_t at = 0;

    puts("## Settings of lockstep, see lockstep.yaml(5).  What is behind a single '#' is a "
         "setting.");
    while ((command = completion_command_next(&at))) {
        bool first = true;

        for (EACH_OPT(opt, command)) {
            if (opt == opt_common_rows())
                break;
            if (first)
                printf("\n## %s\n#%s:\n", command->summary, command->name);
            first = false;
            printf("  ## %s\n", opt->help);
            printf("#  %s: %s\n", opt->name, opt->arg ? opt->arg : "no");
        }
    }
    puts("\n## from which numbers on the judges speak\n#" SETTINGS_JUDGE ":");
    for (const struct threshold *row = thresholds_table; row->name; row++)
        printf("  ## %s: %s\n#  %s: %g\n", row->unit, row->why, row->name, row->value);
}

static const struct {
    const char *name;
    void (*print)(void);
} completions[] = {
    { "bash", completion_bash },   { "zsh", completion_zsh },           { "fish", completion_fish },
    { "table", completion_table }, { "settings", completion_settings },
};

static int completion_run(int argc, char **argv)
{
    int first = opt_parse(&command_completion, argc, argv, NULL);

    if (first < 0)
        return OPT_EXIT(first);
    for (size_t i = 0; first + 1 == argc && i < COUNT(completions); i++) {
        if (strcmp(argv[first], completions[i].name) == 0) {
            completions[i].print();
            return 0;
        }
    }
    log_error("expected one shell: bash, zsh or fish (or 'table', 'settings')");
    return 2;
}

const struct command command_completion = {
    .name = "completion",
    .operands = "bash|zsh|fish|table|settings",
    .summary = "completions for a shell, made from the option tables",
    .details = "In bash: source <(lockstep completion bash)",
    .run = completion_run,
};
