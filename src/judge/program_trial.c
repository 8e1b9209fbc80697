/* program_trial.c - what a step would have been with less time in a phase, or with other transfers. */
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/program_parts.h"

/* How much of [from, to) the host of a rank was in a phase of this kind. */
static int64_t phase_overlap(const struct model_class *class, const struct item_time *time,
                             unsigned phase, int64_t from_ns, int64_t to_ns)
{
    int64_t sum = 0;

    for (uint32_t place = 0; place < class->places[0]; place++) {
        uint32_t item = class->at[0][place];

        if (class->what[item] != phase)
            continue;
        if (time[item].start_ns >= to_ns)
            break;
        sum += MAX(0, MIN(time[item].end_ns, to_ns) - MAX(time[item].start_ns, from_ns));
    }
    return sum;
}

/* Takes up to `less` from the host's ops in the phase. */
static void rank_shorten(struct program *program, const struct whole *whole, uint32_t rank,
                         unsigned phase, int64_t less_ns)
{
    const struct form *form = program->place[rank].form;
    const struct fact_step *step = &whole->step_of[rank];
    const struct model_class *class = whole->shape_of[rank]->class;
    int64_t point = 0;

    for (uint32_t i = 0; i < form->ops && less_ns > 0; i++) {
        const size_t at = op_at(program, rank, i);
        bool end = form->op[i].kind == OP_END;
        int64_t now, part;

        if (form->op[i].kind != OP_HOST && !end)
            continue;
        now = end ? step->duration_ns + step->tail_ns : step->time[form->op[i].item].enqueue_ns;
        part = MIN(program->trial[at], phase_overlap(class, step->time, phase, point, now));
        part = MIN(part, less_ns);
        program->trial[at] -= part;
        less_ns -= part;
        point = MAX(point, now);
    }
}

static void trial_begin(struct program *program)
{
    memcpy(program->trial, program->duration, program->ops * sizeof(int64_t));
    program->have_trial = false; /* it is another question's, afterwards */
}

int64_t program_shorter_ns(struct program *program, const struct whole *whole, unsigned phase,
                           const int64_t *less_ns)
{
    trial_begin(program);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].form && whole->shape_of[rank])
            rank_shorten(program, whole, rank, phase, less_ns[rank]);
    }
    return program_period_ns(program, program->trial);
}

int64_t program_transfers_ns(struct program *program, const struct whole *whole,
                             program_transfer *transfer, void *arg)
{
    trial_begin(program);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        const struct form *form = program->place[rank].form;

        for (uint32_t i = 0; form && whole->shape_of[rank] && i < form->ops; i++) {
            const size_t at = op_at(program, rank, i);

            if (form->op[i].kind == OP_COMM)
                program->trial[at] = transfer(arg, whole->shape_of[rank], rank, form->op[i].item,
                                              program->duration[at]);
        }
    }
    return program_period_ns(program, program->trial);
}
