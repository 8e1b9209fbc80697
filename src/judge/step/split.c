/* split.c - first all meetings of the step, then each rank's sweep over its lines (sweep.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/step/sweep.h"

/* Which items meet follows from the shapes alone, so it is kept until another shape comes. */
struct splitter {
    struct meeting *meeting;
    uint32_t meetings;
    uint32_t *number; /* of all ranks' items one after the other: the item's meeting */
    size_t *base;     /* by rank: its first place in that */
    const struct model_shape **shape; /* by rank: what the numbers were made for */
    uint32_t world, comms, members_version;
};

int splitter_create(struct splitter **ret)
{
    struct splitter *splitter = calloc(1, sizeof(*splitter));

    if (!splitter)
        return -ENOMEM;
    *ret = splitter;
    return 0;
}

void splitter_clear(struct splitter *splitter)
{
    free(splitter->meeting);
    free(splitter->number);
    free(splitter->base);
    free(splitter->shape);
    *splitter = (struct splitter){ 0 };
}

void splitter_destroy(struct splitter *splitter)
{
    if (!splitter)
        return;
    splitter_clear(splitter);
    free(splitter);
}

int64_t split_compute_ns(const struct rank_split *split)
{
    return split->compute_ns;
}

int64_t split_transfer_ns(const struct rank_split *split)
{
    return split->transfer_ns;
}

int64_t split_input_ns(const struct rank_split *split)
{
    return split->host_ns[LOCKSTEP_PHASE_DATA];
}

bool split_tells_cpu(const struct rank_split *split)
{
    return split->cpu_ns > 0 || split->delay_ns > 0 || split->throttled_ns > 0;
}

int64_t split_starved_ns(const struct rank_split *split)
{
    return split->delay_ns + split->throttled_ns;
}

int64_t split_host_ns(const struct rank_split *split)
{
    return split->host_ns[0] + split->host_ns[LOCKSTEP_PHASE_FORWARD] +
           split->host_ns[LOCKSTEP_PHASE_BACKWARD] + split->host_ns[LOCKSTEP_PHASE_OPTIMIZER] +
           split->host_ns[LOCKSTEP_PHASE_GC] + split->host_ns[LOCKSTEP_PHASE_OTHER];
}

int64_t split_local_ns(const struct rank_split *split)
{
    return split->compute_ns + split->queued_ns + split_host_ns(split);
}

static uint64_t split_pair_key(const struct model *model, const struct job_step *job_step,
                               uint32_t rank, uint32_t item)
{
    const struct model_shape *shape = job_step->shape_of[rank];
    const struct shape_item *at = &shape->fact.item[item];
    const struct model_comm *comm = &model->comm[shape->comm[item]];
    uint32_t self = model_index(model, shape->comm[item], rank), from, to;

    from = at->what == LOCKSTEP_OP_SEND ? self : at->peer;
    to = at->what == LOCKSTEP_OP_SEND ? at->peer : self;
    return hash64_u64(hash64_u64(comm->id, (uint64_t)from << 32 | to), shape->ordinal[item]);
}

/* Where each communicator's collectives begin, by how many of them this step has; their sum. */
static int split_comms_lay_out(const struct model *model, const struct job_step *job_step,
                               uint32_t *first, uint32_t *total)
{
    *total = 0;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = job_step->shape_of[rank];

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            if (shape->class->kind[i] == ITEM_COLL)
                first[shape->comm[i]] = MAX(first[shape->comm[i]], shape->ordinal[i] + 1);
        }
    }
    for (uint32_t i = 0; i < model->comms; i++) {
        uint32_t count = first[i];

        if (*total > MODEL_NONE - 1 - count)
            return -E2BIG;
        first[i] = *total;
        *total += count;
    }
    return 0;
}

static int split_rank_number(struct splitter *splitter, const struct model *model,
                             const struct job_step *job_step, uint32_t rank, const uint32_t *first,
                             struct map *pair)
{
    const struct model_shape *shape = job_step->shape_of[rank];
    uint32_t *number = splitter->number + splitter->base[rank];

    for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
        number[i] = MODEL_NONE;
        if (shape->class->kind[i] == ITEM_COLL) {
            number[i] = first[shape->comm[i]] + shape->ordinal[i];
        } else if (shape->class->kind[i] == ITEM_P2P) {
            uint64_t *at =
                map_put(pair, split_pair_key(model, job_step, rank, i), splitter->meetings);

            if (!at || splitter->meetings == MODEL_NONE)
                return -ENOMEM;
            if (*at == splitter->meetings)
                splitter->meetings++;
            number[i] = (uint32_t)*at;
        }
    }
    return 0;
}

static int split_meetings_number(struct splitter *splitter, const struct model *model,
                                 const struct job_step *job_step)
{
    CLEAN(free_clean) uint32_t *first = calloc(model->comms + 1, sizeof(*first));
    CLEAN(map_fini) struct map pair = { 0 };
    int result = first ? split_comms_lay_out(model, job_step, first, &splitter->meetings) : -ENOMEM;

    for (uint32_t rank = 0; rank < model->world && result == 0; rank++)
        result = split_rank_number(splitter, model, job_step, rank, first, &pair);
    return result;
}

static bool split_numbers_hold(const struct splitter *splitter, const struct model *model,
                               const struct job_step *job_step)
{
    return splitter->world == model->world && splitter->comms == model->comms &&
           splitter->members_version == model->members_version && splitter->shape &&
           memcmp(splitter->shape, job_step->shape_of, model->world * sizeof(*splitter->shape)) ==
               0;
}

size_t splitter_bytes(const struct splitter *splitter)
{
    size_t items = splitter->base && splitter->world ? splitter->base[splitter->world] : 0;

    return splitter->world * (sizeof(*splitter->base) + sizeof(*splitter->shape)) +
           items * sizeof(*splitter->number) + splitter->meetings * sizeof(*splitter->meeting);
}

static int split_meetings_lay_out(struct splitter *splitter, const struct model *model,
                                  const struct job_step *job_step)
{
    int result;

    if (split_numbers_hold(splitter, model, job_step))
        return 0;
    splitter_clear(splitter);
    splitter->base = calloc(model->world + 1, sizeof(*splitter->base));
    splitter->shape = malloc((model->world + 1) * sizeof(*splitter->shape));
    if (!splitter->base || !splitter->shape)
        return -ENOMEM;
    memcpy(splitter->shape, job_step->shape_of, model->world * sizeof(*splitter->shape));
    for (uint32_t rank = 0; rank < model->world; rank++)
        splitter->base[rank + 1] =
            splitter->base[rank] +
            (job_step->shape_of[rank] ? job_step->shape_of[rank]->fact.count : 0);
    splitter->number = malloc((splitter->base[model->world] + 1) * sizeof(*splitter->number));
    if (!splitter->number)
        return -ENOMEM;
    result = split_meetings_number(splitter, model, job_step);
    if (result < 0)
        return result;
    splitter->meeting = malloc(((size_t)splitter->meetings + 1) * sizeof(*splitter->meeting));
    if (!splitter->meeting)
        return -ENOMEM;
    splitter->world = model->world; /* from here on it holds */
    splitter->comms = model->comms;
    splitter->members_version = model->members_version;
    return 0;
}

const uint32_t *split_numbers(const struct splitter *splitter, uint32_t rank)
{
    return splitter->number + splitter->base[rank];
}

uint32_t split_meetings(const struct splitter *splitter)
{
    return splitter->meetings;
}

const struct meeting *split_meeting_base(const struct splitter *splitter)
{
    return splitter->meeting;
}

static void split_meeting_join(struct meeting *meeting, int64_t arrival_ns, int64_t stay_ns)
{
    meeting->last_arrival_ns = MAX(meeting->last_arrival_ns, arrival_ns);
    meeting->shortest_ns = MIN(meeting->shortest_ns, stay_ns);
    meeting->members++;
}

static void split_meetings_fill(struct splitter *splitter, const struct model *model,
                                const struct job_step *job_step)
{
    static const struct meeting empty = { .last_arrival_ns = INT64_MIN, .shortest_ns = INT64_MAX };

    for (uint32_t i = 0; i < splitter->meetings; i++)
        splitter->meeting[i] = empty;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = job_step->shape_of[rank];
        const uint32_t *number = split_numbers(splitter, rank);
        int64_t begin = shape ? job_step_begin(model, job_step, rank) : 0;

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            const struct item_time *time = &job_step->step_of[rank].time[i];

            if (number[i] != MODEL_NONE)
                split_meeting_join(&splitter->meeting[number[i]], begin + time->start_ns,
                                   time->end_ns - time->start_ns);
        }
    }
}

/* Ranks say what they like, also "not a number": what is no length explains nothing. */
static bool split_is_length(double value)
{
    return value >= 0 && value < 1e24;
}

static void split_rank(const struct splitter *splitter, const struct model *model,
                       const struct job_step *job_step, uint32_t rank, struct rank_split *split)
{
    const struct fact_step *step = &job_step->step_of[rank];
    const uint32_t lengths = 1u << LOCKSTEP_METRIC_TOKENS | 1u << LOCKSTEP_METRIC_LENGTH_SQUARES;
    const struct sweep_step sweep = {
        .class = job_step->shape_of[rank]->class,
        .time = step->time,
        .meeting = splitter->meeting,
        .number = split_numbers(splitter, rank),
        .begin_ns = job_step_begin(model, job_step, rank),
        .total_ns = step->duration_ns + step->tail_ns,
        .split = step->flags & STEP_SPLIT,
    };

    *split = (struct rank_split){ .present = true };
    split->unfinished = step->flags & STEP_UNFINISHED;
    split->begin_ns = sweep.begin_ns;
    split->total_ns = sweep.total_ns;
    split->tail_ns = step->tail_ns;
    split->cpu_ns = step->cpu_ns;
    split->delay_ns = step->run_delay_ns;
    split->throttled_ns = step->throttled_ns;
    split->major_faults = step->major_faults;
    split->tokens = step->metric[LOCKSTEP_METRIC_TOKENS];
    split->squares = step->metric[LOCKSTEP_METRIC_LENGTH_SQUARES];
    split->has_lengths = (step->metric_set & lengths) == lengths &&
                         split_is_length(split->tokens) && split_is_length(split->squares);
    sweep_rank(&sweep, split);
}

int split_step(struct splitter *splitter, const struct model *model,
               const struct job_step *job_step, struct rank_split *split)
{
    int result = split_meetings_lay_out(splitter, model, job_step);

    if (result < 0) {
        splitter_clear(splitter);
        return result;
    }
    split_meetings_fill(splitter, model, job_step);
    for (uint32_t rank = 0; rank < model->world; rank++) {
        split[rank] = (struct rank_split){ 0 };
        if (job_step->shape_of[rank])
            split_rank(splitter, model, job_step, rank, &split[rank]);
    }
    return 0;
}
