/* device_line.c - a step as its device saw it: what its compute stream did between two stamps.
 *
 * Stamps and launches stand in the order in which the host made them, which is the order of the stream.  Between two stamps the
 * stream computed, or it had nothing to do because the host was late, or it waited for communication:
 *
 *   - Between the stamps around a wait it waited for the last operation that ended there.
 *   - Elsewhere, a stamp that ran as soon as it was launched found the stream empty: then the host decided how long it took, and the
 *     stretch counts as the host's, in its phase.
 *   - A stream that was empty where a stretch began, and a host that took longer to launch it than it usually does: the host's delay
 *     counts as the host's, too.
 *   - Everything else is computing.  An operation that starts meanwhile shows how far the stream had come, so it cuts the stretch.
 *
 * So the items of a step are the same from step to step, some of them without any length.
 *
 * Of an operation of which only the launch is known, a wait gives the times: as a collective of its communicator.  And where the
 * stream waited on after the operation was reported as over, it was not: of messages in one kernel, NCCL may tell the end of one only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ring/assemble_private.h"
#include "core/clean.h"
#include "lockstep/probe.h"

#define IDLE_NS                                                                                    \
    INT64_C(100000) /* a stamp on an empty stream runs so soon after its launch, at the latest */
#define PACED 256   /* stamps of a step, from its first, of which the host's usual pace is known */
#define PACED_STEPS 8            /* steps alike that it takes to know it */
#define LATE_NS INT64_C(1000000) /* so much, and half of what is usual, a host may be late */
#define BLUR_NS INT64_C(150000)  /* between an operation's end and the stream that waited for it */

/* ---- stamps as they come ---- */

struct stamp_place { /* of a tag */
    uint64_t tag, build;
    uint32_t item;
    bool launched, ran;
    int64_t time_ns;
    uint64_t
        graph_from; /* those of a graph that ran after it and before the next: their first number */
    uint32_t graph_count;
};

struct stamp_run { /* of a graph */
    uint64_t tag;
    int64_t time_ns;
};

struct stamp_graph { /* of a tag in a graph: what its stamp says each time */
    uint64_t tag;
    uint8_t what, phase;
};

struct stamped {
    struct stamp_place place[STAMPS_KNOWN];
    struct stamp_graph graph[STAMPS_GRAPH];
    struct stamp_run run[STAMPS_KNOWN];
    uint64_t runs; /* ever */
    uint64_t tag;  /* of the stamp of no graph that ran last */
    int64_t pace_ns
        [PACED]; /* from one stamp's launch to the next, at least; of steps with so many stamps, and how many of those */
    uint32_t paced_stamps, paced_steps;
};

void stamped_free(struct stamped *stamped)
{
    free(stamped);
}

static void stamp_settle(struct build *build, struct item *item, int64_t time_ns)
{
    if (item->ended)
        return;
    item->ended = true;
    item->start_ns = item->end_ns = time_ns;
    build->open_stamps--;
    if (item->what == RING_STAMP_STEP_BEGIN && !build->stamped_ns) {
        build->stamped_ns = MAX(time_ns, INT64_C(1));
        build->stamped_launch_ns = item->enqueue_ns;
    }
}

static struct item *stamp_item_add(struct assemble *assemble, struct build *build, uint8_t what,
                                   uint8_t phase, int64_t enqueue_ns)
{
    struct item *item = item_add(assemble, build, enqueue_ns);

    if (!item)
        return NULL;
    item->kind = ITEM_STAMP;
    item->what = what;
    item->dtype = phase;
    build->stamps++;
    build->open_stamps++;
    return item;
}

/* Stamps of a graph belong to the step of the one that ran before them, and were launched with it. */
static void stamps_of_graph_add(struct assemble *assemble, struct stamp_place *place)
{
    struct stamped *stamped = assemble->stamped;
    struct build *build = build_by_serial(assemble, place->build);
    int64_t enqueue_ns = build ? build->item[place->item].enqueue_ns : 0;

    for (uint32_t i = 0; build && i < place->graph_count; i++) {
        const struct stamp_run *run = &stamped->run[(place->graph_from + i) % STAMPS_KNOWN];
        const struct stamp_graph *graph = &stamped->graph[run->tag % STAMPS_GRAPH];
        struct item *item;

        if (graph->tag != run->tag || stamped->runs - (place->graph_from + i) > STAMPS_KNOWN)
            continue;
        item = stamp_item_add(assemble, build, graph->what, graph->phase, enqueue_ns);
        if (!item)
            return;
        item->peer = 1;
        build->graph = true;
        stamp_settle(build, item, run->time_ns);
    }
    place->graph_count = 0;
}

void stamp_on_launch(struct assemble *assemble, const struct ring_event *event)
{
    uint8_t phase = event->b < LOCKSTEP_PHASE_COUNT ? (uint8_t)event->b : LOCKSTEP_PHASE_OTHER;
    struct stamp_place *place;
    struct build *build;
    struct item *item;

    if (event->detail == 0 || event->detail >= RING_STAMP_WHAT_COUNT)
        return;
    if (!assemble->stamped)
        assemble->stamped = calloc(1, sizeof(*assemble->stamped));
    if (!assemble->stamped)
        return;
    if (event->a & RING_STAMP_CAPTURED) {
        assemble->stamped->graph[event->a % STAMPS_GRAPH] =
            (struct stamp_graph){ event->a, event->detail, phase };
        return;
    }
    build = build_for(assemble, event);
    item = build ? stamp_item_add(assemble, build, event->detail, phase, (int64_t)event->time_ns)
                 : NULL;
    if (!item)
        return;
    if (event->detail == RING_STAMP_STEP_BEGIN && event->c)
        build->sparse = true;
    place = &assemble->stamped->place[event->a % STAMPS_KNOWN];
    if (place->tag != event->a || !place->ran || place->launched)
        *place = (struct stamp_place){ .tag = event->a };
    place->launched = true;
    place->build = build->serial;
    place->item = build->count - 1;
    if (!place->ran)
        return;
    stamp_settle(build, item, place->time_ns);
    stamps_of_graph_add(assemble, place);
}

static void stamp_of_graph(struct assemble *assemble, uint64_t tag, int64_t time_ns)
{
    struct stamped *stamped = assemble->stamped;
    struct stamp_place *place = &stamped->place[stamped->tag % STAMPS_KNOWN];

    if (place->tag != stamped->tag || !place->ran)
        return;
    if (place->graph_count == 0)
        place->graph_from = stamped->runs;
    stamped->run[stamped->runs++ % STAMPS_KNOWN] = (struct stamp_run){ tag, time_ns };
    place->graph_count++;
    if (place->launched)
        stamps_of_graph_add(assemble, place);
}

void assemble_stamp(struct assemble *assemble, uint64_t tag, int64_t time_ns)
{
    struct stamp_place *place;
    struct build *build;

    if (!assemble->stamped)
        assemble->stamped = calloc(1, sizeof(*assemble->stamped));
    if (!assemble->stamped || time_ns <= 0 || time_ns > STEP_TIME_MAX)
        return;
    if (tag & RING_STAMP_CAPTURED) {
        stamp_of_graph(assemble, tag, time_ns);
        return;
    }
    assemble->stamped->tag = tag;
    place = &assemble->stamped->place[tag % STAMPS_KNOWN];
    if (place->tag != tag || !place->launched) { /* its launch has not been read yet */
        *place = (struct stamp_place){ .tag = tag, .ran = true, .time_ns = time_ns };
        return;
    }
    build = build_by_serial(assemble, place->build);
    if (place->ran || !build)
        return;
    place->ran = true;
    stamp_settle(build, &build->item[place->item], time_ns);
}

/* ---- the line ---- */

struct device_line {
    struct assemble *assemble;
    struct build *build;
    struct item *out;
    uint32_t count, room;
    int64_t host_ns;    /* the newest launch */
    int64_t enqueue_ns; /* of the newest item */
    uint8_t phase;
    uint32_t launches; /* whose times no wait has told yet */
    bool failed;
};

static bool line_item_is_op(const struct item *item)
{
    return item->kind == ITEM_COLL || item->kind == ITEM_P2P;
}

static void line_put(struct device_line *line, struct item item, int64_t enqueue_ns)
{
    if (!ARRAY_FIT(line->out, line->room, (size_t)line->count + 1)) {
        line->failed = true;
        return;
    }
    item.enqueue_ns = MIN(MAX(enqueue_ns, line->enqueue_ns), item.start_ns);
    item.seq = line->count;
    line->enqueue_ns = MAX(line->enqueue_ns, item.enqueue_ns);
    line->out[line->count++] = item;
}

static void line_put_phase(struct device_line *line, uint8_t phase, int64_t start_ns,
                           int64_t end_ns)
{
    line_put(line,
             (struct item){ .kind = ITEM_PHASE,
                            .what = phase,
                            .comm = -1,
                            .ended = true,
                            .start_ns = start_ns,
                            .end_ns = end_ns },
             start_ns);
}

static void line_put_span(struct device_line *line, int64_t start_ns, int64_t end_ns)
{
    line_put(line,
             (struct item){ .kind = ITEM_SPAN,
                            .what = line->phase,
                            .stream = RING_STAMP_STREAM,
                            .comm = -1,
                            .ended = true,
                            .start_ns = start_ns,
                            .end_ns = end_ns },
             start_ns == end_ns ? start_ns : line->host_ns);
}

static void line_put_op(struct device_line *line, struct item item, int64_t least_ns,
                        int64_t most_ns)
{
    item.start_ns = MIN(MAX(item.start_ns, least_ns), MAX(most_ns, least_ns));
    item.end_ns = MAX(item.end_ns, item.start_ns);
    line_put(line, item, item.enqueue_ns);
}

/* Garbage collections while the stream had nothing to do, inside the phase that was put last. */
static void line_put_pauses(struct device_line *line, int64_t from_ns, int64_t to_ns)
{
    for (uint32_t i = 0; i < line->build->count; i++) {
        const struct item *item = &line->build->item[i];

        if (item->kind == ITEM_PHASE && item->what == LOCKSTEP_PHASE_GC && item->ended &&
            item->start_ns >= from_ns && item->start_ns < to_ns && line->phase != item->what)
            line_put_phase(line, item->what, item->start_ns, MIN(item->end_ns, to_ns));
    }
}

/* ---- a stretch in which the stream computes, or has nothing to do ---- */

/* The host's phase, for as long as the stream had nothing to do: not at all where it computes or waits. */
static void line_put_host(struct device_line *line, int64_t begin_ns, int64_t end_ns)
{
    int64_t at_ns = MIN(MAX(line->host_ns, line->enqueue_ns), begin_ns);

    if (end_ns == begin_ns) {
        line_put_phase(line, line->phase, at_ns, at_ns);
        return;
    }
    line_put_phase(line, line->phase, begin_ns, end_ns);
    line_put_pauses(line, begin_ns, end_ns);
}

/* ---- the host's pace ---- */

/* Steps of another kind have other stamps; where they stay, theirs is the pace from then on. */
static void line_pace_begin(struct stamped *stamped, const struct build *build)
{
    if (stamped->paced_stamps == build->stamps) {
        stamped->paced_steps += stamped->paced_steps < PACED_STEPS;
        return;
    }
    if (stamped->paced_steps > 0 && stamped->paced_steps-- > 1)
        return;
    stamped->paced_stamps = build->stamps;
    stamped->paced_steps = 0;
    for (size_t i = 0; i < COUNT(stamped->pace_ns); i++)
        stamped->pace_ns[i] = INT64_MAX;
}

/* By how much the host was late with what stands between two stamps, while the stream had nothing else to do. */
static int64_t line_late_ns(struct device_line *line, const struct item *stamp, uint32_t number,
                            int64_t next_launch_ns)
{
    struct stamped *stamped = line->assemble->stamped;
    int64_t took_ns = next_launch_ns - stamp->enqueue_ns, usual_ns;

    if (number >= PACED || line->build->stamps != stamped->paced_stamps || took_ns < 0 ||
        stamp->what == RING_STAMP_HOST_WAIT || stamp->start_ns - stamp->enqueue_ns >= IDLE_NS)
        return 0;
    usual_ns = stamped->pace_ns[number];
    if (usual_ns > took_ns) {
        stamped->pace_ns[number] = took_ns;
        return 0;
    }
    stamped->pace_ns[number] = usual_ns + usual_ns / 1024;
    if (stamped->paced_steps < PACED_STEPS || took_ns - usual_ns < LATE_NS + usual_ns / 2)
        return 0;
    return took_ns - usual_ns;
}

static void line_compute(struct device_line *line, uint32_t from, uint32_t to, int64_t begin_ns,
                         int64_t end_ns, int64_t host_ns)
{
    bool idle = host_ns >= end_ns - begin_ns;
    const struct item *item = line->build->item;
    int64_t now_ns = idle ? begin_ns : begin_ns + host_ns;

    line_put_host(line, begin_ns, idle ? end_ns : now_ns);
    for (uint32_t i = from; i < to; i++) {
        int64_t at_ns = MIN(MAX(item[i].start_ns, now_ns), end_ns);

        line->launches += item[i].kind == ITEM_LAUNCH;
        if (!line_item_is_op(&item[i]))
            continue;
        line_put_span(line, idle ? at_ns : now_ns, at_ns);
        line->host_ns = MAX(line->host_ns, item[i].enqueue_ns);
        line_put_op(line, item[i], item[i].enqueue_ns, INT64_MAX);
        now_ns = at_ns;
    }
    line_put_span(line, idle ? end_ns : now_ns, end_ns);
}

/* ---- a stretch in which it waits ---- */

/* Of two that may be what the stream waited for: the later end, and of messages in one kernel the one that comes. */
static bool line_awaits_rather(const struct item *item, const struct item *than)
{
    if (!than || item->end_ns != than->end_ns)
        return !than || item->end_ns > than->end_ns;
    return item->kind == ITEM_P2P && item->what == LOCKSTEP_OP_RECV;
}

/* The operation, launched before, that the stream waited for; NULL: none that is known. */
static struct item *line_awaited(const struct device_line *line, uint32_t to, int64_t begin_ns,
                                 int64_t end_ns)
{
    struct item *found = NULL;

    for (uint32_t i = 0; i < to; i++) {
        struct item *item = &line->build->item[i];

        if (line_item_is_op(item) && item->ended && item->end_ns > begin_ns &&
            item->end_ns <= end_ns + BLUR_NS && line_awaits_rather(item, found))
            found = item;
    }
    return found;
}

/* Ends of operations are what the waits say, before anything is made of them. */
static void line_waits_settle(struct device_line *line)
{
    struct build *build = line->build;
    int64_t begin_ns = INT64_MIN;

    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *stamp = &build->item[i];
        struct item *awaited;

        if (stamp->kind != ITEM_STAMP)
            continue;
        awaited = begin_ns == INT64_MIN ? NULL : line_awaited(line, i, begin_ns, stamp->start_ns);
        if (awaited)
            awaited->end_ns = stamp->start_ns;
        begin_ns = stamp->what == RING_STAMP_WAIT_BEGIN ? stamp->start_ns : INT64_MIN;
    }
}

/* The messages of an exchange are one collective. */
static bool line_launch_is_again(const struct device_line *line, uint32_t from, uint32_t at)
{
    const struct item *item = line->build->item;

    for (uint32_t i = from; i < at; i++) {
        if (item[i].kind == ITEM_LAUNCH && item[i].peer && item[i].comm == item[at].comm)
            return item[at].peer;
    }
    return false;
}

static void line_put_launch(struct device_line *line, const struct item *launch, int64_t begin_ns,
                            int64_t end_ns)
{
    struct item item = *launch;

    item.kind = ITEM_COLL;
    item.stream = (uint16_t)(launch->stream - LOCKSTEP_DEVICE_LAUNCHES + LOCKSTEP_DEVICE_OPS);
    if (launch->peer) { /* its sizes change from step to step, and say nothing of the work */
        item.what = LOCKSTEP_OP_ALL_TO_ALL;
        item.bytes = 0;
        item.key = line->assemble->exchanges[launch->comm]++;
    }
    item.peer = 0;
    item.ended = true;
    item.start_ns = begin_ns;
    item.end_ns = end_ns;
    line_put(line, item, launch->enqueue_ns);
}

/* What was launched since `first` and has no times yet was waited for here. */
static bool line_claim(struct device_line *line, uint32_t first, uint32_t to, int64_t begin_ns,
                       int64_t end_ns)
{
    bool any = false;

    for (uint32_t i = first; i < to; i++) {
        const struct item *item = &line->build->item[i];

        if (item->kind != ITEM_LAUNCH || line_launch_is_again(line, first, i))
            continue;
        line_put_launch(line, item, any ? end_ns : begin_ns, end_ns);
        any = true;
    }
    return any;
}

static void line_wait(struct device_line *line, uint32_t first, uint32_t from, uint32_t to,
                      int64_t begin_ns, int64_t end_ns)
{
    bool awaited = line_awaited(line, to, begin_ns, end_ns);
    int64_t until_ns = awaited ? end_ns : begin_ns;
    uint32_t claim = awaited ? from : first; /* or it waited for what was launched before */

    line_put_host(line, begin_ns, begin_ns);
    for (uint32_t i = from; i < to; i++) {
        struct item item = line->build->item[i];

        if (!line_item_is_op(&item))
            continue;
        line->host_ns = MAX(line->host_ns, item.enqueue_ns);
        if (item.ended && item.end_ns <= end_ns + BLUR_NS)
            item.end_ns = MIN(item.end_ns, end_ns);
        line_put_op(line, item, begin_ns, end_ns);
    }
    if (line_claim(line, claim, to, begin_ns, end_ns)) {
        until_ns = end_ns;
        line->launches = 0;
    }
    line_put_span(line, until_ns, end_ns);
}

/* ---- operations in a graph ----
 *
 * NCCL tells of them when the graph is launched, in the order in which they were captured, mixed with those that are launched by
 * themselves meanwhile, and its times of them are none (seen with 2.28.9).  Where each has its wait in the graph, the n-th wait is
 * the n-th operation's.
 */

static bool line_is_wait(const struct build *build, uint32_t at)
{
    return build->item[at].kind == ITEM_STAMP && build->item[at].what == RING_STAMP_WAIT_BEGIN;
}

/* As many operations of one communicator as there are waits. */
static bool line_graph_is_known(const struct build *build)
{
    uint32_t waits = 0, ops = 0;
    int32_t comm = -1;

    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *item = &build->item[i];

        waits += line_is_wait(build, i);
        if (!line_item_is_op(item))
            continue;
        if (item->kind != ITEM_COLL || (ops && item->comm != comm))
            return false;
        comm = item->comm;
        ops++;
    }
    return waits == ops;
}

static int line_item_order(const void *left, const void *right)
{
    const struct item *a = left, *b = right;

    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static uint32_t line_next_stamp(const struct build *build, uint32_t from)
{
    while (from < build->count && build->item[from].kind != ITEM_STAMP)
        from++;
    return from;
}

/* Each operation goes into its wait; without sizes, which are other ones where ranks launch in another order. */
static void line_graph_place(struct build *build)
{
    uint32_t op = 0;

    for (uint32_t i = 0; i < build->count; i++)
        build->item[i].seq = 2 * i;
    for (uint32_t wait = 0; wait < build->count; wait++) {
        uint32_t end = line_next_stamp(build, wait + 1);
        struct item *item;

        if (!line_is_wait(build, wait))
            continue;
        while (op < build->count && !line_item_is_op(&build->item[op]))
            op++;
        if (op == build->count)
            return;
        item = &build->item[op++];
        item->seq = 2 * wait + 1;
        item->enqueue_ns = build->item[wait].enqueue_ns;
        item->start_ns = build->item[wait].start_ns;
        item->end_ns = end < build->count ? build->item[end].start_ns : item->start_ns;
        item->bytes = 0;
        item->dtype = LOCKSTEP_DTYPE_UNKNOWN;
        if (!item->ended)
            build->open_ops--;
        item->ended = true;
    }
    qsort(build->item, build->count, sizeof(*build->item), line_item_order);
}

/* False: what the operations of the step did is not known. */
static bool line_graph_settle(struct build *build)
{
    if (!build->graph)
        return true;
    if (!line_graph_is_known(build))
        return false;
    line_graph_place(build);
    return true;
}

/* ---- all of a step ---- */

/* From one stamp to the next, and from the last one to the step's end. */
static void line_follow(struct device_line *line, uint32_t at, int64_t end_ns,
                        int64_t end_launch_ns)
{
    const struct build *build = line->build;
    int64_t now_ns = build->stamped_ns;
    uint32_t unclaimed = at, number = 0;

    line_pace_begin(line->assemble->stamped, build);
    while (at < build->count) {
        const struct item *stamp = &build->item[at];
        uint32_t next = line_next_stamp(build, at + 1);
        bool last = next == build->count;
        int64_t until_ns = last ? end_ns : build->item[next].start_ns;
        int64_t launch_ns = last ? end_launch_ns : build->item[next].enqueue_ns;

        until_ns = MIN(MAX(until_ns, now_ns), end_ns);
        line->phase = stamp->dtype;
        line->host_ns = MAX(line->host_ns, stamp->enqueue_ns);
        if (stamp->what == RING_STAMP_WAIT_BEGIN) {
            line_wait(line, unclaimed, at + 1, next, now_ns, until_ns);
            unclaimed = line->launches ? unclaimed : next;
        } else {
            int64_t late_ns = last ? 0 : line_late_ns(line, stamp, number, launch_ns);

            line->host_ns = MAX(line->host_ns, stamp->enqueue_ns + late_ns);
            if (until_ns - launch_ns < IDLE_NS)
                late_ns = until_ns - now_ns;
            line_compute(line, at + 1, next, now_ns, until_ns, late_ns);
        }
        number++;
        now_ns = until_ns;
        at = next;
    }
}

static void line_strip(struct build *build)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < build->count; i++) {
        if (build->item[i].kind != ITEM_STAMP && build->item[i].kind != ITEM_LAUNCH)
            build->item[kept++] = build->item[i];
    }
    build->count = kept;
}

/* All that a line needs is there: its own stamps and the first one of the step after it. */
bool line_is_whole(const struct assemble *assemble, const struct build *build,
                   const struct build *next)
{
    if (build->stamps == 0 || build->torn || build->open_stamps || !build->stamped_ns ||
        build->sparse)
        return false;
    return next ? next->stamped_ns >= build->stamped_ns : assemble->final;
}

static int64_t line_last_ns(const struct build *build, uint8_t what)
{
    int64_t last_ns = build->stamped_ns;

    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *item = &build->item[i];

        if (item->kind == ITEM_STAMP && (!what || item->what == what))
            last_ns = MAX(last_ns, item->start_ns);
    }
    return last_ns;
}

static bool line_find_begin(const struct build *build, uint32_t *ret)
{
    for (*ret = 0; *ret < build->count; ++*ret) {
        const struct item *item = &build->item[*ret];

        if (item->kind == ITEM_STAMP && item->what == RING_STAMP_STEP_BEGIN)
            return true;
    }
    return false;
}

int line_make(struct assemble *assemble, struct build *build, const struct build *next)
{
    CLEAN(free_clean) struct item *unused = NULL;
    struct device_line line = { .assemble = assemble, .build = build };
    bool known = line_graph_settle(build);
    int64_t end_ns, ended_ns;
    uint32_t first;

    build->made = true;
    if (build->stamps && build->sparse)
        build->untimed = true; /* its waits are not known */
    if (build->spans || !line_is_whole(assemble, build, next) || !line_find_begin(build, &first)) {
        line_strip(build);
        return 0;
    }
    end_ns = next ? next->stamped_ns : line_last_ns(build, 0);
    ended_ns = MIN(line_last_ns(build, RING_STAMP_STEP_END), end_ns);
    line.enqueue_ns = line.host_ns = INT64_MIN / 2;
    line_waits_settle(&line);
    line_follow(&line, first, end_ns, next ? next->stamped_launch_ns : INT64_MIN / 2);
    unused = line.failed ? line.out : build->item;
    if (line.failed)
        return -ENOMEM;
    build->item = line.out;
    build->count = line.count;
    build->room = line.room;
    build->spans = true;
    build->device_ops = false;
    build->untimed = line.launches > 0 || !known;
    build->host_begin_ns = build->begin_ns;
    build->begin_ns = build->stamped_ns;
    build->end_ns = ended_ns > build->stamped_ns ? ended_ns : end_ns;
    build->next_ns = next ? end_ns : 0;
    return 0;
}
