/* sweep.c - moves over all lines of a rank at once, from border to border.
 *
 * Where devices report their times, what runs on them is what the rank does, and the host counts
 * only while they are idle.  Where they do not, the host's phases stand for the work, and the
 * collectives that the host's own threads run (gloo) are hidden behind it: such a collective
 * counts only while the host waits for it.  When that is cannot be observed, as it happens inside
 * a phase (backward waits for the last gradient bucket); but it is learnt at which points of
 * the program all that was launched has always ended (learn.h), and from the last launch
 * before such a point to the last end the host has waited.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/sweep.h"

#include "core/clean.h"

/* How long of its stay a member waited for the others. */
static inline int64_t sweep_item_wait_ns(const struct meeting *meeting, unsigned kind,
                                         unsigned what, const struct item_time *time,
                                         int64_t begin_ns)
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

enum state {
    STATE_NONE,
    STATE_HOST,
    STATE_QUEUED,
    STATE_WAIT,
    STATE_TRANSFER,
    STATE_COMPUTE
};

struct sweep_cursor { /* on one line: the item now in view, and its next border */
    uint32_t item, place;
    enum state state;
    int64_t next_ns, split_ns, end_ns;
};

struct pause { /* the host's next wait for what it launched */
    int64_t from_ns, to_ns;
    uint32_t point;      /* the next of the host's points to look at: launches, phases, the end */
    int64_t point_ns;    /* when it passed the one before */
    int64_t last_end_ns; /* latest end of all launched before that */
};

struct sweep {
    struct sweep_step step;
    struct sweep_cursor line[MODEL_LINES_MAX];
    struct pause pause;
    uint32_t phase[8]; /* open phases, innermost last */
    int phases;
};

struct sweep_sums {
    int64_t by_state[STATE_COMPUTE + 1], host_ns[LOCKSTEP_PHASE_COUNT];
};

static inline int64_t sweep_wait_ns(const struct sweep *sweep, uint32_t item)
{
    const struct item_time *time = &sweep->step.time[item];

    if (sweep->step.split && time->wait_ns >= 0)
        return time->wait_ns; /* op by op, by the node's agent */
    return sweep_item_wait_ns(&sweep->step.meeting[sweep->step.number[item]],
                              sweep->step.class->kind[item], sweep->step.class->what[item], time,
                              sweep->step.begin_ns);
}

/* Takes the item at a place of the line into view at `now`: not launched yet, or launched and not
 * begun.
 */
static inline void cursor_load(const struct sweep *sweep, uint32_t line, uint32_t place,
                               int64_t now_ns, struct sweep_cursor *at)
{
    const struct item_time *time;

    at->place = place;
    at->state = STATE_NONE;
    if (place >= sweep->step.class->places[line]) {
        at->next_ns = INT64_MAX;
        return;
    }
    at->item = sweep->step.class->at[line][place];
    time = &sweep->step.time[at->item];
    if (line == 0 || time->enqueue_ns > now_ns) {
        at->next_ns = MAX(time->enqueue_ns, now_ns);
    } else {
        at->state = STATE_QUEUED;
        at->next_ns = MAX(time->start_ns, now_ns); /* items of a line do not overlap */
    }
}

/* Passes a border of a stream's line: an item is launched, begins, goes from waiting to transfer,
 * ends.
 */
static inline void cursor_pass(const struct sweep *sweep, uint32_t line, bool host_lines,
                               struct sweep_cursor *at)
{
    const struct item_time *time = &sweep->step.time[at->item];

    if (at->state == STATE_NONE) {
        at->state = STATE_QUEUED;
        at->next_ns = MAX(time->start_ns, at->next_ns);
    } else if (at->state == STATE_QUEUED) {
        at->end_ns =
            host_lines ? class_end_ns(sweep->step.class, sweep->step.time, at->item) : time->end_ns;
        at->end_ns = at->next_ns = MAX(at->end_ns, at->next_ns);
        at->state = STATE_COMPUTE;
        if (sweep->step.number[at->item] != MODEL_NONE) {
            at->state = STATE_WAIT;
            at->next_ns = MIN(at->end_ns, time->start_ns + sweep_wait_ns(sweep, at->item));
        }
    } else if (at->state == STATE_WAIT) {
        at->state = STATE_TRANSFER;
        at->next_ns = at->end_ns;
    } else {
        cursor_load(sweep, line, at->place + 1, at->end_ns, at);
    }
}

/* Phases nest: a border is the next begin or the innermost end, whichever comes first. */
static inline int64_t sweep_phase_border(const struct sweep *sweep)
{
    int64_t next = sweep->line[0].next_ns;

    if (sweep->phases > 0)
        next = MIN(next, sweep->step.time[sweep->phase[sweep->phases - 1]].end_ns);
    return next;
}

static inline void phase_step(struct sweep *sweep, int64_t now)
{
    struct sweep_cursor *at = &sweep->line[0];

    if (sweep->phases > 0 && sweep->step.time[sweep->phase[sweep->phases - 1]].end_ns <= now) {
        sweep->phases--;
        return;
    }
    if (sweep->phases < (int)COUNT(sweep->phase))
        sweep->phase[sweep->phases++] = at->item;
    cursor_load(sweep, 0, at->place + 1, now, at);
}

/* The next wait of the host; the newest border has been passed. */
static void pause_next(struct sweep *sweep)
{
    const struct model_class *class = sweep->step.class;
    struct pause *pause = &sweep->pause;

    pause->from_ns = pause->to_ns = INT64_MAX;
    while (pause->point <= class->count && pause->to_ns == INT64_MAX) {
        uint32_t point = pause->point++;
        bool last = point == class->count;
        int64_t now = last ? sweep->step.total_ns : sweep->step.time[point].enqueue_ns;

        enum halt kind = class_halt(class, point);
        int64_t until = kind == HALT_ALL      ? pause->last_end_ns
                        : kind == HALT_NEWEST ? sweep->step.time[point - 1].end_ns
                                              : INT64_MIN;

        if (MIN(until, now) > pause->point_ns) {
            pause->from_ns = pause->point_ns;
            pause->to_ns = MIN(until, now);
        }
        pause->point_ns = MAX(pause->point_ns, now);
        if (!last && class->kind[point] != ITEM_PHASE)
            pause->last_end_ns = MAX(pause->last_end_ns, sweep->step.time[point].end_ns);
    }
}

/* Where a stretch of time belongs, when its busiest line is in this state. */
static inline void sweep_account(const struct sweep *sweep, enum state state, int64_t ns,
                                 struct sweep_sums *sums)
{
    unsigned phase = 0;

    sums->by_state[state] += ns;
    if (state == STATE_HOST) {
        if (sweep->phases > 0)
            phase = sweep->step.class->what[sweep->phase[sweep->phases - 1]];
        sums->host_ns[phase < LOCKSTEP_PHASE_COUNT ? phase : 0] += ns;
    }
}

/* The next border of all: of which line, and when; and when the first of any other comes. */
static inline uint32_t sweep_next_line(const struct sweep *sweep, int64_t *next_ns,
                                       int64_t *other_ns)
{
    uint32_t line = 0;

    *next_ns = sweep_phase_border(sweep);
    *other_ns = INT64_MAX;
    for (uint32_t i = 1; i < sweep->step.class->lines; i++) {
        int64_t border = sweep->line[i].next_ns;

        *other_ns = MIN(*other_ns, MAX(border, *next_ns));
        if (border < *next_ns) {
            *next_ns = border;
            line = i;
        }
    }
    return line;
}

/* The host's next pause begins or ends; INT64_MAX: no more of them. */
static inline int64_t pause_border(const struct sweep *sweep, int64_t now_ns)
{
    return now_ns < sweep->pause.from_ns ? sweep->pause.from_ns : sweep->pause.to_ns;
}

/* What the lines do from now on: the first of these that one of them does, but for `except`. */
static inline enum state sweep_state_now(const struct sweep *sweep, bool paused, uint32_t except)
{
    uint32_t hidden = paused ? 0 : sweep->step.class->host_lines;
    enum state state = STATE_HOST;

    for (uint32_t line = 1; line < sweep->step.class->lines; line++) {
        if (line != except && !(hidden & 1u << line))
            state = MAX(state, sweep->line[line].state);
    }
    return state;
}

/* From `now`, a border of this line, along it until something else has a border; until when it came. */
static inline int64_t sweep_line_follow(struct sweep *sweep, uint32_t line, int64_t now,
                                        int64_t until, bool host_lines, struct sweep_sums *sums)
{
    bool paused = host_lines && now >= sweep->pause.from_ns && now < sweep->pause.to_ns;
    bool hidden = host_lines && !paused && sweep->step.class->host_lines & 1u << line;
    enum state rest = sweep_state_now(sweep, paused, line);
    struct sweep_cursor at = sweep->line[line];

    for (;;) {
        /* An op that ends when the next begins has several borders; between them no time passes. */
        do
            cursor_pass(sweep, line, host_lines, &at);
        while (at.next_ns <= now);
        if (at.next_ns >= until)
            break;
        sweep_account(sweep, hidden ? rest : MAX(rest, at.state), at.next_ns - now, sums);
        now = at.next_ns;
    }
    sweep->line[line] = at;
    return now;
}

/* Made twice, with and without lines that the host runs: most steps have none, and this is the innermost
 * loop of the controller.
 */
static inline __attribute__((always_inline)) void sweep_lines(struct sweep *sweep, bool host_lines,
                                                              struct sweep_sums *sums)
{
    const int64_t total = sweep->step.total_ns;
    int64_t now = 0;

    while (now < total) {
        int64_t next, other, pause = host_lines ? pause_border(sweep, now) : INT64_MAX;
        uint32_t line = sweep_next_line(sweep, &next, &other);
        bool pauses = pause < next;

        next = MIN(pause, next);
        if (MIN(next, total) > now) {
            bool paused = host_lines && now >= sweep->pause.from_ns && now < sweep->pause.to_ns;

            sweep_account(sweep, sweep_state_now(sweep, paused, 0), MIN(next, total) - now, sums);
            now = MIN(next, total);
        }
        if (next >= total)
            break;
        if (pauses && now >= sweep->pause.to_ns)
            pause_next(sweep);
        else if (pauses)
            continue; /* it begins here */
        else if (line == 0)
            phase_step(sweep, next);
        else
            now = sweep_line_follow(sweep, line, now, MIN(MIN(other, pause), total), host_lines,
                                    sums);
    }
}

void sweep_rank(const struct sweep_step *step, struct rank_split *split)
{
    struct sweep sweep = { .step = *step };
    struct sweep_sums sums = { 0 };

    for (uint32_t line = 0; line < step->class->lines; line++)
        cursor_load(&sweep, line, 0, 0, &sweep.line[line]);
    sweep.pause = (struct pause){ .from_ns = INT64_MAX, .to_ns = INT64_MAX };
    if (step->class->host_lines) {
        pause_next(&sweep);
        sweep_lines(&sweep, true, &sums);
    } else {
        sweep_lines(&sweep, false, &sums);
    }
    split->compute_ns += sums.by_state[STATE_COMPUTE];
    split->transfer_ns += sums.by_state[STATE_TRANSFER];
    split->wait_ns += sums.by_state[STATE_WAIT];
    split->queued_ns += sums.by_state[STATE_QUEUED];
    for (unsigned phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++)
        split->host_ns[phase] += sums.host_ns[phase];
}
