/* trace_export.c - from steps of all ranks to slices, arrows and counters.
 *
 * Processes are nodes (number of the node plus one), the run itself (RUN_PROCESS) and its verdicts.  A rank has a thread for
 * its host and one for each stream; operations of a stream that overlap go to further threads of it, since slices of a
 * thread must nest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/trace_export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/report/run_report.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "judge/state.h"
#include "judge/step/learn.h"
#include "show/verdict_view.h"
#include "wire/names.h"

#define RUN_PROCESS 1000001u /* more than there are nodes */
#define VERDICT_PROCESS 1000002u
#define LANES 4
#define THREADS_PER_RANK (MODEL_LINES_MAX * LANES)

struct trace_item { /* to be sorted */
    int64_t begin_ns, end_ns;
    uint32_t item, line;
};

struct trace_join { /* a member of a collective, or one side of a message */
    uint64_t key;
    struct trace_point begin, end;
    bool sends;   /* of a message */
    bool one_way; /* a message */
    uint8_t what;
};

struct trace_exporter {
    const struct trace_choice *choice;
    struct trace_writer *writer;
    struct trace_counts *counts;
    struct map named; /* processes and threads */
    struct map ended; /* of each rank, the end of its newest step */
    struct trace_item *item;
    size_t item_room;
    struct trace_join *join;
    size_t joins, join_room;
    int64_t base_ns;      /* on the common clock */
    int64_t real_ns;      /* wall clock minus common clock; 0: not known */
    int64_t tolerance_ns; /* of the step at hand: so much may rounded times overlap */
    int64_t end_ns;
    bool begun, failed;
};

static void trace_exporter_fini(struct trace_exporter *exporter)
{
    trace_writer_close(exporter->writer);
    map_fini(&exporter->named);
    map_fini(&exporter->ended);
    free(exporter->item);
    free(exporter->join);
}

/* ---- what was chosen ---- */

int trace_range_read(const char *text, struct trace_range *ret)
{
    struct trace_range range;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return -EINVAL;
    errno = 0;
    range.from = range.to = strtoull(text, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return -EINVAL;
        range.to = strtoull(end + 1, &end, 10);
    }
    if (*end || errno || range.to < range.from)
        return -EINVAL;
    *ret = range;
    return 0;
}

int trace_ranges_read(const char *text, struct trace_choice *choice)
{
    CLEAN(free_clean) char *copy = strdup(text);
    char *rest = copy, *word;

    if (!copy)
        return -ENOMEM;
    while ((word = strsep(&rest, ","))) {
        if (choice->ranks == TRACE_RANGES)
            return -E2BIG;
        if (trace_range_read(word, &choice->rank[choice->ranks++]) < 0)
            return -EINVAL;
    }
    return 0;
}

static bool trace_has_rank(const struct trace_choice *choice, uint32_t rank)
{
    bool has = choice->ranks == 0;

    for (size_t i = 0; i < choice->ranks && !has; i++)
        has = rank >= choice->rank[i].from && rank <= choice->rank[i].to;
    return has;
}

/* A rank whose ring was never reported has no node, and so no clock. */
static bool trace_has_step(const struct model *model, const struct job_step *job_step,
                           uint32_t rank)
{
    return job_step->step_of[rank].shape && model->rank[rank].node < model->nodes;
}

/* ---- names ---- */

/* True: it is new, so it is to be named. */
static bool trace_is_new(struct trace_exporter *exporter, uint64_t key)
{
    uint64_t *seen = map_put(&exporter->named, key, 0);

    if (!seen) {
        exporter->failed = true;
        return false;
    }
    return (*seen)++ == 0;
}

static void trace_name_node(struct trace_exporter *exporter, const struct model *model,
                            uint32_t node)
{
    char name[80];

    if (!trace_is_new(exporter, node + 1))
        return;
    snprintf(name, sizeof(name), "node %s", model->node[node].name);
    trace_writer_process(exporter->writer, node + 1, (int)node + 10, name);
}

static uint32_t trace_thread(struct trace_exporter *exporter, uint32_t process, uint32_t rank,
                             uint32_t line, uint32_t lane, uint16_t stream)
{
    uint32_t thread = rank * THREADS_PER_RANK + line * LANES + lane + 1;
    char name[64], more[16] = "";

    if (!trace_is_new(exporter, (uint64_t)process << 32 | thread))
        return thread;
    if (lane)
        snprintf(more, sizeof(more), " (%" PRIu32 ")", lane + 1);
    if (line == 0)
        snprintf(name, sizeof(name), "rank %" PRIu32 " host%s", rank, more);
    else
        snprintf(name, sizeof(name), "rank %" PRIu32 " stream %u%s", rank, stream, more);
    trace_writer_thread(exporter->writer, process, thread, name);
    return thread;
}

/* ---- slices ---- */

static const char *trace_item_name(const struct shape_item *item)
{
    return item->kind == ITEM_PHASE || item->kind == ITEM_SPAN ? name_of_phase(item->what)
                                                               : name_of_op(item->what);
}

static struct json_object *trace_item_args(const struct model *model,
                                           const struct model_shape *shape, uint32_t i)
{
    const struct shape_item *item = &shape->fact.item[i];
    struct json_object *args = json_object_new_object();

    if (item->kind != ITEM_COLL && item->kind != ITEM_P2P)
        return args;
    if (shape->comm[i] != MODEL_NONE)
        json_object_object_add(args, "group", show_string(model->comm[shape->comm[i]].name));
    json_object_object_add(args, "bytes", json_object_new_uint64(item->bytes));
    json_object_object_add(args, "type", json_object_new_string(name_of_dtype(item->dtype)));
    if (item->kind == ITEM_P2P)
        json_object_object_add(args, "peer", json_object_new_int64(item->peer));
    if (item->count > 1)
        json_object_object_add(args, "merged", json_object_new_int64(item->count));
    return args;
}

static int trace_item_compare(const void *a, const void *b)
{
    const struct trace_item *left = a, *right = b;

    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    if (left->begin_ns != right->begin_ns)
        return left->begin_ns < right->begin_ns ? -1 : 1;
    if (left->end_ns != right->end_ns)
        return left->end_ns > right->end_ns ? -1 : 1;
    return left->item < right->item ? -1 : left->item > right->item;
}

struct trace_lane { /* open slices of a thread, the innermost last */
    int64_t end_ns[16];
    uint32_t depth;
};

/* Whether it nests in what is open; overlaps that rounding explains are cut off. */
static bool trace_lane_takes(struct trace_exporter *exporter, struct trace_lane *lane,
                             struct trace_item *item)
{
    int64_t tolerance_ns = exporter->tolerance_ns;
    int64_t *top;

    while (lane->depth && lane->end_ns[lane->depth - 1] <= item->begin_ns)
        lane->depth--;
    if (lane->depth) {
        top = &lane->end_ns[lane->depth - 1];
        if (item->end_ns > *top && *top - item->begin_ns <= tolerance_ns) {
            item->begin_ns = *top; /* it begins when the one before ends */
            exporter->counts->clipped++;
            lane->depth--;
        } else if (item->end_ns > *top && item->end_ns - *top <= tolerance_ns) {
            item->end_ns = *top;
            exporter->counts->clipped++;
        } else if (item->end_ns > *top) {
            return false;
        }
    }
    while (lane->depth && item->end_ns > lane->end_ns[lane->depth - 1])
        item->end_ns = lane->end_ns[lane->depth - 1];
    if (lane->depth == COUNT(lane->end_ns))
        return false;
    lane->end_ns[lane->depth++] = item->end_ns;
    return true;
}

static void trace_add_join(struct trace_exporter *exporter, const struct model *model,
                           const struct model_shape *shape, uint32_t rank, uint32_t i,
                           const struct trace_slice *slice)
{
    const struct shape_item *item = &shape->fact.item[i];
    uint32_t comm = shape->comm[i], peer = MODEL_NONE;
    bool sends = item->what == LOCKSTEP_OP_SEND;
    struct trace_join *join;
    uint64_t key;

    if ((item->kind != ITEM_COLL && item->kind != ITEM_P2P) || comm == MODEL_NONE)
        return;
    key = hash64_u64(hash64_u64(comm + 1, item->kind), shape->ordinal[i]);
    if (item->kind == ITEM_P2P) {
        peer = model_member(&model->comm[comm], item->peer);
        if (peer == MODEL_NONE)
            return;
        key = hash64_u64(key, sends ? rank : peer);
        key = hash64_u64(key, sends ? peer : rank);
    }
    if (!ARRAY_FIT(exporter->join, exporter->join_room, exporter->joins + 1)) {
        exporter->failed = true;
        return;
    }
    join = &exporter->join[exporter->joins++];
    *join = (struct trace_join){
        .key = key,
        .begin = { slice->process, slice->thread, slice->begin_ns },
        .end = { slice->process, slice->thread, slice->end_ns },
        .sends = sends,
        .one_way = item->kind == ITEM_P2P,
        .what = item->what,
    };
}

static void trace_put_items(struct trace_exporter *exporter, const struct model *model,
                            const struct model_shape *shape, uint32_t rank, size_t count,
                            const struct trace_lane *host)
{
    struct trace_lane lane[LANES] = { 0 };
    uint32_t line = 0;

    lane[0] = *host;
    for (size_t i = 0; i < count; i++) {
        struct trace_item *item = &exporter->item[i];
        const struct shape_item *what = &shape->fact.item[item->item];
        struct trace_slice slice = { .process = model->rank[rank].node + 1,
                                     .name = trace_item_name(what),
                                     .category = what->kind == ITEM_PHASE  ? "phase"
                                                 : what->kind == ITEM_SPAN ? "device"
                                                                           : "communication" };
        uint32_t at = 0;

        if (item->line != line)
            memset(lane, 0, sizeof(lane));
        line = item->line;
        while (at < LANES && !trace_lane_takes(exporter, &lane[at], item))
            at++;
        if (at == LANES) {
            exporter->counts->clipped++;
            continue;
        }
        slice.thread = trace_thread(exporter, slice.process, rank, line, at, what->stream);
        slice.begin_ns = item->begin_ns;
        slice.end_ns = item->end_ns;
        slice.args = trace_item_args(model, shape, item->item);
        trace_writer_slice(exporter->writer, &slice);
        json_object_put(slice.args);
        exporter->counts->slices++;
        trace_add_join(exporter, model, shape, rank, item->item, &slice);
    }
}

/* When the step before it ends on the rank's thread.  A better estimate of a node's clock moves all later steps, and the
 * first of them may then begin within the one before: slices must nest, so it is cut off there.
 */
static int64_t trace_step_floor(struct trace_exporter *exporter, uint32_t rank,
                                struct trace_slice *slice)
{
    uint64_t *ended = map_put(&exporter->ended, (uint64_t)rank + 1, 0);
    int64_t floor_ns;

    if (!ended) {
        exporter->failed = true;
        return slice->begin_ns;
    }
    floor_ns = (int64_t)*ended;
    if (floor_ns > slice->begin_ns) {
        exporter->counts->clipped++;
        slice->begin_ns = floor_ns;
        slice->end_ns = MAX(slice->end_ns, floor_ns);
    }
    *ended = (uint64_t)MAX(slice->end_ns, 0);
    return slice->begin_ns;
}

static void trace_put_rank(struct trace_exporter *exporter, const struct model *model,
                           const struct job_step *job_step, uint32_t rank)
{
    const struct fact_step *step = &job_step->step_of[rank];
    const struct model_shape *shape = job_step->shape_of[rank];
    const struct model_node *node = &model->node[model->rank[rank].node];
    int64_t begin_ns = step->begin_ns + node->offset_ns - exporter->base_ns;
    int64_t total_ns = step->duration_ns + step->tail_ns;
    uint32_t count = shape ? MIN(step->count, shape->fact.count) : 0;
    struct trace_lane host = { .depth = 1 };
    struct trace_slice slice = { .process = model->rank[rank].node + 1,
                                 .begin_ns = begin_ns,
                                 .end_ns = begin_ns + total_ns,
                                 .category = "step" };
    int64_t floor_ns;
    char name[40];

    if (!ARRAY_FIT(exporter->item, exporter->item_room, count)) {
        exporter->failed = true;
        return;
    }
    floor_ns = trace_step_floor(exporter, rank, &slice);
    host.end_ns[0] = slice.end_ns;
    exporter->counts->rank_steps++;
    exporter->counts->clock_error_ns = MAX(exporter->counts->clock_error_ns, node->error_ns);
    exporter->end_ns = MAX(exporter->end_ns, slice.end_ns);
    trace_name_node(exporter, model, model->rank[rank].node);
    snprintf(name, sizeof(name), "step %" PRIu64, job_step->step);
    slice.name = name;
    slice.thread = trace_thread(exporter, slice.process, rank, 0, 0, 0);
    slice.args = json_object_new_object();
    json_object_object_add(slice.args, "attempt", json_object_new_int64(job_step->attempt));
    json_object_object_add(slice.args, "rank", json_object_new_int64(rank));
    trace_writer_slice(exporter->writer, &slice);
    json_object_put(slice.args);
    exporter->counts->slices++;
    for (uint32_t i = 0; i < count; i++) {
        int64_t start_ns = MAX(begin_ns + step->time[i].start_ns, floor_ns);

        exporter->item[i] = (struct trace_item){
            .begin_ns = start_ns,
            .end_ns = MAX(begin_ns + step->time[i].end_ns, start_ns),
            .item = i,
            .line = shape->class ? shape->class->line[i] : 0,
        };
    }
    qsort(exporter->item, count, sizeof(exporter->item[0]), trace_item_compare);
    exporter->tolerance_ns = learn_tolerance_ns(total_ns);
    trace_put_items(exporter, model, shape, rank, count, &host);
}

/* ---- arrows ---- */

static int trace_join_compare(const void *a, const void *b)
{
    const struct trace_join *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->begin.at_ns < right->begin.at_ns ? -1 : left->begin.at_ns > right->begin.at_ns;
}

/* From the member that came last to those that waited for it; from the sender of a message to its receiver. */
static void trace_put_group(struct trace_exporter *exporter, const struct trace_join *join,
                            size_t count)
{
    const struct trace_join *from = &join[count - 1];

    for (size_t i = 0; i < count && join[0].one_way; i++)
        from = join[i].sends ? &join[i] : from;
    for (size_t i = 0; i < count; i++) {
        if (&join[i] == from || (from->one_way && join[i].sends == from->sends))
            continue;
        if (join[i].end.at_ns < from->begin.at_ns) {
            exporter->counts->arrows_dropped++;
            continue;
        }
        trace_writer_arrow(exporter->writer, ++exporter->counts->arrows, name_of_op(from->what),
                           from->begin, join[i].end);
    }
}

static void trace_put_arrows(struct trace_exporter *exporter)
{
    size_t from = 0;

    if (exporter->joins)
        qsort(exporter->join, exporter->joins, sizeof(exporter->join[0]), trace_join_compare);
    for (size_t i = 1; i <= exporter->joins; i++) {
        if (i < exporter->joins && exporter->join[i].key == exporter->join[from].key)
            continue;
        if (i - from > 1)
            trace_put_group(exporter, &exporter->join[from], i - from);
        from = i;
    }
    exporter->joins = 0;
}

/* ---- steps, counters, verdicts ---- */

static void trace_put_counters(struct trace_exporter *exporter, const struct model *model,
                               const struct job_step *job_step)
{
    int64_t at_ns = INT64_MAX, longest_ns = 0;
    double loss = NAN, tokens = 0;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct fact_step *step = &job_step->step_of[rank];
        int64_t offset_ns;

        if (!trace_has_step(model, job_step, rank))
            continue;
        offset_ns = model->node[model->rank[rank].node].offset_ns - exporter->base_ns;
        at_ns = MIN(at_ns, step->begin_ns + offset_ns);
        longest_ns = MAX(longest_ns, step->duration_ns + step->tail_ns);
        if (isnan(loss) && step->metric_set & 1u << LOCKSTEP_METRIC_LOSS)
            loss = step->metric[LOCKSTEP_METRIC_LOSS];
        if (step->metric_set & 1u << LOCKSTEP_METRIC_TOKENS)
            tokens += step->metric[LOCKSTEP_METRIC_TOKENS];
    }
    if (at_ns == INT64_MAX)
        return;
    if (trace_is_new(exporter, RUN_PROCESS))
        trace_writer_process(exporter->writer, RUN_PROCESS, 0, "run");
    trace_writer_counter(exporter->writer, RUN_PROCESS, at_ns, "step ms", (double)longest_ns / 1e6);
    trace_writer_counter(exporter->writer, RUN_PROCESS, at_ns, "loss", loss);
    if (tokens > 0)
        trace_writer_counter(exporter->writer, RUN_PROCESS, at_ns, "tokens", tokens);
}

/* The first chosen step is at the begin of the trace: numbers of microseconds stay exact. */
static void trace_begin(struct trace_exporter *exporter, const struct judge_state *judge,
                        const struct job_step *job_step)
{
    const struct model *model = &judge->model;
    int64_t base_ns = INT64_MAX;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (trace_has_step(model, job_step, rank))
            base_ns = MIN(base_ns, job_step->step_of[rank].begin_ns +
                                       model->node[model->rank[rank].node].offset_ns);
    }
    exporter->begun = base_ns != INT64_MAX;
    exporter->base_ns = exporter->begun ? base_ns : 0;
    exporter->real_ns = judge->mono_to_real_ns;
}

static void trace_watch(void *arg, const struct judge_state *judge, const struct job_step *job_step)
{
    struct trace_exporter *exporter = arg;
    const struct model *model = &judge->model;

    if (job_step->step < exporter->choice->step.from || job_step->step > exporter->choice->step.to)
        return;
    if (!exporter->begun)
        trace_begin(exporter, judge, job_step);
    if (!exporter->begun)
        return;
    exporter->counts->steps++;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (trace_has_step(model, job_step, rank) && trace_has_rank(exporter->choice, rank))
            trace_put_rank(exporter, model, job_step, rank);
    }
    trace_put_arrows(exporter);
    trace_put_counters(exporter, model, job_step);
}

static void trace_put_verdict(struct trace_exporter *exporter, const struct verdict *verdict,
                              uint32_t thread)
{
    int64_t offset_ns = exporter->real_ns + exporter->base_ns;
    struct trace_slice slice = { .process = VERDICT_PROCESS,
                                 .thread = thread,
                                 .category = "verdict",
                                 .begin_ns = verdict->since_real_ns - offset_ns,
                                 .end_ns = verdict->until_real_ns
                                               ? verdict->until_real_ns - offset_ns
                                               : exporter->end_ns };
    char sentence[320];

    slice.begin_ns = MAX(slice.begin_ns, INT64_C(0));
    if (slice.end_ns < slice.begin_ns || slice.begin_ns > exporter->end_ns)
        return; /* not while these steps were trained */
    if (trace_is_new(exporter, VERDICT_PROCESS))
        trace_writer_process(exporter->writer, VERDICT_PROCESS, 1, "verdicts");
    trace_writer_thread(exporter->writer, VERDICT_PROCESS, thread, verdict->id);
    slice.name = verdict_sentence(verdict, sentence, sizeof(sentence));
    slice.args = verdict_json(verdict);
    trace_writer_slice(exporter->writer, &slice);
    json_object_put(slice.args);
    exporter->counts->slices++;
}

static struct json_object *trace_about(const struct trace_exporter *exporter,
                                       const struct run_summary *summary)
{
    struct json_object *about = json_object_new_object();

    json_object_object_add(about, "run", show_string(summary->run));
    json_object_object_add(about, "producer", json_object_new_string("lockstep " LOCKSTEP_VERSION));
    json_object_object_add(
        about, "begin_time",
        show_time(exporter->real_ns ? exporter->real_ns + exporter->base_ns : 0));
    json_object_object_add(about, "clock_error_us",
                           show_number((double)exporter->counts->clock_error_ns / 1e3));
    json_object_object_add(about, "steps", json_object_new_uint64(exporter->counts->steps));
    json_object_object_add(about, "shortened_slices",
                           json_object_new_uint64(exporter->counts->clipped));
    json_object_object_add(about, "arrows_left_out",
                           json_object_new_uint64(exporter->counts->arrows_dropped));
    return about;
}

int trace_export(const char *run_dir, const struct trace_choice *choice, const char *path,
                 struct trace_counts *ret, struct err *err)
{
    CLEAN(trace_exporter_fini) struct trace_exporter exporter = { .choice = choice, .counts = ret };
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    struct json_object *about;
    int result = run_report_read(run_dir, false, &summary, err);

    memset(ret, 0, sizeof(*ret));
    if (result == 0)
        result = trace_writer_open(path, &exporter.writer, err);
    if (result == 0)
        result = run_report_watch(run_dir, trace_watch, &exporter, NULL, err);
    if (result == 0 && exporter.failed)
        result = err_nomem(err);
    if (result == 0 && !ret->rank_steps)
        result = err_set(err, -ENODATA, "run %s: none of the chosen steps and ranks was observed",
                         summary.run);
    if (result < 0)
        return result;
    for (size_t i = 0; i < summary.verdicts; i++)
        trace_put_verdict(&exporter, &summary.verdict[i], (uint32_t)i + 1);
    about = trace_about(&exporter, &summary);
    result = trace_writer_finish(exporter.writer, about, err);
    json_object_put(about);
    return result;
}
