/* fuzz-facts.c - payloads of frames, as an agent nobody trusts might send them.
 *
 * The first byte chooses the kind; the rest is its payload (a step's is preceded by its shape's).
 * What can be read must also be writable, and reading that again must change nothing more: a
 * controller logs what it received, and a log that is read twice must say the same twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/frame.h"
#include "wire/member.h"
#include "wire/node_life.h"
#include "wire/policy_table.h"
#include "wire/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_same(struct buf *first, struct buf *second)
{
    if (first->failed || second->failed || first->size != second->size ||
        (first->size && memcmp(first->data, second->data, first->size) != 0))
        abort();
    buf_fini(first);
    buf_fini(second);
}

static void nothing_fini(void *fact)
{
    (void)fact;
}

#define READ_WRITE_READ(type, get, put, fini)                                                      \
    static void try_##get(struct reader in)                                                        \
    {                                                                                              \
        static type fact, again;                                                                   \
        struct buf first = { 0 }, second = { 0 };                                                  \
                                                                                                   \
        if (get(in, &fact) < 0)                                                                    \
            return;                                                                                \
        put(&first, &fact);                                                                        \
        if (get(reader_of(first.data, first.size), &again) < 0)                                    \
            abort();                                                                               \
        put(&second, &again);                                                                      \
        must_be_same(&first, &second);                                                             \
        fini(&fact);                                                                               \
        fini(&again);                                                                              \
    }

READ_WRITE_READ(struct fact_hello, fact_hello_get, fact_hello_put, nothing_fini)
READ_WRITE_READ(struct fact_ring, fact_ring_get, fact_ring_put, nothing_fini)
READ_WRITE_READ(struct fact_comm, fact_comm_get, fact_comm_put, nothing_fini)
READ_WRITE_READ(struct fact_shape, fact_shape_get, fact_shape_put, fact_shape_fini)
READ_WRITE_READ(struct fact_beat, fact_beat_get, fact_beat_put, nothing_fini)
READ_WRITE_READ(struct fact_exit, fact_exit_get, fact_exit_put, nothing_fini)
READ_WRITE_READ(struct fact_gap, fact_gap_get, fact_gap_put, nothing_fini)
READ_WRITE_READ(struct fact_note, fact_note_get, fact_note_put, nothing_fini)
READ_WRITE_READ(struct fact_stack, fact_stack_get, fact_stack_put, nothing_fini)
READ_WRITE_READ(struct fact_run, fact_run_get, fact_run_put, nothing_fini)
READ_WRITE_READ(struct fact_tick, fact_tick_get, fact_tick_put, nothing_fini)
READ_WRITE_READ(struct fact_merged, fact_merged_get, fact_merged_put, fact_merged_fini)
READ_WRITE_READ(struct fact_compaction, fact_compaction_get, fact_compaction_put,
                fact_compaction_fini)
READ_WRITE_READ(struct fact_setting, fact_setting_get, fact_setting_put, nothing_fini)
READ_WRITE_READ(struct fact_traffic, fact_traffic_get, fact_traffic_put, nothing_fini)
READ_WRITE_READ(struct fact_method, fact_method_get, fact_method_put, nothing_fini)
READ_WRITE_READ(struct finding, finding_get, finding_put, nothing_fini)
READ_WRITE_READ(struct check, check_get, check_put, nothing_fini)
READ_WRITE_READ(struct environment, environment_get, environment_put, environment_fini)
READ_WRITE_READ(struct request, request_get, request_put, nothing_fini)
READ_WRITE_READ(struct decision, decision_get, decision_put, nothing_fini)
READ_WRITE_READ(struct outcome, outcome_get, outcome_put, nothing_fini)
READ_WRITE_READ(struct places, places_get, places_put, nothing_fini)
READ_WRITE_READ(struct policy_table, policy_table_get, policy_table_put, nothing_fini)
READ_WRITE_READ(struct member, member_get, member_put, nothing_fini)
READ_WRITE_READ(struct node_life, node_life_get, node_life_put, nothing_fini)
READ_WRITE_READ(struct policy_means, policy_means_get, policy_means_put, nothing_fini)
READ_WRITE_READ(struct ledger, ledger_get, ledger_put, nothing_fini)

/* A verdict without evidence is a bug of ours, so writing asserts; from outside it is refused. */
static void try_verdict_get(struct reader in)
{
    static struct verdict verdict, again;
    struct buf first = { 0 }, second = { 0 };

    if (verdict_get(in, &verdict) < 0)
        return;
    verdict_put(&first, &verdict);
    if (verdict_get(reader_of(first.data, first.size), &again) < 0)
        abort();
    verdict_put(&second, &again);
    must_be_same(&first, &second);
}

/* Length of the shape's payload (u16), the shape, the step. */
static void try_step(struct reader in)
{
    size_t size = reader_get_u16(&in);
    const void *bytes = reader_get(&in, size);
    struct fact_shape shape;
    struct fact_step step, again;
    struct buf first = { 0 };

    if (!bytes || fact_shape_get(reader_of(bytes, size), &shape) < 0)
        return;
    fact_step_shape(in);
    if (fact_step_get(in, &shape, &step) == 0) {
        fact_step_put(&first, &step, &shape);
        if (fact_step_get(reader_of(first.data, first.size), &shape, &again) < 0)
            abort();
        fact_step_fini(&again);
        fact_step_fini(&step);
        buf_fini(&first);
    }
    fact_shape_fini(&shape);
}

static void (*const tries[])(struct reader in) = {
    [FRAME_HELLO] = try_fact_hello_get,
    [FRAME_RING] = try_fact_ring_get,
    [FRAME_COMM] = try_fact_comm_get,
    [FRAME_SHAPE] = try_fact_shape_get,
    [FRAME_STEP] = try_step,
    [FRAME_BEAT] = try_fact_beat_get,
    [FRAME_EXIT] = try_fact_exit_get,
    [FRAME_GAP] = try_fact_gap_get,
    [FRAME_NOTE] = try_fact_note_get,
    [FRAME_RUN] = try_fact_run_get,
    [FRAME_TICK] = try_fact_tick_get,
    [FRAME_VERDICT] = try_verdict_get,
    [FRAME_LEDGER] = try_ledger_get,
    [FRAME_STACK] = try_fact_stack_get,
    [FRAME_MERGED] = try_fact_merged_get,
    [FRAME_SETTING] = try_fact_setting_get,
    [FRAME_COMPACTION] = try_fact_compaction_get,
    [FRAME_TRAFFIC] = try_fact_traffic_get,
    [FRAME_METHOD] = try_fact_method_get,
    [FRAME_FINDING] = try_finding_get,
    [FRAME_DECISION] = try_decision_get,
    [FRAME_OUTCOME] = try_outcome_get,
    [FRAME_PLACES] = try_places_get,
    [FRAME_POLICY] = try_policy_table_get,
    [FRAME_MEANS] = try_policy_means_get,
    [FRAME_MEMBER] = try_member_get,
    [FRAME_NODE_LIFE] = try_node_life_get,
    [FRAME_CHECK] = try_check_get,
    [FRAME_ENVIRONMENT] = try_environment_get,
    [FRAME_REQUEST] = try_request_get,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned kind = size ? data[0] % FRAME_TYPE_COUNT : 0;

    if (kind && tries[kind]) {
        fact_when((uint16_t)kind, reader_of(data + 1, size - 1));
        tries[kind](reader_of(data + 1, size - 1));
    }
    return 0;
}
