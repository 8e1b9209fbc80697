/* program.c - builds the ops of a step and sets their durations. */
#include "judge/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/learn.h"
#include "judge/median.h"
#include "judge/replay.h"

#define FIT_PER_MILLE 20
#define SMALL_OPS 2000000 /* up to here every launch is an op, above only those that matter */

enum op_kind {
    OP_BEGIN,
    OP_HOST,
    OP_END,
    OP_SPAN,
    OP_COMM,
    OP_JOIN
};

struct op_info {
    uint32_t item;
    uint8_t kind;
    uint8_t sync; /* host: waits for all that is launched */
};

struct program {
    const struct model *model;
    uint64_t key;
    struct replay *replay;
    void *scratch;
    struct replay_op *op; /* while building, then freed */
    struct op_info *info;
    size_t ops, room;
    size_t *first;      /* by rank; first[world] = ops */
    uint64_t *class_of; /* by rank, of the step loaded */
    uint32_t world, lines;
    int64_t *duration, *typical, *trial, *slack;
    size_t held; /* room of the four above */
    int64_t measured, replayed, ideal;
    bool have_replayed, have_ideal, have_typical;
};

int program_create(struct program **ret)
{
    struct program *program = calloc(1, sizeof(*program));

    if (!program)
        return -ENOMEM;
    *ret = program;
    return 0;
}

static void program_clear(struct program *program)
{
    replay_destroy(program->replay);
    free(program->scratch);
    free(program->op);
    free(program->info);
    free(program->first);
    free(program->class_of);
    program->replay = NULL;
    program->scratch = NULL;
    program->op = NULL;
    program->info = NULL;
    program->first = NULL;
    program->class_of = NULL;
    program->ops = program->room = 0;
    program->key = 0;
}

void program_destroy(struct program *program)
{
    if (!program)
        return;
    program_clear(program);
    free(program->duration);
    free(program->typical);
    free(program->trial);
    free(program->slack);
    free(program);
}

size_t program_ops(const struct program *program)
{
    return program->ops;
}

/* ---- building ---- */

struct builder { /* of one rank's ops */
    struct program *program;
    const struct model_shape *shape;
    uint32_t rank;
    uint32_t host;                    /* newest host op */
    uint32_t newest[MODEL_LINES_MAX]; /* newest op of each stream's line */
    uint32_t *at[MODEL_LINES_MAX];    /* ops of each stream's line, by place */
    uint32_t count[MODEL_LINES_MAX];
    uint32_t span; /* newest span */
    bool keep_launches;
};

static uint32_t op_add(struct program *program, enum op_kind kind, uint32_t item,
                       struct replay_op op)
{
    if (program->ops == program->room) {
        size_t room = program->room ? program->room * 2 : 4096;
        struct replay_op *ops = realloc(program->op, room * sizeof(*ops));
        struct op_info *info;

        if (ops)
            program->op = ops;
        info = realloc(program->info, room * sizeof(*info));
        if (info)
            program->info = info;
        if (!ops || !info)
            return REPLAY_NONE;
        program->room = room;
    }
    program->op[program->ops] = op;
    program->info[program->ops] = (struct op_info){ .item = item, .kind = (uint8_t)kind };
    return (uint32_t)program->ops++;
}

static uint32_t line_number(const struct builder *builder, uint32_t line)
{
    return builder->rank * MODEL_LINES_MAX + line;
}

/* Everything in `wanted` must have ended: at most two fit an op, more need joins. */
static int deps_fold(struct builder *builder, const uint32_t *wanted, size_t count, uint32_t dep[2])
{
    uint32_t have[2] = { REPLAY_NONE, REPLAY_NONE };
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (wanted[i] == REPLAY_NONE)
            continue;
        if (used == 2) {
            struct program *program = builder->program;
            uint32_t join = op_add(
                program, OP_JOIN, 0,
                (struct replay_op){ .line = program->world * MODEL_LINES_MAX + program->lines++,
                                    .meet = REPLAY_NONE,
                                    .dep = { have[0], have[1] } });

            if (join == REPLAY_NONE)
                return -ENOMEM;
            have[0] = join;
            used = 1;
        }
        have[used++] = wanted[i];
    }
    dep[0] = have[0];
    dep[1] = used > 1 ? have[1] : REPLAY_NONE;
    return 0;
}

static int host_add(struct builder *builder, enum op_kind kind, uint32_t point)
{
    const struct model_class *class = builder->shape->class;
    struct replay_op op = { .line = line_number(builder, 0),
                            .meet = REPLAY_NONE,
                            .dep = { REPLAY_NONE, REPLAY_NONE } };
    bool sync = class->sync[point] && class->waited[point];

    if (sync) {
        int result = deps_fold(builder, builder->newest + 1, class->lines - 1, op.dep);

        if (result < 0)
            return result;
    }
    builder->host = op_add(builder->program, kind, point, op);
    if (builder->host == REPLAY_NONE)
        return -ENOMEM;
    builder->program->info[builder->host].sync = sync;
    return 0;
}

static int stream_add(struct builder *builder, const struct splitter *splitter,
                      const struct whole *whole, uint32_t item)
{
    const struct model_class *class = builder->shape->class;
    const struct model *model = builder->program->model;
    uint32_t line = class->line[item], wanted[MODEL_LINES_MAX + 1], count = 0, added;
    struct replay_op op = { .line = line_number(builder, line),
                            .meet = REPLAY_NONE,
                            .role = REPLAY_BOTH };
    int result;

    if (builder->keep_launches || class->prompt[item])
        wanted[count++] = builder->host;
    if (class->kind[item] == ITEM_SPAN) {
        for (uint32_t other = 1; other < class->lines; other++) {
            uint32_t place = other == line ? 0 : class->after[other][item];

            if (place > 0 && place <= builder->count[other])
                wanted[count++] = builder->at[other][place - 1];
        }
    } else {
        const struct shape_item *at = &builder->shape->fact.item[item];
        uint32_t meeting = split_meeting_number(splitter, model, whole, builder->rank, item);

        if (class->after_span[item])
            wanted[count++] = builder->span;
        op.meet = meeting == MODEL_NONE ? REPLAY_NONE : meeting;
        if (at->kind == ITEM_P2P && at->what == LOCKSTEP_OP_SEND)
            op.role = REPLAY_GIVES; /* sends are taken to be buffered */
    }
    result = deps_fold(builder, wanted, count, op.dep);
    if (result < 0)
        return result;
    added = op_add(builder->program, class->kind[item] == ITEM_SPAN ? OP_SPAN : OP_COMM, item, op);
    if (added == REPLAY_NONE)
        return -ENOMEM;
    builder->newest[line] = added;
    builder->at[line][builder->count[line]++] = added;
    if (class->kind[item] == ITEM_SPAN)
        builder->span = added;
    return 0;
}

static int rank_build(struct builder *builder, const struct splitter *splitter,
                      const struct whole *whole)
{
    const struct model_class *class = builder->shape->class;
    int result = 0;

    builder->span = REPLAY_NONE;
    for (uint32_t line = 0; line < MODEL_LINES_MAX; line++) {
        builder->newest[line] = REPLAY_NONE;
        builder->count[line] = 0;
    }
    builder->host = op_add(builder->program, OP_BEGIN, 0,
                           (struct replay_op){ .line = line_number(builder, 0),
                                               .meet = REPLAY_NONE,
                                               .dep = { REPLAY_NONE, REPLAY_NONE } });
    if (builder->host == REPLAY_NONE)
        return -ENOMEM;
    for (uint32_t i = 0; i < class->count && result == 0; i++) {
        if (builder->keep_launches || class->prompt[i] || (class->sync[i] && class->waited[i]))
            result = host_add(builder, OP_HOST, i);
        if (result == 0 && class->kind[i] != ITEM_PHASE)
            result = stream_add(builder, splitter, whole, i);
    }
    return result < 0 ? result : host_add(builder, OP_END, class->count);
}

static uint64_t program_key(const struct model *model, const struct whole *whole)
{
    uint64_t key = hash64_u64(1, model->world);

    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];

        key = hash64_u64(key, shape ? shape->structure ^ shape->class->version : 0);
    }
    return key ? key : 1;
}

static int program_build(struct program *program, const struct model *model,
                         const struct whole *whole, const struct splitter *splitter)
{
    struct builder builder = { .program = program };
    uint32_t most = 0;
    size_t items = 0;
    CLEAN(free_clean) uint32_t *places = NULL;
    int result = 0;

    program_clear(program);
    program->lines = 0;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (whole->shape_of[rank]) {
            most = MAX(most, whole->shape_of[rank]->fact.count);
            items += whole->shape_of[rank]->fact.count;
        }
    }
    builder.keep_launches = items < SMALL_OPS;
    places = malloc((size_t)(most + 1) * MODEL_LINES_MAX * sizeof(*places));
    program->first = malloc((model->world + 1) * sizeof(*program->first));
    program->class_of = calloc(model->world + 1, sizeof(*program->class_of));
    if (!places || !program->first || !program->class_of)
        return -ENOMEM;
    for (uint32_t line = 0; line < MODEL_LINES_MAX; line++)
        builder.at[line] = places + (size_t)line * (most + 1);
    for (uint32_t rank = 0; rank < model->world && result == 0; rank++) {
        program->first[rank] = program->ops;
        builder.rank = rank;
        builder.shape = whole->shape_of[rank];
        if (builder.shape) {
            program->class_of[rank] = builder.shape->fact.class;
            result = rank_build(&builder, splitter, whole);
        }
    }
    program->first[model->world] = program->ops;
    if (result == 0)
        result = replay_create(program->op, program->ops, &program->replay, NULL);
    if (result < 0)
        return result;
    free(program->op); /* the replay has its own form */
    program->op = NULL;
    program->scratch = aligned_alloc(64, (replay_scratch_bytes(program->replay) + 63) / 64 * 64);
    return program->scratch ? 0 : -ENOMEM;
}

/* ---- durations ---- */

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
    int64_t cap_ns, total_ns;
    int64_t point_ns;                /* newest host point */
    int64_t end_ns[MODEL_LINES_MAX]; /* newest end on each line */
    int64_t last_end_ns, span_end_ns;
    int64_t place_end_ns;
};

static int64_t host_duration(struct loader *loader, const struct op_info *info, int64_t now_ns)
{
    int64_t from = loader->point_ns;

    if (info->sync)
        from = MAX(from, MIN(loader->last_end_ns, now_ns));
    loader->point_ns = now_ns;
    return MAX(0, now_ns - from);
}

/* The unexplained time before an op's start, cut. */
static int64_t op_gap(const struct loader *loader, uint32_t item, int64_t ready_ns)
{
    return MAX(0, MIN(loader->time[item].start_ns - ready_ns, loader->cap_ns));
}

static int64_t span_ready(const struct loader *loader, uint32_t item)
{
    int64_t ready = MAX(loader->end_ns[loader->class->line[item]], loader->time[item].enqueue_ns);

    for (uint32_t line = 1; line < loader->class->lines; line++) {
        if (line != loader->class->line[item] && loader->class->after[line][item] > 0)
            ready = MAX(ready, MIN(loader->end_ns[line], loader->time[item].start_ns));
    }
    return ready;
}

static int64_t comm_ready(const struct loader *loader, uint32_t item)
{
    int64_t ready = MAX(loader->end_ns[loader->class->line[item]], loader->time[item].enqueue_ns);

    if (loader->class->after_span[item])
        ready = MAX(ready, MIN(loader->span_end_ns, loader->time[item].start_ns));
    return ready;
}

static void rank_durations(struct program *program, const struct whole *whole,
                           const struct splitter *splitter, uint32_t rank, int64_t *last_gap)
{
    const struct fact_step *step = &whole->step_of[rank];
    struct loader loader = {
        .time = step->time,
        .class = whole->shape_of[rank]->class,
        .total_ns = step->duration_ns + step->tail_ns,
        .last_end_ns = INT64_MIN / 2,
        .span_end_ns = INT64_MIN / 2,
    };
    int64_t begin = whole_begin(program->model, whole, rank);

    loader.cap_ns = gap_cap_ns(loader.total_ns);
    for (size_t at = program->first[rank]; at < program->first[rank + 1]; at++) {
        const struct op_info *info = &program->info[at];
        const struct item_time *time = &step->time[info->item];
        const struct meeting *meeting;
        int64_t gap, arrival;
        uint32_t line;

        switch (info->kind) {
        case OP_HOST:
            program->duration[at] = host_duration(&loader, info, time->enqueue_ns);
            continue;
        case OP_END:
            program->duration[at] = host_duration(&loader, info, loader.total_ns);
            continue;
        case OP_BEGIN:
        case OP_JOIN:
            program->duration[at] = 0;
            continue;
        default:
            break;
        }
        line = loader.class->line[info->item];
        if (info->kind == OP_SPAN) {
            gap = op_gap(&loader, info->item, span_ready(&loader, info->item));
            program->duration[at] = time->end_ns - time->start_ns + gap;
            loader.span_end_ns = time->end_ns;
        } else {
            gap = op_gap(&loader, info->item, comm_ready(&loader, info->item));
            meeting = split_meeting(splitter, program->model, whole, rank, info->item);
            arrival = begin + time->start_ns;
            /* The one that comes last moves all: its gap belongs to the transfer of each. */
            if (meeting && arrival == meeting->last_arrival_ns)
                last_gap[meeting - split_meeting_base(splitter)] = gap;
            if (meeting && (whole->shape_of[rank]->fact.item[info->item].kind != ITEM_P2P ||
                            whole->shape_of[rank]->fact.item[info->item].what == LOCKSTEP_OP_RECV))
                arrival = MAX(arrival, meeting->last_arrival_ns);
            program->duration[at] = MAX(0, begin + time->end_ns - arrival);
        }
        loader.end_ns[line] = time->end_ns;
        loader.last_end_ns = MAX(loader.last_end_ns, time->end_ns);
    }
}

static void gaps_add(struct program *program, const struct whole *whole,
                     const struct splitter *splitter, const int64_t *last_gap)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (!whole->shape_of[rank])
            continue;
        for (size_t at = program->first[rank]; at < program->first[rank + 1]; at++) {
            const struct op_info *info = &program->info[at];
            const struct meeting *meeting;

            if (info->kind != OP_COMM)
                continue;
            meeting = split_meeting(splitter, program->model, whole, rank, info->item);
            if (meeting)
                program->duration[at] += last_gap[meeting - split_meeting_base(splitter)];
        }
    }
}

/* Sets all durations, begins relative to the first rank's begin, and the measured period. */
static int program_measure(struct program *program, const struct whole *whole,
                           const struct splitter *splitter)
{
    CLEAN(free_clean) int64_t *last_gap = calloc(split_meetings(splitter) + 1, sizeof(*last_gap));
    int64_t first = INT64_MAX, last = INT64_MIN, end = INT64_MIN;

    if (!last_gap)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        int64_t begin;

        if (!whole->shape_of[rank])
            continue;
        begin = whole_begin(program->model, whole, rank);
        first = MIN(first, begin);
        last = MAX(last, begin);
        end = MAX(end, begin + whole->step_of[rank].duration_ns + whole->step_of[rank].tail_ns);
        rank_durations(program, whole, splitter, rank, last_gap);
    }
    gaps_add(program, whole, splitter, last_gap);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (whole->shape_of[rank])
            program->duration[program->first[rank]] =
                whole_begin(program->model, whole, rank) - first;
    }
    program->measured = end - last;
    return 0;
}

static int program_room(struct program *program)
{
    int64_t **array[] = { &program->duration, &program->typical, &program->trial, &program->slack };

    if (program->ops <= program->held)
        return 0;
    program->held = 0;
    for (size_t i = 0; i < COUNT(array); i++) {
        free(*array[i]);
        *array[i] = malloc(program->ops * sizeof(int64_t));
    }
    if (!program->duration || !program->typical || !program->trial || !program->slack)
        return -ENOMEM;
    program->held = program->ops;
    return 0;
}

int program_load(struct program *program, const struct model *model, const struct whole *whole,
                 const struct splitter *splitter)
{
    uint64_t key = program_key(model, whole);
    int result = 0;

    program->model = model;
    program->world = model->world;
    program->have_replayed = program->have_ideal = program->have_typical = false;
    if (key != program->key) {
        result = program_build(program, model, whole, splitter);
        if (result == 0)
            result = program_room(program);
        if (result == 0)
            program->key = key;
        else
            program_clear(program);
    }
    return result < 0 ? result : program_measure(program, whole, splitter);
}

/* ---- questions ---- */

static int64_t period_of(struct program *program, const int64_t *duration)
{
    int64_t last_begin = 0;

    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->first[rank] < program->first[rank + 1])
            last_begin = MAX(last_begin, duration[program->first[rank]]);
    }
    return replay_run(program->replay, duration, program->scratch, NULL, NULL) - last_begin;
}

int64_t program_measured_ns(const struct program *program)
{
    return program->measured;
}

int64_t program_replayed_ns(struct program *program)
{
    if (!program->have_replayed) {
        program->replayed = period_of(program, program->duration);
        program->have_replayed = true;
    }
    return program->replayed;
}

bool program_fits(struct program *program)
{
    int64_t off = llabs(program_replayed_ns(program) - program->measured);

    return program->measured > 0 && off * 1000 <= program->measured * FIT_PER_MILLE;
}

static bool op_is_local(const struct op_info *info)
{
    return info->kind == OP_BEGIN || info->kind == OP_HOST || info->kind == OP_END ||
           info->kind == OP_SPAN;
}

#define PEERS_SAMPLED 65

/* A typical duration for every local op: the median at its place over the rank's peers of the
 * same class.  Large groups are sampled evenly; the median of 65 is within a few per cent
 * of a rank's place in the group.
 */
static void group_typical(struct program *program, const uint32_t *member, uint32_t count)
{
    size_t ops = program->first[member[0] + 1] - program->first[member[0]];
    uint32_t stride = (count + PEERS_SAMPLED - 1) / PEERS_SAMPLED;
    int64_t value[PEERS_SAMPLED];

    for (size_t place = 0; place < ops; place++) {
        size_t used = 0;
        int64_t typical;

        if (!op_is_local(&program->info[program->first[member[0]] + place])) {
            for (uint32_t i = 0; i < count; i++)
                program->typical[program->first[member[i]] + place] =
                    program->duration[program->first[member[i]] + place];
            continue;
        }
        for (uint32_t i = 0; i < count; i += stride)
            value[used++] = program->duration[program->first[member[i]] + place];
        typical = median_i64(value, used);
        for (uint32_t i = 0; i < count; i++)
            program->typical[program->first[member[i]] + place] = typical;
    }
}

static int compare_members(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    for (int i = 0; i < 3; i++) {
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

static bool typical_fill(struct program *program)
{
    CLEAN(free_clean) uint64_t(*key)[3] = malloc(program->world * sizeof(*key));
    CLEAN(free_clean) uint32_t *member = malloc(program->world * sizeof(*member));
    uint32_t count = 0;

    if (program->have_typical)
        return true;
    if (!key || !member)
        return false;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->first[rank] == program->first[rank + 1])
            continue;
        key[count][0] = program->model->rank[rank].peers;
        key[count][1] = program->class_of[rank];
        key[count++][2] = rank;
    }
    qsort(key, count, sizeof(*key), compare_members);
    for (uint32_t i = 0; i < count; i++)
        member[i] = (uint32_t)key[i][2];
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && key[to][0] == key[from][0] && key[to][1] == key[from][1];)
            to++;
        group_typical(program, member + from, to - from);
    }
    program->have_typical = true;
    return true;
}

int64_t program_ideal_ns(struct program *program)
{
    if (!program->have_ideal) {
        if (!typical_fill(program))
            return program_replayed_ns(program);
        program->ideal = period_of(program, program->typical);
        program->have_ideal = true;
    }
    return program->ideal;
}

int64_t program_without_ns(struct program *program, const uint8_t *flag)
{
    if (!typical_fill(program))
        return program_replayed_ns(program);
    memcpy(program->trial, program->duration, program->ops * sizeof(int64_t));
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (!flag[rank])
            continue;
        for (size_t at = program->first[rank]; at < program->first[rank + 1]; at++)
            program->trial[at] = MIN(program->duration[at], program->typical[at]);
    }
    return period_of(program, program->trial);
}

int64_t program_scaled_ns(struct program *program, const double *scale)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t at = program->first[rank]; at < program->first[rank + 1]; at++) {
            program->trial[at] = program->duration[at];
            if (program->info[at].kind == OP_SPAN)
                program->trial[at] = (int64_t)((double)program->duration[at] * scale[rank]);
        }
    }
    return period_of(program, program->trial);
}

void program_costs_ns(struct program *program, int64_t *cost_ns)
{
    memset(cost_ns, 0, program->world * sizeof(*cost_ns));
    if (!typical_fill(program))
        return;
    program_replayed_ns(program);
    replay_run(program->replay, program->duration, program->scratch, NULL, NULL);
    replay_slack(program->replay, program->duration, program->scratch, program->slack);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t at = program->first[rank]; at < program->first[rank + 1]; at++) {
            if (program->slack[at] == 0 && op_is_local(&program->info[at]))
                cost_ns[rank] += MAX(0, program->duration[at] - program->typical[at]);
        }
    }
}
