/* environments_compare.c - groups pairs by name, and compares the values of each name.
 *
 * A library is named by its file, so that two versions of it are two values of one name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/environments.h"
#include "core/clean.h"

struct name_row {
    char name[FACT_NAME];
    const struct rank_pair *pair;
};

struct
    name_table { /* by name, those whose values are known first; of one name the most frequent value first */
    struct name_row *row;
    size_t count;
    const struct environments_attempt *attempt;
};

struct name_value { /* of a name; value "": ranks that do not have it */
    const char *value, *node;
    uint32_t ranks, first_rank;
};

static void name_table_fini(struct name_table *table)
{
    free(table->row);
}

/* "libnccl.so.2.28.9 8f3c…" → "libnccl" */
static void name_of(const struct environment_pair *pair, char out[static FACT_NAME])
{
    const char *end = strcmp(pair->name, "library") == 0 ? strstr(pair->value, ".so") : NULL;

    if (end)
        snprintf(out, FACT_NAME, "%.*s", (int)(end - pair->value), pair->value);
    else
        snprintf(out, FACT_NAME, "%s", pair->name);
}

static int name_compare(const struct name_row *one, const struct name_row *other)
{
    if (one->pair->pair.digest != other->pair->pair.digest)
        return one->pair->pair.digest ? 1 : -1;
    return strcmp(one->name, other->name);
}

static int name_row_compare(const void *a, const void *b)
{
    const struct name_row *one = a, *other = b;
    int order = name_compare(one, other);

    if (order)
        return order;
    if (one->pair->ranks != other->pair->ranks)
        return one->pair->ranks > other->pair->ranks ? -1 : 1;
    if (one->pair->first_rank != other->pair->first_rank)
        return one->pair->first_rank < other->pair->first_rank ? -1 : 1;
    return strcmp(one->pair->pair.value, other->pair->pair.value);
}

static int name_table_fill(struct name_table *table, const struct environments_attempt *attempt)
{
    table->attempt = attempt;
    table->row = calloc(attempt->pairs + 1, sizeof(*table->row));
    if (!table->row)
        return -ENOMEM;
    for (size_t i = 0; i < attempt->pairs; i++) {
        table->row[i].pair = &attempt->pair[i];
        name_of(&attempt->pair[i].pair, table->row[i].name);
    }
    table->count = attempt->pairs;
    qsort(table->row, table->count, sizeof(*table->row), name_row_compare);
    return 0;
}

static size_t name_end(const struct name_table *table, size_t at)
{
    size_t end = at + 1;

    while (end < table->count && name_compare(&table->row[at], &table->row[end]) == 0)
        end++;
    return end;
}

/* Ranks that do not have it; where pairs were forgotten nobody knows. */
static uint32_t name_unset(const struct name_table *table, size_t at, size_t end)
{
    uint64_t with = 0;

    for (size_t i = at; i < end; i++)
        with += table->row[i].pair->ranks;
    return table->attempt->forgotten || with >= table->attempt->ranks
               ? 0
               : table->attempt->ranks - (uint32_t)with;
}

static struct name_value name_value_of(const struct name_row *row)
{
    return (struct name_value){ row->pair->pair.value, row->pair->node, row->pair->ranks,
                                row->pair->first_rank };
}

/* The value that most ranks have.  False: each rank has its own, or nearly so. */
static bool name_usual(const struct name_table *table, size_t at, size_t end,
                       struct name_value *ret)
{
    uint32_t unset = name_unset(table, at, end), ranks = table->attempt->ranks;

    *ret = name_value_of(&table->row[at]);
    if (unset > ret->ranks)
        *ret = (struct name_value){ .value = "", .node = "", .ranks = unset };
    return ret->ranks > ranks / 2 || (ranks == 2 && !table->row[at].pair->pair.digest);
}

static void environments_difference_add(struct environment_differences *ret,
                                        const struct name_row *row, const struct name_value *usual,
                                        const struct name_value *other)
{
    struct environment_difference *one;

    if (ret->count++ >= ENVIRONMENT_DIFFERENCES)
        return;
    one = &ret->list[ret->count - 1];
    *one = (struct environment_difference){ .digest = row->pair->pair.digest,
                                            .usual_ranks = usual->ranks,
                                            .other_ranks = other->ranks,
                                            .other_rank = other->first_rank };
    memcpy(one->name, row->name, sizeof(one->name));
    snprintf(one->usual, sizeof(one->usual), "%s", usual->value);
    snprintf(one->other, sizeof(one->other), "%s", other->value);
    snprintf(one->node, sizeof(one->node), "%s", other->node);
}

static void name_compare_ranks(const struct name_table *table, size_t at, size_t end,
                               struct environment_differences *ret)
{
    uint32_t unset = name_unset(table, at, end);
    struct name_value usual, other;

    if ((end - at == 1 && !unset) || !name_usual(table, at, end, &usual))
        return;
    for (size_t i = at; i < end; i++) {
        other = name_value_of(&table->row[i]);
        if (other.value != usual.value)
            environments_difference_add(ret, &table->row[i], &usual, &other);
    }
    other =
        (struct name_value){ .value = "", .node = "", .ranks = unset, .first_rank = UINT32_MAX };
    if (unset && usual.value[0])
        environments_difference_add(ret, &table->row[at], &usual, &other);
}

int environments_compare_ranks(const struct environments *environments,
                               struct environment_differences *ret)
{
    CLEAN(name_table_fini) struct name_table table = { 0 };

    if (name_table_fill(&table, &environments->now) < 0)
        return -ENOMEM;
    *ret = (struct environment_differences){ .ranks = environments->now.ranks };
    for (size_t at = 0, end; at < table.count; at = end) {
        end = name_end(&table, at);
        name_compare_ranks(&table, at, end, ret);
    }
    return 0;
}

/* The next name of either table, and what most ranks have there; what a table lacks is not set. */
static bool name_next(const struct name_table table[2], size_t at[2],
                      struct environment_differences *ret)
{
    const struct name_row *row = NULL;
    struct name_value value[2];
    bool known = true;

    for (int i = 0; i < 2; i++) {
        const struct name_row *mine = &table[i].row[at[i]];

        if (at[i] < table[i].count && (!row || name_compare(mine, row) < 0))
            row = mine;
    }
    if (!row)
        return false;
    for (int i = 0; i < 2; i++) {
        size_t end;

        value[i] = (struct name_value){ .value = "", .node = "", .ranks = table[i].attempt->ranks };
        if (at[i] >= table[i].count || name_compare(&table[i].row[at[i]], row) != 0) {
            known = known && !table[i].attempt->forgotten;
            continue;
        }
        end = name_end(&table[i], at[i]);
        known = name_usual(&table[i], at[i], end, &value[i]) && known;
        at[i] = end;
    }
    if (known && strcmp(value[0].value, value[1].value) != 0)
        environments_difference_add(ret, row, &value[0], &value[1]);
    return true;
}

static void name_tables_fini(struct name_table (*table)[2])
{
    name_table_fini(&(*table)[0]);
    name_table_fini(&(*table)[1]);
}

int environments_compare(const struct environments_attempt *before,
                         const struct environments_attempt *after,
                         struct environment_differences *ret)
{
    CLEAN(name_tables_fini) struct name_table table[2] = { 0 };
    size_t at[2] = { 0, 0 };
    bool both = before->ranks && after->ranks;

    if (both && (name_table_fill(&table[0], before) < 0 || name_table_fill(&table[1], after) < 0))
        return -ENOMEM;
    *ret = (struct environment_differences){ .ranks = after->ranks, .before = before->ranks };
    while (both && name_next(table, at, ret))
        ;
    return 0;
}
