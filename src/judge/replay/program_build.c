/* program_build.c - the ops of a step, from classes and what is learnt of them.
 *
 * Ranks of one class do the same, so their ops are made once, as a form, and then written out
 * for each of them with its own meetings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/replay/program_private.h"

#define SMALL_OPS 2000000 /* up to here every launch is an op, above only those that matter */

struct form_builder { /* of one form */
    struct form *form;
    const struct model_class *class;
    uint32_t host;                    /* newest host op */
    uint32_t newest[MODEL_LINES_MAX]; /* newest op of each stream's line */
    uint32_t *at[MODEL_LINES_MAX];    /* ops of each stream's line, by place */
    uint32_t count[MODEL_LINES_MAX];
    uint32_t span; /* newest span */
    bool keep_launches;
};

static uint32_t program_op_add(struct form *form, struct op_form op)
{
    if (!ARRAY_FIT(form->op, form->room, form->ops + 1))
        return REPLAY_NONE;
    form->op[form->ops] = op;
    return form->ops++;
}

/* Everything in `wanted` must have ended: at most two fit an op, more need joins. */
static int program_deps_fold(struct form_builder *builder, const uint32_t *wanted, size_t count,
                             uint32_t dep[2])
{
    uint32_t have[2] = { REPLAY_NONE, REPLAY_NONE };
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (wanted[i] == REPLAY_NONE)
            continue;
        if (used == 2) {
            uint32_t join =
                program_op_add(builder->form, (struct op_form){ .kind = OP_JOIN,
                                                                .join = builder->form->joins++,
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

static int program_host_add(struct form_builder *builder, enum op_kind kind, uint32_t point)
{
    const struct model_class *class = builder->class;
    struct op_form op = { .item = point,
                          .kind = (uint8_t)kind,
                          .halt = (uint8_t)class_halt(class, point),
                          .dep = { REPLAY_NONE, REPLAY_NONE } };

    if (op.halt == HALT_NEWEST)
        op.dep[0] = builder->newest[class->line[point - 1]];
    if (op.halt == HALT_ALL) {
        int result = program_deps_fold(builder, builder->newest + 1, class->lines - 1, op.dep);

        if (result < 0)
            return result;
    }
    builder->host = program_op_add(builder->form, op);
    return builder->host == REPLAY_NONE ? -ENOMEM : 0;
}

/* What a span waits for on other lines. */
static uint32_t program_span_wants(const struct form_builder *builder, uint32_t item,
                                   uint32_t *wanted)
{
    const struct model_class *class = builder->class;
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
static uint32_t program_comm_wants(const struct form_builder *builder, uint32_t item,
                                   uint32_t *wanted)
{
    const struct model_class *class = builder->class;
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

static int program_stream_add(struct form_builder *builder, uint32_t item)
{
    const struct model_class *class = builder->class;
    uint32_t line = class->line[item], wanted[MODEL_LINES_MAX + 2], count = 0, added;
    struct op_form op = { .item = item, .line = (uint8_t)line, .role = REPLAY_BOTH };
    int result;

    op.kind = class->kind[item] == ITEM_SPAN ? OP_SPAN : OP_COMM;
    if (builder->keep_launches || class->prompt[item])
        wanted[count++] = builder->host;
    if (op.kind == OP_SPAN)
        count += program_span_wants(builder, item, wanted + count);
    else
        count += program_comm_wants(builder, item, wanted + count);
    if (class->kind[item] == ITEM_P2P) /* sends are taken to be buffered */
        op.role = class->what[item] == LOCKSTEP_OP_SEND ? REPLAY_GIVES : REPLAY_WAITS;
    result = program_deps_fold(builder, wanted, count, op.dep);
    if (result < 0)
        return result;
    added = program_op_add(builder->form, op);
    if (added == REPLAY_NONE)
        return -ENOMEM;
    builder->newest[line] = added;
    builder->at[line][builder->count[line]++] = added;
    if (op.kind == OP_SPAN)
        builder->span = added;
    return 0;
}

static int form_build(struct form_builder *builder)
{
    const struct model_class *class = builder->class;
    int result = 0;

    builder->span = REPLAY_NONE;
    for (uint32_t line = 0; line < MODEL_LINES_MAX; line++) {
        builder->newest[line] = REPLAY_NONE;
        builder->count[line] = 0;
    }
    builder->host = program_op_add(
        builder->form, (struct op_form){ .kind = OP_BEGIN, .dep = { REPLAY_NONE, REPLAY_NONE } });
    if (builder->host == REPLAY_NONE)
        return -ENOMEM;
    for (uint32_t i = 0; i < class->count && result == 0; i++) {
        if (builder->keep_launches || class->prompt[i] || class_halt(class, i) != HALT_NONE)
            result = program_host_add(builder, OP_HOST, i);
        if (result == 0 && class->kind[i] != ITEM_PHASE)
            result = program_stream_add(builder, i);
    }
    return result < 0 ? result : program_host_add(builder, OP_END, class->count);
}

static int form_make(struct form *form, const struct model_class *class, bool keep_launches)
{
    struct form_builder builder = { .form = form, .class = class, .keep_launches = keep_launches };
    CLEAN(free_clean)
    uint32_t *places = malloc((size_t)(class->count + 1) * MODEL_LINES_MAX * sizeof(*places));

    if (!places)
        return -ENOMEM;
    for (uint32_t line = 0; line < MODEL_LINES_MAX; line++)
        builder.at[line] = places + (size_t)line * (class->count + 1);
    return form_build(&builder);
}

/* One form for each class of the step, with how many ranks have it. */
static int forms_count(struct program *program, const struct model *model,
                       const struct job_step *job_step)
{
    CLEAN(map_fini) struct map at = { 0 };

    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = job_step->shape_of[rank];
        uint64_t *number = shape ? map_put(&at, shape->fact.class, program->forms) : NULL;

        if (!shape)
            continue;
        if (!number)
            return -ENOMEM;
        if (*number == program->forms) {
            if (!ARRAY_FIT(program->form, program->form_room, program->forms + 1))
                return -ENOMEM;
            program->form[program->forms++] = (struct form){ .class = shape->fact.class };
        }
        program->form[*number].ranks++;
        program->place[rank].count = *number + 1; /* for now */
    }
    return 0;
}

static int forms_make(struct program *program, const struct model *model,
                      const struct job_step *job_step, bool keep_launches)
{
    uint64_t ops = 0, joins = 0;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        struct form *form =
            program->place[rank].count ? &program->form[program->place[rank].count - 1] : NULL;
        int result;

        if (!form)
            continue;
        if (form->used++ == 0) {
            result = form_make(form, job_step->shape_of[rank]->class, keep_launches);
            if (result < 0)
                return result;
            form->first = ops;
            form->first_join = (uint32_t)joins;
            ops += (uint64_t)form->ops * form->ranks;
            joins += (uint64_t)form->joins * form->ranks;
        }
        program->place[rank] = (struct form_place){ .form = form,
                                                    .first = form->first + form->used - 1,
                                                    .stride = form->ranks,
                                                    .count = form->ops };
    }
    program->ops = ops;
    return ops + joins < REPLAY_NONE / 2 ? 0 : -E2BIG;
}

/* Writes out one rank's ops: their numbers, their lines, and whom they meet. */
static void program_rank_write(const struct program *program, uint32_t rank, const uint32_t *number,
                               struct replay_op *op)
{
    const struct form_place *place = &program->place[rank];
    const struct form *form = place->form;
    uint32_t join = program->world * MODEL_LINES_MAX + form->first_join +
                    (uint32_t)(place->first - form->first) * form->joins;

    for (uint32_t i = 0; i < form->ops; i++) {
        const struct op_form *from = &form->op[i];
        struct replay_op *to = &op[place->first + i * place->stride];

        to->line = from->kind == OP_JOIN ? join + from->join : rank * MODEL_LINES_MAX + from->line;
        to->meet = from->kind == OP_COMM ? number[from->item] : REPLAY_NONE;
        to->role = from->role;
        for (int k = 0; k < 2; k++)
            to->dep[k] = from->dep[k] == REPLAY_NONE
                             ? REPLAY_NONE
                             : (uint32_t)(place->first + from->dep[k] * place->stride);
    }
}

int program_build(struct program *program, const struct model *model,
                  const struct job_step *job_step, const struct splitter *splitter)
{
    CLEAN(free_clean) struct replay_op *op = NULL;
    size_t items = 0;
    int result;

    program_clear(program);
    program->place = calloc(model->world + 1, sizeof(*program->place));
    if (!program->place)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < model->world; rank++)
        items += job_step->shape_of[rank] ? job_step->shape_of[rank]->fact.count : 0;
    result = forms_count(program, model, job_step);
    if (result == 0)
        result = forms_make(program, model, job_step, items < SMALL_OPS);
    if (result < 0)
        return result;
    op = malloc((program->ops + 1) * sizeof(*op));
    if (!op)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (program->place[rank].form)
            program_rank_write(program, rank, split_numbers(splitter, rank), op);
    }
    result = replay_create(op, program->ops, &program->replay, NULL);
    if (result < 0)
        return result;
    program->scratch = malloc(replay_scratch_bytes(program->replay));
    return program->scratch ? 0 : -ENOMEM;
}
