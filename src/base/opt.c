/* opt.c - reads settings files, the environment and a command line by one table.
 *
 * Files are read first, the environment over them and the command line over that, so that the last
 * word is the flag's.  Values are checked here, once: a command never sees half a number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "base/log.h"
#include "base/suggest.h"
#include "core/clean.h"
#include "core/time.h"

#define OPT_TEXT_OF_EXPANDED(x) #x
#define OPT_TEXT_OF(x) OPT_TEXT_OF_EXPANDED(x)
#define OPT_ROWS_MAX 64 /* rows of a table that may be of type OPT_LIST: one bit each */

struct opt_reader {
    const struct command *command;
    char **argv;
    int argc, at;       /* argv[at] is the next word */
    void *settings;     /* NULL: values are checked and not kept */
    const char *config; /* of --config; NULL: not given */
    uint64_t list_seen; /* rows whose default list has been replaced */
    struct err *err;
};

static const struct {
    const char *name;
    double ns;
} opt_units[] = {
    { "ns", 1 },   { "us", 1e3 },   { "ms", 1e6 },   { "s", 1e9 },
    { "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 },
};

int opt_duration(const char *text, int64_t *ret_ns)
{
    char *end;
    double value;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    value = strtod(text, &end);
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    for (size_t i = 0; i < COUNT(opt_units); i++) {
        if (strcmp(end, opt_units[i].name) != 0)
            continue;
        if (!(value * opt_units[i].ns < 0x1p63))
            return -EINVAL;
        *ret_ns = (int64_t)(value * opt_units[i].ns + 0.5);
        return 0;
    }
    return -EINVAL;
}

static int opt_number(const char *text, uint64_t limit, uint64_t *ret)
{
    unsigned long long value;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (*end)
        return -EINVAL;
    if (errno || value > limit)
        return -ERANGE;
    *ret = value;
    return 0;
}

static int opt_real(const char *text, double *ret)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || isspace((unsigned char)text[0]) || !isfinite(value))
        return -EINVAL;
    *ret = value;
    return 0;
}

static int opt_truth(const char *text, bool *ret)
{
    static const char *const yes[] = { "1", "yes", "true", "on" };
    static const char *const no[] = { "0", "no", "false", "off", "" };

    for (size_t i = 0; i < COUNT(yes); i++) {
        if (strcmp(text, yes[i]) == 0) {
            *ret = true;
            return 0;
        }
    }
    for (size_t i = 0; i < COUNT(no); i++) {
        if (strcmp(text, no[i]) == 0) {
            *ret = false;
            return 0;
        }
    }
    return -EINVAL;
}

static int opt_append(struct opt_reader *reader, const struct opt *opt, const char *text)
{
    struct opt_list *list = (void *)((char *)reader->settings + opt->offset);
    uint64_t bit = UINT64_C(1) << ((opt - reader->command->opt) % OPT_ROWS_MAX);

    if (!(reader->list_seen & bit))
        list->count = 0;
    reader->list_seen |= bit;
    if (list->count == OPT_LIST_MAX)
        return -E2BIG;
    list->item[list->count++] = text;
    return 0;
}

/* What a value of this type must be, for the sentence about one that is not. */
static const char *opt_expected(enum opt_type type)
{
    switch (type) {
    case OPT_FLAG:
        return "expected 1, yes, true or on, or 0, no, false or off";
    case OPT_U32:
        return "expected a whole number from 0 to 4294967295";
    case OPT_U64:
        return "expected a whole number from 0 to 18446744073709551615";
    case OPT_RANKS:
        return "expected a number of ranks from 1 to " OPT_TEXT_OF(LAYOUT_RANKS_MAX);
    case OPT_F64:
        return "expected a number";
    case OPT_DURATION:
        return "expected a time such as 250ms, 10s or 5m";
    case OPT_LIST:
        return "given more than 32 times";
    case OPT_TEXT:
        break;
    }
    return "expected some text";
}

static int opt_store(struct opt_reader *reader, const struct opt *opt, const char *text)
{
    union {
        bool truth;
        uint64_t number;
        double real;
        int64_t ns;
        const char *text;
    } nowhere;
    void *field = reader->settings ? (char *)reader->settings + opt->offset : (void *)&nowhere;
    uint64_t number = 0;
    int r = 0;

    switch (opt->type) {
    case OPT_FLAG:
        return opt_truth(text, field);
    case OPT_U32:
        r = opt_number(text, UINT32_MAX, &number);
        if (r == 0)
            *(uint32_t *)field = (uint32_t)number;
        return r;
    case OPT_U64:
        return opt_number(text, UINT64_MAX, field);
    case OPT_RANKS:
        r = opt_number(text, LAYOUT_RANKS_MAX, &number);
        if (r == 0 && number == 0)
            r = -ERANGE;
        if (r == 0)
            *(uint64_t *)field = number;
        return r;
    case OPT_F64:
        return opt_real(text, field);
    case OPT_DURATION:
        return opt_duration(text, field);
    case OPT_TEXT:
        *(const char **)field = text;
        return 0;
    case OPT_LIST:
        return reader->settings ? opt_append(reader, opt, text) : 0;
    }
    return -EINVAL;
}

/* `shown` is how the person gave the option: --ranks, -n or LOCKSTEP_RANKS. */
static int opt_set(struct opt_reader *reader, const struct opt *opt, const char *shown,
                   const char *text)
{
    if (opt_store(reader, opt, text) == 0)
        return 0;
    return err_set(reader->err, -EINVAL, "%s %s: %s", shown, text[0] ? text : "''",
                   opt_expected(opt->type));
}

static int opt_read_environment(struct opt_reader *reader)
{
    for (const struct opt *opt = reader->command->opt; opt && opt->name; opt++) {
        const char *text = opt->env ? getenv(opt->env) : NULL;
        int r;

        if (!text || (!text[0] && opt->type != OPT_FLAG))
            continue; /* empty is as good as unset */
        r = opt_set(reader, opt, opt->env, text);
        if (r < 0)
            return r;
    }
    reader->list_seen = 0; /* the command line replaces what the environment said */
    return 0;
}

static const struct opt *opt_by_name(const struct command *command, const char *name, size_t size)
{
    for (const struct opt *opt = command->opt; opt && opt->name; opt++) {
        if (strlen(opt->name) == size && memcmp(opt->name, name, size) == 0)
            return opt;
    }
    return NULL;
}

static const struct opt *opt_by_letter(const struct command *command, char letter)
{
    for (const struct opt *opt = command->opt; opt && opt->name; opt++) {
        if (opt->letter == letter)
            return opt;
    }
    return NULL;
}

static int opt_unknown(struct opt_reader *reader, const char *name, size_t size)
{
    char typed[80];
    struct suggest suggest = { .typed = typed };

    snprintf(typed, sizeof(typed), "%.*s", (int)MIN(size, sizeof(typed) - 1), name);
    for (const struct opt *opt = reader->command->opt; opt && opt->name; opt++) {
        if (!opt->hidden)
            suggest_offer(&suggest, opt->name);
    }
    for (const struct opt *opt = opt_common_rows(); opt->name; opt++)
        suggest_offer(&suggest, opt->name);
    if (suggest.best)
        return err_set(reader->err, -EINVAL, "unknown option --%s; did you mean --%s?", typed,
                       suggest.best);
    return err_set(reader->err, -EINVAL, "unknown option --%s; see --help", typed);
}

/* What the file says has been taken already; here it is only that the command line is right. */
static int opt_read_config(struct opt_reader *reader, const char *text)
{
    if (!text && reader->at < reader->argc)
        text = reader->argv[reader->at++];
    if (!text || !text[0])
        return err_set(reader->err, -EINVAL, "--config needs a value: --config FILE");
    reader->config = text;
    return 0;
}

/* argv[at] is "--name", "--name=value" or "--no-name". */
static int opt_read_long(struct opt_reader *reader)
{
    char *word = reader->argv[reader->at++], *name = word + 2;
    char *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    const struct opt *opt = opt_by_name(reader->command, name, size);
    char shown[80];

    if (!opt && size == 4 && memcmp(name, "help", 4) == 0)
        return -ECANCELED;
    if (!opt && size > 3 && memcmp(name, "no-", 3) == 0) {
        opt = opt_by_name(reader->command, name + 3, size - 3);
        if (!opt || opt->type != OPT_FLAG)
            return opt_unknown(reader, name, size);
        if (equals)
            return err_set(reader->err, -EINVAL, "--no-%s takes no value", opt->name);
        return opt_set(reader, opt, word, "no");
    }
    if (!opt && size == 6 && memcmp(name, "config", 6) == 0)
        return opt_read_config(reader, equals ? equals + 1 : NULL);
    if (!opt)
        return opt_unknown(reader, name, size);
    snprintf(shown, sizeof(shown), "--%s", opt->name);
    if (opt->type == OPT_FLAG)
        return equals ? err_set(reader->err, -EINVAL, "%s takes no value", shown)
                      : opt_set(reader, opt, shown, "yes");
    if (equals)
        return opt_set(reader, opt, shown, equals + 1);
    if (reader->at == reader->argc)
        return err_set(reader->err, -EINVAL, "%s needs a value: %s %s", shown, shown, opt->arg);
    return opt_set(reader, opt, shown, reader->argv[reader->at++]);
}

/* argv[at] is "-n VALUE", "-nVALUE", or flags together: "-qv". */
static int opt_read_letters(struct opt_reader *reader)
{
    char *word = reader->argv[reader->at++];

    for (char *letter = word + 1; *letter; letter++) {
        const struct opt *opt = opt_by_letter(reader->command, *letter);
        char shown[3] = { '-', *letter, '\0' };
        int r;

        if (!opt && *letter == 'h')
            return -ECANCELED;
        if (!opt)
            return err_set(reader->err, -EINVAL, "unknown option %s; see --help", shown);
        if (opt->type != OPT_FLAG && letter[1])
            return opt_set(reader, opt, shown, letter + 1);
        if (opt->type != OPT_FLAG && reader->at == reader->argc)
            return err_set(reader->err, -EINVAL, "%s needs a value: %s %s", shown, shown, opt->arg);
        if (opt->type != OPT_FLAG)
            return opt_set(reader, opt, shown, reader->argv[reader->at++]);
        r = opt_set(reader, opt, shown, "yes");
        if (r < 0)
            return r;
    }
    return 0;
}

static int opt_read_words(struct opt_reader *reader)
{
    int r = 0;

    while (r == 0 && reader->at < reader->argc) {
        const char *word = reader->argv[reader->at];

        if (word[0] != '-' || !word[1])
            break;
        if (strcmp(word, "--") == 0) {
            reader->at++;
            break;
        }
        r = word[1] == '-' ? opt_read_long(reader) : opt_read_letters(reader);
    }
    return r < 0 ? r : MIN(reader->at, reader->argc);
}

const char *opt_config(const struct command *command, int argc, char **argv)
{
    struct opt_reader reader = { .command = command, .argv = argv, .argc = argc, .at = 1 };

    return opt_read_words(&reader) < 0 ? NULL : reader.config; /* what is wrong is said later */
}

static int opt_unknown_key(const struct command *command, const struct conf *conf,
                           const struct conf_entry *entry, struct err *err)
{
    struct suggest suggest = { .typed = entry->key };

    for (const struct opt *opt = command->opt; opt && opt->name; opt++) {
        if (!opt->hidden)
            suggest_offer(&suggest, opt->name);
    }
    if (suggest.best)
        return conf_error(conf, entry->at, err,
                          "unknown key '%s' in section '%s'; did you mean '%s'?", entry->key,
                          entry->section, suggest.best);
    return conf_error(conf, entry->at, err,
                      "unknown key '%s' in section '%s'; see 'lockstep help %s'", entry->key,
                      entry->section, command->name);
}

int opt_read_conf(const struct command *command, const struct conf *conf, void *settings,
                  struct err *err)
{
    struct opt_reader reader = { .command = command, .settings = settings };

    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];
        const struct opt *opt;

        if (!entry->key || strcmp(entry->section, command->name) != 0)
            continue;
        opt = opt_by_name(command, entry->key, strlen(entry->key));
        if (!opt || opt->hidden)
            return opt_unknown_key(command, conf, entry, err);
        if (opt->type != OPT_LIST && i > 0 && conf->entry[i - 1].key == entry->key)
            return conf_error(conf, entry->value_at, err, "key '%s' takes one value, not a list",
                              entry->key);
        if (opt_store(&reader, opt, entry->value) < 0)
            return conf_error(conf, entry->value_at, err, "key '%s', value '%s': %s", entry->key,
                              entry->value, opt_expected(opt->type));
    }
    return 0;
}

int opt_read(const struct command *command, int argc, char **argv, void *settings, struct err *err)
{
    struct opt_reader reader = {
        .command = command, .argv = argv, .argc = argc, .at = 1, .settings = settings, .err = err
    };
    int r = opt_read_environment(&reader);

    return r < 0 ? r : opt_read_words(&reader);
}

/* Texts of a file are settings, and settings live as long as the process: so do their files. */
static struct conf *opt_keep(void)
{
    static struct conf kept[CONF_FILES_MAX];
    static size_t count;

    if (count == CONF_FILES_MAX) { /* somebody parses twice: the first settings are out of use */
        for (size_t i = 0; i < count; i++)
            conf_fini(&kept[i]);
        count = 0;
    }
    return &kept[count++];
}

int opt_read_files(const struct command *command, const char *given, void *settings,
                   struct err *err)
{
    struct path path[CONF_FILES_MAX];
    int must, r = 0;
    size_t count = conf_files(given, path, &must);

    for (size_t i = 0; i < count && r == 0; i++) {
        struct conf *conf = opt_keep();

        r = conf_read(path[i].text, conf, err);
        if (r == 0)
            r = opt_read_conf(command, conf, settings, err);
        else if (r == -ENOENT && !must)
            r = 0;
    }
    return r < 0 ? -EINVAL : 0;
}

static int opt_report(const struct command *command, int r, const struct err *err)
{
    if (r == -ECANCELED)
        opt_help(command, stdout);
    else if (r < 0)
        fprintf(stderr, "lockstep %s: %s\n", command->name, err->text);
    return r;
}

int opt_parse_more(const struct command *command, int argc, char **argv, void *settings)
{
    struct err err = { "" };
    struct opt_reader reader = {
        .command = command, .argv = argv, .argc = argc, .at = 1, .settings = settings, .err = &err
    };

    return opt_report(command, opt_read_words(&reader), &err);
}

int opt_parse(const struct command *command, int argc, char **argv, void *settings)
{
    struct err err = { "" };
    int r = 0;

    if (!command->hidden && settings)
        r = opt_read_files(command, opt_config(command, argc, argv), settings, &err);
    if (r == 0)
        r = opt_read(command, argc, argv, settings, &err);
    return opt_report(command, r, &err);
}

int opt_parse_all(const struct command *command, int argc, char **argv, void *settings)
{
    int first = opt_parse(command, argc, argv, settings);

    if (first < 0)
        return first;
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return -EINVAL;
    }
    return 0;
}

/* ---- the help of a command, from its table. ---- */

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
