/* profile.c - gathers a run's steps by what they are made of.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/compare/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

static void profile_body_fini(struct profile_body *body, uint32_t world)
{
    for (uint32_t i = 0; i < body->parts; i++)
        free(body->part[i].ms);
    for (uint32_t rank = 0; body->op && rank < world; rank++)
        free(body->op[rank]);
    free(body->part);
    free(body->ops);
    free(body->op);
}

void profile_fini(struct profile *profile)
{
    for (uint32_t i = 0; i < profile->bodies; i++)
        profile_body_fini(&profile->body[i], profile->world);
    free(profile->node);
    free(profile->group);
    *profile = (struct profile){ 0 };
}

/* The communicator by its name and size: ids differ from run to run. */
static uint32_t profile_group(struct profile *profile, const struct model_comm *comm)
{
    struct profile_group *group;

    for (uint32_t i = 0; i < profile->groups; i++) {
        if (profile->group[i].size == comm->size && strcmp(profile->group[i].name, comm->name) == 0)
            return i;
    }
    if (!ARRAY_FIT(profile->group, profile->group_room, profile->groups + 1))
        return MODEL_NONE;
    group = &profile->group[profile->groups];
    *group = (struct profile_group){ .size = comm->size, .kind = comm->kind };
    memcpy(group->name, comm->name, sizeof(comm->name));
    return profile->groups++;
}

/* Pauses of an interpreter come when they come, and are no part of the program: steps with one are those without. */
static bool profile_is_op(const struct shape_item *item)
{
    return item->kind != ITEM_PHASE || item->what != LOCKSTEP_PHASE_GC;
}

static struct profile_op *profile_ops_copy(struct profile *profile, const struct model *model,
                                           const struct model_shape *shape, uint32_t *count)
{
    struct profile_op *op = calloc(shape->fact.count + 1, sizeof(*op));

    *count = 0;
    for (uint32_t i = 0; op && i < shape->fact.count; i++) {
        const struct shape_item *item = &shape->fact.item[i];
        uint32_t slot = shape->comm[i];

        if (!profile_is_op(item))
            continue;
        op[*count] = (struct profile_op){ .kind = item->kind,
                                          .what = item->what,
                                          .dtype = item->dtype,
                                          .count = item->count,
                                          .bytes = item->bytes,
                                          .group = MODEL_NONE };
        if (slot < model->comms)
            op[*count].group = profile_group(profile, &model->comm[slot]);
        (*count)++;
    }
    return op;
}

static uint64_t profile_signature(uint64_t signature, const struct model_shape *shape)
{
    for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
        const struct shape_item *item = &shape->fact.item[i];

        if (!profile_is_op(item))
            continue;
        signature =
            hash64_u64(signature, (uint64_t)item->kind << 16 | item->what << 8 | item->dtype);
        signature = hash64_u64(hash64_u64(signature, item->count), item->bytes);
        signature = hash64_u64(signature, shape->comm[i]);
    }
    return hash64_u64(signature, shape != NULL);
}

static struct profile_body *profile_body_of(struct profile *profile, const struct model *model,
                                            const struct job_step *job_step)
{
    uint64_t signature = 0;
    struct profile_body *body;

    for (uint32_t rank = 0; rank < profile->world; rank++)
        signature = profile_signature(signature, job_step->shape_of[rank]);
    for (uint32_t i = 0; i < profile->bodies; i++) {
        if (profile->body[i].signature == signature)
            return &profile->body[i];
    }
    if (profile->bodies == PROFILE_BODIES)
        return NULL;
    body = &profile->body[profile->bodies++];
    *body = (struct profile_body){ .signature = signature };
    body->ops = calloc(profile->world, sizeof(*body->ops));
    body->op = calloc(profile->world, sizeof(*body->op));
    for (uint32_t rank = 0; body->op && body->ops && rank < profile->world; rank++) {
        if (!job_step->shape_of[rank])
            continue;
        body->op[rank] =
            profile_ops_copy(profile, model, job_step->shape_of[rank], &body->ops[rank]);
        profile->failed |= !body->op[rank];
    }
    profile->failed |= !body->op || !body->ops;
    return body;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static void profile_part_add(struct profile *profile, struct profile_body *body, uint32_t rank,
                             enum profile_source source, unsigned what, const char *group,
                             int64_t ns)
{
    struct profile_part *part = NULL;

    if (ns <= 0)
        return;
    for (uint32_t i = 0; i < body->parts && !part; i++) {
        struct profile_part *at = &body->part[i];

        if (at->source == source && at->what == what && strcmp(at->group, group) == 0)
            part = at;
    }
    if (!part) {
        double *ms = calloc(profile->world, sizeof(*ms));

        if (!ms || !ARRAY_FIT(body->part, body->part_room, body->parts + 1)) {
            free(ms);
            profile->failed = true;
            return;
        }
        part = &body->part[body->parts++];
        *part = (struct profile_part){ .source = (uint8_t)source, .what = (uint8_t)what, .ms = ms };
        snprintf(part->group, sizeof(part->group), "%s", group);
    }
    part->ms[rank] += (double)ns / 1e6;
}

/* How much of a rank's stay in a meeting was not waiting for the others. */
static int64_t profile_op_transfer_ns(const struct judge_state *judge,
                                      const struct job_step *job_step, uint32_t rank, uint32_t item)
{
    const struct item_time *time = &job_step->step_of[rank].time[item];
    const struct shape_item *shape = &job_step->shape_of[rank]->fact.item[item];
    uint32_t number = split_numbers(judge->splitter, rank)[item];
    const struct meeting *meeting;
    int64_t begin = job_step_begin(&judge->model, job_step, rank), latest;

    if (shape->count > 1)
        return job_step->step_of[rank].flags & STEP_SPLIT && time->wait_ns >= 0
                   ? time->end_ns - time->start_ns - time->wait_ns
                   : 0;
    if (number >= split_meetings(judge->splitter))
        return time->end_ns - time->start_ns;
    meeting = split_meeting_base(judge->splitter) + number;
    latest = MAX(begin + time->start_ns, meeting->last_arrival_ns);
    return begin + time->end_ns - latest;
}

static void profile_rank_add(struct profile *profile, struct profile_body *body,
                             const struct judge_state *judge, const struct job_step *job_step,
                             uint32_t rank)
{
    const struct rank_split *split = &history_back(&judge->history, 0)->split[rank];
    const struct model_shape *shape = job_step->shape_of[rank];

    for (uint32_t i = 0; i < shape->fact.count; i++) {
        const struct shape_item *item = &shape->fact.item[i];
        const struct item_time *time = &job_step->step_of[rank].time[i];
        const char *group =
            shape->comm[i] < judge->model.comms ? judge->model.comm[shape->comm[i]].name : "";

        if (item->kind == ITEM_SPAN)
            profile_part_add(profile, body, rank, PROFILE_DEVICE, item->what, "",
                             time->end_ns - time->start_ns);
        else if (item->kind == ITEM_COLL || item->kind == ITEM_P2P)
            profile_part_add(profile, body, rank, PROFILE_TRANSFER, item->what, group,
                             profile_op_transfer_ns(judge, job_step, rank, i));
    }
    for (unsigned phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++)
        profile_part_add(profile, body, rank, PROFILE_HOST, phase, "", split->host_ns[phase]);
    profile_part_add(profile, body, rank, PROFILE_QUEUED, 0, "", split->queued_ns);
}

static bool profile_begin(struct profile *profile, const struct judge_state *judge,
                          const struct job_step *job_step)
{
    const struct model *model = &judge->model;

    if (profile->world == 0) {
        profile->node = calloc(model->world, sizeof(*profile->node));
        if (!profile->node)
            return false;
        profile->world = model->world;
        profile->has_layout = model->rank[0].has_layout;
        memcpy(profile->size, model->rank[0].size, sizeof(profile->size));
        for (uint32_t rank = 0; rank < model->world; rank++) {
            if (model->rank[rank].node < model->nodes)
                snprintf(profile->node[rank], sizeof(profile->node[rank]), "%s",
                         model->node[model->rank[rank].node].name);
        }
    }
    if (job_step->step_of[0].metric_set & 1u << LOCKSTEP_METRIC_MICRO_BATCHES)
        profile->micro_batches = job_step->step_of[0].metric[LOCKSTEP_METRIC_MICRO_BATCHES];
    profile->host_view |= judge->history.host_view;
    return profile->world == model->world;
}

void profile_step(struct profile *profile, const struct judge_state *judge,
                  const struct job_step *job_step)
{
    struct profile_body *body = NULL;

    if (judge->history.count > judge->limits.verdict_warm_up && !profile->failed &&
        profile_begin(profile, judge, job_step))
        body = profile_body_of(profile, &judge->model, job_step);
    if (!body) {
        profile->skipped++;
        return;
    }
    body->steps++;
    body->period_ms += (double)history_back(&judge->history, 0)->measured_ns / 1e6;
    for (uint32_t rank = 0; rank < profile->world; rank++) {
        if (job_step->shape_of[rank])
            profile_rank_add(profile, body, judge, job_step, rank);
    }
}

int profile_end(struct profile *profile)
{
    struct profile_body *most;

    for (uint32_t i = 1; i < profile->bodies; i++) {
        if (profile->body[i].steps > profile->body[profile->most].steps)
            profile->most = i;
    }
    if (profile->failed)
        return -ENOMEM;
    if (profile->bodies == 0)
        return -ENODATA;
    most = &profile->body[profile->most];
    most->period_ms /= (double)most->steps;
    for (uint32_t i = 0; i < most->parts; i++) {
        for (uint32_t rank = 0; rank < profile->world; rank++)
            most->part[i].ms[rank] /= (double)most->steps;
    }
    return 0;
}
