/* policy_file.c - reads limits, severities and rows, and says where a mistake is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/table/policy_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "base/suggest.h"
#include "core/clean.h"

#define POLICY_LIMITS "limits"
#define POLICY_SEVERITY "severity"

struct policy_reader {
    const struct conf *conf;
    struct policy_table *table;
    struct err *err;
};

/* ---- words ---- */

typedef const char *policy_name(unsigned number);

static const char *policy_action_word(unsigned action)
{
    return action == ACTION_NONE ? "watch" : action_name(action);
}

/* The number of a word, or -EINVAL with the nearest one. */
static int policy_word(const struct policy_reader *reader, const struct conf_entry *entry,
                       policy_name *name, unsigned first, unsigned count)
{
    struct suggest suggest = { .typed = entry->value };

    for (unsigned i = first; i < count; i++) {
        if (strcmp(name(i), "unknown") == 0 && strcmp(entry->value, "unknown") != 0)
            continue;
        if (strcmp(name(i), entry->value) == 0)
            return (int)i;
        suggest_offer(&suggest, name(i));
    }
    if (suggest.best)
        return conf_error(reader->conf, entry->value_at, reader->err,
                          "key '%s': unknown value '%s'; did you mean '%s'?", entry->key,
                          entry->value, suggest.best);
    return conf_error(reader->conf, entry->value_at, reader->err,
                      "key '%s': unknown value '%s'; docs/RECOVERY.md lists them", entry->key,
                      entry->value);
}

static int policy_number(const struct policy_reader *reader, const struct conf_entry *entry,
                         double most, bool whole, double *ret)
{
    char *end;
    double value = strtod(entry->value, &end);

    if (end == entry->value || *end || !(value >= 0) || value > most ||
        (whole && value != (double)(uint64_t)value))
        return conf_error(reader->conf, entry->value_at, reader->err,
                          "key '%s', value '%s': expected a %snumber from 0 to %.0f", entry->key,
                          entry->value, whole ? "whole " : "", most);
    *ret = value;
    return 0;
}

/* ---- limits ---- */

enum limit_type {
    LIMIT_COUNT,
    LIMIT_SHARE,
    LIMIT_TIME,
    LIMIT_EXIT
};

static const struct limit {
    const char *name;
    enum limit_type type;
    size_t offset;
} limits[] = {
#define LIMIT(name, type, field)                                                                   \
    {                                                                                              \
        name, type, offsetof(struct policy_table, field)                                           \
    }
    LIMIT("restarts-per-hour", LIMIT_COUNT, restarts_per_hour),
    LIMIT("restarts-per-cause", LIMIT_COUNT, restarts_per_cause),
    LIMIT("drains-per-hour", LIMIT_COUNT, drains_per_hour),
    LIMIT("fleet-share", LIMIT_SHARE, fleet_share),
    LIMIT("cool-down", LIMIT_TIME, cool_down_ns),
    LIMIT("breaker", LIMIT_COUNT, breaker),
    LIMIT("crash-loop", LIMIT_COUNT, crash_loop),
    LIMIT("poison-step", LIMIT_COUNT, poison_step),
    LIMIT("horizon", LIMIT_TIME, horizon_ns),
    LIMIT("no-restart-exit", LIMIT_EXIT, exit),
#undef LIMIT
};

static int policy_exit_add(const struct policy_reader *reader, const struct conf_entry *entry)
{
    struct policy_table *table = reader->table;
    double value = 0;
    int result = policy_number(reader, entry, 255, true, &value);

    if (result < 0)
        return result;
    if (table->exit_count == POLICY_EXITS)
        return conf_error(reader->conf, entry->value_at, reader->err,
                          "key '%s' has more than %d values", entry->key, POLICY_EXITS);
    table->exit[table->exit_count++] = (uint8_t)value;
    return 0;
}

static int policy_limit_set(const struct policy_reader *reader, const struct conf_entry *entry,
                            const struct limit *limit)
{
    char *field = (char *)reader->table + limit->offset;
    double value = 0;
    int64_t time_ns = 0;
    int result;

    switch (limit->type) {
    case LIMIT_EXIT:
        return policy_exit_add(reader, entry);
    case LIMIT_TIME:
        if (opt_duration(entry->value, &time_ns) < 0 || time_ns > INT64_C(366) * 86400000000000)
            return conf_error(reader->conf, entry->value_at, reader->err,
                              "key '%s', value '%s': expected a time, such as 5m", entry->key,
                              entry->value);
        memcpy(field, &time_ns, sizeof(time_ns));
        return 0;
    case LIMIT_SHARE:
        result = policy_number(reader, entry, 1, false, &value);
        if (result == 0)
            memcpy(field, &value, sizeof(value));
        return result;
    default:
        result = policy_number(reader, entry, 1e6, true, &value);
        if (result == 0)
            memcpy(field, &(uint32_t){ (uint32_t)value }, sizeof(uint32_t));
        return result;
    }
}

static int policy_limit(const struct policy_reader *reader, const struct conf_entry *entry)
{
    struct suggest suggest = { .typed = entry->key };

    for (size_t i = 0; i < COUNT(limits); i++) {
        if (strcmp(limits[i].name, entry->key) == 0)
            return policy_limit_set(reader, entry, &limits[i]);
        suggest_offer(&suggest, limits[i].name);
    }
    return conf_error(reader->conf, entry->at, reader->err, "unknown limit '%s'%s%s%s", entry->key,
                      suggest.best ? "; did you mean '" : "", suggest.best ? suggest.best : "",
                      suggest.best ? "'?" : "");
}

/* ---- severities ---- */

static int policy_severity(const struct policy_reader *reader, const struct conf_entry *entry)
{
    int severity =
        policy_word(reader, entry, finding_severity_name, FINDING_INFO, FINDING_SEVERITY_COUNT);
    unsigned finding = finding_kind_of(entry->key);

    if (severity < 0)
        return severity;
    if (finding) {
        reader->table->finding_severity[finding] = (uint8_t)severity;
        return 0;
    }
    for (unsigned kind = 1; kind < VERDICT_KIND_COUNT; kind++) {
        if (strcmp(verdict_kind_name(kind), entry->key) == 0) {
            reader->table->verdict_severity[kind] = (uint8_t)severity;
            return 0;
        }
    }
    return conf_error(reader->conf, entry->at, reader->err,
                      "'%s' is neither a kind of verdict nor of finding", entry->key);
}

/* ---- rows ---- */

static int policy_row_text(const struct policy_reader *reader, const struct conf_entry *entry,
                           struct policy_row *row)
{
    if (strlen(entry->value) >= sizeof(row->reason))
        return conf_error(reader->conf, entry->value_at, reader->err,
                          "key 'reason': longer than %zu bytes", sizeof(row->reason) - 1);
    snprintf(row->reason, sizeof(row->reason), "%s", entry->value);
    return 0;
}

static int policy_row_action(const struct policy_reader *reader, const struct conf_entry *entry,
                             struct policy_row *row)
{
    int action = policy_word(reader, entry, policy_action_word, 0, ACTION_COUNT);

    if (action == ACTION_DEPTH || action == ACTION_INSPECT || action == ACTION_REPAIR ||
        action == ACTION_GIVE_UP || action >= ACTION_START)
        return conf_error(reader->conf, entry->value_at, reader->err,
                          "action '%s' cannot stand in a row", entry->value);
    if (action >= 0 && row->action_count == POLICY_ACTIONS)
        return conf_error(reader->conf, entry->value_at, reader->err, "more than %d actions",
                          POLICY_ACTIONS);
    if (action >= 0)
        row->action[row->action_count++] = (uint8_t)action;
    return action < 0 ? action : 0;
}

static int policy_row_key(const struct policy_reader *reader, const struct conf_entry *entry,
                          struct policy_row *row)
{
    int number = 0;

    if (strcmp(entry->key, "kind") == 0) {
        number = policy_word(reader, entry, verdict_kind_name, 1, VERDICT_KIND_COUNT);
        row->kinds |= number < 0 ? 0 : 1u << number;
    } else if (strcmp(entry->key, "layer") == 0) {
        number = policy_word(reader, entry, verdict_layer_name, 0, LAYER_COUNT);
        row->layers |= number < 0 ? 0 : 1u << number;
    } else if (strcmp(entry->key, "severity") == 0) {
        number =
            policy_word(reader, entry, finding_severity_name, FINDING_INFO, FINDING_SEVERITY_COUNT);
        row->severity = (uint8_t)MAX(number, 0);
    } else if (strcmp(entry->key, "confidence") == 0) {
        number = policy_number(reader, entry, 1, false, &row->confidence);
    } else if (strcmp(entry->key, "action") == 0) {
        number = policy_row_action(reader, entry, row);
    } else if (strcmp(entry->key, "reason") == 0) {
        number = policy_row_text(reader, entry, row);
    } else {
        number = conf_error(reader->conf, entry->at, reader->err,
                            "unknown key '%s' in row '%s'; expected kind, layer, severity, "
                            "confidence, action or reason",
                            entry->key, entry->section);
    }
    return number < 0 ? number : 0;
}

static bool policy_section_is_fixed(const char *section)
{
    return strcmp(section, POLICY_LIMITS) == 0 || strcmp(section, POLICY_SEVERITY) == 0;
}

static int policy_row_begin(const struct policy_reader *reader, const struct conf_entry *entry)
{
    struct policy_table *table = reader->table;
    struct policy_row *row = &table->row[table->rows];

    if (table->rows == POLICY_ROWS)
        return conf_error(reader->conf, entry->at, reader->err, "more than %d rows", POLICY_ROWS);
    if (strlen(entry->section) >= sizeof(row->name) || strpbrk(entry->section, ": \n"))
        return conf_error(reader->conf, entry->at, reader->err,
                          "name of row '%.40s': expected at most %zu letters, no blank or colon",
                          entry->section, sizeof(row->name) - 1);
    *row = (struct policy_row){ .severity = FINDING_INFO };
    snprintf(row->name, sizeof(row->name), "%s", entry->section);
    table->rows++;
    return 0;
}

/* A row that does nothing or gives no reason is a mistake of who wrote it. */
static int policy_rows_check(const struct policy_reader *reader)
{
    for (size_t i = 0, row = 0; i < reader->conf->count; i++) {
        const struct conf_entry *entry = &reader->conf->entry[i];

        if (entry->key || policy_section_is_fixed(entry->section))
            continue;
        if (!reader->table->row[row].action_count || !reader->table->row[row].reason[0])
            return conf_error(reader->conf, entry->at, reader->err, "row '%s' has no %s",
                              entry->section,
                              reader->table->row[row].action_count ? "reason" : "action");
        row++;
    }
    return 0;
}

static int policy_entry(const struct policy_reader *reader, const struct conf_entry *entry)
{
    if (!entry->key)
        return policy_section_is_fixed(entry->section) ? 0 : policy_row_begin(reader, entry);
    if (strcmp(entry->section, POLICY_LIMITS) == 0)
        return policy_limit(reader, entry);
    if (strcmp(entry->section, POLICY_SEVERITY) == 0)
        return policy_severity(reader, entry);
    return policy_row_key(reader, entry, &reader->table->row[reader->table->rows - 1]);
}

static int policy_read(const struct conf *conf, struct policy_table *table, struct err *err)
{
    const struct policy_reader reader = { conf, table, err };
    const char *slash = strrchr(conf->file, '/');
    bool exits = false;
    int result = 0;

    table->rows = 0;
    snprintf(table->name, sizeof(table->name), "%s", slash ? slash + 1 : conf->file);
    for (size_t i = 0; i < conf->count && result == 0; i++) {
        const struct conf_entry *entry = &conf->entry[i];

        if (entry->key && !exits && strcmp(entry->key, "no-restart-exit") == 0) {
            exits = true; /* its list takes the place of the default */
            table->exit_count = 0;
        }
        result = policy_entry(&reader, entry);
    }
    return result < 0 ? result : policy_rows_check(&reader);
}

static int policy_read_default(struct policy_table *ret, struct err *err)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    int result = conf_parse("default", policy_default, policy_default_size, &conf, err);

    return result < 0 ? result : policy_read(&conf, ret, err);
}

int policy_file_take(const struct conf *conf, struct policy_table *ret, struct err *err)
{
    struct policy_table table = { .rows = 0 };
    int result = policy_read_default(&table, err);

    if (result == 0 && conf)
        result = policy_read(conf, &table, err);
    if (result < 0)
        return result;
    *ret = table;
    return 0;
}

int policy_file_read(const char *path, struct policy_table *ret, struct err *err)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    int result = path ? conf_read(path, &conf, err) : 0;

    return result < 0 ? result : policy_file_take(path ? &conf : NULL, ret, err);
}
