/* record_view.c - findings, checks, decisions and outcomes, field by field.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/record_view.h"

#include "core/clean.h"
#include "show/style.h"

#define ADD(name, value) json_object_object_add(root, name, value)

static struct json_object *record_ranks_json(const uint32_t *rank, uint32_t count, uint32_t most)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(count, most); i++)
        json_object_array_add(list, json_object_new_int64(rank[i]));
    return list;
}

static struct json_object *record_number_or_null(uint64_t value)
{
    return value ? json_object_new_uint64(value) : NULL;
}

struct json_object *record_step_json(uint64_t step)
{
    return step == DECISION_NO_STEP ? NULL : json_object_new_uint64(step);
}

struct json_object *finding_json(const struct finding *finding)
{
    struct json_object *root = json_object_new_object();

    ADD("id", show_string(finding->id));
    ADD("kind", json_object_new_string(finding_kind_name(finding->kind)));
    ADD("class", json_object_new_string(finding_class_name(finding->class)));
    ADD("severity", json_object_new_string(finding_severity_name(finding->severity)));
    ADD("origin", json_object_new_string(finding_origin_name(finding->origin)));
    ADD("code", record_number_or_null(finding->code));
    ADD("node", show_string(finding->node));
    ADD("device", show_string_or_null(finding->device));
    ADD("pid", record_number_or_null(finding->pid));
    ADD("ranks", record_ranks_json(finding->rank, finding->rank_count, FINDING_RANKS));
    ADD("rank_count", json_object_new_int64(finding->rank_count));
    ADD("count", json_object_new_int64(finding->count));
    ADD("time", show_time(finding->real_ns));
    ADD("time_error_seconds", show_number((double)finding->error_ns / 1e9));
    ADD("action", json_object_new_string(action_name(finding->action)));
    ADD("text", show_string_or_null(finding->text));
    ADD("raw", show_string_or_null(finding->raw));
    return root;
}

struct json_object *check_json(const struct check *check)
{
    struct json_object *root = json_object_new_object();

    ADD("node", show_string(check->node));
    ADD("device", show_string_or_null(check->device));
    ADD("stage", show_string_or_null(check->stage));
    ADD("name", show_string(check->name));
    ADD("state", json_object_new_string(check_state_name(check->state)));
    ADD("value", check->has_value ? show_number(check->value) : NULL);
    ADD("expected", check->has_expected ? show_number(check->expected) : NULL);
    ADD("unit", show_string_or_null(check->unit));
    ADD("why", show_string_or_null(check->why));
    ADD("seconds", show_number(check->seconds));
    ADD("time", show_time(check->real_ns));
    return root;
}

struct json_object *decision_json(const struct decision *decision)
{
    struct json_object *root = json_object_new_object(), *nodes = json_object_new_array();

    for (uint32_t i = 0; i < MIN(decision->node_count, DECISION_NODES); i++)
        json_object_array_add(nodes, show_string(decision->node[i]));
    ADD("id", show_string(decision->id));
    ADD("answers", show_string_or_null(decision->of));
    ADD("action", json_object_new_string(action_name(decision->action)));
    ADD("state", json_object_new_string(decision_state_name(decision->state)));
    ADD("target", json_object_new_string(target_kind_name(decision->target)));
    ADD("attempt", json_object_new_int64(decision->attempt));
    ADD("ranks", record_ranks_json(decision->rank, decision->rank_count, DECISION_RANKS));
    ADD("rank_count", json_object_new_int64(decision->rank_count));
    ADD("nodes", nodes);
    ADD("node_count", json_object_new_int64(decision->node_count));
    ADD("step", record_step_json(decision->step));
    ADD("argument", json_object_new_int64(decision->argument));
    ADD("decided_time", show_time(decision->decided_real_ns));
    ADD("deadline_time", show_time(decision->deadline_real_ns));
    ADD("saves_gpu_seconds", show_number(decision->saves_gpu_seconds));
    ADD("costs_gpu_seconds", show_number(decision->costs_gpu_seconds));
    ADD("why", show_string_or_null(decision->why));
    return root;
}

struct json_object *outcome_json(const struct outcome *outcome)
{
    struct json_object *root = json_object_new_object();

    ADD("decision", show_string(outcome->decision));
    ADD("part", show_string(outcome->part));
    ADD("result", json_object_new_string(outcome_result_name(outcome->result)));
    ADD("began_time", show_time(outcome->began_real_ns));
    ADD("ended_time", show_time(outcome->ended_real_ns));
    ADD("step", record_step_json(outcome->step));
    ADD("text", show_string_or_null(outcome->text));
    return root;
}
#undef ADD

/* ---- what became of a decision ---- */

/* A part that failed is what people must know of; one that was late for its step did no harm. */
static const uint8_t outcome_badness[OUTCOME_RESULT_COUNT] = {
    [OUTCOME_DONE] = 1,    [OUTCOME_PAST] = 2,    [OUTCOME_NOT_EXECUTED] = 3,
    [OUTCOME_UNKNOWN] = 4, [OUTCOME_REFUSED] = 5, [OUTCOME_FAILED] = 6,
};

bool outcome_only_began(const struct outcome *outcome)
{
    return outcome->result == OUTCOME_UNKNOWN && !outcome->ended_real_ns;
}

void outcome_tally_add(struct outcome_tally *tally, const struct outcome *outcome)
{
    if (outcome_only_began(outcome)) {
        tally->began++;
        return;
    }
    tally->ended++;
    if (outcome->result < OUTCOME_RESULT_COUNT &&
        outcome_badness[outcome->result] > outcome_badness[tally->worst])
        tally->worst = outcome->result;
}

const char *decision_word(unsigned state, const struct outcome_tally *tally)
{
    if (tally->began > tally->ended &&
        outcome_badness[tally->worst] <= outcome_badness[OUTCOME_DONE])
        return "begun";
    return tally->ended ? outcome_result_name(tally->worst) : decision_state_name(state);
}

struct json_object *outcome_tally_json(const struct outcome_tally *tally)
{
    return tally->ended ? json_object_new_string(outcome_result_name(tally->worst)) : NULL;
}
