/* index_load.c - rows of the index as structs: for a follower that goes on, and for who asks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/index/index_private.h"
#include "control/index/index_read.h"
#include "core/clean.h"

void column_text(sqlite3_stmt *statement, int at, char *ret, size_t room)
{
    const unsigned char *text = sqlite3_column_text(statement, at);

    snprintf(ret, room, "%s", text ? (const char *)text : "");
}

struct reader column_cut(sqlite3_stmt *statement, int at)
{
    const void *data = sqlite3_column_blob(statement, at);
    int size = sqlite3_column_bytes(statement, at);

    return reader_of(data ? data : "", data ? (size_t)size : 0);
}

void row_run(sqlite3_stmt *statement, struct index_run *ret)
{
    *ret = (struct index_run){
        .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
        .ranks = (uint32_t)sqlite3_column_int64(statement, 3),
        .attempts = (uint32_t)sqlite3_column_int64(statement, 4),
        .ended = sqlite3_column_int(statement, 5) != 0,
        .closed = sqlite3_column_int(statement, 6) != 0,
        .status = sqlite3_column_int(statement, 7),
        .begin_real_ns = sqlite3_column_int64(statement, 8),
        .end_real_ns = sqlite3_column_int64(statement, 9),
        .steps = (uint64_t)sqlite3_column_int64(statement, 10),
        .frames = (uint64_t)sqlite3_column_int64(statement, 11),
        .log_bytes = (uint64_t)sqlite3_column_int64(statement, 12),
        .damaged_bytes = (uint64_t)sqlite3_column_int64(statement, 13),
    };
    column_text(statement, 1, ret->run, sizeof(ret->run));
    column_text(statement, 2, ret->command, sizeof(ret->command));
    ret->has_ledger = ledger_get(column_cut(statement, 14), &ret->ledger) == 0;
}

void row_rank(sqlite3_stmt *statement, struct index_rank *ret)
{
    struct reader layout = column_cut(statement, 5);

    *ret = (struct index_rank){
        .rank = (uint32_t)sqlite3_column_int64(statement, 0),
        .attempt = (uint32_t)sqlite3_column_int64(statement, 1),
        .ring = (uint32_t)sqlite3_column_int64(statement, 2),
        .pid = (uint32_t)sqlite3_column_int64(statement, 3),
        .step = (uint64_t)sqlite3_column_int64(statement, 6),
        .beat_real_ns = sqlite3_column_int64(statement, 7),
        .state = (char)sqlite3_column_int(statement, 8),
        .phase = (uint8_t)sqlite3_column_int(statement, 9),
        .ended = sqlite3_column_int(statement, 10) != 0,
        .told = sqlite3_column_int(statement, 11) != 0,
        .status = sqlite3_column_int(statement, 12),
    };
    ret->cursor = UINT64_C(1) + ret->rank;
    column_text(statement, 4, ret->node, sizeof(ret->node));
    column_text(statement, 13, ret->end_text, sizeof(ret->end_text));
    ret->has_layout = reader_left(&layout) == sizeof(ret->layout);
    if (ret->has_layout)
        memcpy(ret->layout, layout.at, sizeof(ret->layout));
}

/* ---- a follower's state ---- */

static int ranks_failed(const struct index_follower *follower, int result, struct err *err)
{
    if (result != -E2BIG)
        return err_nomem(err);
    return err_set(
        err, result,
        "the index has more than %d ranks of run %s: delete it, it is made again from the logs",
        COLUMN_RANKS_MAX, follower->run);
}

static int load_run(struct index_follower *follower, bool *found, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(follower->index,
                                     "SELECT " ROW_RUN ", position, position_frames,"
                                     " position_damaged, log_id, done_attempt, done_step, clock"
                                     " FROM run WHERE name = ?",
                                     &statement, err);

    if (result < 0)
        return result;
    sqlite3_bind_text(statement, 1, follower->run, -1, SQLITE_STATIC);
    code = sqlite3_step(statement);
    *found = code == SQLITE_ROW;
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? 0 : index_error(follower->index, code, err);
    row_run(statement, &follower->row);
    follower->id = (int64_t)follower->row.cursor;
    follower->start = (struct log_mark){
        .offset = (uint64_t)sqlite3_column_int64(statement, 15),
        .frames = (uint64_t)sqlite3_column_int64(statement, 16),
        .damaged = (uint64_t)sqlite3_column_int64(statement, 17),
    };
    follower->log_id = (uint64_t)sqlite3_column_int64(statement, 18);
    columns_resume(follower->columns, (uint32_t)sqlite3_column_int64(statement, 19),
                   (uint64_t)sqlite3_column_int64(statement, 20));
    follower->clock_ns = sqlite3_column_int64(statement, 21);
    result = columns_world(follower->columns, follower->row.ranks);
    return result < 0 ? ranks_failed(follower, result, err) : 0;
}

static int load_ranks(struct index_follower *follower, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(follower->index, "SELECT " ROW_RANK " FROM rank WHERE run = ?",
                                     &statement, err);

    if (result < 0)
        return result;
    sqlite3_bind_int64(statement, 1, follower->id);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct index_rank row;
        struct rank_state *state;

        row_rank(statement, &row);
        result = columns_feed(follower->columns, row.rank);
        if (result < 0)
            return ranks_failed(follower, result, err);
        state = follower_rank(follower, row.rank);
        if (!state)
            return err_nomem(err);
        state->row = row;
    }
    return code == SQLITE_DONE ? 0 : index_error(follower->index, code, err);
}

static int load_shapes(struct index_follower *follower, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(follower->index, "SELECT payload FROM shape WHERE run = ?",
                                     &statement, err);

    if (result < 0)
        return result;
    sqlite3_bind_int64(statement, 1, follower->id);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };

        if (fact_shape_get(column_cut(statement, 0), &shape) == 0 &&
            follower_shape(follower, &shape) < 0)
            return err_nomem(err);
    }
    return code == SQLITE_DONE ? 0 : index_error(follower->index, code, err);
}

static int load_agent(struct index_follower *follower, sqlite3_stmt *statement)
{
    struct traffic_agent *agent =
        traffic_agent(&follower->traffic, (uint64_t)sqlite3_column_int64(statement, 0));

    if (!agent)
        return -ENOMEM;
    column_text(statement, 2, agent->node, sizeof(agent->node));
    agent->heard_real_ns = sqlite3_column_int64(statement, 3);
    agent->bytes_per_second = sqlite3_column_double(statement, 4);
    agent->boot = (uint64_t)sqlite3_column_int64(statement, 5);
    agent->told = fact_traffic_get(column_cut(statement, 6), &agent->now) == 0;
    return 0;
}

static int load_nodes(struct index_follower *follower, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(follower->index,
                                     "SELECT sender, clock, node, heard_real, rate, boot, traffic"
                                     " FROM node WHERE run = ?",
                                     &statement, err);

    if (result < 0)
        return result;
    sqlite3_bind_int64(statement, 1, follower->id);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        uint64_t *clock =
            map_put(&follower->clock, (uint64_t)sqlite3_column_int64(statement, 0), 0);

        if (!clock || load_agent(follower, statement) < 0)
            return err_nomem(err);
        *clock = (uint64_t)sqlite3_column_int64(statement, 1);
    }
    return code == SQLITE_DONE ? 0 : index_error(follower->index, code, err);
}

int follower_load(struct index_follower *follower, struct err *err)
{
    bool found;
    int result = load_run(follower, &found, err);

    if (result == 0 && !found) {
        result = index_execute(follower->index, err, "INSERT INTO run (name) VALUES (?)", "t",
                               follower->run);
        return result < 0 ? result : load_run(follower, &found, err);
    }
    if (result == 0)
        result = load_ranks(follower, err);
    if (result == 0)
        result = load_shapes(follower, err);
    return result < 0 ? result : load_nodes(follower, err);
}
