/* program_measure.c - how long each op of a step really took.
 *
 * An op's duration is what is left of its measured time when everything it waits for, by the
 * program, is taken away.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/replay/program_private.h"

/* What cannot be explained by anything an op waits for counts as its own up to this much; more is
 * left out, so that the replay then does not fit and nothing is built on it.
 */
static int64_t program_gap_cap_ns(int64_t total_ns)
{
    return MAX(300000, total_ns / 100);
}

struct program_loader { /* of one rank's durations */
    const struct item_time *time;
    const struct model_class *class;
    int64_t cap_ns, total_ns, begin_ns;
    int64_t point_ns;                /* newest host point */
    int64_t end_ns[MODEL_LINES_MAX]; /* newest end on each line */
    int64_t last_end_ns, span_end_ns;
    uint32_t span_item;
    bool gaps; /* one of its ops came last, and late for no reason */
};

static int64_t program_host_duration(struct program_loader *loader, const struct op_form *info,
                                     int64_t now_ns)
{
    int64_t from = loader->point_ns;

    if (info->halt == HALT_ALL)
        from = MAX(from, MIN(loader->last_end_ns, now_ns));
    if (info->halt == HALT_NEWEST)
        from = MAX(from, MIN(loader->time[info->item - 1].end_ns, now_ns));
    loader->point_ns = now_ns;
    return MAX(0, now_ns - from);
}

/* The unexplained time before an op's start, cut. */
static int64_t program_op_gap(const struct program_loader *loader, uint32_t item, int64_t ready_ns)
{
    return MAX(0, MIN(loader->time[item].start_ns - ready_ns, loader->cap_ns));
}

/* The latest end of what an op waits for on other lines, of items from `from` on; as in the program. */
static int64_t program_others_ready(const struct program_loader *loader, uint32_t item,
                                    uint32_t from)
{
    const struct model_class *class = loader->class;
    int64_t ready = INT64_MIN / 2;

    for (uint32_t line = 1; line < class->lines; line++) {
        uint32_t place = line == class->line[item] ? 0 : class->after[line][item], other;

        if (place == 0 || place > class->places[line])
            continue;
        other = class->at[line][place - 1];
        if (other >= from && other < item)
            ready = MAX(ready, loader->time[other].end_ns);
    }
    return ready;
}

/* When an op could have started, by what it waits for: not after it did, since that is blurred. */
static int64_t program_op_ready(const struct program_loader *loader, uint32_t item)
{
    const struct model_class *class = loader->class;
    const struct item_time *time = &loader->time[item];
    int64_t ready = MAX(loader->end_ns[class->line[item]], time->enqueue_ns);

    if (class->kind[item] == ITEM_SPAN)
        ready = MAX(ready, program_others_ready(loader, item, 0));
    else if (class->after_span[item] && loader->span_end_ns > INT64_MIN / 2)
        ready = MAX(
            ready, MAX(loader->span_end_ns, program_others_ready(loader, item, loader->span_item)));
    return MIN(ready, time->start_ns);
}

/* Duration of a communication op: from the arrival of the last it waits for.  One from which the next on
 * its line has taken it while it ran has none: how long it took by itself is not known, and what is
 * left of it counts with the next.
 */
static int64_t program_comm_duration(const struct program_loader *loader,
                                     const struct op_form *info, const struct meeting *meeting)
{
    const struct item_time *time = &loader->time[info->item];
    int64_t arrival = loader->begin_ns + MAX(time->start_ns, loader->end_ns[info->line]);

    if (class_end_ns(loader->class, loader->time, info->item) < time->end_ns)
        return 0;
    if (info->role != REPLAY_GIVES)
        arrival = MAX(arrival, meeting->last_arrival_ns);
    return MAX(0, loader->begin_ns + time->end_ns - arrival);
}

static int64_t program_op_duration(struct program_loader *loader, const struct op_form *info,
                                   const struct meeting *meeting, int64_t *last_gap)
{
    const struct item_time *time = &loader->time[info->item];
    int64_t duration, gap;

    if (info->kind == OP_SPAN) {
        duration = time->end_ns - time->start_ns +
                   program_op_gap(loader, info->item, program_op_ready(loader, info->item));
        loader->span_end_ns = time->end_ns;
        loader->span_item = info->item;
    } else {
        duration = program_comm_duration(loader, info, meeting);
        /* The one that comes last moves all: its gap belongs to the transfer of each. */
        if (loader->begin_ns + time->start_ns == meeting->last_arrival_ns &&
            (gap = program_op_gap(loader, info->item, program_op_ready(loader, info->item))) > 0) {
            *last_gap = gap;
            loader->gaps = true;
        }
    }
    loader->end_ns[info->line] = class_end_ns(loader->class, loader->time, info->item);
    loader->last_end_ns = MAX(loader->last_end_ns, time->end_ns);
    return duration;
}

/* Ops at the same place in ranks of one class lie side by side (struct form_place), so rank after rank would
 * touch a cache line of each op for one number, eight times over.  Ranks that are neighbours there are
 * measured together, and their lines are written once.
 */
#define TILE 8

struct tile {
    uint32_t first, count; /* ranks */
    int64_t *duration;     /* by op, TILE each */
};

static uint32_t tile_ranks(const struct program *program, uint32_t first)
{
    const struct form_place *place = &program->place[first];
    uint32_t count = 1;

    while (count < TILE && first + count < program->world && place[count].form == place->form &&
           place[count].first == place->first + count)
        count++;
    return count;
}

#define AHEAD 3 /* ops: the next rows are a page or more away, where no processor looks by itself */

static void tile_write(const struct program *program, const struct tile *tile)
{
    const struct form_place *place = &program->place[tile->first];
    int64_t *to = program->duration + place->first;
    const int64_t *from = tile->duration;

    for (uint32_t i = 0; i < place->form->ops; i++, to += place->stride, from += TILE) {
        if (i + AHEAD < place->form->ops)
            __builtin_prefetch(to + AHEAD * place->stride, 1);
        if (tile->count == TILE)
            memcpy(to, from, TILE * sizeof(*to));
        else
            memcpy(to, from, tile->count * sizeof(*to));
    }
}

/* `duration` is the rank's in a tile.  True: some member that came last had a gap. */
static bool program_rank_durations(const struct program *program, const struct job_step *job_step,
                                   const struct splitter *splitter, uint32_t rank,
                                   int64_t *last_gap, int64_t *duration)
{
    const struct fact_step *step = &job_step->step_of[rank];
    const struct form *form = program->place[rank].form;
    const uint32_t *number = split_numbers(splitter, rank);
    const struct meeting *meeting = split_meeting_base(splitter);
    struct program_loader loader = {
        .time = step->time,
        .class = job_step->shape_of[rank]->class,
        .total_ns = step->duration_ns + step->tail_ns,
        .begin_ns = job_step_begin(program->model, job_step, rank),
        .last_end_ns = INT64_MIN / 2,
        .span_end_ns = INT64_MIN / 2,
    };

    loader.cap_ns = program_gap_cap_ns(loader.total_ns);
    for (uint32_t i = 0; i < form->ops; i++, duration += TILE) {
        const struct op_form *info = &form->op[i];
        uint32_t meet;

        switch (info->kind) {
        case OP_HOST:
            *duration = program_host_duration(&loader, info, step->time[info->item].enqueue_ns);
            break;
        case OP_END:
            *duration = program_host_duration(&loader, info, loader.total_ns);
            break;
        case OP_SPAN:
        case OP_COMM:
            meet = info->kind == OP_COMM ? number[info->item] : 0;
            *duration = program_op_duration(&loader, info, &meeting[meet], &last_gap[meet]);
            break;
        default:
            *duration = 0;
        }
    }
    return loader.gaps;
}

/* One op of a tile's ranks: each gets the gap of the one that came last to its meeting. */
static void tile_gaps(int64_t *duration, const uint32_t *const *number, uint32_t count,
                      uint32_t item, const int64_t *last_gap)
{
    for (uint32_t at = 0; at < count; at++) {
        int64_t gap = last_gap[number[at][item]];

        if (gap)
            duration[at] += gap;
    }
}

static void program_gaps_add(struct program *program, const struct splitter *splitter,
                             const int64_t *last_gap)
{
    for (uint32_t rank = 0, count; rank < program->world; rank += count) {
        const struct form_place *place = &program->place[rank];
        const uint32_t *number[TILE];

        count = place->form ? tile_ranks(program, rank) : 1;
        for (uint32_t at = 0; at < count; at++)
            number[at] = split_numbers(splitter, rank + at);
        for (uint32_t i = 0; place->form && i < place->form->ops; i++) {
            int64_t *duration = program->duration + op_at(program, rank, i);

            if (i + AHEAD < place->form->ops && place->form->op[i + AHEAD].kind == OP_COMM)
                __builtin_prefetch(duration + AHEAD * place->stride, 1);
            if (place->form->op[i].kind == OP_COMM)
                tile_gaps(duration, number, count, place->form->op[i].item, last_gap);
        }
    }
}

static size_t program_most_ops(const struct program *program)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < program->forms; i++)
        most = MAX(most, program->form[i].ops);
    return most;
}

/* All ranks' durations, tile by tile.  True: some have gaps. */
static bool program_durations_fill(struct program *program, const struct job_step *job_step,
                                   const struct splitter *splitter, int64_t *last_gap,
                                   int64_t *tile_duration)
{
    bool gaps = false;

    for (uint32_t rank = 0; rank < program->world;) {
        struct tile tile = { .first = rank, .duration = tile_duration };

        if (!program->place[rank].form) {
            rank++;
            continue;
        }
        tile.count = tile_ranks(program, rank);
        for (uint32_t at = 0; at < tile.count; at++)
            gaps |= program_rank_durations(program, job_step, splitter, rank + at, last_gap,
                                           tile.duration + at);
        tile_write(program, &tile);
        rank += tile.count;
    }
    return gaps;
}

/* Sets all durations, begins relative to the first rank's begin, and the measured period. */
int program_measure(struct program *program, const struct job_step *job_step,
                    const struct splitter *splitter)
{
    CLEAN(free_clean) int64_t *last_gap = calloc(split_meetings(splitter) + 1, sizeof(*last_gap));
    CLEAN(free_clean)
    int64_t *tile = malloc((program_most_ops(program) + 1) * TILE * sizeof(*tile));
    int64_t first = INT64_MAX, last = INT64_MIN, end = INT64_MIN;

    if (!last_gap || !tile)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        int64_t begin;

        if (!program->place[rank].form)
            continue;
        begin = job_step_begin(program->model, job_step, rank);
        first = MIN(first, begin);
        last = MAX(last, begin);
        end =
            MAX(end, begin + job_step->step_of[rank].duration_ns + job_step->step_of[rank].tail_ns);
    }
    if (program_durations_fill(program, job_step, splitter, last_gap, tile))
        program_gaps_add(program, splitter, last_gap);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].form)
            program->duration[op_at(program, rank, 0)] =
                job_step_begin(program->model, job_step, rank) - first;
    }
    program->measured = end - last;
    return 0;
}
