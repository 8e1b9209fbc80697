/* index_ask.c - queries: pages of rows, by filter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "control/index/index_private.h"
#include "control/index/question.h"
#include "core/clean.h"

static int need_run(const struct index_query *query, struct err *err)
{
    return query->run && query->run[0] ? 0 : err_set(err, -EINVAL, "the parameter run is missing");
}

#define OF_RUN " WHERE run = (SELECT id FROM run WHERE name = ?)"

/* ---- rows as structs, and the columns that they are made of ---- */

#define ROW_RUN                                                                                    \
    "id, name, command, ranks, attempts, ended, closed, status, begin_real, end_real, steps,"      \
    " frames, log_bytes, damaged, ledger"
#define ROW_RANK                                                                                   \
    "rank, attempt, ring, pid, node, layout, step, beat_real, state, phase, ended, told, status,"  \
    " end_text"

static void row_run(sqlite3_stmt *statement, struct index_run *ret)
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
    question_text(statement, 1, ret->run, sizeof(ret->run));
    question_text(statement, 2, ret->command, sizeof(ret->command));
    ret->has_ledger = ledger_get(question_reader(statement, 14), &ret->ledger) == 0;
}

static void row_rank(sqlite3_stmt *statement, struct index_rank *ret)
{
    struct reader layout = question_reader(statement, 5);

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
        .ended_by_launcher = sqlite3_column_int(statement, 11) != 0,
        .status = sqlite3_column_int(statement, 12),
    };
    ret->cursor = UINT64_C(1) + ret->rank;
    question_text(statement, 4, ret->node, sizeof(ret->node));
    question_text(statement, 13, ret->end_text, sizeof(ret->end_text));
    ret->has_layout = reader_left(&layout) == sizeof(ret->layout);
    if (ret->has_layout)
        memcpy(ret->layout, layout.at, sizeof(ret->layout));
}

/* ---- runs ---- */

struct run_asker {
    index_run_call *call;
    void *arg;
};

static int give_run(void *arg, sqlite3_stmt *statement)
{
    const struct run_asker *asker = arg;
    struct index_run row;

    row_run(statement, &row);
    row.verdicts = (uint32_t)sqlite3_column_int64(statement, 15);
    row.verdicts_open = (uint32_t)sqlite3_column_int64(statement, 16);
    return asker->call(asker->arg, &row);
}

int64_t index_runs(struct index *index, const struct index_query *query, index_run_call *call,
                   void *arg, struct err *err)
{
    struct run_asker asker = { call, arg };
    struct question question = { .size = 0 };

    question_add(&question,
                 "SELECT " ROW_RUN ", (SELECT count(*) FROM verdict WHERE verdict.run = run.id),"
                 " (SELECT count(*) FROM verdict WHERE verdict.run = run.id AND open)"
                 " FROM run WHERE log_bytes IS NOT NULL");
    if (query->run && query->run[0])
        question_add_text(&question, " AND name = ?", query->run);
    if (query->open_only)
        question_add(&question, " AND NOT ended AND NOT closed");
    question_add_range(&question, "begin_real", (uint64_t)MAX(0, query->real_from_ns),
                       (uint64_t)MAX(0, query->real_to_ns));
    question_add_page(&question, query, "id", 0);
    return question_run(index, &question, give_run, &asker, err);
}

/* ---- ranks ---- */

struct rank_asker {
    index_rank_call *call;
    void *arg;
};

static int give_rank(void *arg, sqlite3_stmt *statement)
{
    const struct rank_asker *asker = arg;
    struct index_rank row;

    row_rank(statement, &row);
    return asker->call(asker->arg, &row);
}

int64_t index_ranks(struct index *index, const struct index_query *query, index_rank_call *call,
                    void *arg, struct err *err)
{
    struct rank_asker asker = { call, arg };
    struct question question = { .size = 0 };

    if (need_run(query, err) < 0)
        return -EINVAL;
    question_add_text(&question, "SELECT " ROW_RANK " FROM rank" OF_RUN, query->run);
    if (query->node && query->node[0])
        question_add_text(&question, " AND node = ?", query->node);
    if (query->rank > 0)
        question_add_number(&question, " AND rank = ?", query->rank - 1);
    question_add_page(&question, query, "rank", 1);
    return question_run(index, &question, give_rank, &asker, err);
}

/* ---- nodes ---- */

struct node_asker {
    index_node_call *call;
    void *arg;
};

static int give_node(void *arg, sqlite3_stmt *statement)
{
    const struct node_asker *asker = arg;
    struct index_node row = { .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
                              .hello_real_ns = sqlite3_column_int64(statement, 4),
                              .ranks = (uint32_t)sqlite3_column_int64(statement, 5) };

    question_text(statement, 1, row.run, sizeof(row.run));
    question_text(statement, 2, row.node, sizeof(row.node));
    question_text(statement, 3, row.version, sizeof(row.version));
    row.newest_real_ns = sqlite3_column_int64(statement, 6);
    row.bytes_per_second = sqlite3_column_double(statement, 7);
    row.has_traffic = fact_traffic_get(question_reader(statement, 8), &row.traffic) == 0;
    return asker->call(asker->arg, &row);
}

int64_t index_nodes(struct index *index, const struct index_query *query, index_node_call *call,
                    void *arg, struct err *err)
{
    struct node_asker asker = { call, arg };
    struct question question = { .size = 0 };

    question_add(&question, "SELECT node.id, run.name, node.node, version, hello_real,");
    if (query->run && query->run[0]) {
        /* One pass over the ranks: one for each node takes a second of the controller at 16,384 ranks on 2,048 nodes. */
        question_add_text(&question,
                          " coalesce(held.ranks, 0), heard_real, rate, traffic"
                          " FROM node JOIN run ON run.id = node.run"
                          " LEFT JOIN (SELECT node, count(*) AS ranks FROM rank" OF_RUN
                          " GROUP BY node) AS held ON held.node = node.node",
                          query->run);
        question_add_text(&question, " WHERE run.name = ?", query->run);
    } else {
        question_add(
            &question,
            " (SELECT count(*) FROM rank WHERE rank.run = run.id AND rank.node = node.node),"
            " heard_real, rate, traffic FROM node JOIN run ON run.id = node.run WHERE 1");
    }
    if (query->node && query->node[0])
        question_add_text(&question, " AND node.node = ?", query->node);
    question_add_page(&question, query, "node.id", 0);
    return question_run(index, &question, give_node, &asker, err);
}

/* ---- steps ---- */

struct step_asker {
    index_step_call *call;
    void *arg;
};

/* NAN: no rank reported one. */
static double index_mean(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(statement, column);
}

static int give_step(void *arg, sqlite3_stmt *statement)
{
    const struct step_asker *asker = arg;
    struct index_step row = {
        .column = (uint64_t)sqlite3_column_int64(statement, 0),
        .attempt = (uint32_t)sqlite3_column_int64(statement, 1),
        .step = (uint64_t)sqlite3_column_int64(statement, 2),
        .ranks = (uint32_t)sqlite3_column_int64(statement, 3),
        .begin_real_ns = sqlite3_column_int64(statement, 4),
        .duration_ns = sqlite3_column_int64(statement, 5),
        .median_ns = sqlite3_column_int64(statement, 6),
        .excess_ns = sqlite3_column_int64(statement, 7),
        .worst = (uint32_t)sqlite3_column_int64(statement, 8),
        .shape = (uint64_t)sqlite3_column_int64(statement, 9),
        .loss = index_mean(statement, 10),
        .tokens = index_mean(statement, 11),
    };

    row.cursor = row.column + 1;
    return asker->call(asker->arg, &row);
}

int64_t index_steps(struct index *index, const struct index_query *query, index_step_call *call,
                    void *arg, struct err *err)
{
    struct step_asker asker = { call, arg };
    struct question question = { .size = 0 };

    if (need_run(query, err) < 0)
        return -EINVAL;
    question_add_text(&question,
                      "SELECT col, attempt, step, ranks, begin_real, duration, median, excess, "
                      "worst, shape, loss,"
                      " tokens FROM step" OF_RUN,
                      query->run);
    question_add_range(&question, "step", query->step_from, query->step_to);
    question_add_range(&question, "begin_real", (uint64_t)MAX(0, query->real_from_ns),
                       (uint64_t)MAX(0, query->real_to_ns));
    question_add_page(&question, query, "col", 1);
    return question_run(index, &question, give_step, &asker, err);
}

/* ---- shapes ---- */

struct shape_asker {
    index_shape_call *call;
    void *arg;
};

static uint32_t index_dtypes_of(const void *payload, int bytes)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    uint32_t dtypes = 0;

    if (!payload || bytes <= 0 || fact_shape_get(reader_of(payload, (size_t)bytes), &shape) < 0)
        return 0;
    for (uint32_t i = 0; i < shape.count; i++)
        dtypes |= UINT32_C(1) << MIN(shape.item[i].dtype, 31);
    return dtypes & ~UINT32_C(1); /* 0: not known */
}

static int give_shape(void *arg, sqlite3_stmt *statement)
{
    const struct shape_asker *asker = arg;
    struct index_shape row = { .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
                               .hash = (uint64_t)sqlite3_column_int64(statement, 1),
                               .class = (uint64_t)sqlite3_column_int64(statement, 2),
                               .items = (uint32_t)sqlite3_column_int64(statement, 3),
                               .dtypes = index_dtypes_of(sqlite3_column_blob(statement, 4),
                                                         sqlite3_column_bytes(statement, 4)) };

    return asker->call(asker->arg, &row);
}

static int give_shape_items(void *arg, sqlite3_stmt *statement)
{
    return fact_shape_get(question_reader(statement, 0), arg) < 0 ? -EPROTO : 0;
}

int index_shape_read(struct index *index, const char *run, uint64_t hash, struct fact_shape *ret,
                     struct err *err)
{
    struct question question = { .size = 0 };
    int64_t count;

    question_add_text(&question, "SELECT payload FROM shape" OF_RUN, run);
    question_add_number(&question, " AND hash = ?", (int64_t)hash);
    question_add(&question, " LIMIT 1");
    count = question_run(index, &question, give_shape_items, ret, err);
    if (count < 0)
        return (int)count;
    return count ? 0 : err_set(err, -ENOENT, "the index does not have the shape of this step");
}

int64_t index_shapes(struct index *index, const struct index_query *query, index_shape_call *call,
                     void *arg, struct err *err)
{
    struct shape_asker asker = { call, arg };
    struct question question = { .size = 0 };

    if (need_run(query, err) < 0)
        return -EINVAL;
    question_add_text(&question, "SELECT id, hash, class, items, payload FROM shape" OF_RUN,
                      query->run);
    question_add_page(&question, query, "id", 0);
    return question_run(index, &question, give_shape, &asker, err);
}

/* ---- verdicts ---- */

struct verdict_asker {
    index_verdict_call *call;
    void *arg;
};

static int give_verdict(void *arg, sqlite3_stmt *statement)
{
    const struct verdict_asker *asker = arg;
    struct verdict verdict;

    if (verdict_get(question_reader(statement, 1), &verdict) < 0)
        return 0; /* as the log's readers do */
    return asker->call(asker->arg, (uint64_t)sqlite3_column_int64(statement, 0), &verdict);
}

/* Selects verdicts, for them and for their lines. */
static void add_verdicts(struct question *question, const struct index_query *query)
{
    if (query->run && query->run[0])
        question_add_text(question, " AND verdict.run = (SELECT id FROM run WHERE name = ?)",
                          query->run);
    if (query->id && query->id[0])
        question_add_text(question, " AND verdict.id = ?", query->id);
    if (query->kind)
        question_add_number(question, " AND kind = ?", query->kind);
    if (query->layer)
        question_add_number(question, " AND layer = ?", query->layer - 1);
    if (query->open_only)
        question_add(question, " AND open");
    if (query->rank > 0)
        question_add_number(question,
                            " AND EXISTS (SELECT 1 FROM verdict_rank v WHERE v.run = verdict.run"
                            " AND v.id = verdict.id AND v.rank = ?)",
                            query->rank - 1);
    if (query->node && query->node[0])
        question_add_text(question,
                          " AND EXISTS (SELECT 1 FROM verdict_node v WHERE v.run = verdict.run"
                          " AND v.id = verdict.id AND v.node = ?)",
                          query->node);
    question_add_range(question, "since_step", query->step_from, query->step_to);
    question_add_range(question, "since_real", (uint64_t)MAX(0, query->real_from_ns),
                       (uint64_t)MAX(0, query->real_to_ns));
}

int64_t index_verdicts(struct index *index, const struct index_query *query,
                       index_verdict_call *call, void *arg, struct err *err)
{
    struct verdict_asker asker = { call, arg };
    struct question question = { .size = 0 };

    question_add(&question, "SELECT seq, payload FROM verdict WHERE 1");
    add_verdicts(&question, query);
    question_add_page(&question, query, "seq", 0);
    return question_run(index, &question, give_verdict, &asker, err);
}

/* ---- lines of verdicts ---- */

struct evidence_asker {
    index_evidence_call *call;
    void *arg;
};

static int give_evidence(void *arg, sqlite3_stmt *statement)
{
    const struct evidence_asker *asker = arg;
    struct verdict verdict;
    const struct verdict_line *const lines[] = { [EVIDENCE_BECAUSE] = verdict.because,
                                                 [EVIDENCE_RULED_OUT] = verdict.ruled_out,
                                                 [EVIDENCE_ECHO] = verdict.echo };
    int role = sqlite3_column_int(statement, 1), line = sqlite3_column_int(statement, 2);

    if (verdict_get(question_reader(statement, 3), &verdict) < 0 || role < 0 ||
        role >= (int)COUNT(lines) || line < 0 || line >= VERDICT_LINES)
        return 0;
    return asker->call(asker->arg, &(struct index_evidence){
                                       .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
                                       .role = (enum evidence_role)role,
                                       .line = &lines[role][line],
                                       .verdict = &verdict });
}

int64_t index_evidence(struct index *index, const struct index_query *query,
                       index_evidence_call *call, void *arg, struct err *err)
{
    struct evidence_asker asker = { call, arg };
    struct question question = { .size = 0 };

    question_add(&question, "SELECT cursor, role, line, payload FROM evidence JOIN verdict"
                            " ON verdict.run = evidence.run AND verdict.id = evidence.id WHERE 1");
    if (query->source && query->source[0])
        question_add_text(&question, " AND source = ?", query->source);
    add_verdicts(&question, query);
    question_add_page(&question, query, "cursor", 0);
    return question_run(index, &question, give_evidence, &asker, err);
}

/* ---- ledgers ---- */

#define LEDGERS_SPREAD 99 /* where no limit is given */

struct ledger_asker {
    index_ledger_call *call;
    void *arg;
};

static int give_ledger(void *arg, sqlite3_stmt *statement)
{
    const struct ledger_asker *asker = arg;
    struct index_ledger row = { .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
                                .real_ns = sqlite3_column_int64(statement, 1) };

    if (ledger_get(question_reader(statement, 2), &row.ledger) < 0)
        return 0;
    return asker->call(asker->arg, &row);
}

int64_t index_ledgers(struct index *index, const struct index_query *query, index_ledger_call *call,
                      void *arg, struct err *err)
{
    struct ledger_asker asker = { call, arg };
    struct question question = { .size = 0 };

    if (need_run(query, err) < 0)
        return -EINVAL;
    question_add_text(&question, "SELECT id, real, payload FROM ledger" OF_RUN, query->run);
    question_add_range(&question, "real", (uint64_t)MAX(0, query->real_from_ns),
                       (uint64_t)MAX(0, query->real_to_ns));
    if (query->spread) { /* by number: only their ids are walked, not what is in them */
        question_add_text(&question,
                          " AND id IN (SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id)"
                          " AS number, count(*) OVER () AS all_rows FROM ledger" OF_RUN ")",
                          query->run);
        question_add_number(&question,
                            " WHERE number = all_rows OR number % (all_rows / ? + 1) = 0)",
                            query->limit ? MAX(query->limit, 2) - 1 : LEDGERS_SPREAD);
    }
    question_add_page(&question, query, "id", 0);
    return question_run(index, &question, give_ledger, &asker, err);
}

/* ---- a follower's state ---- */

static int ranks_failed(const struct index_follower *follower, int result, struct err *err)
{
    if (result != -E2BIG)
        return err_nomem(err);
    return err_set(
        err, result,
        "the index has more than %d ranks of run %s; delete it, and it is rebuilt from the logs",
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

static int index_load_shapes(struct index_follower *follower, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(follower->index, "SELECT payload FROM shape WHERE run = ?",
                                     &statement, err);

    if (result < 0)
        return result;
    sqlite3_bind_int64(statement, 1, follower->id);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };

        if (fact_shape_get(question_reader(statement, 0), &shape) == 0 &&
            follower_shape(follower, &shape) < 0)
            return err_nomem(err);
    }
    return code == SQLITE_DONE ? 0 : index_error(follower->index, code, err);
}

static int index_load_agent(struct index_follower *follower, sqlite3_stmt *statement)
{
    struct traffic_agent *agent =
        traffic_agent(&follower->traffic, (uint64_t)sqlite3_column_int64(statement, 0));

    if (!agent)
        return -ENOMEM;
    question_text(statement, 2, agent->node, sizeof(agent->node));
    agent->newest_real_ns = sqlite3_column_int64(statement, 3);
    agent->bytes_per_second = sqlite3_column_double(statement, 4);
    agent->boot = (uint64_t)sqlite3_column_int64(statement, 5);
    agent->has_traffic = fact_traffic_get(question_reader(statement, 6), &agent->now) == 0;
    return 0;
}

static int index_load_nodes(struct index_follower *follower, struct err *err)
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

        if (!clock || index_load_agent(follower, statement) < 0)
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
        result = index_load_shapes(follower, err);
    return result < 0 ? result : index_load_nodes(follower, err);
}
