/* hang.c - keeps the newest beat of every rank, and how long steps take.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/stuck/hang_private.h"
#include "wire/names.h"

int hang_create(struct hang **ret)
{
    struct hang *hang = calloc(1, sizeof(*hang));

    if (!hang)
        return -ENOMEM;
    *ret = hang;
    return 0;
}

void hang_destroy(struct hang *hang)
{
    if (!hang)
        return;
    for (uint32_t rank = 0; rank < hang->world; rank++) {
        free(hang->rank[rank].op); /* the channels lie behind */
        free(hang->kept[rank].stack);
    }
    for (int i = 0; i < HANG_SHAPES; i++)
        free(hang->shape[i]);
    free(hang->rank);
    free(hang->kept);
    free(hang);
}

static int hang_resize(struct hang *hang, uint32_t world)
{
    struct wait_rank *rank;
    struct beat_kept *kept;

    if (world <= hang->world)
        return 0;
    rank = realloc(hang->rank, world * sizeof(*rank));
    if (rank)
        hang->rank = rank;
    kept = realloc(hang->kept, world * sizeof(*kept));
    if (kept)
        hang->kept = kept;
    if (!rank || !kept)
        return -ENOMEM;
    memset(rank + hang->world, 0, (world - hang->world) * sizeof(*rank));
    memset(kept + hang->world, 0, (world - hang->world) * sizeof(*kept));
    hang->world = world;
    return 0;
}

/* ---- facts ---- */

void hang_attempt(struct judge_state *judge)
{
    struct hang *hang = judge->hang;

    for (uint32_t rank = 0; rank < hang->world; rank++) {
        struct wait_rank *at = &hang->rank[rank];
        struct beat_kept *kept = &hang->kept[rank];

        free(TAKE(kept->stack));
        hang->bytes -= kept->stack_bytes;
        *kept = (struct beat_kept){ .room = kept->room };
        *at = (struct wait_rank){ .op = at->op, .channel = at->channel };
    }
    hang->warm = 0;
    memset(hang->repeated, 0, sizeof(hang->repeated));
    hang->given_up.kind = 0;
}

/* Copies what varies in length into one piece of memory of the rank's own. */
static int hang_beat_keep(struct hang *hang, struct wait_rank *rank, struct beat_kept *kept,
                          const struct fact_beat *fact)
{
    size_t ops = fact->ops * sizeof(*fact->op), channels = fact->channels * sizeof(*fact->channel);

    if (ops + channels > kept->room) {
        void *grown = realloc(rank->op, ops + channels);

        if (!grown)
            return -ENOMEM;
        rank->op = grown;
        hang->bytes += ops + channels - kept->room;
        kept->room = ops + channels;
    }
    rank->ops = fact->ops;
    rank->channels = fact->channels;
    if (ops)
        memcpy(rank->op, fact->op, ops);
    rank->channel = channels ? (void *)((char *)rank->op + ops) : NULL;
    if (channels)
        memcpy(rank->channel, fact->channel, channels);
    return 0;
}

static bool hang_op_moved(const struct fact_beat *fact)
{
    for (uint32_t i = 0; i < fact->ops; i++) {
        if (fact->op[i].advanced)
            return true;
    }
    return false;
}

/* How busy it was since an older beat: of beats that come close together the first is kept. */
static void hang_beat_cpu(struct wait_rank *rank, struct beat_kept *kept,
                          const struct fact_beat *fact)
{
    int64_t apart = fact->mono_ns - kept->cpu_at_ns;
    /* Ready to run is no waiting, either.  Of many threads in years it is more than 63 bits hold. */
    double cpu_ns = (double)fact->cpu_ns + (double)fact->run_delay_ns;

    if (kept->known && apart < NS_PER_S / 2)
        return;
    rank->cpus = kept->known ? (cpu_ns - kept->cpu_ns) / (double)MAX(apart, 1) : -1;
    kept->cpu_ns = cpu_ns;
    kept->cpu_at_ns = fact->mono_ns;
}

int hang_beat(struct judge_state *judge, const struct fact_beat *fact)
{
    struct hang *hang = judge->hang;
    struct wait_rank *rank;
    struct beat_kept *kept;
    int result;

    if (fact->attempt != judge->model.attempt)
        return 0;
    if (fact->rank >= judge->model.world)
        return -EPROTO;
    if (fact->ring < judge->model.rank[fact->rank].from_ring)
        return 0;
    result = hang_resize(hang, judge->model.world);
    if (result < 0)
        return result;
    rank = &hang->rank[fact->rank];
    kept = &hang->kept[fact->rank];
    if (rank->gone && !fact->final) /* a forked child of the rank: not the rank */
        return 0;
    result = hang_beat_keep(hang, rank, kept, fact);
    if (result < 0)
        return result;
    hang_beat_cpu(rank, kept, fact);
    rank->advanced = fact->advanced || hang_op_moved(fact) || !kept->known;
    if (rank->advanced) {
        kept->advanced_ns = fact->mono_ns;
        rank->device_wait = false;
    }
    rank->gone = fact->final || fact->state == 'X';
    rank->state = fact->state;
    rank->phase = fact->phase;
    rank->phases = fact->phases;
    rank->mono_ns = fact->mono_ns;
    rank->stuck_ns = fact->mono_ns - kept->advanced_ns;
    rank->phase_age_ns = fact->phase ? fact->phase_age_ns : 0;
    rank->step = fact->step;
    kept->oom_kills = fact->oom_kills;
    kept->known = kept->arrived = true;
    return 0;
}

int hang_stack(struct judge_state *judge, const struct fact_stack *fact)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct hang *hang = judge->hang;
    struct beat_kept *kept;
    unsigned char *grown;

    if (fact->attempt != judge->model.attempt)
        return 0;
    if (fact->rank >= judge->model.world)
        return -EPROTO;
    if (hang_resize(hang, judge->model.world) < 0)
        return -ENOMEM;
    kept = &hang->kept[fact->rank];
    fact_stack_put(&payload, fact);
    grown = payload.failed ? NULL : realloc(kept->stack, payload.size);
    if (!grown)
        return -ENOMEM;
    memcpy(grown, payload.data, payload.size);
    hang->bytes += payload.size - kept->stack_bytes;
    kept->stack = grown;
    kept->stack_bytes = payload.size;
    hang->rank[fact->rank].device_wait =
        name_is_device_wait(fact->native) || name_is_device_wait(fact->python);
    return 0;
}

bool hang_is_gone(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->hang->world && judge->hang->rank[rank].gone;
}

bool hang_is_alive(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->hang->world && judge->hang->kept[rank].known &&
           !judge->hang->rank[rank].gone;
}

uint32_t hang_oom_kills(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->hang->world ? judge->hang->kept[rank].oom_kills : 0;
}

bool hang_stack_of(const struct judge_state *judge, uint32_t rank, struct fact_stack *ret)
{
    const struct beat_kept *kept = rank < judge->hang->world ? &judge->hang->kept[rank] : NULL;

    return kept && kept->stack &&
           fact_stack_get(reader_of(kept->stack, kept->stack_bytes), ret) == 0;
}

size_t hang_bytes(const struct hang *hang)
{
    size_t bytes =
        sizeof(*hang) + hang->bytes + hang->world * (sizeof(*hang->rank) + sizeof(*hang->kept));

    for (int i = 0; i < HANG_SHAPES; i++)
        bytes += hang->shape[i] ? sizeof(*hang->shape[i]) : 0;
    return bytes;
}

/* ---- how long a step takes ---- */

static struct shape_time *hang_shape_find(struct hang *hang, uint64_t class)
{
    int oldest = 0;

    for (int i = 0; i < HANG_SHAPES; i++) {
        if (!hang->shape[i]) {
            hang->shape[i] = calloc(1, sizeof(*hang->shape[i]));
            if (hang->shape[i])
                hang->shape[i]->class = class;
            return hang->shape[i];
        }
        if (hang->shape[i]->class == class)
            return hang->shape[i];
        if (hang->shape[i]->used < hang->shape[oldest]->used)
            oldest = i;
    }
    *hang->shape[oldest] = (struct shape_time){ .class = class };
    return hang->shape[oldest];
}

void hang_step(struct judge_state *judge, const struct job_step *job_step)
{
    struct hang *hang = judge->hang;
    struct shape_time *shape;
    int64_t longest = 0;

    for (uint32_t rank = judge->model.world; rank > 0; rank--) {
        const struct fact_step *step = &job_step->step_of[rank - 1];

        if (!job_step->shape_of[rank - 1])
            continue;
        if (step->flags & STEP_UNFINISHED)
            return;
        longest = MAX(longest, step->duration_ns + step->tail_ns);
        hang->class = job_step->shape_of[rank - 1]->fact.class;
    }
    hang->steps++;
    hang->warm++;
    shape = hang_shape_find(hang, hang->class);
    if (!shape)
        return;
    shape->used = hang->steps;
    sketch_add(&shape->sketch, (uint64_t)MAX(longest, 0));
}

bool hang_is_late(const struct judge_state *judge)
{
    return judge->hang->warm <= judge->limits.verdict_warm_up;
}

struct wait_rule hang_rule(struct judge_state *judge)
{
    struct hang *hang = judge->hang;
    const struct thresholds *limits = &judge->limits;
    const struct shape_time *shape =
        hang_is_late(judge) ? NULL : hang_shape_find(hang, hang->class);
    struct wait_rule rule = { .late_ns = (int64_t)(limits->hang_late_limit * 1e9),
                              .busy_cpus = limits->hang_burns };

    rule.limit_ns = rule.late_ns;
    if (shape) {
        double step_ns = (double)sketch_quantile(&shape->sketch, 0.99);

        rule.limit_ns =
            (int64_t)MAX(limits->hang_least_limit * 1e9, limits->verdict_times * step_ns);
    }
    rule.stuck_ns = (int64_t)(limits->verdict_explains * (double)rule.limit_ns);
    return rule;
}
