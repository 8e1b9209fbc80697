/* conf.c - from YAML events to entries.
 *
 * Three depths and no recursion: the document, the sections, their keys; a list of plain values may
 * stand where a value may.  What YAML can do beyond that (anchors, tags, several documents) is
 * refused by name: nobody needs it here, and each would be one more way to mean something else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "core/buf.h"
#include "core/clean.h"

#define CONF_SYSTEM "/etc/lockstep/lockstep.yaml"

enum conf_depth {
    CONF_OUTSIDE,
    CONF_SECTIONS, /* a section's name comes, or the end */
    CONF_SECTION,  /* its mapping comes, or nothing (a null) */
    CONF_KEYS,     /* a key comes, or the section's end */
    CONF_VALUE,    /* a value comes, or a list */
    CONF_LIST,     /* a value comes, or the list's end */
    CONF_DONE,
};

struct conf_reader {
    struct conf *conf;
    enum conf_depth depth;
    size_t section, key; /* entries whose names they are */
    size_t listed;       /* values of this list so far */
    struct err *err;
};

void conf_fini(struct conf *conf)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];

        /* Names are shared by the entries that follow; who has them first owns them. */
        if (i == 0 || entry->section != conf->entry[i - 1].section)
            free((char *)entry->section);
        if (entry->key && entry->key != (i ? conf->entry[i - 1].key : NULL))
            free((char *)entry->key);
        free((char *)entry->value);
    }
    free(conf->entry);
    free(conf->file);
    *conf = (struct conf){ 0 };
}

int conf_error(const struct conf *conf, struct conf_place at, struct err *err, const char *format,
               ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return err_set(err, -EINVAL, "%s:%u:%u: %s", conf->file, at.line, at.column, text);
}

static struct conf_place conf_place_of(const yaml_mark_t *mark)
{
    return (struct conf_place){ (unsigned)mark->line + 1, (unsigned)mark->column + 1 };
}

static int conf_add(struct conf_reader *reader, const struct conf_entry *entry)
{
    struct conf *conf = reader->conf;

    if (conf->count == CONF_ENTRIES_MAX)
        return conf_error(conf, entry->at, reader->err, "more than %d settings", CONF_ENTRIES_MAX);
    if (!ARRAY_FIT(conf->entry, conf->room, conf->count + 1))
        return -ENOMEM;
    conf->entry[conf->count++] = *entry;
    return 0;
}

/* The text of a scalar as a string of our own; NUL within is refused. */
static int conf_text(struct conf_reader *reader, const yaml_event_t *event, char **ret)
{
    const char *text = (const char *)event->data.scalar.value;
    char *copy;

    if (strlen(text) != event->data.scalar.length)
        return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                          "a NUL byte in a value");
    copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

static int conf_section(struct conf_reader *reader, const yaml_event_t *event)
{
    struct conf *conf = reader->conf;
    struct conf_entry entry = { .at = conf_place_of(&event->start_mark) };
    char *name = NULL;
    int result = conf_text(reader, event, &name);

    if (result < 0)
        return result;
    for (size_t i = 0; i < conf->count; i++) {
        if (!conf->entry[i].key && strcmp(conf->entry[i].section, name) == 0)
            result = conf_error(conf, entry.at, reader->err,
                                "section '%s' is there twice, first in line %u", name,
                                conf->entry[i].at.line);
    }
    entry.section = name;
    if (result == 0)
        result = conf_add(reader, &entry);
    if (result < 0) {
        free(name);
        return result;
    }
    reader->section = conf->count - 1;
    reader->depth = CONF_SECTION;
    return 0;
}

static int conf_key(struct conf_reader *reader, const yaml_event_t *event)
{
    struct conf *conf = reader->conf;
    struct conf_entry entry = { .section = conf->entry[reader->section].section,
                                .at = conf_place_of(&event->start_mark) };
    char *name = NULL;
    int result = conf_text(reader, event, &name);

    if (result < 0)
        return result;
    for (size_t i = reader->section + 1; i < conf->count; i++) {
        if (strcmp(conf->entry[i].key, name) == 0)
            result =
                conf_error(conf, entry.at, reader->err, "key '%s' is there twice, first in line %u",
                           name, conf->entry[i].at.line);
    }
    entry.key = name;
    if (result == 0)
        result = conf_add(reader, &entry);
    if (result < 0) {
        free(name);
        return result;
    }
    reader->key = conf->count - 1;
    reader->listed = 0;
    reader->depth = CONF_VALUE;
    return 0;
}

/* The first value goes to the key's own entry; those of a list get entries of their own. */
static int conf_value(struct conf_reader *reader, const yaml_event_t *event)
{
    struct conf *conf = reader->conf;
    struct conf_entry entry = conf->entry[reader->key];
    char *text = NULL;
    int result;

    if (event->data.scalar.length == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return conf_error(conf, entry.at, reader->err, "key '%s' has no value", entry.key);
    result = conf_text(reader, event, &text);
    if (result < 0)
        return result;
    entry.value = text;
    entry.value_at = conf_place_of(&event->start_mark);
    if (reader->listed++ == 0)
        conf->entry[reader->key] = entry;
    else
        result = conf_add(reader, &entry);
    if (result < 0)
        free(text);
    if (reader->depth == CONF_VALUE)
        reader->depth = CONF_KEYS;
    return result;
}

static int conf_scalar(struct conf_reader *reader, const yaml_event_t *event)
{
    struct conf_place at = conf_place_of(&event->start_mark);

    if (event->data.scalar.anchor || event->data.scalar.tag)
        return conf_error(reader->conf, at, reader->err, "anchors and tags are not supported");
    switch (reader->depth) {
    case CONF_SECTIONS:
        return conf_section(reader, event);
    case CONF_KEYS:
        return conf_key(reader, event);
    case CONF_VALUE:
    case CONF_LIST:
        return conf_value(reader, event);
    case CONF_SECTION:
        if (event->data.scalar.length == 0) { /* a section in which all is commented out */
            reader->depth = CONF_SECTIONS;
            return 0;
        }
        return conf_error(reader->conf, at, reader->err, "expected keys below section '%s'",
                          reader->conf->entry[reader->section].section);
    default:
        if (event->data.scalar.length == 0) { /* a file of comments */
            reader->depth = CONF_DONE;
            return 0;
        }
        return conf_error(reader->conf, at, reader->err, "expected sections, such as 'control:'");
    }
}

static int conf_begin(struct conf_reader *reader, const yaml_event_t *event, int mapping)
{
    const void *anchor =
        mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;

    if (anchor)
        return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                          "anchors and tags are not supported");
    if (mapping && (reader->depth == CONF_OUTSIDE || reader->depth == CONF_SECTION)) {
        reader->depth = reader->depth == CONF_OUTSIDE ? CONF_SECTIONS : CONF_KEYS;
        return 0;
    }
    if (!mapping && reader->depth == CONF_VALUE) {
        reader->depth = CONF_LIST;
        return 0;
    }
    return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                      "%s is not expected here; a file has sections, sections have keys",
                      mapping ? "a mapping" : "a list");
}

static int conf_end(struct conf_reader *reader, const yaml_event_t *event)
{
    const struct conf_entry *key;

    if (reader->depth == CONF_LIST) {
        key = &reader->conf->entry[reader->key];
        reader->depth = CONF_KEYS;
        if (reader->listed == 0)
            return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                              "the list of key '%s' is empty", key->key);
        return 0;
    }
    reader->depth = reader->depth == CONF_KEYS ? CONF_SECTIONS : CONF_DONE;
    return 0;
}

static int conf_event(struct conf_reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return conf_scalar(reader, event);
    case YAML_MAPPING_START_EVENT:
        return conf_begin(reader, event, 1);
    case YAML_SEQUENCE_START_EVENT:
        return conf_begin(reader, event, 0);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        return conf_end(reader, event);
    case YAML_ALIAS_EVENT:
        return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                          "anchors and tags are not supported");
    case YAML_DOCUMENT_START_EVENT:
        if (reader->depth != CONF_OUTSIDE)
            return conf_error(reader->conf, conf_place_of(&event->start_mark), reader->err,
                              "a second document; a file has one");
        return 0;
    default:
        return 0;
    }
}

static int conf_run(yaml_parser_t *parser, struct conf_reader *reader)
{
    for (;;) {
        yaml_event_t event;
        bool over;
        int result;

        if (!yaml_parser_parse(parser, &event)) {
            if (parser->error == YAML_MEMORY_ERROR)
                return -ENOMEM;
            return conf_error(reader->conf, conf_place_of(&parser->problem_mark), reader->err, "%s",
                              parser->problem ? parser->problem : "no YAML");
        }
        over = event.type == YAML_STREAM_END_EVENT;
        result = conf_event(reader, &event);
        yaml_event_delete(&event);
        if (result < 0 || over)
            return result;
    }
}

int conf_parse(const char *file, const void *text, size_t size, struct conf *ret, struct err *err)
{
    struct conf conf = { .file = strdup(file) };
    struct conf_reader reader = { .conf = &conf, .err = err };
    yaml_parser_t parser;
    int result = conf.file && yaml_parser_initialize(&parser) ? 0 : -ENOMEM;

    if (result == 0) {
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, text, size);
        result = conf_run(&parser, &reader);
        yaml_parser_delete(&parser);
    }
    if (result == -ENOMEM)
        err_set(err, result, "%s: out of memory", file);
    if (result < 0)
        conf_fini(&conf);
    else
        *ret = conf;
    return result;
}

int conf_read(const char *path, struct conf *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CLEAN(buf_fini) struct buf text = { 0 };
    char chunk[4096];
    ssize_t got;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    while ((got = read(fd, chunk, sizeof(chunk))) > 0 && text.size <= CONF_BYTES_MAX)
        buf_put(&text, chunk, (size_t)got);
    if (got < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (text.failed)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    if (text.size > CONF_BYTES_MAX)
        return err_set(err, -EINVAL, "%s: larger than %u bytes, the limit for a settings file",
                       path, CONF_BYTES_MAX);
    return conf_parse(path, text.data ? text.data : (const void *)"", text.size, ret, err);
}

static int conf_home(struct path *ret)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && config[0] == '/')
        return path_join(ret, config, "lockstep/lockstep.yaml", NULL);
    if (home && home[0] == '/')
        return path_join(ret, home, ".config/lockstep/lockstep.yaml", NULL);
    return -ENOENT;
}

size_t conf_files(const char *given, struct path ret[static CONF_FILES_MAX], int *must)
{
    size_t count = 0;

    if (!given || !given[0])
        given = getenv("LOCKSTEP_CONFIG");
    *must = given && given[0];
    if (*must) {
        snprintf(ret[0].text, sizeof(ret[0].text), "%s", given);
        return 1;
    }
    snprintf(ret[count++].text, sizeof(ret[0].text), "%s", CONF_SYSTEM);
    if (conf_home(&ret[count]) == 0)
        count++;
    return count;
}
