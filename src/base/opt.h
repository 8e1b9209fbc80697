/* opt.h - one table gives flag, environment name, key in the settings file, help, completion and man
 * check.
 *
 * A command's settings are one struct with its defaults filled in; a row says where in
 * it a value goes.  Order of strength: flag, environment, file, default.  In a settings file
 * (conf.h) the section is the command's name and the key is the option's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_OPT_H
#define LOCKSTEP_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/conf.h"
#include "core/err.h"

enum opt_type {
    OPT_FLAG,     /* bool; --no-NAME unsets it */
    OPT_U32,      /* uint32_t */
    OPT_U64,      /* uint64_t */
    OPT_RANKS,    /* uint64_t; 1 to LAYOUT_RANKS_MAX */
    OPT_F64,      /* double */
    OPT_DURATION, /* int64_t ns; "250ms", "10s", "5m" */
    OPT_TEXT,     /* const char * */
    OPT_LIST, /* struct opt_list: may be given again and again; the first replaces the default */
};

#define OPT_LIST_MAX 32
struct opt_list {
    const char *item[OPT_LIST_MAX];
    unsigned count;
};

struct opt {
    const char *name; /* without dashes; NULL ends the table */
    char letter;      /* 0: none */
    enum opt_type type;
    size_t offset;    /* offsetof(struct settings, field) */
    const char *arg;  /* what to call the value in the help; NULL for flags */
    const char *help; /* lower case, no full stop */
    const char *env;  /* NULL: none */
    bool hidden;      /* not in help, man page and completion */
};

struct command {
    const char *name;      /* "run", or "bench probe" */
    const char *operands;  /* "-- COMMAND [ARG...]"; "" for none */
    const char *summary;   /* one line */
    const char *details;   /* further help text, or NULL */
    const struct opt *opt; /* NULL: none but --help */
    /* argv[0] is the command's name; returns the exit status.  NULL: it is in another program (program.h) */
    int (*run)(int argc, char **argv);
    bool hidden;
    bool
        starts_job; /* only its command line can be at fault: other settings that are wrong are reported and ignored */
};

/* Fills `settings`.  Returns the index in argv of the first operand (argc when there is none);
 * options end at the first operand or after "--".  After --help has been printed: -ECANCELED, and the
 * command exits 0.  Bad usage: one line on stderr, -EINVAL, and the command exits 2.
 */
int opt_parse(const struct command *command, int argc, char **argv, void *settings);
/* The same for a command without operands: 0, or -errno also if there is one. */
int opt_parse_all(const struct command *command, int argc, char **argv, void *settings);
/* Words behind an operand, argv[0]: files and the environment were read before, and are weaker than any of them. */
int opt_parse_more(const struct command *command, int argc, char **argv, void *settings);
#define OPT_EXIT(result) ((result) == -ECANCELED ? 0 : 2) /* needs errno.h */

/* The same without files and without words on stdout or stderr: -ECANCELED means that help was asked for. */
int opt_read(const struct command *command, int argc, char **argv, void *settings, struct err *err);

/* What --config says, or NULL; the words are read by the table, so that no value is mistaken for it. */
const char *opt_config(const struct command *command, int argc, char **argv);
/* The command's section of a file, or of the files that there are (conf_files), into `settings`; NULL: it is
 * only checked.  -EINVAL with file, line and column.  Sections of others are not looked at.
 */
int opt_read_conf(const struct command *command, const struct conf *conf, void *settings,
                  struct err *err);
int opt_read_files(const struct command *command, const char *given, void *settings,
                   struct err *err);
const struct opt *opt_common_rows(void); /* --config and --help, which every command has */

void opt_help(const struct command *command, FILE *out);
int opt_duration(const char *text, int64_t *ret_ns); /* -EINVAL */

#endif
