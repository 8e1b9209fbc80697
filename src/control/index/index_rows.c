/* index_rows.c - the changes that each frame makes in the index.
 *
 * Every change is idempotent, because a restarted process reads some frames again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/index/index_private.h"
#include "core/clean.h"
#include "core/time.h"

#define SHAPES_MAX 65536

struct rank_state *follower_rank(struct index_follower *follower, uint32_t rank)
{
    uint64_t *place;

    if (rank >= COLUMN_RANKS_MAX)
        return NULL;
    place = map_put(&follower->rank_place, rank, UINT64_MAX);
    if (!place)
        return NULL;
    if (*place != UINT64_MAX)
        return &follower->rank[*place];
    if (!ARRAY_FIT(follower->rank, follower->rank_room, follower->ranks + 1))
        return NULL;
    *place = follower->ranks;
    follower->rank[follower->ranks] = (struct rank_state){ .row.rank = rank };
    return &follower->rank[follower->ranks++];
}

static int64_t index_real_of(const struct index_follower *follower, const struct frame *frame,
                             int64_t mono_ns)
{
    const uint64_t *clock = map_get(&follower->clock, frame->sender);
    int64_t offset_ns = clock ? (int64_t)*clock : follower->clock_ns;

    return offset_ns ? mono_ns + offset_ns : 0;
}

static int row_take_hello(struct index_follower *follower, const struct frame *frame,
                          struct reader in)
{
    struct fact_hello fact;
    uint64_t *clock;

    if (fact_hello_get(in, &fact) < 0)
        return 0;
    clock = map_put(&follower->clock, frame->sender, 0);
    if (!clock)
        return -ENOMEM;
    *clock = (uint64_t)(fact.real_ns - fact.mono_ns);
    if (fact.kind != SENDER_AGENT)
        return 0;
    return index_execute(follower->index, follower->err,
                         "INSERT INTO node (run, node, version, hello_real, sender, clock)"
                         " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, node) DO UPDATE SET"
                         " version = excluded.version, hello_real = excluded.hello_real,"
                         " sender = excluded.sender, clock = excluded.clock",
                         "ittiii", follower->id, fact.node, fact.version, fact.real_ns,
                         (int64_t)frame->sender, (int64_t)*clock);
}

static int row_take_ring(struct index_follower *follower, struct reader in)
{
    struct fact_ring fact;
    struct rank_state *state;

    if (fact_ring_get(in, &fact) < 0 || fact.rank >= COLUMN_RANKS_MAX ||
        fact.world > COLUMN_RANKS_MAX)
        return 0;
    state = follower_rank(follower, fact.rank);
    if (!state)
        return -ENOMEM;
    follower->row.ranks = MAX(follower->row.ranks, MAX(fact.world, fact.rank + 1));
    if (fact.attempt >= state->row.attempt) {
        bool newer = fact.attempt > state->row.attempt;

        state->row.attempt = fact.attempt;
        state->row.ring = fact.ring;
        state->row.pid = fact.pid;
        memcpy(state->row.node, fact.node, sizeof(fact.node));
        state->row.has_layout = fact.has_layout;
        memcpy(state->row.layout, fact.layout, sizeof(fact.layout));
        if (newer) {
            state->row.ended = state->row.ended_by_launcher = false;
            state->row.end_text[0] = '\0';
        }
        state->dirty = follower->urgent = true;
    }
    return columns_feed(follower->columns, fact.rank)
               ?: columns_world(follower->columns, follower->row.ranks);
}

int follower_shape(struct index_follower *follower, struct fact_shape *shape)
{
    uint64_t *at;

    if (follower->shape_count == SHAPES_MAX)
        return 0;
    if (!ARRAY_FIT(follower->shapes, follower->shape_room, follower->shape_count + 1))
        return -ENOMEM;
    at = map_put(&follower->shape, shape->hash, follower->shape_count);
    if (!at)
        return -ENOMEM;
    if (*at == follower->shape_count) {
        follower->shapes[follower->shape_count++] = *shape;
        shape->item = NULL; /* given away */
    }
    return 0;
}

static int row_take_shape(struct index_follower *follower, const struct frame *frame,
                          struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    uint64_t hash;
    uint32_t items;
    int result;

    if (fact_shape_get(in, &shape) < 0)
        return 0;
    hash = shape.hash;
    items = shape.count;
    result = index_execute(follower->index, follower->err,
                           "INSERT OR IGNORE INTO shape (run, hash, class, items, payload)"
                           " VALUES (?, ?, ?, ?, ?)",
                           "iiiib", follower->id, (int64_t)hash, (int64_t)shape.class,
                           (int64_t)items, frame->payload, frame->payload_bytes);
    return result < 0 ? result : follower_shape(follower, &shape);
}

static int row_take_step(struct index_follower *follower, const struct frame *frame,
                         struct reader in)
{
    const uint64_t *at = map_get(&follower->shape, fact_step_shape(in));
    CLEAN(fact_step_fini) struct fact_step step = { 0 };
    struct rank_state *state;

    if (!at || fact_step_get(in, &follower->shapes[*at], &step) < 0 ||
        step.rank >= COLUMN_RANKS_MAX)
        return 0;
    state = follower_rank(follower, step.rank);
    if (!state)
        return -ENOMEM;
    follower->row.ranks = MAX(follower->row.ranks, step.rank + 1);
    state->row.step = step.step;
    state->dirty = true;
    return columns_step(follower->columns, &step, fact_step_local_ns(&step, &follower->shapes[*at]),
                        index_real_of(follower, frame, step.begin_ns), &follower->frame_at);
}

static int index_take_beat(struct index_follower *follower, const struct frame *frame,
                           struct reader in)
{
    struct fact_beat fact;
    struct rank_state *state;

    if (fact_beat_get(in, &fact) < 0 || fact.rank >= COLUMN_RANKS_MAX)
        return 0;
    state = follower_rank(follower, fact.rank);
    if (!state)
        return -ENOMEM;
    state->row.beat_real_ns = index_real_of(follower, frame, fact.mono_ns);
    state->row.state = fact.state;
    state->row.phase = fact.phase;
    state->row.step = fact.step;
    state->dirty = true;
    return 0;
}

static int index_take_exit(struct index_follower *follower, struct reader in)
{
    struct fact_exit fact;
    struct rank_state *state;

    if (fact_exit_get(in, &fact) < 0 || fact.rank >= COLUMN_RANKS_MAX)
        return 0;
    state = follower_rank(follower, fact.rank);
    if (!state)
        return -ENOMEM;
    if (fact.attempt < state->row.attempt)
        return 0;
    state->row.attempt = fact.attempt;
    state->row.ended = true;
    state->row.ended_by_launcher = fact.ended_by_launcher;
    state->row.status = fact.status;
    memcpy(state->row.end_text, fact.text, sizeof(fact.text));
    state->dirty = follower->urgent = true;
    return 0;
}

static void index_take_run(struct index_follower *follower, struct reader in)
{
    struct index_run *row = &follower->row;
    struct fact_run fact;

    if (fact_run_get(in, &fact) < 0 || fact.ranks > COLUMN_RANKS_MAX)
        return;
    row->ranks = MAX(row->ranks, fact.ranks);
    if (fact.event == RUN_BEGIN) {
        row->begin_real_ns = fact.real_ns;
        memcpy(row->command, fact.text, sizeof(fact.text));
    }
    if (fact.event == RUN_ATTEMPT_BEGIN && fact.attempt < UINT32_MAX)
        row->attempts = MAX(row->attempts, fact.attempt + 1);
    row->ended = fact.event == RUN_END;
    if (row->ended) {
        row->end_real_ns = fact.real_ns;
        row->status = fact.status;
    }
}

static int index_verdict_names(struct index_follower *follower, const struct verdict *verdict)
{
    struct index *index = follower->index;
    int result =
        index_execute(index, follower->err, "DELETE FROM verdict_rank WHERE run = ? AND id = ?",
                      "it", follower->id, verdict->id);

    if (result == 0)
        result =
            index_execute(index, follower->err, "DELETE FROM verdict_node WHERE run = ? AND id = ?",
                          "it", follower->id, verdict->id);
    for (uint32_t i = 0; result == 0 && i < MIN(verdict->rank_count, VERDICT_RANKS); i++)
        result = index_execute(index, follower->err,
                               "INSERT OR IGNORE INTO verdict_rank VALUES (?, ?, ?)", "iti",
                               follower->id, verdict->id, (int64_t)verdict->rank[i]);
    for (uint32_t i = 0; result == 0 && i < MIN(verdict->node_count, VERDICT_NODES); i++)
        result = index_execute(index, follower->err,
                               "INSERT OR IGNORE INTO verdict_node VALUES (?, ?, ?)", "itt",
                               follower->id, verdict->id, verdict->node[i]);
    return result;
}

#define EVIDENCE_OF_ROLE 16 /* cursors; lines are fewer */
#define EVIDENCE (4 * EVIDENCE_OF_ROLE)
_Static_assert(VERDICT_LINES <= EVIDENCE_OF_ROLE, "cursors of evidence");

/* Their cursors follow the verdict's, which is a new one each time it changes. */
static int index_evidence_put(struct index_follower *follower, const struct verdict *verdict,
                              int64_t seq, enum evidence_role role, const struct verdict_line *line,
                              uint32_t count)
{
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < MIN(count, VERDICT_LINES); i++)
        result =
            index_execute(follower->index, follower->err,
                          "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?, ?, ?)", "iitiit",
                          seq * EVIDENCE + (int64_t)role * EVIDENCE_OF_ROLE + (int64_t)i,
                          follower->id, verdict->id, (int64_t)role, (int64_t)i, line[i].source);
    return result;
}

static int index_verdict_evidence(struct index_follower *follower, const struct verdict *verdict,
                                  int64_t seq)
{
    int result = index_execute(follower->index, follower->err,
                               "DELETE FROM evidence WHERE run = ? AND id = ?", "it", follower->id,
                               verdict->id);

    if (result == 0)
        result = index_evidence_put(follower, verdict, seq, EVIDENCE_BECAUSE, verdict->because,
                                    verdict->because_count);
    if (result == 0)
        result = index_evidence_put(follower, verdict, seq, EVIDENCE_RULED_OUT, verdict->ruled_out,
                                    verdict->ruled_out_count);
    if (result == 0)
        result = index_evidence_put(follower, verdict, seq, EVIDENCE_ECHO, verdict->echo,
                                    verdict->echo_count);
    return result;
}

static int index_take_verdict(struct index_follower *follower, const struct frame *frame,
                              struct reader in)
{
    struct verdict verdict;
    int result;

    if (verdict_get(in, &verdict) < 0)
        return 0;
    result =
        index_execute(follower->index, follower->err,
                      "INSERT OR REPLACE INTO verdict (run, id, kind, layer, since_step,"
                      " since_real, open, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                      "itiiiiib", follower->id, verdict.id, (int64_t)verdict.kind,
                      (int64_t)verdict.layer, (int64_t)verdict.since_step, verdict.since_real_ns,
                      (int64_t)(verdict.until_real_ns == 0), frame->payload, frame->payload_bytes);
    if (result == 0)
        result = index_verdict_evidence(follower, &verdict,
                                        sqlite3_last_insert_rowid(follower->index->db));
    return result < 0 ? result : index_verdict_names(follower, &verdict);
}

static int row_take_ledger(struct index_follower *follower, const struct frame *frame,
                           struct reader in, int64_t real_ns)
{
    if (ledger_get(in, &follower->row.ledger) < 0)
        return 0;
    follower->row.has_ledger = true;
    return index_execute(follower->index, follower->err,
                         "INSERT OR IGNORE INTO ledger (run, real, at, payload)"
                         " VALUES (?, ?, ?, ?)",
                         "iiib", follower->id, real_ns, (int64_t)follower->frame_at.offset,
                         frame->payload, frame->payload_bytes);
}

/* Steps that were merged: one column for all of them. */
static int index_take_merged(struct index_follower *follower, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    CLEAN(free_clean) int64_t *local = NULL;
    CLEAN(free_clean) uint64_t *shape = NULL;
    struct column column;

    if (fact_merged_get(in, &merged) < 0 || merged.steps == 0 || merged.ranks == 0 ||
        merged.ranks > COLUMN_RANKS_MAX)
        return 0;
    local = malloc(merged.ranks * sizeof(*local));
    shape = calloc(merged.ranks, sizeof(*shape));
    if (!local || !shape)
        return -ENOMEM;
    column = (struct column){ .attempt = merged.attempt,
                              .step = merged.step_from,
                              .ranks = merged.ranks,
                              .local_ns = local,
                              .shape = shape,
                              .begin_real_ns = merged.begin_real_ns,
                              .duration_ns = merged.duration_ns,
                              .median_ns = merged.median_ns };
    for (uint32_t i = 0; i < merged.ranks; i++) {
        const struct merged_rank *rank = &merged.rank[i];

        local[i] = rank->steps ? merged.median_ns + rank->excess_ns : -1;
        column.have += rank->steps > 0;
        if (rank->excess_ns > column.excess_ns) {
            column.excess_ns = rank->excess_ns;
            column.worst = i;
        }
    }
    return follower_column(follower, &column);
}

/* Steps that an agent merged: each rank's mean stands at the last of them. */
static int index_take_spared(struct index_follower *follower, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    int result = 0;

    if (fact_merged_get(in, &merged) < 0)
        return 0;
    for (uint32_t i = 0; i < merged.ranks && result == 0; i++) {
        struct fact_step step = { .rank = merged.rank_from + i,
                                  .attempt = merged.attempt,
                                  .step = merged.step_to,
                                  .duration_ns = merged.duration_ns };
        struct rank_state *state;

        if (!merged.rank[i].steps || step.rank < i || step.rank >= COLUMN_RANKS_MAX)
            continue;
        state = follower_rank(follower, step.rank);
        if (!state)
            return -ENOMEM;
        follower->row.ranks = MAX(follower->row.ranks, step.rank + 1);
        state->row.step = merged.step_to;
        state->dirty = true;
        result = columns_step(follower->columns, &step, merged.rank[i].local_ns,
                              merged.begin_real_ns, &follower->frame_at);
    }
    return result;
}

/* The controller's own frames. */
static int index_own_frame(struct index_follower *follower, const struct frame *frame,
                           struct reader in)
{
    struct fact_tick tick;

    switch (frame->type) {
    case FRAME_TICK:
        if (fact_tick_get(in, &tick) < 0)
            return 0;
        follower->clock_ns = tick.real_ns - tick.mono_ns;
        follower->tick_real_ns = tick.real_ns;
        follower->row.closed = tick.flags & TICK_LAST;
        if (follower->row.closed && !follower->row.ended)
            follower->row.end_real_ns = tick.real_ns; /* or some time before: nobody said when */
        return follower->row.closed ? columns_flush(follower->columns) : 0;
    case FRAME_MERGED:
        return index_take_merged(follower, in);
    case FRAME_VERDICT:
        return index_take_verdict(follower, frame, in);
    case FRAME_LEDGER:
        return row_take_ledger(follower, frame, in, follower->tick_real_ns);
    default:
        return follower_record(follower, frame);
    }
}

static int index_any_frame(struct index_follower *follower, const struct frame *frame,
                           struct reader in)
{
    if (traffic_frame(&follower->traffic, frame) < 0)
        return -ENOMEM;
    if (frame->sender == follower->self)
        return index_own_frame(follower, frame, in);
    follower->row.closed = false;
    if (!follower->row.ended)
        follower->row.end_real_ns = 0;
    switch (frame->type) {
    case FRAME_HELLO:
        return row_take_hello(follower, frame, in);
    case FRAME_RING:
        return row_take_ring(follower, in);
    case FRAME_SHAPE:
        return row_take_shape(follower, frame, in);
    case FRAME_STEP:
        return row_take_step(follower, frame, in);
    case FRAME_MERGED:
        return index_take_spared(follower, in);
    case FRAME_BEAT:
        return index_take_beat(follower, frame, in);
    case FRAME_EXIT:
        return index_take_exit(follower, in);
    case FRAME_RUN:
        index_take_run(follower, in);
        return columns_world(follower->columns, follower->row.ranks);
    default:
        return follower_record(follower, frame);
    }
}

/* Whatever else can fail here has written its sentence: ranks beyond COLUMN_RANKS_MAX do not reach the columns. */
int follower_frame(struct index_follower *follower, const struct frame *frame, struct err *err)
{
    int result = 0;

    follower->err = err;
    if (frame->version == FRAME_VERSION)
        result = index_any_frame(follower, frame, reader_of(frame->payload, frame->payload_bytes));
    return result == -ENOMEM ? err_nomem(err) : result;
}

/* ---- a life's state, written and read ---- */

static int index_write_rank(struct index_follower *follower, struct rank_state *state,
                            struct err *err)
{
    const struct index_rank *row = &state->row;

    state->dirty = false;
    return index_execute(
        follower->index, err,
        "INSERT OR REPLACE INTO rank VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "iiiiitbiiiiiiit", follower->id, (int64_t)row->rank, (int64_t)row->attempt,
        (int64_t)row->ring, (int64_t)row->pid, row->node, row->layout,
        row->has_layout ? sizeof(row->layout) : (size_t)0, (int64_t)row->step, row->beat_real_ns,
        (int64_t)row->state, (int64_t)row->phase, (int64_t)row->ended,
        (int64_t)row->ended_by_launcher, (int64_t)row->status, row->end_text);
}

/* What its agent said last, and when it was heard; the row itself came with its hello. */
static int index_write_agent(struct index_follower *follower, struct traffic_agent *agent,
                             struct err *err)
{
    CLEAN(buf_fini) struct buf traffic = { 0 };

    agent->changed = false;
    if (!agent->has_traffic)
        return index_execute(follower->index, err,
                             "UPDATE node SET heard_real = ? WHERE run = ? AND sender = ?", "iii",
                             agent->newest_real_ns, follower->id, (int64_t)agent->sender);
    fact_traffic_put(&traffic, &agent->now);
    return index_execute(follower->index, err,
                         "UPDATE node SET heard_real = ?, rate = ?, boot = ?, traffic = ?"
                         " WHERE run = ? AND sender = ?",
                         "idibii", agent->newest_real_ns, agent->bytes_per_second,
                         (int64_t)agent->boot, traffic.data, traffic.size, follower->id,
                         (int64_t)agent->sender);
}

int follower_write(struct index_follower *follower, bool ranks, struct err *err)
{
    const struct index_run *row = &follower->row;
    struct log_mark at = { row->log_bytes, row->frames, row->damaged_bytes };
    struct log_mark mark = columns_position(follower->columns, &at);
    CLEAN(buf_fini) struct buf ledger = { 0 };
    uint32_t attempt;
    uint64_t done;
    int result = 0;

    for (uint32_t rank = 0; ranks && result == 0 && rank < follower->ranks; rank++) {
        if (follower->rank[rank].dirty)
            result = index_write_rank(follower, &follower->rank[rank], err);
    }
    for (size_t i = 0; ranks && result == 0 && i < follower->traffic.count; i++) {
        if (follower->traffic.agent[i].changed)
            result = index_write_agent(follower, &follower->traffic.agent[i], err);
    }
    if (result < 0)
        return result;
    if (ranks) {
        follower->ranks_written_ns = time_mono_ns();
        follower->urgent = false;
    }
    columns_done(follower->columns, &attempt, &done);
    if (row->has_ledger)
        ledger_put(&ledger, &row->ledger);
    result = index_execute(
        follower->index, err,
        "UPDATE run SET command = ?, ranks = ?, attempts = ?, ended = ?, closed = ?, status = ?,"
        " begin_real = ?, end_real = ?, steps = ?, frames = ?, log_bytes = ?, damaged = ?,"
        " position = ?, position_frames = ?, position_damaged = ?, log_id = ?, done_attempt = ?,"
        " done_step = ?, clock = ?, ledger = ? WHERE id = ?",
        "tiiiiiiiiiiiiiiiiiibi", row->command, (int64_t)row->ranks, (int64_t)row->attempts,
        (int64_t)row->ended, (int64_t)row->closed, (int64_t)row->status, row->begin_real_ns,
        row->end_real_ns, (int64_t)row->steps, (int64_t)row->frames, (int64_t)row->log_bytes,
        (int64_t)row->damaged_bytes, (int64_t)mark.offset, (int64_t)mark.frames,
        (int64_t)mark.damaged, (int64_t)follower->log_id, (int64_t)attempt, (int64_t)done,
        follower->clock_ns, ledger.data, ledger.size, follower->id);
    if (result == 0 && sqlite3_changes(follower->index->db) == 0)
        return err_set(err, -EAGAIN, "another process has rebuilt the index of run %s",
                       follower->run);
    return result;
}

int follower_forget(struct index *index, const char *run, struct err *err)
{
    static const char *const tables[] = { "rank",    "node",         "step",         "shape",
                                          "verdict", "verdict_rank", "verdict_node", "evidence",
                                          "ledger",  "record",       "record_name" };
    int result = index_execute(index, err, "SAVEPOINT forget", "");

    for (size_t i = 0; i < COUNT(tables) && result == 0; i++) {
        char sql[128];

        snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE run = (SELECT id FROM run WHERE name = ?)",
                 tables[i]);
        result = index_execute(index, err, sql, "t", run);
    }
    if (result == 0)
        result = index_execute(index, err, "DELETE FROM run WHERE name = ?", "t", run);
    if (result == 0)
        return index_execute(index, err, "RELEASE forget", "");
    index_execute(index, NULL, "ROLLBACK TO forget", "");
    index_execute(index, NULL, "RELEASE forget", "");
    return result;
}
