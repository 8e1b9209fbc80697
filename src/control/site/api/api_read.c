/* api_read.c - pages of the index: filters in the query, a cursor, an ETag.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/http/reply.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/verdict.h"

#define LIMIT 100
#define LIMIT_MAX 1000
#define TIME_S_MAX INT64_C(9000000000) /* the year 2255 */

typedef void page_call(struct api_call *call, const struct index_query *query);

struct read_question { /* that waits until the index has what was logged before it */
    struct catchup catchup;
    struct api_call call;
    struct index_query query;
    page_call *answer;
};

struct page {
    struct site *site;
    struct json_object *list;
    uint64_t last;
};

/* ---- the query ---- */

/* Up to `most`; INT64_MAX is what the index can hold. */
bool call_number(struct api_call *call, const char *name, uint64_t most, uint64_t *ret)
{
    const char *text = http_query(call->exchange, name);
    unsigned long long value;
    char *end;

    if (!text)
        return true;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (!errno && *text >= '0' && *text <= '9' && !*end && value <= most) {
        *ret = value;
        return true;
    }
    reply_error(call->exchange, 400, "%s: expected a number up to %" PRIu64 ", not '%.40s'", name,
                most, text);
    return false;
}

bool call_flag(struct api_call *call, const char *name, bool *ret)
{
    const char *text = http_query(call->exchange, name);

    if (!text)
        return true;
    *ret = strcmp(text, "true") == 0;
    if (*ret || strcmp(text, "false") == 0)
        return true;
    reply_error(call->exchange, 400, "%s: expected true or false, not '%.40s'", name, text);
    return false;
}

static bool api_word_of(struct api_call *call, const char *name, const char *(*word)(unsigned),
                        unsigned from, unsigned count, int64_t *ret)
{
    const char *text = http_query(call->exchange, name);

    for (unsigned i = from; text && i < count; i++) {
        if (strcmp(text, word(i)) == 0) {
            *ret = i;
            return true;
        }
    }
    if (text)
        reply_error(call->exchange, 400, "%s: unknown value '%.40s'", name, text);
    return !text;
}

/* ".25" as 250000000; NULL: no digit, or more than nine.  Returns where it ends. */
static const char *fraction_read(const char *text, int64_t *ret_ns)
{
    int64_t unit_ns = NS_PER_S / 10;

    *ret_ns = 0;
    if (*text++ != '.' || *text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++, unit_ns /= 10) {
        if (!unit_ns)
            return NULL;
        *ret_ns += (*text - '0') * unit_ns;
    }
    return text;
}

/* "2026-03-01T10:42:07Z", or seconds since 1970, with a fraction or without; years that an int64_t holds in ns. */
static bool time_read(const char *text, int64_t *ret_ns)
{
    struct tm date = { 0 };
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &date);
    bool is_date = end != NULL;
    int64_t seconds = 0, fraction_ns = 0;

    if (is_date) {
        seconds = timegm(&date);
    } else if (*text < '0' || *text > '9') {
        return false;
    } else {
        for (end = text; *end >= '0' && *end <= '9' && seconds <= TIME_S_MAX; end++)
            seconds = seconds * 10 + (*end - '0');
    }
    if (*end == '.')
        end = fraction_read(end, &fraction_ns);
    if (!end || strcmp(end, is_date ? "Z" : "") != 0 || seconds < 0 || seconds > TIME_S_MAX)
        return false;
    *ret_ns = seconds * NS_PER_S + fraction_ns;
    return *ret_ns > 0;
}

static bool api_time_of(struct api_call *call, const char *name, int64_t *ret)
{
    const char *text = http_query(call->exchange, name);

    if (!text || time_read(text, ret))
        return true;
    reply_error(call->exchange, 400,
                "%s: expected a time such as 2026-03-01T10:42:07Z, or seconds since 1970, not "
                "'%.40s'",
                name, text);
    return false;
}

struct verdict_kinds { /* the words that the parameter `kind` may have */
    const char *(*name)(unsigned);
    unsigned count;
};
static const struct verdict_kinds verdict_kinds = { verdict_kind_name, VERDICT_KIND_COUNT };

static bool query_read(struct api_call *call, const struct verdict_kinds *kinds,
                       struct index_query *query)
{
    uint64_t limit = LIMIT, rank = UINT64_MAX;
    int64_t kind = 0, layer = -1;

    *query = (struct index_query){ .run = call->run[0] ? call->run : NULL,
                                   .node = http_query(call->exchange, "node"),
                                   .id = http_query(call->exchange, "id"),
                                   .source = http_query(call->exchange, "source") };
    if (!call_number(call, "limit", UINT32_MAX, &limit) ||
        !call_number(call, "after", INT64_MAX, &query->after) ||
        !call_number(call, "rank", UINT32_MAX, &rank) ||
        !call_number(call, "step_from", INT64_MAX, &query->step_from) ||
        !call_number(call, "step_to", INT64_MAX, &query->step_to) ||
        !api_time_of(call, "time_from", &query->real_from_ns) ||
        !api_time_of(call, "time_to", &query->real_to_ns) ||
        !call_flag(call, "open", &query->open_only) ||
        !call_flag(call, "newest_first", &query->newest_first) ||
        !call_flag(call, "spread", &query->spread) ||
        !api_word_of(call, "kind", kinds->name, 1, kinds->count, &kind) ||
        !api_word_of(call, "layer", verdict_layer_name, 0, LAYER_COUNT, &layer))
        return false;
    if (limit < 1 || limit > LIMIT_MAX) {
        reply_error(call->exchange, 400, "limit: expected 1 to %d", LIMIT_MAX);
        return false;
    }
    query->limit = (uint32_t)limit;
    query->kind = (uint32_t)kind;
    query->layer = (int32_t)layer + 1;
    query->rank = rank == UINT64_MAX ? 0 : (int64_t)rank + 1;
    return true;
}

/* ---- rows ---- */

static int page_add(struct page *page, uint64_t cursor, struct json_object *row)
{
    page->last = cursor;
    return json_object_array_add(page->list, row) == 0 ? 0 : -ENOMEM;
}

static int api_add_run(void *arg, const struct index_run *row)
{
    struct page *page = arg;
    const struct site_run *run = site_find(page->site, row->run);
    struct json_object *root = run_json(row);

    if (run && run->refused.text[0])
        json_object_object_add(root, "state", json_object_new_string("refused"));
    json_object_object_add(root, "refused",
                           run && run->refused.text[0] ? show_string(run->refused.text) : NULL);
    return page_add(page, row->cursor, root);
}

static int api_add_rank(void *arg, const struct index_rank *row)
{
    return page_add(arg, row->cursor, rank_json(row));
}

/* What bounds the node's clock is the judges' knowledge, and there only while the run is in memory. */
static int api_add_node(void *arg, const struct index_node *row)
{
    struct page *page = arg;
    const struct site_run *run = site_find(page->site, row->run);
    struct json_object *root = node_json(row), *clock = NULL;
    int64_t offset_ns, error_ns;

    if (run && run->log && runlog_node_clock(run->log, row->node, &offset_ns, &error_ns))
        clock = clock_json(offset_ns, error_ns);
    json_object_object_add(root, "clock", clock);
    return page_add(page, row->cursor, root);
}

static int api_add_step(void *arg, const struct index_step *row)
{
    return page_add(arg, row->cursor, step_json(row));
}

static int api_add_shape(void *arg, const struct index_shape *row)
{
    return page_add(arg, row->cursor, shape_json(row));
}

static int add_verdict(void *arg, uint64_t cursor, const struct verdict *row)
{
    return page_add(arg, cursor, verdict_row_json(cursor, row));
}

static int api_add_ledger(void *arg, const struct index_ledger *row)
{
    return page_add(arg, row->cursor, ledger_row_json(row));
}

static int api_add_evidence(void *arg, const struct index_evidence *row)
{
    return page_add(arg, row->cursor, evidence_json(row));
}

/* ---- pages ---- */

static bool api_index_has(struct api_call *call, bool rebuilding)
{
    if (rebuilding)
        reply_error(call->exchange, 503,
                    "the index is being rebuilt from the logs, %zu runs remain; try again soon",
                    site_index_lacks(call->site));
    return !rebuilding;
}

static bool api_index_is_open(struct api_call *call)
{
    if (!call->site->index)
        reply_error(call->exchange, 503, "the index is not available now");
    return call->site->index;
}

static void question_answer(struct api_call *call, const struct index_query *query,
                            page_call *answer)
{
    struct site *site = call->site;
    const struct site_run *run = site_find(site, call->run);

    if (api_index_is_open(call) &&
        api_index_has(call, call->run[0] ? run && run->index_rebuild : site_index_lacks(site) > 0))
        answer(call, query);
}

static void question_done(void *arg)
{
    CLEAN(free_clean) struct read_question *question = arg;

    http_on_gone(question->call.exchange, NULL, NULL);
    question_answer(&question->call, &question->query, question->answer);
}

static void question_gone(void *arg)
{
    struct read_question *question = arg;

    catchup_drop(question->call.site, &question->catchup);
    free(question);
}

/* Answers when the index has what is logged, now or later. */
static void question_ask(struct api_call *call, const struct index_query *query, page_call *answer)
{
    struct read_question *question;
    struct site_run *run;

    site_index_mend(call->site);
    if (!api_index_is_open(call))
        return;
    if (call->run[0] && site_get(call->site, call->run, false, &run, NULL) < 0) {
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
        return;
    }
    question = malloc(sizeof(*question));
    if (!question) {
        reply_error(call->exchange, 503, "out of memory");
        return;
    }
    *question = (struct read_question){ .call = *call, .query = *query, .answer = answer };
    question->catchup =
        (struct catchup){ .run = question->call.run, .done = question_done, .arg = question };
    if (query->run)
        question->query.run = question->call.run;
    if (catchup_ask(call->site, &question->catchup))
        question_done(question);
    else
        http_on_gone(call->exchange, question_gone, question);
}

/* Damage is found by asking: the next turn mends it. */
static void page_failed(struct api_call *call, const struct err *err)
{
    if (index_is_broken(call->site->index))
        reply_error(call->exchange, 503,
                    "the index is damaged and will be rebuilt from the logs; try again soon");
    else
        reply_error(call->exchange, 503, "%s", err->text);
}

static void page_answer(struct api_call *call, const char *name, struct page *page, int64_t count,
                        const struct index_query *query, const struct err *err)
{
    struct json_object *root;

    if (count < 0) {
        json_object_put(page->list);
        page_failed(call, err);
        return;
    }
    root = json_object_new_object();
    json_object_object_add(root, name, page->list);
    json_object_object_add(root, "next",
                           count >= query->limit ? json_object_new_uint64(page->last) : NULL);
    reply_cached(call->exchange, root);
}

/* They differ only in what is asked and how a row looks. */
#define PAGE(function, name, ask, add)                                                             \
    static void function##_page(struct api_call *call, const struct index_query *query)            \
    {                                                                                              \
        struct page page = { .site = call->site, .list = json_object_new_array() };                \
        struct err err = { "" };                                                                   \
        int64_t count = ask(call->site->index, query, add, &page, &err);                           \
                                                                                                   \
        page_answer(call, name, &page, count, query, &err);                                        \
    }                                                                                              \
                                                                                                   \
    void function(struct api_call *call)                                                           \
    {                                                                                              \
        struct index_query query;                                                                  \
                                                                                                   \
        if (query_read(call, &verdict_kinds, &query))                                              \
            question_ask(call, &query, function##_page);                                           \
    }

PAGE(api_get_runs, "runs", index_runs, api_add_run)
PAGE(api_get_ranks, "ranks", index_ranks, api_add_rank)
PAGE(api_get_steps, "steps", index_steps, api_add_step)
PAGE(api_get_shapes, "shapes", index_shapes, api_add_shape)
PAGE(api_get_verdicts, "verdicts", index_verdicts, add_verdict)
PAGE(api_get_evidence, "evidence", index_evidence, api_add_evidence)
PAGE(api_get_ledger, "ledgers", index_ledgers, api_add_ledger)
PAGE(api_get_nodes, "nodes", index_nodes, api_add_node)

/* ---- findings, decisions, outcomes, checks ---- */

struct records {
    struct page page;
    uint16_t type;
};

static int add_record(void *arg, const struct index_record *row)
{
    struct records *records = arg;
    struct json_object *root = record_json(records->type, row);

    return root ? page_add(&records->page, row->cursor, root) : 0;
}

#define RECORDS(function, word, frame_type, kind_name, kind_count)                                 \
    static void function##_page(struct api_call *call, const struct index_query *query)            \
    {                                                                                              \
        struct records records = {                                                                 \
            .page = { .site = call->site, .list = json_object_new_array() }, .type = (frame_type)  \
        };                                                                                         \
        struct err err = { "" };                                                                   \
        int64_t count =                                                                            \
            index_records(call->site->index, frame_type, query, add_record, &records, &err);       \
                                                                                                   \
        page_answer(call, word, &records.page, count, query, &err);                                \
    }                                                                                              \
                                                                                                   \
    void function(struct api_call *call)                                                           \
    {                                                                                              \
        static const struct verdict_kinds kinds = { kind_name, kind_count };                       \
        struct index_query query;                                                                  \
                                                                                                   \
        if (query_read(call, &kinds, &query))                                                      \
            question_ask(call, &query, function##_page);                                           \
    }

RECORDS(api_get_findings, "findings", FRAME_FINDING, finding_kind_name, FINDING_KIND_COUNT)
RECORDS(api_get_decisions, "decisions", FRAME_DECISION, action_name, ACTION_COUNT)
RECORDS(api_get_outcomes, "outcomes", FRAME_OUTCOME, outcome_result_name, OUTCOME_RESULT_COUNT)
RECORDS(api_get_checks, "checks", FRAME_CHECK, check_state_name, CHECK_STATE_COUNT)

static void run_page(struct api_call *call, const struct index_query *query)
{
    struct page page = { .site = call->site, .list = json_object_new_array() };
    struct err err = { "" };
    int64_t count = index_runs(call->site->index, query, api_add_run, &page, &err);

    if (count < 0)
        page_failed(call, &err);
    else if (count == 0)
        reply_error(call->exchange, 404, "run '%s' has no facts yet", call->run);
    else
        reply_cached(call->exchange, json_object_get(json_object_array_get_idx(page.list, 0)));
    json_object_put(page.list);
}

void api_get_run(struct api_call *call)
{
    question_ask(call, &(struct index_query){ .run = call->run, .limit = 1 }, run_page);
}
