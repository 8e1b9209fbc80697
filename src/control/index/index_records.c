/* index_records.c - findings, decisions, outcomes and checks: one table for all four.
 *
 * A record is the newest frame of its type and key.  Only the controller's decisions are decisions; findings of a node's root
 * daemon and of the run's own processes are different records, also where they have the same id.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/index/index_private.h"
#include "control/index/question.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"

struct record { /* what is asked for of a frame */
    char key[4 * FACT_NAME], id[FINDING_ID];
    unsigned kind;
    int64_t real_ns;
    bool root;
    const uint32_t *rank;
    size_t ranks;
    const char (*node)[FACT_NAME];
    size_t nodes;
};

static int record_execute(struct index_follower *follower, uint16_t type,
                          const struct record *record, const char *sql, int64_t rank,
                          const char *node)
{
    return index_execute(follower->index, follower->err, sql, "iitit", follower->id, (int64_t)type,
                         record->key, rank, node);
}

static int record_put(struct index_follower *follower, const struct frame *frame,
                      const struct record *record)
{
    int result = index_execute(
        follower->index, follower->err,
        "INSERT OR REPLACE INTO record (run, type, key, id, kind, real, root, payload)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        "iittiiib", follower->id, (int64_t)frame->type, record->key, record->id,
        (int64_t)record->kind, record->real_ns, (int64_t)record->root, frame->payload,
        frame->payload_bytes);

    if (result == 0)
        result = index_execute(follower->index, follower->err,
                               "DELETE FROM record_name WHERE run = ? AND type = ? AND key = ?",
                               "iit", follower->id, (int64_t)frame->type, record->key);
    for (size_t i = 0; i < record->ranks && result == 0; i++)
        result =
            record_execute(follower, frame->type, record,
                           "INSERT INTO record_name VALUES (?, ?, ?, ?, ?)", record->rank[i], NULL);
    for (size_t i = 0; i < record->nodes && result == 0; i++)
        result =
            record_execute(follower, frame->type, record,
                           "INSERT INTO record_name VALUES (?, ?, ?, ?, ?)", -1, record->node[i]);
    return result;
}

static int index_take_finding(struct index_follower *follower, const struct frame *frame,
                              struct reader in)
{
    struct finding finding;
    struct record record = { .root = frame->sender == site_sender() };

    if (finding_get(in, &finding) < 0)
        return 0;
    snprintf(record.key, sizeof(record.key), "%d %s %s", record.root, finding.node, finding.id);
    snprintf(record.id, sizeof(record.id), "%s", finding.id);
    record.kind = finding.kind;
    record.real_ns = finding.real_ns;
    record.rank = finding.rank;
    record.ranks = MIN(finding.rank_count, FINDING_RANKS);
    record.node = &finding.node;
    record.nodes = 1;
    return record_put(follower, frame, &record);
}

static int index_take_decision(struct index_follower *follower, const struct frame *frame,
                               struct reader in)
{
    struct decision decision;
    struct record record = { .root = true };

    if (decision_get(in, &decision) < 0)
        return 0;
    snprintf(record.key, sizeof(record.key), "%s", decision.id);
    snprintf(record.id, sizeof(record.id), "%s", decision.id);
    record.kind = decision.action;
    record.real_ns = decision.decided_real_ns;
    record.rank = decision.rank;
    record.ranks = MIN(decision.rank_count, DECISION_RANKS);
    record.node = decision.node;
    record.nodes = MIN(decision.node_count, DECISION_NODES);
    return record_put(follower, frame, &record);
}

static int index_take_outcome(struct index_follower *follower, const struct frame *frame,
                              struct reader in)
{
    struct outcome outcome;
    struct record record = { .root = frame->sender == site_sender() };

    if (outcome_get(in, &outcome) < 0)
        return 0;
    snprintf(record.key, sizeof(record.key), "%s %s", outcome.decision, outcome.part);
    snprintf(record.id, sizeof(record.id), "%s", outcome.decision);
    record.kind = outcome.result;
    record.real_ns = outcome.ended_real_ns;
    return record_put(follower, frame, &record);
}

static int index_take_check(struct index_follower *follower, const struct frame *frame,
                            struct reader in)
{
    struct check check;
    struct record record = { .root = frame->sender == site_sender() };

    if (check_get(in, &check) < 0)
        return 0;
    snprintf(record.key, sizeof(record.key), "%s %s %s %s", check.node, check.device, check.stage,
             check.name);
    record.kind = check.state;
    record.real_ns = check.real_ns;
    record.node = &check.node;
    record.nodes = 1;
    return record_put(follower, frame, &record);
}

int follower_record(struct index_follower *follower, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    bool own = frame->sender == follower->self;

    if (frame->type == FRAME_DECISION && own)
        return index_take_decision(follower, frame, in);
    if (frame->type == FRAME_FINDING && !own)
        return index_take_finding(follower, frame, in);
    if (frame->type == FRAME_OUTCOME && !own)
        return index_take_outcome(follower, frame, in);
    return frame->type == FRAME_CHECK && !own ? index_take_check(follower, frame, in) : 0;
}

/* ---- queries ---- */

struct record_asker {
    index_record_call *call;
    void *arg;
};

static int give_record(void *arg, sqlite3_stmt *statement)
{
    const struct record_asker *asker = arg;
    struct index_record row = { .cursor = (uint64_t)sqlite3_column_int64(statement, 0),
                                .root = sqlite3_column_int(statement, 2) != 0,
                                .payload = question_reader(statement, 3) };

    question_text(statement, 1, row.run, sizeof(row.run));
    return asker->call(asker->arg, &row);
}

#define NAMED                                                                                      \
    " AND EXISTS (SELECT 1 FROM record_name n WHERE n.run = record.run AND n.type = record.type"   \
    " AND n.key = record.key AND "

int64_t index_records(struct index *index, uint16_t type, const struct index_query *query,
                      index_record_call *call, void *arg, struct err *err)
{
    struct record_asker asker = { call, arg };
    struct question question = { .size = 0 };

    question_add_number(&question,
                        "SELECT seq, run.name, root, payload FROM record"
                        " JOIN run ON run.id = record.run WHERE type = ?",
                        type);
    if (query->run && query->run[0])
        question_add_text(&question, " AND run.name = ?", query->run);
    if (query->id && query->id[0])
        question_add_text(&question, " AND record.id = ?", query->id);
    if (query->kind)
        question_add_number(&question, " AND kind = ?", query->kind);
    if (query->rank > 0)
        question_add_number(&question, NAMED "n.rank = ?)", query->rank - 1);
    if (query->node && query->node[0])
        question_add_text(&question, NAMED "n.node = ?)", query->node);
    question_add_range(&question, "real", (uint64_t)MAX(0, query->real_from_ns),
                       (uint64_t)MAX(0, query->real_to_ns));
    question_add_page(&question, query, "seq", 0);
    return question_run(index, &question, give_record, &asker, err);
}
