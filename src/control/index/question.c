/* question.c - the text of a query, its parameters, and its rows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/index/question.h"

#include <errno.h>
#include <stdio.h>

#include "control/index/index_private.h"
#include "core/clean.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 10000

void question_add(struct question *question, const char *text)
{
    size_t room = sizeof(question->sql) - question->size;
    int size = snprintf(question->sql + question->size, room, "%s", text);

    question->size += MIN((size_t)size, room - 1);
}

void question_add_number(struct question *question, const char *text, int64_t number)
{
    question_add(question, text);
    question->bind[question->binds].is_text = false;
    question->bind[question->binds++].number = number;
}

void question_add_text(struct question *question, const char *text, const char *value)
{
    question_add(question, text);
    question->bind[question->binds].is_text = true;
    question->bind[question->binds++].text = value;
}

void question_add_page(struct question *question, const struct index_query *query,
                       const char *cursor, int64_t shift)
{
    uint32_t limit = query->limit ? MIN(query->limit, LIMIT_MAX) : LIMIT_DEFAULT;
    char text[96];

    if (query->after) {
        snprintf(text, sizeof(text), " AND %s %s ?", cursor, query->newest_first ? "<" : ">");
        question_add_number(question, text,
                            (int64_t)MIN(query->after, (uint64_t)INT64_MAX) - shift);
    }
    snprintf(text, sizeof(text), " ORDER BY %s%s LIMIT ?", cursor,
             query->newest_first ? " DESC" : "");
    question_add_number(question, text, limit);
}

void question_add_range(struct question *question, const char *column, uint64_t from, uint64_t to)
{
    char text[96];

    snprintf(text, sizeof(text), " AND %s >= ?", column);
    if (from)
        question_add_number(question, text, (int64_t)MIN(from, INT64_MAX));
    snprintf(text, sizeof(text), " AND %s <= ?", column);
    if (to)
        question_add_number(question, text, (int64_t)MIN(to, INT64_MAX));
}

int64_t question_run(struct index *index, const struct question *question, question_call *call,
                     void *arg, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int64_t count = 0;
    int code, result = index_prepare(index, question->sql, &statement, err);

    if (result < 0)
        return result;
    for (int i = 0; i < question->binds; i++) {
        if (question->bind[i].is_text)
            sqlite3_bind_text(statement, i + 1, question->bind[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_int64(statement, i + 1, question->bind[i].number);
    }
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        result = call(arg, statement);
        if (result)
            return result == -ENOMEM ? err_nomem(err) : result;
        count++;
    }
    return code == SQLITE_DONE ? count : index_error(index, code, err);
}

void question_text(sqlite3_stmt *statement, int at, char *ret, size_t room)
{
    const unsigned char *text = sqlite3_column_text(statement, at);

    snprintf(ret, room, "%s", text ? (const char *)text : "");
}

struct reader question_reader(sqlite3_stmt *statement, int at)
{
    const void *data = sqlite3_column_blob(statement, at);
    int size = sqlite3_column_bytes(statement, at);

    return reader_of(data ? data : "", data ? (size_t)size : 0);
}
