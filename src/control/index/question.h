/* question.h - puts a query of the index together: only the filters that were asked for are in it, so that SQLite can use its
 * keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_INDEX_QUESTION_H
#define LOCKSTEP_CONTROL_INDEX_QUESTION_H

#include <sqlite3.h>

#include "control/index/index.h"
#include "core/buf.h"

#define QUESTION_BINDS 24

struct question {
    char sql[1536];
    size_t size;
    struct {
        bool is_text;
        const char *text;
        int64_t number;
    } bind[QUESTION_BINDS];
    int binds;
};

void question_add(struct question *question, const char *text);
void question_add_number(struct question *question, const char *text, int64_t number);
void question_add_text(struct question *question, const char *text, const char *value);
/* "AND cursor > ? ORDER BY cursor LIMIT ?", or from the newest down. */
void question_add_page(struct question *question, const struct index_query *query,
                       const char *cursor, int64_t shift);
void question_add_range(struct question *question, const char *column, uint64_t from, uint64_t to);

typedef int question_call(void *arg, sqlite3_stmt *statement); /* not 0: enough */
/* How many rows came; or what the call returned, or -errno. */
int64_t question_run(struct index *index, const struct question *question, question_call *call,
                     void *arg, struct err *err);

void question_text(sqlite3_stmt *statement, int at, char *ret, size_t room); /* a column */
struct reader question_reader(sqlite3_stmt *statement, int at);

#endif
