/* split.c - first all meetings of the step, then each rank's sweep over its lines. */
#include "judge/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

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

static void splitter_clear(struct splitter *splitter)
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

static uint64_t pair_key(const struct model *model, const struct whole *whole, uint32_t rank,
                         uint32_t item)
{
    const struct model_shape *shape = whole->shape_of[rank];
    const struct shape_item *at = &shape->fact.item[item];
    const struct model_comm *comm = &model->comm[shape->comm[item]];
    uint32_t self = model_index(model, shape->comm[item], rank), from, to;

    from = at->what == LOCKSTEP_OP_SEND ? self : at->peer;
    to = at->what == LOCKSTEP_OP_SEND ? at->peer : self;
    return hash64_u64(hash64_u64(comm->id, (uint64_t)from << 32 | to), shape->ordinal[item]);
}

/* Where each communicator's collectives begin, by how many of them this step has; their sum. */
static int comms_lay_out(const struct model *model, const struct whole *whole, uint32_t *first,
                         uint32_t *total)
{
    *total = 0;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];

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

static int rank_number(struct splitter *splitter, const struct model *model,
                       const struct whole *whole, uint32_t rank, const uint32_t *first,
                       struct map *pair)
{
    const struct model_shape *shape = whole->shape_of[rank];
    uint32_t *number = splitter->number + splitter->base[rank];

    for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
        number[i] = MODEL_NONE;
        if (shape->class->kind[i] == ITEM_COLL) {
            number[i] = first[shape->comm[i]] + shape->ordinal[i];
        } else if (shape->class->kind[i] == ITEM_P2P) {
            uint64_t *at = map_put(pair, pair_key(model, whole, rank, i), splitter->meetings);

            if (!at || splitter->meetings == MODEL_NONE)
                return -ENOMEM;
            if (*at == splitter->meetings)
                splitter->meetings++;
            number[i] = (uint32_t)*at;
        }
    }
    return 0;
}

static int meetings_number(struct splitter *splitter, const struct model *model,
                           const struct whole *whole)
{
    CLEAN(free_clean) uint32_t *first = calloc(model->comms + 1, sizeof(*first));
    CLEAN(map_fini) struct map pair = { 0 };
    int result = first ? comms_lay_out(model, whole, first, &splitter->meetings) : -ENOMEM;

    for (uint32_t rank = 0; rank < model->world && result == 0; rank++)
        result = rank_number(splitter, model, whole, rank, first, &pair);
    return result;
}

static bool numbers_hold(const struct splitter *splitter, const struct model *model,
                         const struct whole *whole)
{
    return splitter->world == model->world && splitter->comms == model->comms &&
           splitter->members_version == model->members_version && splitter->shape &&
           memcmp(splitter->shape, whole->shape_of, model->world * sizeof(*splitter->shape)) == 0;
}

static int meetings_lay_out(struct splitter *splitter, const struct model *model,
                            const struct whole *whole)
{
    int result;

    if (numbers_hold(splitter, model, whole))
        return 0;
    splitter_clear(splitter);
    splitter->base = calloc(model->world + 1, sizeof(*splitter->base));
    splitter->shape = malloc((model->world + 1) * sizeof(*splitter->shape));
    if (!splitter->base || !splitter->shape)
        return -ENOMEM;
    memcpy(splitter->shape, whole->shape_of, model->world * sizeof(*splitter->shape));
    for (uint32_t rank = 0; rank < model->world; rank++)
        splitter->base[rank + 1] =
            splitter->base[rank] + (whole->shape_of[rank] ? whole->shape_of[rank]->fact.count : 0);
    splitter->number = malloc((splitter->base[model->world] + 1) * sizeof(*splitter->number));
    if (!splitter->number)
        return -ENOMEM;
    result = meetings_number(splitter, model, whole);
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

static void meeting_join(struct meeting *meeting, int64_t arrival_ns, int64_t stay_ns)
{
    meeting->last_arrival_ns = MAX(meeting->last_arrival_ns, arrival_ns);
    meeting->shortest_ns = MIN(meeting->shortest_ns, stay_ns);
    meeting->members++;
}

static void meetings_fill(struct splitter *splitter, const struct model *model,
                          const struct whole *whole)
{
    static const struct meeting empty = { .last_arrival_ns = INT64_MIN, .shortest_ns = INT64_MAX };

    for (uint32_t i = 0; i < splitter->meetings; i++)
        splitter->meeting[i] = empty;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];
        const uint32_t *number = split_numbers(splitter, rank);
        int64_t begin = shape ? whole_begin(model, whole, rank) : 0;

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            const struct item_time *time = &whole->step_of[rank].time[i];

            if (number[i] != MODEL_NONE)
                meeting_join(&splitter->meeting[number[i]], begin + time->start_ns,
                             time->end_ns - time->start_ns);
        }
    }
}

/* How long of its stay a member waited for the others. */
static int64_t item_wait_ns(const struct meeting *meeting, unsigned kind, unsigned what,
                            const struct item_time *time, int64_t begin_ns)
{
    int64_t stay = time->end_ns - time->start_ns, late;

    if (meeting->members < 2)
        return 0;
    if (kind == ITEM_COLL && op_synchronises(what))
        return stay - meeting->shortest_ns; /* needs no common clock */
    late = meeting->last_arrival_ns - (begin_ns + time->start_ns);
    if (kind == ITEM_P2P && what == LOCKSTEP_OP_SEND && late > stay)
        return 0; /* it left before the receiver came: it did not wait */
    return MAX(0, MIN(late, stay));
}

/* ---- one rank's sweep ---- */

enum state {
    STATE_NONE,
    STATE_HOST,
    STATE_QUEUED,
    STATE_WAIT,
    STATE_TRANSFER,
    STATE_COMPUTE
};

struct cursor { /* on one line: the item now in view, and its next border */
    uint32_t item, place;
    enum state state;
    int64_t next_ns, split_ns, end_ns;
};

struct sweep {
    const struct model_class *class;
    const struct item_time *time;
    const struct meeting *meeting; /* number 0 */
    const uint32_t *number;        /* of the rank's items */
    int64_t begin_ns;
    bool split; /* times of merged ops have their waiting */
    struct cursor line[MODEL_LINES_MAX];
    uint32_t phase[8]; /* open phases, innermost last */
    int phases;
};

static int64_t sweep_wait_ns(const struct sweep *sweep, uint32_t item)
{
    const struct item_time *time = &sweep->time[item];

    if (sweep->split && time->wait_ns >= 0)
        return time->wait_ns; /* op by op, by the node's agent */
    return item_wait_ns(&sweep->meeting[sweep->number[item]], sweep->class->kind[item],
                        sweep->class->what[item], time, sweep->begin_ns);
}

/* Takes the item at a place of the line into view at `now`: not launched yet, or launched and not
 * begun.
 */
static void cursor_load(struct sweep *sweep, uint32_t line, uint32_t place, int64_t now_ns)
{
    struct cursor *at = &sweep->line[line];
    const struct item_time *time;

    at->place = place;
    at->state = STATE_NONE;
    if (place >= sweep->class->places[line]) {
        at->next_ns = INT64_MAX;
        return;
    }
    at->item = sweep->class->at[line][place];
    time = &sweep->time[at->item];
    if (line == 0 || time->enqueue_ns > now_ns) {
        at->next_ns = MAX(time->enqueue_ns, now_ns);
    } else {
        at->state = STATE_QUEUED;
        at->next_ns = MAX(time->start_ns, now_ns); /* items of a line do not overlap */
    }
}

/* Passes the border of a stream's line: an item is launched, begins, goes from waiting to
 * transfer, ends.
 */
static void cursor_step(struct sweep *sweep, uint32_t line)
{
    struct cursor *at = &sweep->line[line];
    const struct item_time *time = &sweep->time[at->item];

    if (at->state == STATE_NONE) {
        at->state = STATE_QUEUED;
        at->next_ns = MAX(time->start_ns, at->next_ns);
    } else if (at->state == STATE_QUEUED) {
        at->end_ns = MAX(time->end_ns, at->next_ns);
        at->next_ns = at->end_ns;
        at->state = STATE_COMPUTE;
        if (sweep->number[at->item] != MODEL_NONE) {
            at->state = STATE_WAIT;
            at->next_ns = MIN(at->end_ns, time->start_ns + sweep_wait_ns(sweep, at->item));
        }
    } else if (at->state == STATE_WAIT) {
        at->state = STATE_TRANSFER;
        at->next_ns = at->end_ns;
    } else {
        cursor_load(sweep, line, at->place + 1, at->end_ns);
    }
}

/* Phases nest: a border is the next begin or the innermost end, whichever comes first. */
static int64_t phase_border(const struct sweep *sweep)
{
    int64_t next = sweep->line[0].next_ns;

    if (sweep->phases > 0)
        next = MIN(next, sweep->time[sweep->phase[sweep->phases - 1]].end_ns);
    return next;
}

static void phase_step(struct sweep *sweep, int64_t now)
{
    struct cursor *at = &sweep->line[0];

    if (sweep->phases > 0 && sweep->time[sweep->phase[sweep->phases - 1]].end_ns <= now) {
        sweep->phases--;
        return;
    }
    if (sweep->phases < (int)COUNT(sweep->phase))
        sweep->phase[sweep->phases++] = at->item;
    cursor_load(sweep, 0, at->place + 1, now);
}

static void account(const struct sweep *sweep, int64_t ns, struct rank_split *split)
{
    enum state state = STATE_HOST;
    unsigned phase = 0;

    for (uint32_t line = 1; line < sweep->class->lines; line++)
        state = MAX(state, sweep->line[line].state);
    switch (state) {
    case STATE_COMPUTE:
        split->compute_ns += ns;
        break;
    case STATE_TRANSFER:
        split->transfer_ns += ns;
        break;
    case STATE_WAIT:
        split->wait_ns += ns;
        break;
    case STATE_QUEUED:
        split->queued_ns += ns;
        break;
    default:
        if (sweep->phases > 0)
            phase = sweep->class->what[sweep->phase[sweep->phases - 1]];
        split->host_ns[phase < LOCKSTEP_PHASE_COUNT ? phase : 0] += ns;
    }
}

static void sweep_rank(struct sweep *sweep, int64_t until_ns, struct rank_split *split)
{
    uint32_t lines = sweep->class->lines;
    int64_t now = 0;

    for (uint32_t line = 0; line < lines; line++)
        cursor_load(sweep, line, 0, 0);
    while (now < until_ns) {
        int64_t next = phase_border(sweep);
        uint32_t line = 0;

        for (uint32_t i = 1; i < lines; i++) {
            if (sweep->line[i].next_ns < next) {
                next = sweep->line[i].next_ns;
                line = i;
            }
        }
        if (MIN(next, until_ns) > now) {
            account(sweep, MIN(next, until_ns) - now, split);
            now = MIN(next, until_ns);
        }
        if (next >= until_ns)
            break;
        if (line == 0)
            phase_step(sweep, next);
        else
            cursor_step(sweep, line);
    }
}

/* Ranks say what they like, also "not a number": what is no length explains nothing. */
static bool is_length(double value)
{
    return value >= 0 && value < 1e24;
}

static void split_rank(const struct splitter *splitter, const struct model *model,
                       const struct whole *whole, uint32_t rank, struct rank_split *split)
{
    const struct fact_step *step = &whole->step_of[rank];
    const uint32_t lengths = 1u << LOCKSTEP_METRIC_TOKENS | 1u << LOCKSTEP_METRIC_LENGTH_SQUARES;
    struct sweep sweep = {
        .class = whole->shape_of[rank]->class,
        .time = step->time,
        .meeting = splitter->meeting,
        .number = split_numbers(splitter, rank),
        .begin_ns = whole_begin(model, whole, rank),
        .split = step->flags & STEP_SPLIT,
    };

    *split = (struct rank_split){ .present = true };
    split->begin_ns = sweep.begin_ns;
    split->total_ns = step->duration_ns + step->tail_ns;
    split->tail_ns = step->tail_ns;
    split->cpu_ns = step->cpu_ns;
    split->delay_ns = step->run_delay_ns;
    split->throttled_ns = step->throttled_ns;
    split->tokens = step->metric[LOCKSTEP_METRIC_TOKENS];
    split->squares = step->metric[LOCKSTEP_METRIC_LENGTH_SQUARES];
    split->has_lengths = (step->metric_set & lengths) == lengths && is_length(split->tokens) &&
                         is_length(split->squares);
    sweep_rank(&sweep, split->total_ns, split);
}

int split_step(struct splitter *splitter, const struct model *model, const struct whole *whole,
               struct rank_split *split)
{
    int result = meetings_lay_out(splitter, model, whole);

    if (result < 0) {
        splitter_clear(splitter);
        return result;
    }
    meetings_fill(splitter, model, whole);
    for (uint32_t rank = 0; rank < model->world; rank++) {
        split[rank] = (struct rank_split){ 0 };
        if (whole->shape_of[rank])
            split_rank(splitter, model, whole, rank, &split[rank]);
    }
    return 0;
}
