/* split.c - first all meetings of the step, then each rank's sweep over its lines. */
#include "judge/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

struct splitter {
    struct meeting *meeting;
    uint32_t meetings, room;
    uint32_t *first; /* by communicator slot: its first collective of the step */
    uint32_t *count; /* by communicator slot: collectives of the step */
    uint32_t comms;
    struct map pair; /* point-to-point: key → meeting */
};

int splitter_create(struct splitter **ret)
{
    struct splitter *splitter = calloc(1, sizeof(*splitter));

    if (!splitter)
        return -ENOMEM;
    *ret = splitter;
    return 0;
}

void splitter_destroy(struct splitter *splitter)
{
    if (!splitter)
        return;
    free(splitter->meeting);
    free(splitter->first);
    free(splitter->count);
    map_fini(&splitter->pair);
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

/* How many collectives each communicator has in this step, and so where its meetings begin. */
static int meetings_lay_out(struct splitter *splitter, const struct model *model,
                            const struct whole *whole)
{
    uint32_t total = 0, pairs = 0;

    if (splitter->comms < model->comms) {
        free(splitter->first);
        free(splitter->count);
        splitter->first = malloc(model->comms * sizeof(uint32_t));
        splitter->count = malloc(model->comms * sizeof(uint32_t));
        splitter->comms = splitter->first && splitter->count ? model->comms : 0;
        if (!splitter->comms)
            return -ENOMEM;
    }
    memset(splitter->count, 0, splitter->comms * sizeof(uint32_t));
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            if (shape->fact.item[i].kind == ITEM_COLL)
                splitter->count[shape->comm[i]] =
                    MAX(splitter->count[shape->comm[i]], shape->ordinal[i] + 1);
            else if (shape->fact.item[i].kind == ITEM_P2P)
                pairs++;
        }
    }
    for (uint32_t i = 0; i < splitter->comms; i++) {
        splitter->first[i] = total;
        total += splitter->count[i];
    }
    if (total + pairs > splitter->room) {
        free(splitter->meeting);
        splitter->room = total + pairs;
        splitter->meeting = malloc(splitter->room * sizeof(*splitter->meeting));
        if (!splitter->meeting) {
            splitter->room = 0;
            return -ENOMEM;
        }
    }
    splitter->meetings = total;
    map_fini(&splitter->pair);
    return 0;
}

uint32_t split_meeting_number(const struct splitter *splitter, const struct model *model,
                              const struct whole *whole, uint32_t rank, uint32_t item)
{
    const struct model_shape *shape = whole->shape_of[rank];

    if (shape->fact.item[item].kind == ITEM_COLL)
        return splitter->first[shape->comm[item]] + shape->ordinal[item];
    if (shape->fact.item[item].kind == ITEM_P2P) {
        const uint64_t *at = map_get(&splitter->pair, pair_key(model, whole, rank, item));

        return at ? (uint32_t)*at : MODEL_NONE;
    }
    return MODEL_NONE;
}

uint32_t split_meetings(const struct splitter *splitter)
{
    return splitter->meetings;
}

const struct meeting *split_meeting_base(const struct splitter *splitter)
{
    return splitter->meeting;
}

const struct meeting *split_meeting(const struct splitter *splitter, const struct model *model,
                                    const struct whole *whole, uint32_t rank, uint32_t item)
{
    uint32_t number = split_meeting_number(splitter, model, whole, rank, item);

    return number == MODEL_NONE ? NULL : &splitter->meeting[number];
}

static void meeting_join(struct meeting *meeting, int64_t arrival_ns, int64_t stay_ns)
{
    meeting->last_arrival_ns = MAX(meeting->last_arrival_ns, arrival_ns);
    meeting->shortest_ns = MIN(meeting->shortest_ns, stay_ns);
    meeting->members++;
}

static int meetings_fill(struct splitter *splitter, const struct model *model,
                         const struct whole *whole)
{
    static const struct meeting empty = { .last_arrival_ns = INT64_MIN, .shortest_ns = INT64_MAX };

    for (uint32_t i = 0; i < splitter->room; i++)
        splitter->meeting[i] = empty;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];
        int64_t begin = shape ? whole_begin(model, whole, rank) : 0;

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            const struct item_time *time = &whole->step_of[rank].time[i];
            uint32_t number;

            if (shape->fact.item[i].kind == ITEM_COLL) {
                number = splitter->first[shape->comm[i]] + shape->ordinal[i];
            } else if (shape->fact.item[i].kind == ITEM_P2P) {
                uint64_t *at =
                    map_put(&splitter->pair, pair_key(model, whole, rank, i), splitter->meetings);

                if (!at)
                    return -ENOMEM;
                if (*at == splitter->meetings)
                    splitter->meetings++;
                number = (uint32_t)*at;
            } else {
                continue;
            }
            meeting_join(&splitter->meeting[number], begin + time->start_ns,
                         time->end_ns - time->start_ns);
        }
    }
    return 0;
}

/* How long of its stay a member waited for the others. */
static int64_t item_wait_ns(const struct splitter *splitter, const struct model *model,
                            const struct whole *whole, uint32_t rank, uint32_t item)
{
    const struct model_shape *shape = whole->shape_of[rank];
    const struct shape_item *at = &shape->fact.item[item];
    const struct item_time *time = &whole->step_of[rank].time[item];
    const struct meeting *meeting = split_meeting(splitter, model, whole, rank, item);
    int64_t stay = time->end_ns - time->start_ns, late;

    if (item_has_wait(at) && whole->step_of[rank].flags & STEP_SPLIT && time->wait_ns >= 0)
        return MIN(time->wait_ns, stay); /* op by op, by the node's agent */
    if (!meeting || meeting->members < 2)
        return 0;
    if (at->kind == ITEM_COLL && op_synchronises(at->what))
        return stay - meeting->shortest_ns; /* needs no common clock */
    late = meeting->last_arrival_ns - (whole_begin(model, whole, rank) + time->start_ns);
    if (at->kind == ITEM_P2P && at->what == LOCKSTEP_OP_SEND && late > stay)
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
    uint32_t item;
    enum state state;
    int64_t next_ns, split_ns, end_ns;
};

struct sweep {
    const struct splitter *splitter;
    const struct model *model;
    const struct whole *whole;
    uint32_t rank;
    const struct model_shape *shape;
    const struct item_time *time;
    struct cursor line[MODEL_LINES_MAX];
    uint32_t phase[8]; /* open phases, innermost last */
    int phases;
};

/* The next item of a line after `from`; count when there is none. */
static uint32_t line_next(const struct sweep *sweep, uint32_t line, uint32_t from)
{
    const struct model_class *class = sweep->shape->class;

    while (from < class->count &&
           (class->line[from] != line || (line == 0 && class->kind[from] != ITEM_PHASE)))
        from++;
    return from;
}

/* Takes the line's next item into view at `now`: not launched yet, or launched and not begun. */
static void cursor_load(struct sweep *sweep, uint32_t line, uint32_t item, int64_t now_ns)
{
    struct cursor *at = &sweep->line[line];
    const struct item_time *time = &sweep->time[item];

    at->item = item;
    at->state = STATE_NONE;
    if (item >= sweep->shape->class->count) {
        at->next_ns = INT64_MAX;
    } else if (line == 0 || time->enqueue_ns > now_ns) {
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
        if (sweep->shape->class->kind[at->item] != ITEM_SPAN) {
            at->state = STATE_WAIT;
            at->next_ns =
                MIN(at->end_ns, time->start_ns + item_wait_ns(sweep->splitter, sweep->model,
                                                              sweep->whole, sweep->rank, at->item));
        }
    } else if (at->state == STATE_WAIT) {
        at->state = STATE_TRANSFER;
        at->next_ns = at->end_ns;
    } else {
        cursor_load(sweep, line, line_next(sweep, line, at->item + 1), at->end_ns);
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
    cursor_load(sweep, 0, line_next(sweep, 0, at->item + 1), now);
}

static void account(const struct sweep *sweep, int64_t ns, struct rank_split *split)
{
    enum state state = STATE_HOST;
    unsigned phase = 0;

    for (uint32_t line = 1; line < sweep->shape->class->lines; line++)
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
            phase = sweep->shape->fact.item[sweep->phase[sweep->phases - 1]].what;
        split->host_ns[phase < LOCKSTEP_PHASE_COUNT ? phase : 0] += ns;
    }
}

static void sweep_rank(struct sweep *sweep, int64_t until_ns, struct rank_split *split)
{
    uint32_t lines = sweep->shape->class->lines;
    int64_t now = 0;

    for (uint32_t line = 0; line < lines; line++)
        cursor_load(sweep, line, line_next(sweep, line, 0), 0);
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

static void split_rank(const struct splitter *splitter, const struct model *model,
                       const struct whole *whole, uint32_t rank, struct rank_split *split)
{
    const struct fact_step *step = &whole->step_of[rank];
    const uint32_t lengths = 1u << LOCKSTEP_METRIC_TOKENS | 1u << LOCKSTEP_METRIC_LENGTH_SQUARES;
    struct sweep sweep = {
        .splitter = splitter,
        .model = model,
        .whole = whole,
        .rank = rank,
        .shape = whole->shape_of[rank],
        .time = step->time,
    };

    *split = (struct rank_split){ .present = true };
    split->begin_ns = whole_begin(model, whole, rank);
    split->total_ns = step->duration_ns + step->tail_ns;
    split->tail_ns = step->tail_ns;
    split->cpu_ns = step->cpu_ns;
    split->delay_ns = step->run_delay_ns;
    split->throttled_ns = step->throttled_ns;
    split->has_lengths = (step->metric_set & lengths) == lengths;
    split->tokens = step->metric[LOCKSTEP_METRIC_TOKENS];
    split->squares = step->metric[LOCKSTEP_METRIC_LENGTH_SQUARES];
    sweep_rank(&sweep, split->total_ns, split);
}

int split_step(struct splitter *splitter, const struct model *model, const struct whole *whole,
               struct rank_split *split)
{
    int result = meetings_lay_out(splitter, model, whole);

    if (result == 0)
        result = meetings_fill(splitter, model, whole);
    if (result < 0)
        return result;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        split[rank] = (struct rank_split){ 0 };
        if (whole->shape_of[rank])
            split_rank(splitter, model, whole, rank, &split[rank]);
    }
    return 0;
}
