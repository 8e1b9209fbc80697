/* opt_help.c - the help of a command, from its table. */
#include "base/opt.h"

/* Rows that every command has. */
static const struct opt opt_common[] = {
    { .name = "config",
      .arg = "FILE",
      .help = "settings file, instead of the usual ones",
      .env = "LOCKSTEP_CONFIG" },
    { .name = "help", .letter = 'h', .help = "this text" },
    { .name = NULL },
};

const struct opt *opt_common_rows(void)
{
    return opt_common;
}

static void opt_help_row(const struct opt *opt, FILE *out)
{
    char left[64];
    int used;

    used = snprintf(left, sizeof(left), "  %c%c%c --%s%s%s", opt->letter ? '-' : ' ',
                    opt->letter ? opt->letter : ' ', opt->letter ? ',' : ' ', opt->name,
                    opt->arg ? " " : "", opt->arg ? opt->arg : "");
    if (used > 28)
        fprintf(out, "%s\n%-28s  %s", left, "", opt->help);
    else
        fprintf(out, "%-28s  %s", left, opt->help);
    if (opt->env)
        fprintf(out, " [%s]", opt->env);
    fputc('\n', out);
}

void opt_help(const struct command *command, FILE *out)
{
    fprintf(out, "lockstep %s - %s\n\nusage: lockstep %s [OPTION...]%s%s\n\n", command->name,
            command->summary, command->name, command->operands[0] ? " " : "", command->operands);
    for (const struct opt *opt = command->opt; opt && opt->name; opt++) {
        if (!opt->hidden)
            opt_help_row(opt, out);
    }
    for (const struct opt *opt = opt_common; opt->name; opt++)
        opt_help_row(opt, out);
    if (command->details)
        fprintf(out, "\n%s\n", command->details);
}
