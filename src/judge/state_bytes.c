/* state_bytes.c - how much memory the judges hold for a run.
 *
 * A sum over their arrays, without the allocator's own part and what one step needs only while it is judged.  A
 * controller of many runs compares it with what each may have; test-core.c compares it with what malloc() gave.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/ledger.h"
#include "judge/replay/program_private.h"
#include "judge/replay/replay.h"
#include "judge/slow/stall_private.h"
#include "judge/slow/sync_private.h"
#include "judge/state.h"
#include "judge/stuck/hang_private.h"
#include "judge/wrong/corrupt_private.h"

#define REPLAY_OP_BYTES 64 /* of the order in which a replay visits its ops; measured */

static size_t history_bytes(const struct history *history)
{
    size_t rank = sizeof(struct rank_split) + 5 * sizeof(float), bytes = 0;

    for (int i = 0; i < HISTORY_STEPS; i++) {
        const struct past_step *past = &history->step[i];

        if (past->split)
            bytes += history->world * rank;
        bytes += past->far_room * sizeof(*past->far) + past->nodes * sizeof(*past->node);
    }
    return bytes + history->nodes * sizeof(*history->typical);
}

static size_t program_bytes(const struct program *program)
{
    size_t bytes =
        sizeof(*program) + 4 * program->held * sizeof(int64_t) + program->ops * REPLAY_OP_BYTES;

    if (program->place)
        bytes += program->world * sizeof(*program->place);
    return bytes + (program->replay ? replay_scratch_bytes(program->replay) : 0);
}

static size_t corrupt_bytes(const struct corrupt_book *book)
{
    const struct replicas *replicas = &book->replicas;

    return sizeof(*book) + book->world * sizeof(*book->rank) + map_bytes(&replicas->clean) +
           map_bytes(&replicas->place) + map_bytes(&replicas->updating) +
           replicas->room * sizeof(*replicas->part) + replicas->hold_room * sizeof(*replicas->hold);
}

static size_t stall_bytes(const struct stall *stall)
{
    size_t bytes = sizeof(*stall) + stall->births * sizeof(*stall->birth) +
                   stall->files_room * sizeof(*stall->files) +
                   stall->input.world * sizeof(*stall->input.level_ns);

    for (int i = 0; i < STALL_PAUSES; i++)
        bytes += stall->pause[i].seen_room * sizeof(*stall->pause[i].seen);
    return bytes;
}

static size_t sync_bytes(const struct sync *sync)
{
    return sizeof(*sync) + sync->room * sizeof(*sync->link) +
           sync->move_room * sizeof(*sync->move) + sync->past_room * sizeof(*sync->past_way) +
           map_bytes(&sync->by_key) + map_bytes(&sync->past) + map_bytes(&sync->move_by_key) +
           map_bytes(&sync->move_by_comm) + map_bytes(&sync->past_ways);
}

size_t judge_state_bytes(const struct judge_state *judge)
{
    return model_bytes(&judge->model) + splitter_bytes(judge->splitter) +
           program_bytes(judge->program) + history_bytes(&judge->history) +
           judge->verdicts.count * sizeof(struct tracked_verdict) + ledger_book_bytes(judge->book) +
           corrupt_bytes(judge->corrupt) + hang_bytes(judge->hang) + stall_bytes(judge->stall) +
           sync_bytes(judge->sync);
}
