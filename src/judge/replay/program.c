/* program.c - loads a step into a program and answers questions about it, such as how long it would have been with
 * less time in a phase or with other transfers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/replay/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/median.h"
#include "judge/replay/program_private.h"
#include "judge/thresholds.h"

#define REPLAY_OP_BYTES 64 /* of the order in which a replay visits its ops; measured */
#define LARGE_OPS 1000000  /* from here on a program is built anew only when it must be */

int program_create(struct program **ret)
{
    struct program *program = calloc(1, sizeof(*program));

    if (!program)
        return -ENOMEM;
    program->fit_share = thresholds_find("replay.fit-share")->value;
    *ret = program;
    return 0;
}

void program_clear(struct program *program)
{
    replay_destroy(program->replay);
    free(program->scratch);
    for (uint32_t i = 0; i < program->forms; i++)
        free(program->form[i].op);
    free(program->form);
    free(program->place);
    program->replay = NULL;
    program->scratch = NULL;
    program->form = NULL;
    program->place = NULL;
    program->forms = program->form_room = 0;
    program->ops = 0;
    program->key = program->structure = 0;
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

size_t program_bytes(const struct program *program)
{
    size_t bytes =
        sizeof(*program) + 4 * program->held * sizeof(int64_t) + program->ops * REPLAY_OP_BYTES;

    if (program->place)
        bytes += program->world * sizeof(*program->place);
    return bytes + (program->replay ? replay_scratch_bytes(program->replay) : 0);
}

static uint64_t program_key(const struct model *model, const struct job_step *job_step, bool learnt)
{
    uint64_t key = hash64_u64(1, hash64_u64(model->world, model->members_version));

    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = job_step->shape_of[rank];

        key = hash64_u64(key, shape ? shape->structure ^ (learnt ? shape->class->version : 0) : 0);
    }
    return key ? key : 1;
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

static void program_answers_forget(struct program *program)
{
    program->have_replayed = program->have_ideal = program->have_typical = false;
    program->have_trial = false;
}

/* To build a program of millions of ops anew takes as long as many steps.  What is learnt later only
 * takes edges away that one step has contradicted; if the program as it is still reproduces
 * the step, they do no harm in it.
 */
static bool program_still_good(struct program *program, uint64_t structure,
                               const struct job_step *job_step, const struct splitter *splitter)
{
    return structure == program->structure && program->ops > LARGE_OPS &&
           program_measure(program, job_step, splitter) == 0 && program_fits(program);
}

static int program_renew(struct program *program, const struct model *model,
                         const struct job_step *job_step, const struct splitter *splitter,
                         uint64_t key)
{
    int result = program_build(program, model, job_step, splitter);

    if (result == 0)
        result = program_room(program);
    if (result < 0) {
        program_clear(program);
        return result;
    }
    program->key = key;
    program->structure = program_key(model, job_step, false);
    return program_measure(program, job_step, splitter);
}

int program_load(struct program *program, const struct model *model,
                 const struct job_step *job_step, const struct splitter *splitter)
{
    uint64_t key = program_key(model, job_step, true);
    int result;

    program->model = model;
    program->world = model->world;
    program_answers_forget(program);
    if (key == program->key)
        result = program_measure(program, job_step, splitter);
    else if (program_still_good(program, program_key(model, job_step, false), job_step, splitter))
        return 0;
    else
        result = program_renew(program, model, job_step, splitter, key);
    program_answers_forget(program);
    return result;
}

/* ---- questions ---- */

static int64_t program_period_ns(struct program *program, const int64_t *duration)
{
    int64_t last_begin = 0;

    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].count > 0)
            last_begin = MAX(last_begin, duration[op_at(program, rank, 0)]);
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
        program->replayed = program_period_ns(program, program->duration);
        program->have_replayed = true;
    }
    return program->replayed;
}

void program_fit_share(struct program *program, double share)
{
    program->fit_share = share;
}

bool program_fits(struct program *program)
{
    int64_t off = llabs(program_replayed_ns(program) - program->measured);

    return program->measured > 0 && (double)off <= (double)program->measured * program->fit_share;
}

static bool program_op_is_local(const struct op_form *op)
{
    return op->kind == OP_HOST || op->kind == OP_END || op->kind == OP_SPAN;
}

#define PEERS_SAMPLED 65

/* A message that is there when its receiver comes takes it no time.  With everybody on time it would, as it
 * does on the peers: else a step would be better than ideal for the slack that a straggler makes.
 */
static bool program_op_is_message(const struct op_form *op)
{
    return op->kind == OP_COMM && op->role != REPLAY_BOTH;
}

/* Ranks of a class begin a step as far apart as the one before has left them, which a straggler in it
 * does; with everybody on time they begin together.
 */
static bool program_op_is_typical(const struct op_form *op)
{
    return program_op_is_local(op) || program_op_is_message(op) || op->kind == OP_BEGIN;
}

/* A typical duration for every local op: the median at its place over the rank's peers of the
 * same class.  Large groups are sampled evenly; the median of 65 is within a few per cent
 * of a rank's place in the group.
 */
static void program_group_typical(struct program *program, const uint32_t *member, uint32_t count)
{
    size_t ops = program->place[member[0]].count;
    uint32_t stride = (count + PEERS_SAMPLED - 1) / PEERS_SAMPLED;
    int64_t value[PEERS_SAMPLED];

    for (size_t place = 0; place < ops; place++) {
        const struct op_form *op = &program->place[member[0]].form->op[place];
        size_t used = 0;
        int64_t typical;

        if (!program_op_is_typical(op)) {
            for (uint32_t i = 0; i < count; i++)
                program->typical[op_at(program, member[i], place)] =
                    program->duration[op_at(program, member[i], place)];
            continue;
        }
        for (uint32_t i = 0; i < count; i += stride)
            value[used++] = program->duration[op_at(program, member[i], place)];
        typical = median_i64(value, used);
        for (uint32_t i = 0; i < count; i++) {
            const size_t at = op_at(program, member[i], place);

            program->typical[at] =
                program_op_is_message(op) ? MAX(program->duration[at], typical) : typical;
        }
    }
}

static int program_compare_members(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    for (int i = 0; i < 3; i++) {
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

static uint32_t program_class_end(const uint64_t (*key)[3], uint32_t first, uint32_t to)
{
    uint32_t end = first + 1;

    while (end < to && key[end][1] == key[first][1])
        end++;
    return end;
}

/* Peers of several classes: each is held against the largest other one. */
static void program_classes_typical(struct program *program, const uint64_t (*key)[3],
                                    const uint32_t *member, uint32_t from, uint32_t to)
{
    for (uint32_t first = from, end; first < to; first = end) {
        uint32_t largest = first, most = 0;

        end = program_class_end(key, first, to);
        for (uint32_t other = from, next; other < to; other = next) {
            next = program_class_end(key, other, to);
            if (other != first && next - other > most) {
                largest = other;
                most = next - other;
            }
        }
        if (most >= end - first)
            program_unlike_typical(program, member + first, end - first, member + largest, most);
    }
}

static bool program_typical_fill(struct program *program)
{
    CLEAN(free_clean) uint64_t(*key)[3] = malloc(program->world * sizeof(*key));
    CLEAN(free_clean) uint32_t *member = malloc(program->world * sizeof(*member));
    uint32_t count = 0;

    if (program->have_typical)
        return true;
    if (!key || !member)
        return false;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].count == 0)
            continue;
        key[count][0] = program->model->rank[rank].peers;
        key[count][1] = program->place[rank].form->class;
        key[count++][2] = rank;
    }
    qsort(key, count, sizeof(*key), program_compare_members);
    for (uint32_t i = 0; i < count; i++)
        member[i] = (uint32_t)key[i][2];
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && key[to][0] == key[from][0] && key[to][1] == key[from][1];)
            to++;
        program_group_typical(program, member + from, to - from);
    }
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && key[to][0] == key[from][0];)
            to++;
        if (key[from][1] != key[to - 1][1])
            program_classes_typical(program, key, member, from, to);
    }
    program->have_typical = true;
    return true;
}

int64_t program_ideal_ns(struct program *program)
{
    if (!program->have_ideal) {
        if (!program_typical_fill(program))
            return program_replayed_ns(program);
        /* Where ranks are fast at different places, all at their median can be slower than that. */
        program->ideal =
            MIN(program_period_ns(program, program->typical), program_replayed_ns(program));
        program->have_ideal = true;
    }
    return program->ideal;
}

/* The trial durations are the measured ones but while a question is asked. */
static void program_trial_reset(struct program *program, const uint8_t *flag)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t i = 0; flag[rank] && i < program->place[rank].count; i++) {
            const size_t at = op_at(program, rank, i);

            program->trial[at] = program->duration[at];
        }
    }
}

static void program_trial_fill(struct program *program)
{
    if (!program->have_trial)
        memcpy(program->trial, program->duration, program->ops * sizeof(int64_t));
    program->have_trial = true;
}

void program_trial_without(struct program *program, const uint8_t *flag)
{
    if (!program_typical_fill(program))
        return;
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t i = 1; flag[rank] && i < program->place[rank].count;
             i++) { /* begins as it did */
            const size_t at = op_at(program, rank, i);

            program->trial[at] = MIN(program->trial[at], program->typical[at]);
        }
    }
}

int64_t program_without_ns(struct program *program, const uint8_t *flag)
{
    int64_t period;

    if (!program_typical_fill(program))
        return program_replayed_ns(program);
    program_trial_fill(program);
    program_trial_without(program, flag);
    period = program_period_ns(program, program->trial);
    program_trial_reset(program, flag);
    return period;
}

int64_t program_scaled_ns(struct program *program, const double *scale)
{
    program->have_trial = false; /* all of it changes */
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t i = 0; i < program->place[rank].count; i++) {
            const size_t at = op_at(program, rank, i);

            program->trial[at] = program->duration[at];
            if (program->place[rank].form->op[i].kind == OP_SPAN)
                program->trial[at] = (int64_t)((double)program->duration[at] * scale[rank]);
        }
    }
    return program_period_ns(program, program->trial);
}

void program_costs_ns(struct program *program, int64_t *cost_ns)
{
    memset(cost_ns, 0, program->world * sizeof(*cost_ns));
    if (!program_typical_fill(program))
        return;
    program_replayed_ns(program);
    replay_run(program->replay, program->duration, program->scratch, NULL, NULL);
    replay_slack(program->replay, program->duration, program->scratch, program->slack);
    for (uint32_t rank = 0; rank < program->world; rank++) {
        for (size_t i = 0; i < program->place[rank].count; i++) {
            const size_t at = op_at(program, rank, i);

            if (program->slack[at] == 0 && program_op_is_local(&program->place[rank].form->op[i]))
                cost_ns[rank] += MAX(0, program->duration[at] - program->typical[at]);
        }
    }
}

/* ---- a step with less time in a phase, or with other transfers ---- */

/* How much of [from, to) the host of a rank was in a phase of this kind. */
static int64_t program_phase_overlap(const struct model_class *class, const struct item_time *time,
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
static void program_rank_shorten(struct program *program, const struct job_step *job_step,
                                 uint32_t rank, unsigned phase, int64_t less_ns)
{
    const struct form *form = program->place[rank].form;
    const struct fact_step *step = &job_step->step_of[rank];
    const struct model_class *class = job_step->shape_of[rank]->class;
    int64_t point = 0;

    for (uint32_t i = 0; i < form->ops && less_ns > 0; i++) {
        const size_t at = op_at(program, rank, i);
        bool end = form->op[i].kind == OP_END;
        int64_t now, part;

        if (form->op[i].kind != OP_HOST && !end)
            continue;
        now = end ? step->duration_ns + step->tail_ns : step->time[form->op[i].item].enqueue_ns;
        part = MIN(program->trial[at], program_phase_overlap(class, step->time, phase, point, now));
        part = MIN(part, less_ns);
        program->trial[at] -= part;
        less_ns -= part;
        point = MAX(point, now);
    }
}

void program_trial_begin(struct program *program)
{
    memcpy(program->trial, program->duration, program->ops * sizeof(int64_t));
    program->have_trial = false; /* it is another question's, afterwards */
}

int64_t program_trial_ns(struct program *program)
{
    return program_period_ns(program, program->trial);
}

void program_trial_shorter(struct program *program, const struct job_step *job_step, unsigned phase,
                           const int64_t *less_ns)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        if (program->place[rank].form && job_step->shape_of[rank])
            program_rank_shorten(program, job_step, rank, phase, less_ns[rank]);
    }
}

int64_t program_shorter_ns(struct program *program, const struct job_step *job_step, unsigned phase,
                           const int64_t *less_ns)
{
    program_trial_begin(program);
    program_trial_shorter(program, job_step, phase, less_ns);
    return program_trial_ns(program);
}

void program_trial_transfers(struct program *program, const struct job_step *job_step,
                             program_transfer *transfer, void *arg)
{
    for (uint32_t rank = 0; rank < program->world; rank++) {
        const struct form *form = program->place[rank].form;

        for (uint32_t i = 0; form && job_step->shape_of[rank] && i < form->ops; i++) {
            const size_t at = op_at(program, rank, i);

            if (form->op[i].kind == OP_COMM)
                program->trial[at] = transfer(arg, job_step->shape_of[rank], rank, form->op[i].item,
                                              program->duration[at]);
        }
    }
}

int64_t program_transfers_ns(struct program *program, const struct job_step *job_step,
                             program_transfer *transfer, void *arg)
{
    program_trial_begin(program);
    program_trial_transfers(program, job_step, transfer, arg);
    return program_trial_ns(program);
}
