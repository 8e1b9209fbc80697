/* regress.c - the whole job has become slower, and no rank, node or link is the cause.
 *
 * Steps are compared with steps of their kind: same ops on all ranks, about as many tokens and squared
 * lengths; another batch or sequence length begins a past of its own.  Only steps count in
 * which no other verdict explains lost time and no node is short of cpus.  What is usual is kept over
 * restarts, since a job that comes back slower is just what this is about.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/regress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/median.h"
#include "judge/slow/signals.h"

#define KINDS 16
#define STARVED 0.02  /* of the time, beyond what is typical: such a step says nothing of the job */
#define LOOKS_MAX 64  /* kept, at most */
#define BLOCKS 64     /* in which a kind's whole past is kept; when full, two become one */
#define BLOCK_STEPS 8 /* of a block at first */
#define LEAST_USUAL (DETECT_PAST / 4) /* observations that tell what a whole job usually does */

enum part {
    PART_COMPUTE,
    PART_TRANSFER,
    PART_HOST,
    PART_WAIT,
    PARTS
};

struct regress_sample {
    uint64_t step;
    double period_ms, part_ms[PARTS]; /* of the median rank */
};

struct block {
    uint64_t step; /* its first */
    double sum_ms;
    uint32_t steps;
};

struct step_kind {
    uint64_t signature, used;
    struct detect_past past;                 /* of what the median rank does */
    struct regress_sample sample[LOOKS_MAX]; /* its newest clean observations, a ring */
    struct regress_sample sum;               /* of the steps of the next one: */
    uint32_t count, summed;
    struct regress_sample base;     /* means while all was as usual; period 0: not known yet */
    uint64_t base_first, base_step; /* of the steps that are the base: the first, and the last */
    struct block block[BLOCKS];
    uint32_t blocks, block_steps;
};

struct regress {
    struct step_kind *kind[KINDS];
    uint64_t looks;
};

int regress_create(struct regress **ret)
{
    struct regress *regress = calloc(1, sizeof(*regress));

    if (!regress)
        return -ENOMEM;
    *ret = regress;
    return 0;
}

void regress_destroy(struct regress *regress)
{
    for (int i = 0; regress && i < KINDS; i++)
        free(regress->kind[i]);
    free(regress);
}

/* ---- which steps are alike, and which count ---- */

/* Programs tell these numbers, and may tell any. */
static uint64_t regress_metric_round(double value)
{
    return bytes_round(value >= 0 && value < 1e18 ? (uint64_t)value : UINT64_MAX);
}

static uint64_t step_signature(const struct judge_state *judge)
{
    const struct job_step *job_step = judge->job_step;
    const struct past_step *past = history_back(&judge->history, 0);
    uint64_t signature = judge->model.world;
    double tokens = 0, squares = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (!job_step->shape_of[rank])
            continue;
        signature = hash64_u64(signature, job_step->shape_of[rank]->fact.class);
        if (past->split[rank].has_lengths) {
            tokens += past->split[rank].tokens;
            squares += past->split[rank].squares;
        }
    }
    signature = hash64_u64(signature, regress_metric_round(tokens));
    return hash64_u64(signature, regress_metric_round(squares));
}

static struct step_kind *kind_of(struct regress *regress, uint64_t signature)
{
    uint32_t oldest = 0;

    regress->looks++;
    for (uint32_t i = 0; i < KINDS; i++) {
        if (!regress->kind[i]) {
            regress->kind[i] = calloc(1, sizeof(**regress->kind));
            if (!regress->kind[i])
                return NULL;
            oldest = i;
            break;
        }
        if (regress->kind[i]->signature == signature) {
            regress->kind[i]->used = regress->looks;
            return regress->kind[i];
        }
        if (regress->kind[i]->used < regress->kind[oldest]->used)
            oldest = i;
    }
    *regress->kind[oldest] = (struct step_kind){ .signature = signature,
                                                 .used = regress->looks,
                                                 .block_steps = BLOCK_STEPS };
    return regress->kind[oldest];
}

static bool regress_is_explained(const struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind != VERDICT_REGRESSION &&
            tracked->verdict.kind != VERDICT_CORRUPTION && tracked->verdict.kind != VERDICT_CRASH &&
            tracked->verdict.kind != VERDICT_NODE_FAULT)
            return true;
    }
    return false;
}

/* Ranks wait longer for CPUs on more than a few nodes: of thousands some always have less than they want, and one that goes on
 * is the cpu judge's.
 */
static bool regress_is_starved(const struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);
    uint32_t nodes = MIN(past->nodes, judge->history.nodes), starved = 0;

    for (uint32_t node = 0; node < nodes; node++) {
        double typical = MAX(0, judge->history.typical[node].pressure);

        starved += past->node[node].pressure - typical > STARVED;
    }
    return starved > nodes / 16;
}

static int64_t regress_part_of(const struct rank_split *split, int part)
{
    switch (part) {
    case PART_COMPUTE:
        return split->compute_ns;
    case PART_TRANSFER:
        return split->transfer_ns;
    case PART_HOST:
        return split_host_ns(split) + split->queued_ns;
    default:
        return split->wait_ns;
    }
}

static struct regress_sample sample_take(const struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct regress_sample sample = { .step = past->step,
                                     .period_ms = (double)past->measured_ns / 1e6 };
    uint32_t stride = judge->model.world / 257 + 1;

    for (int part = 0; part < PARTS; part++) {
        double value[257];
        uint32_t used = 0;

        for (uint32_t rank = 0; rank < judge->model.world && used < COUNT(value); rank += stride) {
            if (past->split[rank].present)
                value[used++] = (double)regress_part_of(&past->split[rank], part) / 1e6;
        }
        sample.part_ms[part] = median_f64(value, used);
    }
    return sample;
}

/* ---- the past ---- */

static void blocks_add(struct step_kind *kind, const struct regress_sample *sample)
{
    struct block *block;

    if (kind->blocks > 0 && kind->block[kind->blocks - 1].steps < kind->block_steps) {
        block = &kind->block[kind->blocks - 1];
    } else {
        if (kind->blocks == BLOCKS) {
            for (uint32_t i = 0; i < BLOCKS / 2; i++) {
                kind->block[i] = kind->block[2 * i];
                kind->block[i].sum_ms += kind->block[2 * i + 1].sum_ms;
                kind->block[i].steps += kind->block[2 * i + 1].steps;
            }
            kind->blocks = BLOCKS / 2;
            kind->block_steps *= 2;
        }
        block = &kind->block[kind->blocks++];
        *block = (struct block){ .step = sample->step };
    }
    block->sum_ms += sample->period_ms;
    block->steps++;
}

/* Medians of the newest observations. */
static struct regress_sample regress_recent(const struct step_kind *kind, uint32_t looks)
{
    uint32_t count = MIN(looks, MIN(kind->count, LOOKS_MAX));
    struct regress_sample median = { 0 };
    double value[LOOKS_MAX];

    for (int part = -1; part < PARTS; part++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct regress_sample *at = &kind->sample[(kind->count - 1 - i) % LOOKS_MAX];

            value[i] = part < 0 ? at->period_ms : at->part_ms[part];
            median.step = at->step;
        }
        *(part < 0 ? &median.period_ms : &median.part_ms[part]) = median_f64(value, count);
    }
    return median;
}

/* All that the median rank does but wait for others.  Among thousands of ranks somebody is always late, so
 * steps are noisy; this is not.
 */
static double regress_work_ms(const struct regress_sample *sample)
{
    return sample->period_ms - sample->part_ms[PART_WAIT];
}

/* Steps that are shorter than one disturbance are one observation, the mean of them; false: it is not complete yet. */
static bool regress_look(struct step_kind *kind, const struct regress_sample *step,
                         uint32_t look_steps)
{
    struct regress_sample *sum = &kind->sum;

    if (kind->summed++ == 0)
        *sum = (struct regress_sample){ .step = step->step };
    sum->period_ms += step->period_ms;
    for (int part = 0; part < PARTS; part++)
        sum->part_ms[part] += step->part_ms[part];
    if (kind->summed < look_steps)
        return false;
    sum->period_ms /= kind->summed;
    for (int part = 0; part < PARTS; part++)
        sum->part_ms[part] /= kind->summed;
    kind->sample[kind->count++ % LOOKS_MAX] = *sum;
    kind->summed = 0;
    return true;
}

/* While the test learns, the newest observations are as usual. */
static void regress_put(struct step_kind *kind, const struct detect_rule *rule)
{
    struct detect_rule look = { .least = rule->least, .bar = rule->bar };
    uint32_t usuals = kind->past.usuals;

    detect_past_put(&kind->past, regress_work_ms(&kind->sum), &look);
    if (kind->past.usuals == usuals || !detect_past_known(&kind->past))
        return;
    kind->base = regress_recent(kind, DETECT_PAST / 2);
    kind->base_first = kind->base.step;
    kind->base_step = kind->sum.step;
}

/* ---- the verdict ---- */

static double block_ms(const struct step_kind *kind, uint32_t at)
{
    return kind->block[at].sum_ms / kind->block[at].steps;
}

/* Since when, and whether it came at once.  The median of the base may still be low when almost half of its
 * steps are slow, so it is looked for from its first step on; and a step down within a block is
 * half in it and half behind, so growth counts over two of them.
 */
static uint64_t regress_growth_began(const struct judge_state *judge, const struct step_kind *kind,
                                     double grown_ms, bool *stepped)
{
    uint32_t base = 0, most_at = 0;
    double most = 0;

    while (base + 1 < kind->blocks && kind->block[base + 1].step <= kind->base_first)
        base++;
    for (uint32_t at = base + 1; at < kind->blocks; at++) {
        uint32_t end = MIN(at + 1, kind->blocks - 1);
        double rise = block_ms(kind, end) - block_ms(kind, at - 1);

        if (rise > most * 1.02) { /* the first of those that are about as steep */
            most = rise;
            most_at = at;
        }
    }
    *stepped = most > judge->limits.verdict_explains * grown_ms;
    if (!*stepped)
        return kind->base_step + 1;
    /* Of both blocks the one with more of the growth. */
    if (most_at + 1 < kind->blocks &&
        block_ms(kind, most_at) - block_ms(kind, most_at - 1) < most / 8)
        most_at++;
    return kind->block[most_at].step;
}

static void regress_accuse(struct judge_state *judge, const struct step_kind *kind,
                           const struct regress_sample *now)
{
    static const char *const names[PARTS] = { "device compute", "transfer",
                                              "host work that devices wait for",
                                              "waiting for other ranks" };
    double grown = now->period_ms - kind->base.period_ms;
    struct verdict draft;
    bool stepped, fresh;
    uint64_t since = regress_growth_began(judge, kind, grown, &stepped);

    draft = signal_draft(judge, stepped ? SIGNAL_STEP : SIGNAL_STEP_SLOWLY, NULL);
    draft.since_step = since;
    draft.seconds_per_step = grown / 1e3;
    verdict_because(
        &draft, "ring",
        "steps of this kind take %.1f ms since step %llu (median), %.1f ms up to step %llu",
        now->period_ms, (unsigned long long)now->step, kind->base.period_ms,
        (unsigned long long)kind->base_step);
    for (int part = 0; part < PARTS; part++) {
        double more = now->part_ms[part] - kind->base.part_ms[part];

        if (more > grown / 4)
            verdict_because(&draft, "ring", "%s of the median rank: %.1f ms, %.1f ms before",
                            names[part], now->part_ms[part], kind->base.part_ms[part]);
    }
    verdict_because(&draft, "ring", "ops, tokens and squared sequence lengths are unchanged");
    verdict_rule_out(&draft, LAYER_CPU, "no node is short of CPU time in these steps");
    verdict_rule_out(&draft, LAYER_DATA, "no rank, stage or input delays the others");
    judge_state_find(judge, &draft, &fresh);
}

/* The steps are longer by the least that is worth a word, and half of that at least is what the median rank itself does:
 * more waiting alone is somebody's slowness, and not all ranks'.  As long as DETECT_DELAY observations others may say whose.
 */
static void kind_judge(struct judge_state *judge, const struct step_kind *kind)
{
    struct tracked_verdict *open =
        judge_state_open_verdict(judge, VERDICT_REGRESSION, LAYER_COUNT, MODEL_NONE);
    struct regress_sample now;
    double grown;

    if (!kind->past.risen || kind->past.usuals < LEAST_USUAL)
        return;
    now = regress_recent(kind, MIN(kind->past.since, DETECT_PAST / 2));
    grown = now.period_ms - kind->base.period_ms;
    if (open) {
        open->seen_step = judge->job_step->step;
        open->step_seconds = MAX(0, grown) / 1e3;
    } else if (kind->past.since >= DETECT_DELAY &&
               grown >= signal_least(judge, SIGNAL_STEP) * kind->base.period_ms) {
        regress_accuse(judge, kind, &now);
    }
}

static void regress_step(struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct regress_sample step;
    struct detect_rule rule;
    struct step_kind *kind;

    if (!judge->job_step || past->measured_ns <= 0 ||
        judge->history.count <= judge->limits.verdict_warm_up || regress_is_explained(judge) ||
        regress_is_starved(judge))
        return;
    kind = kind_of(judge->regress, step_signature(judge));
    if (!kind)
        return;
    step = sample_take(judge);
    blocks_add(kind, &step);
    rule = judge_state_rule(judge, KINDS, signal_least(judge, SIGNAL_STEP) / 2);
    if (regress_look(kind, &step, rule.look_steps))
        regress_put(kind, &rule);
    kind_judge(judge, kind);
}

const struct judge judge_regress = { .name = "regress",
                                     .step = regress_step,
                                     .evidence = EVIDENCE_TIMES };
