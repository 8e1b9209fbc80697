/* optrace_csv.c - strict: a value that does not match its column is an error with its line.
 *
 * An incomplete trace gives wrong numbers that look right, so no line is skipped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/optrace_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

enum csv_column {
    COLUMN_DP,
    COLUMN_STAGE,
    COLUMN_RANK,
    COLUMN_STEP,
    COLUMN_KIND,
    COLUMN_START,
    COLUMN_DURATION,
    COLUMN_SEQ,
    COLUMN_NEEDED, /* those before it must be there */
    COLUMN_CHUNK = COLUMN_NEEDED,
    COLUMN_GCHUNK,
    COLUMN_COUNT,
    COLUMN_OTHER = COLUMN_COUNT
};

static const char *const column_names[COLUMN_COUNT] = {
    [COLUMN_DP] = "dp_rank",        [COLUMN_STAGE] = "stage", [COLUMN_RANK] = "rank",
    [COLUMN_STEP] = "step",         [COLUMN_KIND] = "optype", [COLUMN_START] = "start_ts",
    [COLUMN_DURATION] = "duration", [COLUMN_SEQ] = "seq_id",  [COLUMN_CHUNK] = "mc",
    [COLUMN_GCHUNK] = "gmc",
};

#define CSV_COLUMNS 64
#define INDEX_LIMIT (1 << 20) /* ranks, stages, chunks, sequence numbers */
#define SECONDS_LIMIT 2.2e9 /* of a time, and 1e6 of a duration: differences of sums fit 63 bits */
#define STEP_LIMIT 9007199254740992.0 /* exact in a double */

struct csv {
    const char *at, *end;
    uint64_t line;
    uint8_t column[CSV_COLUMNS]; /* what each is */
    unsigned columns;
};

struct word {
    const char *at;
    size_t bytes;
    bool last; /* of its line */
};

static struct word csv_word(struct csv *csv)
{
    struct word word = { .at = csv->at, .last = true };

    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n')
        csv->at++;
    word.bytes = (size_t)(csv->at - word.at);
    if (csv->at < csv->end)
        word.last = *csv->at++ == '\n';
    if (word.last && word.bytes && word.at[word.bytes - 1] == '\r')
        word.bytes--;
    return word;
}

static uint8_t csv_column(const struct word *word)
{
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (strlen(column_names[i]) == word->bytes &&
            memcmp(column_names[i], word->at, word->bytes) == 0)
            return (uint8_t)i;
    }
    return COLUMN_OTHER;
}

static int csv_head(struct csv *csv, struct err *err)
{
    bool have[COLUMN_COUNT + 1] = { false };
    struct word word;

    csv->line = 1;
    do {
        word = csv_word(csv);
        if (csv->columns == CSV_COLUMNS)
            return err_set(err, -EPROTO, "line 1: more than %d columns", CSV_COLUMNS);
        csv->column[csv->columns] = csv_column(&word);
        if (csv->column[csv->columns] < COLUMN_COUNT && have[csv->column[csv->columns]])
            return err_set(err, -EPROTO, "line 1: column %.*s appears twice",
                           (int)MIN(word.bytes, 32u), word.at);
        have[csv->column[csv->columns++]] = true;
    } while (!word.last);
    for (unsigned i = 0; i < COLUMN_NEEDED; i++) {
        if (!have[i])
            return err_set(err, -EPROTO,
                           "line 1: no column %s; an op-level trace has dp_rank, stage, "
                           "rank, step, optype, start_ts, duration, seq_id",
                           column_names[i]);
    }
    return 0;
}

static int csv_bad(const struct csv *csv, unsigned column, const struct word *word,
                   const char *want, struct err *err)
{
    return err_set(err, -EPROTO, "line %" PRIu64 ": %s is '%.*s', expected %s", csv->line,
                   column_names[column], (int)MIN(word->bytes, 40u), word->at, want);
}

/* strtod knows hexadecimal, infinities and blanks; a trace has none of them. */
static bool csv_number(const struct word *word, double *ret)
{
    char text[64], *end;

    if (!word->bytes || word->bytes >= sizeof(text))
        return false;
    for (size_t i = 0; i < word->bytes; i++) {
        if (!strchr("0123456789+-.eE", word->at[i]) || !word->at[i])
            return false;
    }
    memcpy(text, word->at, word->bytes);
    text[word->bytes] = '\0';
    *ret = strtod(text, &end);
    return *end == '\0' && isfinite(*ret);
}

static bool csv_index(const struct word *word, bool may_lack, int32_t *ret)
{
    double value;

    if (may_lack && (word->bytes == 0 || (word->bytes == 3 && memcmp(word->at, "nan", 3) == 0))) {
        *ret = -1;
        return true;
    }
    if (!csv_number(word, &value) || value != floor(value) || value < (may_lack ? -1 : 0) ||
        value >= INDEX_LIMIT)
        return false;
    *ret = (int32_t)value;
    return true;
}

static int csv_time(const struct csv *csv, unsigned column, const struct word *word,
                    int64_t *ret_ns, struct err *err)
{
    double seconds;

    if (!csv_number(word, &seconds) || fabs(seconds) > SECONDS_LIMIT ||
        (column == COLUMN_DURATION && (seconds < 0 || seconds > 1e6)))
        return csv_bad(csv, column, word, "seconds", err);
    *ret_ns = llround(seconds * 1e9);
    return 0;
}

static int csv_value(const struct csv *csv, unsigned column, const struct word *word,
                     struct optrace_row *row, struct err *err)
{
    double step;
    int32_t index;
    int kind;

    switch (column) {
    case COLUMN_KIND:
        kind = optrace_kind_of(word->at, word->bytes);
        if (kind < 0)
            return csv_bad(csv, column, word, "a kind of op such as forward-compute", err);
        row->kind = (uint8_t)kind;
        return 0;
    case COLUMN_STEP:
        if (!csv_number(word, &step) || step != floor(step) || fabs(step) >= STEP_LIMIT)
            return csv_bad(csv, column, word, "a whole number", err);
        row->step = (int64_t)step;
        return 0;
    case COLUMN_START:
        return csv_time(csv, column, word, &row->start_ns, err);
    case COLUMN_DURATION:
        return csv_time(csv, column, word, &row->duration_ns, err);
    default:
        break;
    }
    if (!csv_index(word, column >= COLUMN_NEEDED, &index))
        return csv_bad(csv, column, word, "a small whole number", err);
    if (column == COLUMN_CHUNK)
        row->chunk = index;
    else if (column == COLUMN_GCHUNK)
        row->gchunk = index;
    else if (column == COLUMN_DP)
        row->dp = (uint32_t)index;
    else if (column == COLUMN_STAGE)
        row->stage = (uint32_t)index;
    else if (column == COLUMN_RANK)
        row->rank = (uint32_t)index;
    else
        row->seq = (uint32_t)index;
    return 0;
}

static int csv_row(struct csv *csv, struct optrace_row *row, struct err *err)
{
    unsigned at = 0;
    struct word word;

    *row = (struct optrace_row){ .chunk = -1, .gchunk = -1 };
    do {
        int result = 0;

        word = csv_word(csv);
        if (at < csv->columns && csv->column[at] < COLUMN_COUNT)
            result = csv_value(csv, csv->column[at], &word, row, err);
        if (result < 0)
            return result;
        at++;
    } while (!word.last);
    if (at != csv->columns)
        return err_set(err, -EPROTO, "line %" PRIu64 ": %u values, expected %u as in line 1",
                       csv->line, at, csv->columns);
    return 0;
}

int optrace_csv_read(const char *text, size_t bytes, struct optrace *ret, struct err *err)
{
    CLEAN(optrace_fini) struct optrace trace = { 0 };
    struct csv csv = { .at = text, .end = text + bytes };
    struct optrace_row row;
    int result = csv_head(&csv, err);

    while (result == 0 && csv.at < csv.end) {
        csv.line++;
        if (*csv.at == '\n') { /* an empty line, as at the end */
            csv.at++;
            continue;
        }
        result = csv_row(&csv, &row, err);
        if (result == 0 && optrace_add(&trace, &row) < 0)
            result = err_set(err, -ENOMEM, "line %" PRIu64 ": out of memory", csv.line);
    }
    if (result < 0)
        return result;
    if (!trace.count)
        return err_set(err, -EPROTO, "it contains no op");
    *ret = trace;
    trace.row = NULL;
    return 0;
}
