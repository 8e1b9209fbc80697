/* api_rows.c - index rows as JSON: seconds and UTC times, null for unknown values.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "show/ledger_view.h"
#include "show/record_view.h"
#include "show/run_summary.h"
#include "show/style.h"
#include "show/verdict_view.h"
#include "wire/names.h"

static void rows_add_text(struct json_object *root, const char *name, const char *text)
{
    json_object_object_add(root, name, text[0] ? show_string(text) : NULL);
}

static void rows_add_number(struct json_object *root, const char *name, uint64_t value)
{
    json_object_object_add(root, name, json_object_new_uint64(value));
}

static void api_add_flag(struct json_object *root, const char *name, bool value)
{
    json_object_object_add(root, name, json_object_new_boolean(value));
}

static void api_add_time(struct json_object *root, const char *name, int64_t real_ns)
{
    char text[32];

    if (real_ns)
        time_format_utc(real_ns, text);
    json_object_object_add(root, name, real_ns ? json_object_new_string(text) : NULL);
}

static void api_add_seconds(struct json_object *root, const char *name, int64_t ns)
{
    json_object_object_add(root, name, json_object_new_double((double)ns / 1e9));
}

static void api_add_hash(struct json_object *root, const char *name, uint64_t hash)
{
    char text[20];

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    json_object_object_add(root, name, json_object_new_string(text));
}

static struct json_object *row_begin(uint64_t cursor)
{
    struct json_object *root = json_object_new_object();

    rows_add_number(root, "cursor", cursor);
    return root;
}

struct json_object *run_json(const struct index_run *row)
{
    struct json_object *root = row_begin(row->cursor);

    rows_add_text(root, "run", row->run);
    rows_add_text(root, "command", row->command);
    rows_add_number(root, "ranks", row->ranks);
    rows_add_number(root, "attempts", row->attempts);
    rows_add_text(root, "state", row->ended ? "ended" : row->closed ? RUN_SUMMARY_LEFT : "running");
    api_add_flag(root, "ended", row->ended);
    api_add_flag(root, "closed", row->closed);
    json_object_object_add(root, "status", row->ended ? json_object_new_int(row->status) : NULL);
    api_add_time(root, "begin_time", row->begin_real_ns);
    api_add_time(root, "end_time", row->end_real_ns);
    rows_add_number(root, "steps", row->steps);
    rows_add_number(root, "frames", row->frames);
    rows_add_number(root, "log_bytes", row->log_bytes);
    rows_add_number(root, "damaged_bytes", row->damaged_bytes);
    rows_add_number(root, "verdicts", row->verdicts);
    rows_add_number(root, "verdicts_open", row->verdicts_open);
    json_object_object_add(root, "ledger", row->has_ledger ? ledger_json(&row->ledger) : NULL);
    return root;
}

static struct json_object *api_layout_json(const struct index_rank *row)
{
    static const char *const names[] = { "tp", "pp", "dp", "cp", "ep" };
    struct json_object *root;

    if (!row->has_layout)
        return NULL;
    root = json_object_new_object();
    for (size_t i = 0; i < COUNT(names); i++) {
        struct json_object *one = json_object_new_object();

        rows_add_number(one, "size", row->layout[i]);
        rows_add_number(one, "index", row->layout[i + COUNT(names)]);
        json_object_object_add(root, names[i], one);
    }
    return root;
}

struct json_object *rank_json(const struct index_rank *row)
{
    const char state[2] = { row->state, '\0' };
    struct json_object *root = row_begin(row->cursor);

    rows_add_number(root, "rank", row->rank);
    rows_add_number(root, "attempt", row->attempt);
    rows_add_text(root, "node", row->node);
    rows_add_number(root, "pid", row->pid);
    json_object_object_add(root, "layout", api_layout_json(row));
    rows_add_number(root, "step", row->step);
    rows_add_text(root, "state", state);
    rows_add_number(root, "phase", row->phase);
    api_add_time(root, "beat_time", row->beat_real_ns);
    api_add_flag(root, "ended", row->ended);
    json_object_object_add(root, "status", row->ended ? json_object_new_int(row->status) : NULL);
    api_add_flag(root, "told", row->ended_by_launcher);
    rows_add_text(root, "end", row->end_text);
    return root;
}

/* By the agent's own count, since it began. */
static struct json_object *api_traffic_json(const struct index_node *row)
{
    const struct fact_traffic *traffic = &row->traffic;
    struct json_object *root;

    if (!row->has_traffic)
        return NULL;
    root = json_object_new_object();
    rows_add_number(root, "sent_bytes", traffic->bytes);
    json_object_object_add(root, "wire_bytes",
                           traffic->wire_bytes ? json_object_new_uint64(traffic->wire_bytes)
                                               : NULL);
    rows_add_number(root, "sent_bodies", traffic->bodies);
    rows_add_number(root, "sent_frames", traffic->frames);
    rows_add_number(root, "sent_rank_steps", traffic->steps);
    json_object_object_add(
        root, "bytes_per_rank_step",
        traffic->steps ? json_object_new_double((double)traffic->bytes / (double)traffic->steps)
                       : NULL);
    json_object_object_add(root, "bytes_per_second", json_object_new_double(row->bytes_per_second));
    api_add_seconds(root, "seconds", traffic->mono_ns - traffic->since_ns);
    rows_add_number(root, "failures", traffic->failures);
    rows_add_number(root, "refused_frames", traffic->refused);
    rows_add_number(root, "backlog_bytes", traffic->backlog_bytes);
    rows_add_number(root, "spool_bytes", traffic->spool_bytes);
    return root;
}

struct json_object *clock_json(int64_t offset_ns, int64_t error_ns)
{
    struct json_object *root = json_object_new_object();

    api_add_seconds(root, "offset_seconds", offset_ns);
    api_add_seconds(root, "error_seconds", error_ns);
    return root;
}

struct json_object *node_json(const struct index_node *row)
{
    struct json_object *root = row_begin(row->cursor);

    rows_add_text(root, "run", row->run);
    rows_add_text(root, "node", row->node);
    rows_add_text(root, "version", row->version);
    rows_add_number(root, "ranks", row->ranks);
    api_add_time(root, "hello_time", row->hello_real_ns);
    api_add_time(root, "heard_time", row->newest_real_ns);
    json_object_object_add(root, "traffic", api_traffic_json(row));
    return root;
}

struct json_object *step_json(const struct index_step *row)
{
    struct json_object *root = row_begin(row->cursor);

    rows_add_number(root, "step", row->step);
    rows_add_number(root, "attempt", row->attempt);
    rows_add_number(root, "column", row->column);
    rows_add_number(root, "ranks", row->ranks);
    api_add_time(root, "begin_time", row->begin_real_ns);
    api_add_seconds(root, "seconds", row->duration_ns);
    api_add_seconds(root, "median_work_seconds", row->median_ns);
    api_add_seconds(root, "excess_seconds", row->excess_ns);
    rows_add_number(root, "worst_rank", row->worst);
    api_add_hash(root, "shape", row->shape);
    json_object_object_add(root, "loss", show_number(row->loss));
    json_object_object_add(root, "tokens", show_number(row->tokens));
    return root;
}

struct json_object *shape_json(const struct index_shape *row)
{
    struct json_object *root = row_begin(row->cursor), *dtypes = json_object_new_array();

    api_add_hash(root, "hash", row->hash);
    api_add_hash(root, "class", row->class);
    rows_add_number(root, "items", row->items);
    for (unsigned i = 1; i < 32; i++) {
        if (row->dtypes >> i & 1)
            json_object_array_add(dtypes, json_object_new_string(name_of_dtype(i)));
    }
    json_object_object_add(root, "dtypes", dtypes);
    return root;
}

struct json_object *verdict_row_json(uint64_t cursor, const struct verdict *row)
{
    struct json_object *root = verdict_json(row);

    rows_add_number(root, "cursor", cursor);
    return root;
}

struct json_object *evidence_json(const struct index_evidence *row)
{
    static const char *const roles[] = {
        [EVIDENCE_BECAUSE] = "because", [EVIDENCE_RULED_OUT] = "ruled-out", [EVIDENCE_ECHO] = "echo"
    };
    const struct verdict *verdict = row->verdict;
    struct json_object *root = row_begin(row->cursor);

    rows_add_text(root, "run", verdict->run);
    rows_add_text(root, "verdict", verdict->id);
    rows_add_text(root, "kind", verdict_kind_name(verdict->kind));
    rows_add_text(root, "role", roles[row->role]);
    rows_add_text(root, "what", row->line->what);
    rows_add_text(root, "source", row->line->source);
    json_object_object_add(root, "ranks", verdict_ranks_json(verdict));
    json_object_object_add(root, "nodes", verdict_nodes_json(verdict));
    rows_add_number(root, "since_step", verdict->since_step);
    api_add_time(root, "since_time", verdict->since_real_ns);
    api_add_time(root, "decided_time", verdict->decided_real_ns);
    api_add_time(root, "until_time", verdict->until_real_ns);
    return root;
}

struct json_object *ledger_row_json(const struct index_ledger *row)
{
    struct json_object *root = row_begin(row->cursor);

    api_add_time(root, "time", row->real_ns);
    json_object_object_add(root, "ledger", ledger_json(&row->ledger));
    return root;
}

/* Field `root`: whether a node's root daemon sent a finding, or a process of the run's user. */
static struct json_object *api_finding_record_json(const struct index_record *row)
{
    struct finding finding;
    struct json_object *root;

    if (finding_get(row->payload, &finding) < 0)
        return NULL;
    root = finding_json(&finding);
    api_add_flag(root, "root", row->root);
    return root;
}

static struct json_object *api_record_of(uint16_t type, const struct index_record *row)
{
    struct decision decision;
    struct outcome outcome;
    struct check check;

    switch (type) {
    case FRAME_FINDING:
        return api_finding_record_json(row);
    case FRAME_DECISION:
        return decision_get(row->payload, &decision) < 0 ? NULL : decision_json(&decision);
    case FRAME_OUTCOME:
        return outcome_get(row->payload, &outcome) < 0 ? NULL : outcome_json(&outcome);
    default:
        return check_get(row->payload, &check) < 0 ? NULL : check_json(&check);
    }
}

struct json_object *record_json(uint16_t type, const struct index_record *row)
{
    struct json_object *root = api_record_of(type, row);

    if (!root)
        return NULL;
    rows_add_number(root, "cursor", row->cursor);
    rows_add_text(root, "run", row->run);
    return root;
}
