/* program_measure.c - how long each op of a step really took.
 *
 * An op's duration is what is left of its measured time when everything it waits for, by the
 * program, is taken away.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/program_parts.h"

/* What cannot be explained by anything an op waits for counts as its own up to this much; more is
 * left out, so that the replay then does not fit and nothing is built on it.
 */
static int64_t gap_cap_ns(int64_t total_ns)
{
    return MAX(300000, total_ns / 100);
}

struct loader { /* of one rank's durations */
    const struct item_time *time;
    const struct model_class *class;
    int64_t cap_ns, total_ns, begin_ns;
    int64_t point_ns;                /* newest host point */
    int64_t end_ns[MODEL_LINES_MAX]; /* newest end on each line */
    int64_t last_end_ns, span_end_ns;
    uint32_t span_item;
    bool gaps; /* one of its ops came last, and late for no reason */
};

static int64_t host_duration(struct loader *loader, const struct op_form *info, int64_t now_ns)
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
static int64_t op_gap(const struct loader *loader, uint32_t item, int64_t ready_ns)
{
    return MAX(0, MIN(loader->time[item].start_ns - ready_ns, loader->cap_ns));
}

/* The latest end of what an op waits for on other lines, of items from `from` on; as in the program. */
static int64_t others_ready(const struct loader *loader, uint32_t item, uint32_t from)
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
static int64_t op_ready(const struct loader *loader, uint32_t item)
{
    const struct model_class *class = loader->class;
    const struct item_time *time = &loader->time[item];
    int64_t ready = MAX(loader->end_ns[class->line[item]], time->enqueue_ns);

    if (class->kind[item] == ITEM_SPAN)
        ready = MAX(ready, others_ready(loader, item, 0));
    else if (class->after_span[item] && loader->span_end_ns > INT64_MIN / 2)
        ready = MAX(ready, MAX(loader->span_end_ns, others_ready(loader, item, loader->span_item)));
    return MIN(ready, time->start_ns);
}

/* Duration of a communication op: from the arrival of the last it waits for.  One from which the next on
 * its line has taken it while it ran has none: how long it took by itself is not known, and what is
 * left of it counts with the next.
 */
static int64_t comm_duration(const struct loader *loader, const struct op_form *info,
                             const struct meeting *meeting)
{
    const struct item_time *time = &loader->time[info->item];
    int64_t arrival = loader->begin_ns + MAX(time->start_ns, loader->end_ns[info->line]);

    if (class_end_ns(loader->class, loader->time, info->item) < time->end_ns)
        return 0;
    if (info->role != REPLAY_GIVES)
        arrival = MAX(arrival, meeting->last_arrival_ns);
    return MAX(0, loader->begin_ns + time->end_ns - arrival);
}

static int64_t op_duration(struct loader *loader, const struct op_form *info,
                           const struct meeting *meeting, int64_t *last_gap)
{
    const struct item_time *time = &loader->time[info->item];
    int64_t gap = op_gap(loader, info->item, op_ready(loader, info->item)), duration;

    if (info->kind == OP_SPAN) {
        duration = time->end_ns - time->start_ns + gap;
        loader->span_end_ns = time->end_ns;
        loader->span_item = info->item;
    } else {
        duration = comm_duration(loader, info, meeting);
        /* The one that comes last moves all: its gap belongs to the transfer of each. */
        if (gap && loader->begin_ns + time->start_ns == meeting->last_arrival_ns) {
            *last_gap = gap;
            loader->gaps = true;
        }
    }
    loader->end_ns[info->line] = class_end_ns(loader->class, loader->time, info->item);
    loader->last_end_ns = MAX(loader->last_end_ns, time->end_ns);
    return duration;
}

/* True: some member that came last had a gap. */
static bool rank_durations(struct program *program, const struct whole *whole,
                           const struct splitter *splitter, uint32_t rank, int64_t *last_gap)
{
    const struct fact_step *step = &whole->step_of[rank];
    const struct form *form = program->place[rank].form;
    const uint32_t *number = split_numbers(splitter, rank);
    struct loader loader = {
        .time = step->time,
        .class = whole->shape_of[rank]->class,
        .total_ns = step->duration_ns + step->tail_ns,
        .begin_ns = whole_begin(program->model, whole, rank),
        .last_end_ns = INT64_MIN / 2,
        .span_end_ns = INT64_MIN / 2,
    };

    loader.cap_ns = gap_cap_ns(loader.total_ns);
    for (uint32_t i = 0; i < form->ops; i++) {
        const struct op_form *info = &form->op[i];
        int64_t *duration = &program->duration[op_at(program, rank, i)];
        uint32_t meet;

        switch (info->kind) {
        case OP_HOST:
            *duration = host_duration(&loader, info, step->time[info->item].enqueue_ns);
            break;
        case OP_END:
            *duration = host_duration(&loader, info, loader.total_ns);
            break;
        case OP_SPAN:
        case OP_COMM:
            meet = info->kind == OP_COMM ? number[info->item] : 0;
            *duration =
                op_duration(&loader, info, &split_meeting_base(splitter)[meet], &last_gap[meet]);
            break;
        default:
            *duration = 0;
        }
    }
    return loader.gaps;
}

static void gaps_add(struct program *program, const struct splitter *splitter,
                     const int64_t *last_gap)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        const struct form *form = program->place[rank].form;
        const uint32_t *number = split_numbers(splitter, rank);

        for (uint32_t i = 0; form && i < form->ops; i++) {
            if (form->op[i].kind == OP_COMM)
                program->duration[op_at(program, rank, i)] += last_gap[number[form->op[i].item]];
        }
    }
}

/* Sets all durations, begins relative to the first rank's begin, and the measured period. */
int program_measure(struct program *program, const struct whole *whole,
                    const struct splitter *splitter)
{
    CLEAN(free_clean) int64_t *last_gap = calloc(split_meetings(splitter) + 1, sizeof(*last_gap));
    int64_t first = INT64_MAX, last = INT64_MIN, end = INT64_MIN;
    bool gaps = false;

    if (!last_gap)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        int64_t begin;

        if (!program->place[rank].form)
            continue;
        begin = whole_begin(program->model, whole, rank);
        first = MIN(first, begin);
        last = MAX(last, begin);
        end = MAX(end, begin + whole->step_of[rank].duration_ns + whole->step_of[rank].tail_ns);
        gaps |= rank_durations(program, whole, splitter, rank, last_gap);
    }
    if (gaps)
        gaps_add(program, splitter, last_gap);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].form)
            program->duration[op_at(program, rank, 0)] =
                whole_begin(program->model, whole, rank) - first;
    }
    program->measured = end - last;
    return 0;
}
