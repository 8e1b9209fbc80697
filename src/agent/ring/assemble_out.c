/* assemble_out.c - decides which step is complete, encodes it, and reports the gap before it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ring/assemble.h"
#include "agent/ring/assemble_private.h"
#include "core/clean.h"

#define YEAR_NS INT64_C(31557600000000000)
#define AHEAD_NS INT64_C(1000000) /* clocks and the telling of ends blur the border of a step */

void assembled_fini(struct assembled *out)
{
    fact_shape_fini(&out->shape);
    fact_step_fini(&out->step);
    free(out->op);
    out->op = NULL;
    out->ops = 0;
    out->kind = ASSEMBLED_NONE;
}

static void assemble_build_pop(struct assemble *assemble)
{
    build_destroy(assemble->build[0]);
    assemble->builds--;
    memmove(assemble->build, assemble->build + 1, assemble->builds * sizeof(assemble->build[0]));
}

void build_drop_front(struct assemble *assemble)
{
    uint64_t number = assemble->build[0]->number;

    if (!assemble->missing || number < assemble->missing_from)
        assemble->missing_from = number;
    if (!assemble->missing || number > assemble->missing_to)
        assemble->missing_to = number;
    assemble->missing = true;
    assemble_build_pop(assemble);
}

/* ---- when ---- */

static bool assemble_waits_for_stamps(const struct assemble *assemble, const struct build *front,
                                      const struct build *next)
{
    return front->stamps && !front->sparse && next->stamps && !line_is_whole(assemble, front, next);
}

static bool assemble_waits_for_device(const struct assemble *assemble, const struct build *front,
                                      const struct build *next)
{
    return (front->device_ops && front->open_ops) ||
           assemble_waits_for_stamps(assemble, front, next);
}

static bool assemble_front_ready(const struct assemble *assemble)
{
    const struct build *front = assemble->builds ? assemble->build[0] : NULL;
    const struct build *next = NULL;
    unsigned ended = 0;

    if (!front || assemble->final || assemble->builds > BUILDS - 2)
        return front != NULL;
    for (unsigned i = 1; i < assemble->builds; i++) {
        const struct build *build = assemble->build[i];

        if (!next && build->begun)
            next = build;
        ended += build->ended;
    }
    if (!next)
        return false;
    if (ended >= (assemble_waits_for_device(assemble, front, next) ? HOLD_DEVICE : HOLD_MAX))
        return true;
    /* A pass over the lanes that began after the next step's begin was seen has seen all
     * that the other lanes had to say before it.
     */
    return assemble->round > next->begun_round && front->open_ops == 0 && ended >= assemble->hold &&
           !assemble_waits_for_stamps(assemble, front, next) &&
           (!assemble->sampling || !front->ended || front->end_known != BORDER_OPEN);
}

static bool assemble_out_is_done(const struct assemble *assemble, const struct build *build)
{
    if (!assemble->done.any || !build->begun)
        return assemble->done.any && build->number <= assemble->done.step;
    if (assemble->done.begin_ns != INT64_MIN && build->begin_ns <= assemble->done.begin_ns)
        /* In an earlier life that may have been when the device began, later than its host. */
        return !assemble->resumed || !build->stamps || build->number <= assemble->done.step;
    return assemble->done.gap && build->number <= assemble->done.step;
}

static bool assemble_is_sendable(const struct build *build)
{
    return build->begun && (!build->torn || build->end_marked);
}

/* ---- gaps ---- */

/* The steps that are missing before step `next`: those in the making whose begin was lost, and
 * numbers between what was told and `next` for which records were lost.  Where a lane had wrapped before it
 * was ever read the first of them is not known: every step has at least one record, so it is not further
 * back than there were records.
 */
static bool assemble_gap_range(const struct assemble *assemble, uint64_t next, struct fact_gap *gap)
{
    uint64_t from = assemble->missing ? assemble->missing_from : next;

    if (assemble->tear) {
        uint64_t first = assemble->tear_from;

        if (assemble->lost_first && !assemble->done.any)
            first = MAX(first, next - MIN(next, assemble->lost));
        from = MIN(from, first);
    }
    if (assemble->done.any)
        from = MAX(from, assemble->done.step + 1);
    gap->step_from = gap->step_to = UINT64_MAX;
    if (from >= next)
        return false;
    gap->step_from = from;
    gap->step_to = next - 1;
    return true;
}

/* Makes the gap before `next`; false: nothing is missing.  In a resumed ring the count of
 * overwritten records includes those that were read in an earlier life: then it is estimated
 * from the size of the step at hand.
 */
static bool assemble_gap_make(struct assemble *assemble, uint64_t next, const struct build *build,
                              struct fact_gap *gap)
{
    bool some;

    *gap = (struct fact_gap){ .rank = assemble->id.rank,
                              .attempt = assemble->id.attempt,
                              .ring = assemble->id.ring };
    some = assemble_gap_range(assemble, next, gap);
    if (!some && assemble->tear && next <= assemble->tear_from)
        return false; /* what was lost comes after this step */
    gap->records = assemble->lost;
    if (assemble->resumed && assemble->lost_first) {
        uint64_t steps = some ? gap->step_to - gap->step_from + 1 : build && build->torn;
        uint64_t each = build && build->events ? build->events : 2;

        gap->records = steps > assemble->lost / each ? assemble->lost : steps * each;
    }
    gap->records += assemble->late;
    if (some && gap->records == 0) /* counted with an earlier gap of the same hole */
        gap->records = gap->step_to - gap->step_from + 1;
    assemble->lost = assemble->late = 0;
    assemble->lost_first = assemble->missing = false;
    if (some) {
        assemble->done.any = true;
        assemble->done.step = gap->step_to;
    }
    return some || gap->records;
}

/* ---- a step ---- */

static int assemble_item_order(const void *left, const void *right)
{
    const struct item *a = left, *b = right;

    if (a->enqueue_ns != b->enqueue_ns)
        return a->enqueue_ns < b->enqueue_ns ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void assemble_items_sort(struct build *build)
{
    for (uint32_t i = 1; i < build->count; i++) {
        if (assemble_item_order(&build->item[i - 1], &build->item[i]) > 0) {
            qsort(build->item, build->count, sizeof(*build->item), assemble_item_order);
            return;
        }
    }
}

static struct item_time assemble_item_time_of(const struct build *build, const struct item *item,
                                              int64_t until_ns)
{
    int64_t end = item->ended ? item->end_ns : MAX(until_ns, item->start_ns);
    int64_t begin = build->begin_ns;

    return (struct item_time){ .enqueue_ns = MAX(item->enqueue_ns - begin, 0),
                               .start_ns = MAX(item->start_ns - begin, 0),
                               .end_ns = MAX(end - begin, 0),
                               .wait_ns = -1 };
}

static uint64_t assemble_comm_of(const struct assemble *assemble, const struct item *item)
{
    return item->comm >= 0 && item->comm < RING_COMMS ? assemble->comm_id[item->comm] : 0;
}

/* The times of merged ops: the first one's begin, then the time inside all of them. */
static void assemble_times_merge(const struct build *build, const uint32_t *group, int64_t until_ns,
                                 const struct fact_shape *shape, struct item_time *time)
{
    for (uint32_t i = 0; i < shape->count; i++)
        time[i].end_ns = -1;
    for (uint32_t i = 0; i < build->count; i++) {
        struct item_time one = assemble_item_time_of(build, &build->item[i], until_ns);
        struct item_time *sum = &time[group[i]];

        if (sum->end_ns < 0)
            *sum = one;
        else
            sum->end_ns += one.end_ns - one.start_ns;
    }
}

/* The single ops, for those who can still see what merging hides. */
static int ops_out(const struct assemble *assemble, const struct build *build,
                   const uint32_t *group, int64_t until_ns, struct assembled *out)
{
    out->op = calloc(build->count + 1, sizeof(*out->op));
    if (!out->op)
        return -ENOMEM;
    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *item = &build->item[i];
        struct item_time time = assemble_item_time_of(build, item, until_ns);

        if (item->kind != ITEM_COLL && item->kind != ITEM_P2P)
            continue;
        out->op[out->ops++] = (struct split_op){
            .kind = item->kind,
            .what = item->what,
            .ended = item->ended,
            .merged = item_has_wait(&out->shape.item[group[i]]),
            .peer = item->peer,
            .item = group[i],
            .comm = assemble_comm_of(assemble, item),
            .key = item->key,
            .start_ns = build->begin_ns + time.start_ns,
            .end_ns = build->begin_ns + MAX(time.end_ns, time.start_ns),
        };
    }
    return 0;
}

static int items_out(const struct assemble *assemble, struct build *build, int64_t until_ns,
                     struct assembled *out)
{
    CLEAN(free_clean) struct shape_item *item = calloc(build->count + 1, sizeof(*item));
    CLEAN(free_clean) uint32_t *group = calloc(build->count + 1, sizeof(*group));

    out->shape.item = calloc(build->count + 1, sizeof(*item));
    if (!item || !group || !out->shape.item)
        return -ENOMEM;
    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *from = &build->item[i];

        item[i] = (struct shape_item){ .kind = from->kind,
                                       .what = from->what,
                                       .stream = from->stream,
                                       .peer = from->peer,
                                       .count = 1,
                                       .comm = assemble_comm_of(assemble, from),
                                       .bytes = bytes_round(from->bytes),
                                       .dtype = from->dtype };
    }
    out->shape.count =
        build->count ? (uint32_t)shape_merge(item, build->count, out->shape.item, group) : 0;
    if (build->count && !out->shape.count)
        return -ENOMEM;
    out->step.time = calloc(out->shape.count + 1, sizeof(*out->step.time));
    if (!out->step.time)
        return -ENOMEM;
    assemble_times_merge(build, group, until_ns, &out->shape, out->step.time);
    if (assemble->keep_ops || out->shape.count < build->count)
        return ops_out(assemble, build, group, until_ns, out);
    return 0;
}

/* Until when the step's ops ran on a device that tells these alone; INT64_MAX: one has not ended, 0: there are none. */
static int64_t assemble_device_end_ns(const struct build *build)
{
    int64_t end_ns = 0;

    for (uint32_t i = 0; build->device_ops && i < build->count; i++) {
        const struct item *item = &build->item[i];
        bool op = item->kind == ITEM_COLL || item->kind == ITEM_P2P;

        if (op && stream_has_ops_only(item->stream))
            end_ns = MAX(end_ns, item->ended ? item->end_ns : INT64_MAX);
    }
    return end_ns;
}

/* A host that does not wait for its device goes on to the next step while ops of this one, or of an earlier one, run
 * there.
 */
static bool assemble_step_is_ahead(const struct assemble *assemble, const struct build *build)
{
    int64_t blur_ns = MAX(AHEAD_NS, (build->end_ns - build->begin_ns) / 20);
    int64_t end_ns = assemble_device_end_ns(build);

    return assemble->device_end_ns > build->begin_ns + blur_ns || end_ns == INT64_MAX ||
           (build->next_ns && end_ns > build->next_ns + blur_ns);
}

static uint32_t assemble_step_flags(const struct assemble *assemble, const struct build *build)
{
    bool last = assemble->final && assemble->builds == 1;
    uint32_t flags = 0;

    if (!build->spans)
        flags |= STEP_HOST_VIEW;
    if (build->open_ops || !build->ended)
        flags |= STEP_UNFINISHED;
    if (build->torn)
        flags |= STEP_TORN;
    if (!build->host_begin_ns && assemble_step_is_ahead(assemble, build))
        flags |= STEP_AHEAD;
    if (build->untimed)
        flags |= STEP_UNTIMED;
    if (last)
        flags |= STEP_LAST;
    return flags;
}

static void assemble_step_scheduler(const struct build *build, struct fact_step *step)
{
    if (build->begin_known != BORDER_KNOWN || build->end_known != BORDER_KNOWN)
        return;
    step->cpu_ns = build->end_sample.cpu_ns - build->begin_sample.cpu_ns;
    step->run_delay_ns = build->end_sample.run_delay_ns - build->begin_sample.run_delay_ns;
    step->throttled_ns = build->end_sample.throttled_ns - build->begin_sample.throttled_ns;
    step->major_faults = build->end_sample.major_faults - build->begin_sample.major_faults;
}

/* Until when a step lasts, its tail included.  After the last one nothing begins, but a rank may still do
 * what belongs to it: save a checkpoint, wait for its device.
 */
static int64_t assemble_step_until(const struct build *build, int64_t end_ns)
{
    int64_t until = MAX(end_ns, build->next_ns);

    for (uint32_t i = 0; build->next_ns == 0 && i < build->count; i++) {
        if (build->item[i].ended)
            until = MAX(until, build->item[i].end_ns);
    }
    return until;
}

/* The step that began after this one; NULL: none has. */
static const struct build *assemble_build_next(const struct assemble *assemble)
{
    for (unsigned i = 1; i < assemble->builds; i++) {
        if (assemble->build[i]->begun)
            return assemble->build[i];
    }
    return NULL;
}

static int step_out(struct assemble *assemble, struct build *build, struct assembled *out)
{
    struct fact_step *step = &out->step;
    int64_t end, until;

    assemble_items_sort(build);
    if (line_make(assemble, build, assemble_build_next(assemble)) < 0)
        return -ENOMEM;
    end = build->ended ? build->end_ns : MAX(assemble->gone_ns, build->begin_ns);
    until = assemble_step_until(build, end);

    *step = (struct fact_step){
        .rank = assemble->id.rank,
        .attempt = assemble->id.attempt,
        .ring = assemble->id.ring,
        .step = build->number,
        .begin_ns = build->begin_ns,
        .duration_ns = MIN(end - build->begin_ns, YEAR_NS - 1),
        .tail_ns = MIN(until - end, YEAR_NS - 1),
        .flags = assemble_step_flags(assemble, build),
        .metric_set = build->metric_set,
        .digest_parts = build->digest_parts,
        .digest_part = build->digest_part,
        .digest = { build->digest[0], build->digest[1] },
    };
    memcpy(step->metric, build->metric, sizeof(step->metric));
    assemble_step_scheduler(build, step);
    if (build->torn) { /* the next begin that survived need not be the next that was */
        build->count = 0;
        if (assemble->builds < 2 || assemble->build[1]->number != build->number + 1)
            step->tail_ns = 0;
    }
    if (items_out(assemble, build, until, out) < 0) {
        assembled_fini(out);
        return -ENOMEM;
    }
    shape_hash(&out->shape);
    step->shape = out->shape.hash;
    step->count = out->shape.count;
    out->kind = ASSEMBLED_STEP;
    return 1;
}

static void assemble_step_done(struct assemble *assemble, const struct build *build)
{
    int64_t end_ns = assemble_device_end_ns(build);

    if (end_ns != INT64_MAX)
        assemble->device_end_ns = MAX(assemble->device_end_ns, end_ns);
    assemble->done = (struct assemble_done){ .any = true,
                                             .step = build->number,
                                             .begin_ns = build->host_begin_ns ? build->host_begin_ns
                                                                              : build->begin_ns };
    assemble->resumed = false;
    assemble->sent_any = true;
    if (assemble->tear && build->number >= assemble->tear_to)
        assemble->tear = false;
}

static int assemble_out_take_step(struct assemble *assemble, struct assembled *out)
{
    while (assemble_front_ready(assemble)) {
        struct build *build = assemble->build[0];
        int result;

        if (assemble_out_is_done(assemble, build)) {
            assemble_build_pop(assemble);
            continue;
        }
        if (!assemble_is_sendable(build)) {
            build_drop_front(assemble);
            continue;
        }
        if (assemble_gap_make(assemble, build->number, build, &out->gap)) {
            out->kind = ASSEMBLED_GAP;
            return 1;
        }
        result = step_out(assemble, build, out);
        if (result > 0) {
            assemble_step_done(assemble, build);
            assemble_build_pop(assemble);
        }
        return result;
    }
    return 0;
}

int assemble_take(struct assemble *assemble, struct assembled *out)
{
    int result;

    if (assemble->note_ready) {
        assemble->note_ready = false;
        out->note = assemble->note;
        out->kind = ASSEMBLED_NOTE;
        return 1;
    }
    if (method_take(assemble, &out->method)) {
        out->kind = ASSEMBLED_METHOD;
        return 1;
    }
    result = assemble_out_take_step(assemble, out);
    if (result == 0 && assemble->final) {
        uint64_t next = assemble->missing ? assemble->missing_to + 1 : 0;

        if (assemble->tear)
            next = MAX(next, assemble->tear_to + 1);
        if (assemble_gap_make(assemble, next, NULL, &out->gap)) {
            out->kind = ASSEMBLED_GAP;
            return 1;
        }
    }
    return result;
}

/* ---- where the rank is now ---- */

/* The oldest operation of each stream that has not ended: streams run in order. */
static unsigned assemble_view_ops(const struct assemble *assemble, const struct open_op **front)
{
    unsigned count = 0;

    for (size_t i = 0; i < assemble->ops.size; i++) {
        const struct open_op *op = &assemble->ops.slot[i];
        unsigned at = 0;

        if (!op->used || !op->enqueued || op->ended)
            continue;
        while (at < count && front[at]->stream != op->stream)
            at++;
        if (at == count) {
            if (count == BEAT_OPS_MAX)
                continue;
            front[count++] = op;
        } else if (op->enqueue_ns < front[at]->enqueue_ns ||
                   (op->enqueue_ns == front[at]->enqueue_ns && op->key < front[at]->key)) {
            front[at] = op;
        }
    }
    return count;
}

static bool assemble_op_advanced(const struct assemble *assemble, const struct open_op *op)
{
    for (unsigned i = 0; i < assemble->seen_count; i++) {
        const struct seen_op *seen = &assemble->seen[i];

        if (seen->stream == op->stream)
            return seen->comm != op->comm || seen->key != op->key || seen->p2p != op->p2p ||
                   seen->started != op->started;
    }
    return true;
}

/* Only while nothing ends: a rank that goes on need not say how far it is. */
static void assemble_view_channels(struct assemble *assemble, struct fact_beat *beat)
{
    bool still = assemble->ends == assemble->seen_ends;

    assemble->seen_ends = assemble->ends;
    beat->channels = 0;
    for (unsigned i = 0; still && i < assemble->channels; i++) {
        const struct channel *channel = &assemble->channel[i];

        if ((channel->what && assemble->uncounted) || channel->comm < 0 ||
            channel->comm >= RING_COMMS || !assemble->comm_known[channel->comm])
            continue;
        beat->channel[beat->channels++] =
            (struct beat_channel){ .comm = assemble->comm_id[channel->comm],
                                   .what = channel->what,
                                   .peer = channel->peer,
                                   .enqueued = channel->enqueued,
                                   .started = channel->launches ? BEAT_UNKNOWN : channel->started,
                                   .ended = channel->launches ? BEAT_UNKNOWN : channel->ended };
    }
}

unsigned assemble_phase(const struct assemble *assemble)
{
    return assemble->phases ? assemble->phase[assemble->phases - 1].phase : 0;
}

void assemble_view(struct assemble *assemble, int64_t now_ns, struct fact_beat *beat)
{
    const struct open_op *front[BEAT_OPS_MAX];
    const struct open_phase *phase =
        assemble->phases ? &assemble->phase[assemble->phases - 1] : NULL;

    beat->phase = phase ? phase->phase : 0;
    beat->phase_age_ns = phase ? MAX(now_ns - phase->since_ns, 0) : 0;
    beat->step = assemble->any_step ? assemble->now_step : RING_NO_STEP;
    beat->step_age_ns = assemble->any_step ? MAX(now_ns - assemble->now_begin_ns, 0) : 0;
    beat->phases = 0;
    for (unsigned i = 0; i < assemble->phases; i++)
        beat->phases |= 1u << assemble->phase[i].phase;
    assemble_view_channels(assemble, beat);
    beat->advanced = assemble->events != assemble->seen_events;
    assemble->seen_events = assemble->events;
    beat->ops = assemble_view_ops(assemble, front);
    for (unsigned i = 0; i < beat->ops; i++) {
        const struct open_op *op = front[i];
        bool known = op->comm >= 0 && op->comm < RING_COMMS;

        beat->op[i] = (struct beat_op){
            .stream = op->stream,
            .kind = op->p2p ? ITEM_P2P : ITEM_COLL,
            .what = op->what,
            .comm = known ? assemble->comm_id[op->comm] : 0,
            .key = op->key,
            .age_ns = MAX(now_ns - (op->started ? op->start_ns : op->enqueue_ns), 0),
            .started = op->started,
            .advanced = assemble_op_advanced(assemble, op),
            .queued_ns = MAX(now_ns - op->enqueue_ns, 1),
            .bytes = op->bytes,
            .dtype = op->dtype,
            .peer = op->peer,
            .ordinal = op->p2p && assemble->uncounted ? BEAT_UNKNOWN : op->ordinal,
        };
    }
    assemble->seen_count = beat->ops;
    for (unsigned i = 0; i < beat->ops; i++)
        assemble->seen[i] = (struct seen_op){ front[i]->stream, front[i]->p2p, front[i]->started,
                                              front[i]->comm, front[i]->key };
}
