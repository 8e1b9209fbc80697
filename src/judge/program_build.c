/* program_build.c - the ops of a step, from classes and what is learnt of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/program_parts.h"

#define SMALL_OPS 2000000 /* up to here every launch is an op, above only those that matter */

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

/* What a span waits for on other lines. */
static uint32_t span_wants(const struct builder *builder, uint32_t item, uint32_t *wanted)
{
    const struct model_class *class = builder->shape->class;
    uint32_t line = class->line[item], count = 0;

    for (uint32_t other = 1; other < class->lines; other++) {
        uint32_t place = other == line ? 0 : class->after[other][item];

        if (place > 0 && place <= builder->count[other])
            wanted[count++] = builder->at[other][place - 1];
    }
    return count;
}

/* A communication op follows the newest span and the communication launched since: a message that
 * is sent on after a tensor group's reduction.  What was launched earlier, the span has waited for.
 */
static uint32_t comm_wants(const struct builder *builder, uint32_t item, uint32_t *wanted)
{
    const struct model_class *class = builder->shape->class;
    bool span = class->after_span[item] && builder->span != REPLAY_NONE;
    uint32_t line = class->line[item], count = 0;

    for (uint32_t other = 1; span && other < class->lines; other++) {
        uint32_t place = other == line ? 0 : class->after[other][item];

        if (place > 0 && place <= builder->count[other] &&
            builder->at[other][place - 1] > builder->span)
            wanted[count++] = builder->at[other][place - 1];
    }
    if (span)
        wanted[count++] = builder->span;
    return count;
}

static int stream_add(struct builder *builder, const struct splitter *splitter,
                      const struct whole *whole, uint32_t item)
{
    const struct model_class *class = builder->shape->class;
    const struct model *model = builder->program->model;
    uint32_t line = class->line[item], wanted[MODEL_LINES_MAX + 2], count = 0, added;
    struct replay_op op = { .line = line_number(builder, line),
                            .meet = REPLAY_NONE,
                            .role = REPLAY_BOTH };
    int result;

    if (builder->keep_launches || class->prompt[item])
        wanted[count++] = builder->host;
    if (class->kind[item] == ITEM_SPAN) {
        count += span_wants(builder, item, wanted + count);
    } else {
        const struct shape_item *at = &builder->shape->fact.item[item];
        uint32_t meeting = split_meeting_number(splitter, model, whole, builder->rank, item);

        count += comm_wants(builder, item, wanted + count);
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

/* Renumbers the ops, which were made rank after rank: rank r's op at place p becomes number
 * first[class] + p * ranks[class] + (r's number in its class).
 */
static int ops_renumber(struct program *program, const struct place *fresh)
{
    CLEAN(free_clean) struct replay_op *op = malloc(program->ops * sizeof(*op));
    CLEAN(free_clean) struct op_info *info = malloc(program->ops * sizeof(*info));

    if (!op || !info)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        const struct place *from = &program->place[rank], *to = &fresh[rank];

        for (size_t i = 0; i < from->count; i++) {
            struct replay_op *at = &op[to->first + i * to->stride];

            *at = program->op[from->first + i];
            info[to->first + i * to->stride] = program->info[from->first + i];
            for (int k = 0; k < 2; k++) { /* all dependencies are within the rank */
                if (at->dep[k] != REPLAY_NONE)
                    at->dep[k] = (uint32_t)(to->first + (at->dep[k] - from->first) * to->stride);
            }
        }
    }
    free(program->op);
    free(program->info);
    program->op = TAKE(op);
    program->info = TAKE(info);
    return 0;
}

static int ops_side_by_side(struct program *program)
{
    CLEAN(map_fini) struct map ranks = { 0 }, first = { 0 }, used = { 0 };
    CLEAN(free_clean) struct place *fresh = malloc((program->world + 1) * sizeof(*fresh));
    size_t next = 0;
    int result;

    if (!fresh)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        uint64_t *count = map_put(&ranks, program->class_of[rank], 0);

        if (!count)
            return -ENOMEM;
        (*count)++;
    }
    for (uint32_t rank = 0; rank < program->world; rank++) {
        uint64_t class = program->class_of[rank], many = *map_get(&ranks, class);
        uint64_t *base = map_put(&first, class, next), *index = map_put(&used, class, 0);

        if (!base || !index)
            return -ENOMEM;
        if (*index == 0)
            next += many * program->place[rank].count;
        fresh[rank] = (struct place){ *base + (*index)++, many, program->place[rank].count };
    }
    result = ops_renumber(program, fresh);
    if (result == 0)
        memcpy(program->place, fresh, program->world * sizeof(*fresh));
    return result;
}

int program_build(struct program *program, const struct model *model, const struct whole *whole,
                  const struct splitter *splitter)
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
    program->place = calloc(model->world + 1, sizeof(*program->place));
    program->class_of = calloc(model->world + 1, sizeof(*program->class_of));
    if (!places || !program->place || !program->class_of)
        return -ENOMEM;
    for (uint32_t line = 0; line < MODEL_LINES_MAX; line++)
        builder.at[line] = places + (size_t)line * (most + 1);
    for (uint32_t rank = 0; rank < model->world && result == 0; rank++) {
        program->place[rank] = (struct place){ .first = program->ops, .stride = 1 };
        builder.rank = rank;
        builder.shape = whole->shape_of[rank];
        if (builder.shape) {
            program->class_of[rank] = builder.shape->fact.class;
            result = rank_build(&builder, splitter, whole);
        }
        program->place[rank].count = program->ops - program->place[rank].first;
    }
    if (result == 0)
        result = ops_side_by_side(program);
    if (result == 0)
        result = replay_create(program->op, program->ops, &program->replay, &program->err);
    if (result < 0)
        return result;
    free(program->op); /* the replay has its own form */
    program->op = NULL;
    program->scratch = malloc(replay_scratch_bytes(program->replay));
    return program->scratch ? 0 : -ENOMEM;
}
