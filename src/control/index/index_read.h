/* index_read.h - rows as structs, and the columns that they are made of. */
#ifndef LOCKSTEP_CONTROL_INDEX_INDEX_READ_H
#define LOCKSTEP_CONTROL_INDEX_INDEX_READ_H

#include <sqlite3.h>

#include "control/index/index.h"
#include "core/buf.h"

#define ROW_RUN                                                                                    \
    "id, name, command, ranks, attempts, ended, closed, status, begin_real, end_real, steps,"      \
    " frames, log_bytes, damaged, ledger"
#define ROW_RANK                                                                                   \
    "rank, attempt, ring, pid, node, layout, step, beat_real, state, phase, ended, told, status,"  \
    " end_text"

void column_text(sqlite3_stmt *statement, int at, char *ret, size_t room);
struct reader column_cut(sqlite3_stmt *statement, int at);
void row_run(sqlite3_stmt *statement, struct index_run *ret);
void row_rank(sqlite3_stmt *statement, struct index_rank *ret);

#endif
