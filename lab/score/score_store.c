/* score_store.c - a result as a line of JSON and back, by one table of its fields.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "base/sibling.h"
#include "core/clean.h"
#include "core/hash.h"

#define LINE_BYTES (64u << 10)

enum field_type {
    TYPE_BOOL,
    TYPE_U32,
    TYPE_U64,
    TYPE_F64,
    TYPE_F64S, /* several */
    TYPE_TEXT
};

#define FIELD(name, type) FIELD_AS(#name, name, type)
#define FIELD_AS(key, name, type)                                                                  \
    {                                                                                              \
        key, type, offsetof(struct score_result, name), sizeof(((struct score_result *)0)->name)   \
    }

static const struct field {
    const char *name;
    enum field_type type;
    size_t offset, size;
} fields[] = {
    FIELD(ran, TYPE_BOOL),
    FIELD(why, TYPE_TEXT),
    FIELD(found, TYPE_BOOL),
    FIELD(layer_exact, TYPE_BOOL),
    FIELD(right, TYPE_U32),
    FIELD(wrong, TYPE_U32),
    FIELD(expected, TYPE_U32),
    FIELD(extra, TYPE_U32),
    FIELD(verdicts, TYPE_U32),
    FIELD(brier, TYPE_F64),
    FIELD(seconds, TYPE_F64),
    FIELD(steps, TYPE_U64),
    FIELD(run_seconds, TYPE_F64),
    FIELD_AS("said", summary, TYPE_TEXT),
    FIELD(run, TYPE_TEXT),
    FIELD_AS("ledger.whole", ledger.total, TYPE_F64),
    FIELD(ledger.bucket, TYPE_F64S),
    FIELD(ledger.injected, TYPE_F64),
    FIELD_AS("others", foreign_load, TYPE_F64),
    FIELD(again, TYPE_U32),
};

/* Who adds a field there adds a row here: else it is lost when a score goes on. */
_Static_assert(sizeof(struct score_result) == 1056, "a row for each field of struct score_result");

static struct json_object *field_write(const struct field *field, const void *place)
{
    struct json_object *array;

    switch (field->type) {
    case TYPE_BOOL:
        return json_object_new_boolean(*(const bool *)place);
    case TYPE_U32:
        return json_object_new_int64(*(const uint32_t *)place);
    case TYPE_U64:
        return json_object_new_int64((int64_t) * (const uint64_t *)place);
    case TYPE_F64:
        return json_object_new_double(*(const double *)place);
    case TYPE_F64S:
        array = json_object_new_array();
        for (size_t i = 0; i < field->size / sizeof(double); i++)
            json_object_array_add(array, json_object_new_double(((const double *)place)[i]));
        return array;
    default:
        return json_object_new_string(place);
    }
}

static int score_array_read(struct json_object *array, double *ret, size_t count)
{
    if (!json_object_is_type(array, json_type_array) || json_object_array_length(array) != count)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        ret[i] = json_object_get_double(json_object_array_get_idx(array, i));
        if (!isfinite(ret[i]))
            return -EINVAL;
    }
    return 0;
}

static int field_read(const struct field *field, struct json_object *value, void *place)
{
    int64_t number = json_object_get_int64(value);
    double real = json_object_get_double(value);

    switch (field->type) {
    case TYPE_BOOL:
        *(bool *)place = json_object_get_boolean(value);
        return json_object_is_type(value, json_type_boolean) ? 0 : -EINVAL;
    case TYPE_U32:
        *(uint32_t *)place = (uint32_t)number;
        return number >= 0 && number <= UINT32_MAX ? 0 : -EINVAL;
    case TYPE_U64:
        *(uint64_t *)place = (uint64_t)number;
        return number >= 0 ? 0 : -EINVAL;
    case TYPE_F64:
        *(double *)place = real;
        return isfinite(real) ? 0 : -EINVAL;
    case TYPE_F64S:
        return score_array_read(value, place, field->size / sizeof(double));
    default:
        return json_object_is_type(value, json_type_string) &&
                       (size_t)snprintf(place, field->size, "%s", json_object_get_string(value)) <
                           field->size
                   ? 0
                   : -EINVAL;
    }
}

char *score_record_write(const struct score_record *record)
{
    struct json_object *object = json_object_new_object();
    char build[24], *line;

    snprintf(build, sizeof(build), "%016" PRIx64, record->build);
    json_object_object_add(object, "build", json_object_new_string(build));
    json_object_object_add(object, "command", json_object_new_string(record->command));
    for (size_t i = 0; i < COUNT(fields); i++)
        json_object_object_add(
            object, fields[i].name,
            field_write(&fields[i], (const char *)&record->result + fields[i].offset));
    line = strdup(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
    return line;
}

static int score_object_read(struct json_object *object, struct score_record *ret)
{
    struct json_object *value;
    char *end;

    if (!json_object_object_get_ex(object, "build", &value) ||
        !json_object_is_type(value, json_type_string))
        return -EINVAL;
    ret->build = strtoull(json_object_get_string(value), &end, 16);
    if (*end != '\0' || !json_object_object_get_ex(object, "command", &value) ||
        !json_object_is_type(value, json_type_string) ||
        snprintf(ret->command, sizeof(ret->command), "%s", json_object_get_string(value)) >=
            (int)sizeof(ret->command))
        return -EINVAL;
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!json_object_object_get_ex(object, fields[i].name, &value) ||
            field_read(&fields[i], value, (char *)&ret->result + fields[i].offset) < 0)
            return -EINVAL;
    }
    return 0;
}

int score_record_read(const char *line, struct score_record *ret)
{
    struct score_record record = { 0 };
    struct json_object *object = json_tokener_parse(line);
    int result = json_object_is_type(object, json_type_object) ? score_object_read(object, &record)
                                                               : -EINVAL;

    json_object_put(object);
    if (result == 0)
        *ret = record;
    return result;
}

/* ---- the directory ---- */

static int score_program_hash(const char *path, uint64_t *hash, struct err *err)
{
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    char chunk[65536];
    size_t got;

    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        *hash = hash64(*hash, chunk, got);
    return 0;
}

/* This program and the lockstep that it tries: a result of another one says nothing about them. */
static int score_build_read(uint64_t *ret, struct err *err)
{
    struct path lockstep;
    uint64_t hash = 0;
    int result = score_program_hash("/proc/self/exe", &hash, err);

    /* Unit tests have none beside them. */
    if (result == 0 && sibling_find("lockstep", &lockstep, NULL) == 0)
        result = score_program_hash(lockstep.text, &hash, err);
    if (result == 0)
        *ret = hash;
    return result;
}

static int score_record_put(struct score_store *store, const struct score_record *record)
{
    if (!ARRAY_FIT(store->record, store->room, store->count + 1))
        return -ENOMEM;
    store->record[store->count++] = *record;
    return 0;
}

/* The lock is this process's alone: children do not have it, and it ends with us. */
static int score_file_open(struct score_store *store, struct err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    store->file = fopen(store->path, "a+e");
    if (!store->file)
        return err_set(err, -errno, "%s: %m", store->path);
    if (fcntl(fileno(store->file), F_SETLK, &lock) < 0)
        return err_set(
            err, -EBUSY,
            "%s: another 'bench verdicts' uses it; wait until it ends, or use another directory",
            store->path);
    return 0;
}

static int score_lines_read(struct score_store *store, struct err *err)
{
    CLEAN(free_clean) char *line = NULL;
    size_t room = 0;
    ssize_t size;

    rewind(store->file);
    while ((size = getline(&line, &room, store->file)) > 0) {
        struct score_record record;

        store->torn = line[size - 1] != '\n';
        if (size > (ssize_t)LINE_BYTES || score_record_read(line, &record) < 0 ||
            record.build != store->build)
            store->foreign++;
        else if (score_record_put(store, &record) < 0)
            return err_nomem(err);
    }
    if (!feof(store->file))
        return err_set(err, -errno, "%s: %m", store->path);
    return 0;
}

int score_store_open(const char *dir, struct score_store *ret, struct err *err)
{
    struct score_store store = { 0 };
    int result;

    if (snprintf(store.dir, sizeof(store.dir), "%s", dir) >= (int)sizeof(store.dir))
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", dir);
    snprintf(store.path, sizeof(store.path), "%s/results.jsonl", store.dir);
    if (mkdir(store.dir, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", store.dir);
    result = score_build_read(&store.build, err);
    if (result == 0)
        result = score_file_open(&store, err);
    if (result == 0)
        result = score_lines_read(&store, err);
    if (result < 0) {
        score_store_close(&store);
        return result;
    }
    *ret = store;
    return 0;
}

void score_store_close(struct score_store *store)
{
    file_clean(&store->file);
    free(store->record);
    *store = (struct score_store){ 0 };
}

const struct score_result *score_store_find(const struct score_store *store,
                                            const struct score_case *at)
{
    char command[SCORE_COMMAND];

    score_case_command(at, command, sizeof(command));
    for (uint32_t i = 0; i < store->count; i++) {
        if (strcmp(store->record[i].command, command) == 0)
            return &store->record[i].result;
    }
    return NULL;
}

int score_store_add(struct score_store *store, const struct score_case *at,
                    const struct score_result *result, struct err *err)
{
    struct score_record record = { .build = store->build, .result = *result };
    int fd = fileno(store->file); /* not by way of its buffer: a line is one write */
    CLEAN(free_clean) char *line = NULL;
    size_t size;

    score_case_command(at, record.command, sizeof(record.command));
    line = score_record_write(&record);
    if (!line || score_record_put(store, &record) < 0)
        return err_nomem(err);
    if (store->torn && write(fd, "\n", 1) == 1)
        store->torn = false; /* who wrote the last line was stopped in the middle of it */
    size = strlen(line);
    line[size] =
        '\n'; /* in place of its end: one write, so that a line is whole or cut at the end */
    if (fd < 0 || write(fd, line, size + 1) != (ssize_t)(size + 1))
        return err_set(err, -errno, "%s: %m", store->path);
    return 0;
}
