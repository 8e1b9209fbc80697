/* assemble.c - events into incomplete steps; assemble_ops.c has their operations, assemble_out.c emits them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/assemble.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ring/assemble_private.h"
#include "core/clean.h"
#include "lockstep/probe.h"

struct assemble *assemble_create(const struct assemble_id *id)
{
    struct assemble *assemble = calloc(1, sizeof(*assemble));

    if (!assemble)
        return NULL;
    assemble->partial = calloc(RING_LANES_MAX, sizeof(*assemble->partial));
    if (!assemble->partial) {
        free(assemble);
        return NULL;
    }
    assemble->id = *id;
    assemble->done.begin_ns = INT64_MIN;
    return assemble;
}

void build_destroy(struct build *build)
{
    if (build)
        free(build->item);
    free(build);
}

void assemble_destroy(struct assemble *assemble)
{
    if (!assemble)
        return;
    for (unsigned i = 0; i < assemble->builds; i++)
        build_destroy(assemble->build[i]);
    optable_fini(&assemble->ops);
    stamped_free(assemble->stamped);
    free(assemble->partial);
    free(assemble);
}

void assemble_resume(struct assemble *assemble, const struct assemble_done *done)
{
    assemble->done = *done;
    assemble->resumed = done->any;
}

void assemble_comm(struct assemble *assemble, uint32_t index, uint64_t id)
{
    if (index >= RING_COMMS)
        return;
    assemble->comm_id[index] = id;
    assemble->comm_known[index] = true;
}

bool assemble_knows_comm(const struct assemble *assemble, int32_t index)
{
    return index < 0 || index >= RING_COMMS || assemble->comm_known[index];
}

void assemble_keep_ops(struct assemble *assemble, bool keep)
{
    assemble->keep_ops = keep;
}

/* ---- steps in the making ---- */

struct build *build_by_serial(const struct assemble *assemble, uint64_t serial)
{
    for (unsigned i = 0; serial && i < assemble->builds; i++) {
        if (assemble->build[i]->serial == serial) /* final items have other places */
            return assemble->build[i]->made ? NULL : assemble->build[i];
    }
    return NULL;
}

static struct build *assemble_build_newest(const struct assemble *assemble)
{
    return assemble->builds ? assemble->build[assemble->builds - 1] : NULL;
}

static struct build *assemble_build_by_number(const struct assemble *assemble, uint64_t number)
{
    for (unsigned i = assemble->builds; i > 0; i--) { /* newest first: numbers may repeat */
        if (assemble->build[i - 1]->number == number)
            return assemble->build[i - 1];
    }
    return NULL;
}

static bool assemble_is_torn(const struct assemble *assemble, uint64_t number)
{
    return assemble->tear && number >= assemble->tear_from && number <= assemble->tear_to;
}

static struct build *assemble_build_add(struct assemble *assemble, uint64_t number)
{
    struct build *build;

    if (assemble->builds == BUILDS) /* only when nobody takes what is ready */
        build_drop_front(assemble);
    build = calloc(1, sizeof(*build));
    if (!build) {
        assemble->late++;
        return NULL;
    }
    build->serial = ++assemble->serial;
    build->number = number;
    build->torn = assemble_is_torn(assemble, number);
    assemble->build[assemble->builds++] = build;
    return build;
}

/* The build that an event belongs to.  A step whose begin has not been seen is made when it is
 * newer than all others (another lane may show it first); an older one has been sent.
 */
struct build *build_for(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = assemble_build_by_number(assemble, event->step);
    const struct build *newest = assemble_build_newest(assemble);

    if (build || event->step == RING_NO_STEP)
        return build;
    if ((newest && newest->number > event->step) ||
        (assemble->done.any && assemble->done.step >= event->step)) {
        if (assemble->sent_any)
            assemble->late++;
        return NULL;
    }
    return assemble_build_add(assemble, event->step);
}

struct item *item_add(struct assemble *assemble, struct build *build, int64_t time_ns)
{
    struct item *item;

    if (build->count >= FACT_ITEMS_MAX ||
        !ARRAY_FIT(build->item, build->room, (size_t)build->count + 1)) {
        build->torn = true;
        assemble->late++;
        return NULL;
    }
    item = &build->item[build->count];
    *item = (struct item){ .comm = -1, .seq = build->count++ };
    item->enqueue_ns = item->start_ns = item->end_ns = time_ns;
    return item;
}

/* ---- phases ---- */

static void assemble_phase_extend(struct assemble *assemble, struct open_phase *open,
                                  struct build *build, int64_t from_ns)
{
    struct item *item = item_add(assemble, build, from_ns);

    open->build = 0;
    if (!item)
        return;
    item->kind = ITEM_PHASE;
    item->what = open->phase;
    open->build = build->serial;
    open->item = build->count - 1;
}

static void assemble_phase_close(struct assemble *assemble, const struct open_phase *open,
                                 int64_t time_ns)
{
    struct build *build = build_by_serial(assemble, open->build);

    if (!build)
        return;
    build->item[open->item].end_ns = MAX(time_ns, build->item[open->item].start_ns);
    build->item[open->item].ended = true;
}

static void assemble_on_phase_begin(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = build_for(assemble, event);
    struct open_phase *open = &assemble->phase[assemble->phases];
    int64_t at = (int64_t)event->time_ns;

    if (event->detail == 0 || event->detail >= LOCKSTEP_PHASE_COUNT ||
        assemble->phases == PHASE_DEPTH)
        return;
    *open = (struct open_phase){ .phase = event->detail, .lane = event->lane, .since_ns = at };
    assemble->phases++;
    if (!build)
        return;
    assemble_phase_extend(assemble, open, build, at);
    for (unsigned i = 0; i < assemble->builds; i++) { /* told late by its lane: split it now */
        struct build *later = assemble->build[i];

        if (later->serial > build->serial && later->begun) {
            assemble_phase_close(assemble, open, later->begin_ns);
            assemble_phase_extend(assemble, open, later, later->begin_ns);
        }
    }
}

/* Closes the innermost one of that name, and what its thread left open inside it. */
static void assemble_on_phase_end(struct assemble *assemble, const struct ring_event *event)
{
    unsigned found = assemble->phases, kept;

    while (found > 0 && (assemble->phase[found - 1].phase != event->detail ||
                         assemble->phase[found - 1].lane != event->lane))
        found--;
    if (found == 0)
        return;
    kept = found - 1;
    for (unsigned i = found - 1; i < assemble->phases; i++) {
        if (assemble->phase[i].lane == event->lane)
            assemble_phase_close(assemble, &assemble->phase[i], (int64_t)event->time_ns);
        else
            assemble->phase[kept++] = assemble->phase[i];
    }
    assemble->phases = kept;
}

/* ---- begin and end ---- */

static void assemble_sweep_ops(struct assemble *assemble)
{
    for (size_t i = 0; i < assemble->ops.size;) {
        struct open_op *op = &assemble->ops.slot[i];
        uint64_t age = op->used ? assemble->serial - op->since : 0;

        if (op->used && (age > OP_STALE || (age > BUILDS && (!op->enqueued || op->ended))))
            optable_remove(&assemble->ops, op);
        else
            i++;
    }
}

static void assemble_on_step_begin(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = assemble_build_by_number(assemble, event->step), *before = NULL;
    int64_t at = (int64_t)event->time_ns;

    if (event->step == RING_NO_STEP || (build && build->begun && build->begin_ns == at))
        return;
    if (!build || build->begun)
        build = assemble_build_add(assemble, event->step);
    if (!build)
        return;
    build->begun = true;
    build->begin_ns = at;
    build->begun_round = assemble->round;
    if (!assemble->any_step || at >= assemble->now_begin_ns) {
        assemble->any_step = true;
        assemble->now_step = event->step;
        assemble->now_begin_ns = at;
    }
    for (unsigned i = 0; i < assemble->builds && assemble->build[i] != build; i++)
        before = assemble->build[i]->begun ? assemble->build[i] : before;
    if (before && !before->next_ns) {
        before->next_ns = MAX(at, before->begin_ns);
        if (!before->ended)
            before->end_ns = before->next_ns;
        before->ended = true;
    }
    for (unsigned i = 0; i < assemble->phases; i++) {
        assemble_phase_close(assemble, &assemble->phase[i], at);
        assemble_phase_extend(assemble, &assemble->phase[i], build, at);
    }
    assemble_sweep_ops(assemble);
}

static void assemble_on_step_end(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = assemble_build_by_number(assemble, event->step);

    if (!build || !build->begun || build->end_marked)
        return;
    build->end_ns = MAX((int64_t)event->time_ns, build->begin_ns);
    build->ended = build->end_marked = true;
    build->end_known = BORDER_OPEN;
}

/* ---- the small ones ---- */

static void assemble_on_metric(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = build_for(assemble, event);

    if (!build || event->detail == 0 || event->detail >= FACT_METRICS)
        return;
    memcpy(&build->metric[event->detail], &event->a, sizeof(double));
    build->metric_set |= 1u << event->detail;
}

static void assemble_on_digest(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = build_for(assemble, event);
    uint32_t part = (uint32_t)event->a, parts = (uint32_t)(event->a >> 32);

    if (!build || part >= parts)
        return;
    build->digest_part = part;
    build->digest_parts = parts;
    build->digest[0] = event->b;
    build->digest[1] = event->c;
}

static void assemble_note_finish(struct assemble *assemble, struct partial_note *partial)
{
    struct fact_note *note = &assemble->note;

    *note = (struct fact_note){ .rank = assemble->id.rank,
                                .attempt = assemble->id.attempt,
                                .step = partial->step,
                                .mono_ns = partial->time_ns };
    memcpy(note->text, partial->text, partial->size);
    note->text[strnlen(note->text, sizeof(note->text) - 1)] = '\0';
    assemble->note_ready = note->text[0] != '\0';
    partial->next = 0;
    partial->size = 0;
}

static void assemble_on_note(struct assemble *assemble, const struct ring_event *event)
{
    struct partial_note *partial = &assemble->partial[event->lane % RING_LANES_MAX];
    const uint64_t words[4] = { event->a, event->b, event->c, event->d };
    uint8_t part = event->detail & 0x7f;

    if (part != partial->next) /* its beginning was overwritten: the rest alone says little */
        partial->next = partial->size = 0;
    if (part != partial->next)
        return;
    if (part == 0) {
        partial->step = event->step;
        partial->time_ns = (int64_t)event->time_ns;
    }
    if (partial->size + sizeof(words) < sizeof(partial->text)) {
        memcpy(partial->text + partial->size, words, sizeof(words));
        partial->size += sizeof(words);
    }
    partial->next = (uint8_t)((part + 1) & 0x7f);
    if (!(event->detail & 0x80))
        assemble_note_finish(assemble, partial);
}

/* Records of one lane are gone: those after step b (the last that was read from it) up to the oldest
 * survivor, which is of `step`.  When that survivor is a begin, its own step has lost nothing.
 */
static void assemble_on_lost(struct assemble *assemble, const struct ring_event *event)
{
    bool first = event->b == RING_NO_STEP;
    uint64_t from = first ? 0 : event->b, to = event->step;

    assemble->lost += event->a;
    assemble->uncounted = true;
    assemble->lost_first |= first;
    if (to == RING_NO_STEP)
        return;
    if (event->detail == RING_STEP_BEGIN) {
        if (to == from)
            return;
        to--;
    }
    assemble->tear_from = assemble->tear ? MIN(assemble->tear_from, from) : from;
    assemble->tear_to = assemble->tear ? MAX(assemble->tear_to, to) : to;
    assemble->tear = true;
    for (unsigned i = 0; i < assemble->builds; i++)
        assemble->build[i]->torn |= assemble_is_torn(assemble, assemble->build[i]->number);
}

static void (*const on_kind[RING_KIND_COUNT])(struct assemble *, const struct ring_event *) = {
    [RING_STEP_BEGIN] = assemble_on_step_begin,
    [RING_STEP_END] = assemble_on_step_end,
    [RING_PHASE_BEGIN] = assemble_on_phase_begin,
    [RING_PHASE_END] = assemble_on_phase_end,
    [RING_COLL_ENQUEUE] = op_on_enqueue,
    [RING_COLL_START] = op_on_start,
    [RING_COLL_END] = op_on_end,
    [RING_P2P_ENQUEUE] = op_on_enqueue,
    [RING_P2P_START] = op_on_start,
    [RING_P2P_END] = op_on_end,
    [RING_SPAN] = op_on_span,
    [RING_METRIC] = assemble_on_metric,
    [RING_DIGEST] = assemble_on_digest,
    [RING_NOTE] = assemble_on_note,
    [RING_COLL_METHOD] = method_on,
    [RING_STAMP] = stamp_on_launch,
};

void assemble_event(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build;

    if (assemble->final || event->time_ns > STEP_TIME_MAX)
        return;
    if (event->kind == RING_LOST) {
        assemble_on_lost(assemble, event);
        return;
    }
    if (event->kind >= RING_KIND_COUNT || !on_kind[event->kind])
        return;
    assemble->events++;
    assemble->last_ns = MAX(assemble->last_ns, (int64_t)event->time_ns);
    on_kind[event->kind](assemble, event);
    build = assemble_build_by_number(assemble, event->step);
    if (build)
        build->events++;
}

void assemble_round(struct assemble *assemble)
{
    assemble->round++;
}

static void assemble_border_find(const struct samples *samples, int64_t time_ns, enum border *known,
                                 struct sample *at)
{
    int result;

    if (*known != BORDER_OPEN)
        return;
    result = samples_at(samples, time_ns, at);
    if (result != 0)
        *known = result > 0 ? BORDER_KNOWN : BORDER_UNKNOWN;
}

void assemble_sample(struct assemble *assemble, const struct sample *sample)
{
    samples_put(&assemble->samples, sample);
    assemble->sampling = true;
    for (unsigned i = 0; i < assemble->builds; i++) {
        struct build *build = assemble->build[i];

        if (build->begun)
            assemble_border_find(&assemble->samples, build->begin_ns, &build->begin_known,
                                 &build->begin_sample);
        if (build->ended)
            assemble_border_find(&assemble->samples, build->end_ns, &build->end_known,
                                 &build->end_sample);
    }
}

void assemble_finish(struct assemble *assemble, int64_t gone_ns)
{
    assemble->final = true;
    assemble->gone_ns = MAX(gone_ns, assemble->last_ns);
}
