/* signals.c - feeds the tests of all ranks with the newest step.
 *
 * Steps that are shorter than one disturbance of a node are one observation together: what holds up a process for tens of
 * milliseconds is in several of them, and was there once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/signals.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"

#define AT(field) offsetof(struct thresholds, verdict_##field)
#define COST AT(least_cost), AT(least_cost)
#define CLEAR AT(least_cost), AT(clear_cost)
#define SLOWDOWN AT(least_slowdown), AT(least_slowdown)
#define WORK AT(least_cost), AT(least_slowdown)

/* clang-format off */
const struct signal signal_table[SIGNALS] = {
    [SIGNAL_WORK] = { "local work", "its host code leaves the device idle",
        UNIT_RANK, AGAINST_PEERS, VERDICT_STRAGGLER, LAYER_USER_CODE, 0.98, 0, WORK },
    [SIGNAL_COMPUTE] = { "device compute", "device work takes longer than on its peers",
        UNIT_RANK, AGAINST_PEERS, VERDICT_STRAGGLER, LAYER_GPU, 0.98, 0, WORK },
    [SIGNAL_HITS] = { "local work", "intermittent",
        UNIT_RANK, AGAINST_PEERS, VERDICT_STRAGGLER, LAYER_USER_CODE, 0.75, 0.6, WORK },
    [SIGNAL_MOVES] = { "local work", "migrating: a different rank is slow each time",
        UNIT_JOB, AGAINST_OTHERS, VERDICT_STRAGGLER, LAYER_UNKNOWN, 0.6, 0, WORK },
    [SIGNAL_TREND] = { "local work", "forming",
        UNIT_RANK, AGAINST_PEERS, VERDICT_STRAGGLER, LAYER_UNKNOWN, 0.5, 0.5, WORK },
    [SIGNAL_ARRIVAL] = { "arrival at collectives", "its device enters collectives last; its work between them is not observed",
        UNIT_RANK, AGAINST_OTHERS, VERDICT_STRAGGLER, LAYER_UNKNOWN, 0.7, 0, SLOWDOWN },
    [SIGNAL_BATCHES] = { "wait for the next batch", "its batches arrive late, those of its peers do not",
        UNIT_RANK, AGAINST_PEERS, VERDICT_STRAGGLER, LAYER_DATA, 0.93, 0, WORK },
    [SIGNAL_CPU] = { "waiting for a CPU", "other processes use the CPUs of the ranks on this node",
        UNIT_NODE, AGAINST_PAST, VERDICT_STRAGGLER, LAYER_CPU, 0.9, 0, SLOWDOWN },
    [SIGNAL_INPUT] = { "wait for the next batch", "batches arrive later than the devices need them",
        UNIT_JOB, AGAINST_PAST, VERDICT_INPUT_STALL, LAYER_DATA, 0.92, 0, CLEAR },
    [SIGNAL_INPUT_ALWAYS] = { "wait for the next batch", "batches arrive later than the devices need them",
        UNIT_JOB, AGAINST_PAST, VERDICT_INPUT_STALL, LAYER_DATA, 0.85, 0, CLEAR },
    [SIGNAL_PAUSE] = { "a pause", "it takes many times as long as usual",
        UNIT_JOB, AGAINST_PAST, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT, 0.9, 0, CLEAR },
    [SIGNAL_PAUSES] = { "pauses", "they take a large share of the time",
        UNIT_JOB, AGAINST_PAST, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT, 0.8, 0, CLEAR },
    [SIGNAL_LONG_WAIT] = { "wait for one batch", "a batch arrived very late",
        UNIT_JOB, AGAINST_PAST, VERDICT_INPUT_STALL, LAYER_DATA, 0.6, 0, COST },
    [SIGNAL_SKIPS] = { "skipped saves", "checkpoints are skipped",
        UNIT_JOB, AGAINST_PAST, VERDICT_CHECKPOINT_STALL, LAYER_STORAGE, 0.8, 0.8, COST },
    [SIGNAL_FIRST_STEP] = { "time to the first step", "all other ranks wait for its first step",
        UNIT_RANK, AGAINST_OTHERS, VERDICT_STARTUP_STALL, LAYER_UNKNOWN, 0.8, 0.8, COST },
    [SIGNAL_BIRTH] = { "time of its own before the first step", "all other ranks wait for it to start",
        UNIT_RANK, AGAINST_OTHERS, VERDICT_STARTUP_STALL, LAYER_UNKNOWN, 0.75, 0.75, COST },
    [SIGNAL_START] = { "time to the first step", "start-up takes longer than the limit",
        UNIT_JOB, AGAINST_JOB, VERDICT_STARTUP_STALL, LAYER_UNKNOWN, 0.6, 0.6, COST },
    /* Hosts move data beside their work, and within their node are as fast as their threads get to run: in recorded runs no such
     * transfer was ever slow by itself.
     */
    [SIGNAL_NIC] = { "transfer", "all transfers to and from a node are slow",
        UNIT_LINK, AGAINST_PAST, VERDICT_SYNC_STALL, LAYER_NIC, 0.85, 0.5, CLEAR },
    [SIGNAL_FABRIC] = { "transfer", "all transfers between nodes are slow",
        UNIT_LINK, AGAINST_PAST, VERDICT_SYNC_STALL, LAYER_FABRIC, 0.8, 0.5, CLEAR },
    [SIGNAL_FABRIC_PART] = { "transfer", "transfers of some communicators are slow",
        UNIT_LINK, AGAINST_PAST, VERDICT_SYNC_STALL, LAYER_FABRIC, 0.6, 0.5, CLEAR },
    [SIGNAL_INSIDE] = { "transfer", "transfers inside nodes are slow",
        UNIT_LINK, AGAINST_PAST, VERDICT_SYNC_STALL, LAYER_UNKNOWN, 0.6, 0.3, CLEAR },
    [SIGNAL_LENGTHS] = { "device compute", "sequence lengths differ between ranks",
        UNIT_JOB, AGAINST_OTHERS, VERDICT_IMBALANCE, LAYER_DATA, 0.9, 0, COST },
    [SIGNAL_STAGE] = { "device compute", "a stage has more work than the others",
        UNIT_STAGE, AGAINST_OTHERS, VERDICT_IMBALANCE, LAYER_USER_CODE, 0.9, 0, COST },
    [SIGNAL_STEP] = { "the step", "on all ranks, steps became longer at once",
        UNIT_JOB, AGAINST_JOB, VERDICT_REGRESSION, LAYER_UNKNOWN, 0.7, 0, SLOWDOWN },
    [SIGNAL_STEP_SLOWLY] = { "the step", "on all ranks, steps become longer gradually",
        UNIT_JOB, AGAINST_JOB, VERDICT_REGRESSION, LAYER_UNKNOWN, 0.6, 0, SLOWDOWN },
};
/* clang-format on */

double signal_least(const struct judge_state *judge, enum signal_id id)
{
    const struct signal *signal = &signal_table[id];
    size_t at = judge->history.host_view ? signal->least_host : signal->least;

    return *(const double *)((const char *)&judge->limits + at);
}

struct detect_rule signal_rule(const struct judge_state *judge, enum signal_id id, double series)
{
    return judge_state_rule(judge, series, signal_least(judge, id));
}

struct verdict signal_draft(const struct judge_state *judge, enum signal_id id,
                            const struct confidence *basis)
{
    const struct signal *signal = &signal_table[id];
    struct verdict draft = { .kind = signal->kind, .layer = signal->layer };
    struct confidence full = basis ? *basis : (struct confidence){ 0 };

    full.best = signal->best;
    full.best_host = signal->best_host;
    full.against = signal->against;
    draft.confidence = confidence_of(judge, &full);
    snprintf(draft.cause, sizeof(draft.cause), "%s", signal->cause);
    return draft;
}

#define LEAST_LOOKS 4 /* that an alarm rests on */
#define BOUND 4       /* deviations: one that is further off says no more about the next ones */
#define CLEARLY(off) ((double)(off) > BOUND / 2.0 ? (double)(off) : 0) /* not by noise */
#define FAR_NOISES 8 /* what is far: so many deviations ... */
#define FAR_TIMES 4  /* ... and so many times the least excess that counts */
#define USUAL                                                                                      \
    0.0005         /* part of steps in which a rank of a healthy job is far off: pauses, retries */
#define OFTEN 0.15 /* ... and one that comes and goes */
#define JOB_OFTEN 0.4  /* ... and some rank of a job in which it moves */
#define JOB_LOOKS 12   /* in which it must have been */
#define MEMORY 32      /* observations that count for how often others are far off */
#define JOB_MEMORY 512 /* ... and for how often some rank was, before these */
#define STAY_STEPS 5

struct rank_tests {
    struct detect test[SERIES_COUNT];
    struct detect_hits hits;
    float sum[SERIES_COUNT];       /* of the steps of the next observation */
    float off[SERIES_COUNT];       /* deviations of this one */
    float far_share;               /* of the last observations */
    float usual_off[SERIES_COUNT]; /* ... and by how much it was clearly off in them, on average */
    uint32_t since;                /* steps since it became slow; 0: it is not */
    bool far, comes, marked;
};

struct signals {
    struct rank_tests *rank;
    uint32_t world, summed;
    double bar, hits_bar;
    double far_share;                /* summed over the ranks */
    double usual_off[SERIES_COUNT];  /* the same */
    struct detect_hits job;          /* some rank was far off */
    double job_share;                /* usually, beyond the window; -1: not known */
    uint32_t slowest[HISTORY_STEPS]; /* ring, as the history */
    uint32_t job_seen;               /* observations that were hits, newest in bit 0 */
    uint32_t looks;
    bool uneven;
    struct detect_past *node; /* by node: waiting for a CPU, ms */
    double *starved_ms; /* by node: the same, of the newest step; -1: the kernel tells nothing */
    uint32_t nodes;
};

int signals_create(struct signals **ret)
{
    struct signals *signals = calloc(1, sizeof(*signals));

    if (!signals)
        return -ENOMEM;
    signals_attempt(signals);
    *ret = signals;
    return 0;
}

void signals_destroy(struct signals *signals)
{
    if (!signals)
        return;
    free(signals->rank);
    free(signals->node);
    free(signals->starved_ms);
    free(signals);
}

size_t signals_bytes(const struct signals *signals)
{
    return sizeof(*signals) + signals->world * sizeof(*signals->rank) +
           signals->nodes * (sizeof(*signals->node) + sizeof(*signals->starved_ms));
}

void signals_attempt(struct signals *signals)
{
    struct signals kept = *signals;

    if (kept.rank)
        memset(kept.rank, 0, kept.world * sizeof(*kept.rank));
    if (kept.node)
        memset(kept.node, 0, kept.nodes * sizeof(*kept.node));
    *signals = (struct signals){ .rank = kept.rank,
                                 .world = kept.world,
                                 .node = kept.node,
                                 .starved_ms = kept.starved_ms,
                                 .nodes = kept.nodes,
                                 .job_share = -1 };
    memset(signals->slowest, 0xff, sizeof(signals->slowest));
}

static double signals_value(const struct past_step *past, int series, uint32_t rank)
{
    return (double)(series == SERIES_COMPUTE ? past->compute_ms : past->excess_ms)[rank];
}

double signals_least_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    return MAX(signal_least(judge, SIGNAL_WORK) * history_typical_ms(&judge->history, rank, steps),
               judge->limits.verdict_least_time);
}

/* Of two ranks nobody knows which is the usual one, and hosts differ from step to step, and for dozens of steps, by more than
 * devices do (seen on a machine whose processors share their cores): so much more it must cost.
 */
#define PAIR_TIMES 5

double signals_pair_times(const struct judge_state *judge, uint32_t rank)
{
    const struct model *model = &judge->model;
    uint32_t alike = 0;

    if (judge->history.host_view || rank >= model->world)
        return 1;
    for (uint32_t other = 0; other < model->world && alike < 3; other++)
        alike += model->rank[other].peers == model->rank[rank].peers;
    return alike > 2 ? 1 : PAIR_TIMES;
}

/* Without a CPU anybody is slow now and then; whose fault that is shows elsewhere. */
bool signals_is_far(const struct judge_state *judge, const struct past_step *past, uint32_t rank)
{
    double starved = (double)split_starved_ns(&past->split[rank]) / 1e6;
    double least =
        FAR_TIMES * MAX(signal_least(judge, SIGNAL_WORK) * (double)past->typical_ms[rank],
                        judge->limits.verdict_least_time / FAR_TIMES);

    if (past->split[rank].unfinished)
        return false; /* its rank ended in it, or another did and it waited */
    for (int series = 0; series < SERIES_COUNT; series++) {
        if (signals_value(past, series, rank) - starved >
            MAX(least, FAR_NOISES * judge->history.noise_ms[series]))
            return true;
    }
    return false;
}

/* ---- a rank ---- */

/* How often the other ranks are far off. */
static double signals_others_share(const struct signals *signals, const struct rank_tests *tests)
{
    double others = (signals->far_share - (double)tests->far_share) / MAX(1, signals->world - 1);

    return MIN(0.5, MAX(USUAL * signals->summed, others));
}

static void tests_observe(const struct judge_state *judge, const struct signals *signals,
                          struct rank_tests *tests, uint32_t rank)
{
    const struct past_step *past = history_back(&judge->history, 0);
    double least = signal_least(judge, SIGNAL_WORK) * (double)past->typical_ms[rank];

    for (int series = 0; series < SERIES_COUNT; series++) {
        double noise = MAX(judge->history.noise_ms[series], MAX(1e-6, least / 6));
        double off = (double)tests->sum[series] / signals->summed / noise;

        tests->off[series] = (float)MAX(-BOUND, MIN(BOUND, off));
        tests->sum[series] = 0;
    }
}

/* What the others are off by as well of late, on average, is nobody's in particular. */
static void tests_look(const struct signals *signals, struct rank_tests *tests)
{
    double usual = signals_others_share(signals, tests), others = MAX(1, signals->world - 1);
    double rate = MAX(OFTEN, MIN(0.9, FAR_TIMES * usual));

    for (int series = 0; series < SERIES_COUNT; series++) {
        double off = (double)tests->off[series];

        off -= MAX(0, signals->usual_off[series] - (double)tests->usual_off[series]) / others;
        detect_step_most(&tests->test[series], off, signals->bar,
                         MIN(1.1 * signals->bar / LEAST_LOOKS, -log(usual)));
    }
    tests->comes = detect_hits_step(&tests->hits, tests->far, usual, rate, signals->hits_bar);
}

static double signals_mean_ms(const struct judge_state *judge, int series, uint32_t rank,
                              uint32_t steps)
{
    uint32_t count = history_window(&judge->history, steps);
    double sum = 0;

    for (uint32_t back = 0; back < count; back++)
        sum += signals_value(history_back(&judge->history, back), series, rank);
    return count ? sum / count : 0;
}

static void tests_conclude(const struct judge_state *judge, const struct signals *signals,
                           struct rank_tests *tests, uint32_t rank)
{
    for (int series = 0; series < SERIES_COUNT && !tests->since; series++) {
        uint32_t looks = detect_since(&tests->test[series], signals->bar), steps;
        double least;

        if (looks == UINT32_MAX)
            continue;
        steps = history_looks(&judge->history, looks);
        /* As slow on average, and not by a few steps alone: what comes and goes is asked of the hits. */
        least = signals_least_ms(judge, rank, steps);
        if (signals_mean_ms(judge, series, rank, steps) >= least &&
            signals_excess_ms(judge, rank, steps) >= DETECT_KEEP * least)
            tests->since = steps;
    }
}

static void tests_step(const struct judge_state *judge, struct signals *signals, uint32_t rank)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct rank_tests *tests = &signals->rank[rank];

    for (int series = 0; series < SERIES_COUNT; series++)
        tests->sum[series] += (float)signals_value(past, series, rank);
    if (past->split[rank].present && signals_is_far(judge, past, rank)) {
        uint32_t *slowest = &signals->slowest[(judge->history.count - 1) % HISTORY_STEPS];

        tests->far = true;
        if (*slowest == MODEL_NONE || past->excess_ms[rank] > past->excess_ms[*slowest])
            *slowest = rank;
    }
    if (tests->since) {
        tests->since = MIN(tests->since + 1, HISTORY_STEPS);
        if (signals_excess_ms(judge, rank, STAY_STEPS) <
            DETECT_KEEP * signals_least_ms(judge, rank, STAY_STEPS)) {
            tests->since = 0;
            memset(tests->test, 0, sizeof(tests->test));
        }
    }
}

static void tests_forget(struct signals *signals, struct rank_tests *tests)
{
    double fade = 1 - 1.0 / MEMORY;

    tests->far_share = (float)(fade * (double)tests->far_share + (tests->far ? 1.0 / MEMORY : 0));
    signals->far_share += (double)tests->far_share;
    for (int series = 0; series < SERIES_COUNT; series++) {
        tests->usual_off[series] =
            (float)(fade * (double)tests->usual_off[series] + CLEARLY(tests->off[series]) / MEMORY);
        signals->usual_off[series] += (double)tests->usual_off[series];
    }
    tests->far = false;
}

/* ---- the job ---- */

/* What leaves the window becomes usual, unless it was a fault. */
static void signals_job_learn(struct signals *signals)
{
    double left = signals->job_seen >> (HISTORY_STEPS - 1) & 1;

    if (signals->looks <= HISTORY_STEPS || signals->uneven)
        return;
    if (signals->job_share < 0)
        signals->job_share = left;
    signals->job_share +=
        (left - signals->job_share) / MIN(JOB_MEMORY, (double)signals->looks - HISTORY_STEPS);
}

static void signals_job_look(struct signals *signals)
{
    double usual = MIN(0.95, MAX(signals->world * signals->summed * USUAL, signals->job_share));
    bool hit = false;

    for (uint32_t rank = 0; rank < signals->world && !hit; rank++)
        hit = signals->rank[rank].far;
    signals_job_learn(signals);
    signals->job_seen = signals->job_seen << 1 | hit;
    signals->looks++;
    signals->uneven = detect_hits_step(&signals->job, hit, usual, MAX(JOB_OFTEN, (1 + usual) / 2),
                                       signals->hits_bar) &&
                      signals->job.hits >= JOB_LOOKS;
}

/* ---- nodes ---- */

static bool signals_nodes_room(struct judge_state *judge, struct signals *signals)
{
    uint32_t nodes = judge->model.nodes;
    struct detect_past *node;
    double *starved_ms;

    if (nodes <= signals->nodes)
        return true;
    starved_ms = realloc(signals->starved_ms, nodes * sizeof(*starved_ms));
    if (!starved_ms)
        return false;
    signals->starved_ms = starved_ms;
    node = realloc(signals->node, nodes * sizeof(*node));
    if (!node)
        return false;
    signals->node = node;
    memset(node + signals->nodes, 0, (nodes - signals->nodes) * sizeof(*node));
    signals->nodes = nodes;
    return true;
}

static void signals_nodes_step(struct judge_state *judge, struct signals *signals)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct detect_rule rule =
        judge_state_rule(judge, judge->model.nodes,
                         signal_least(judge, SIGNAL_CPU) * judge->limits.verdict_explains);
    struct detect_kin kin = { 0 };

    if (judge->history.count <= judge->limits.verdict_warm_up ||
        !signals_nodes_room(judge, signals))
        return;
    for (uint32_t node = 0; node < signals->nodes; node++)
        signals->starved_ms[node] = -1;
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        const struct rank_split *split = &past->split[rank];
        uint32_t node = judge->model.rank[rank].node;

        if (node < signals->nodes && split->present && split_tells_cpu(split))
            signals->starved_ms[node] =
                MAX(signals->starved_ms[node], (double)split_starved_ns(split) / 1e6);
    }
    for (uint32_t node = 0; node < signals->nodes; node++)
        detect_kin_add(&kin, detect_past_noise(&signals->node[node]));
    rule.noise = detect_kin_noise(&kin);
    for (uint32_t node = 0; node < signals->nodes; node++) {
        if (signals->starved_ms[node] >= 0)
            detect_past_put(&signals->node[node], signals->starved_ms[node], &rule);
    }
}

const struct detect_past *signals_node(const struct judge_state *judge, uint32_t node)
{
    return node < judge->signals->nodes ? &judge->signals->node[node] : NULL;
}

static bool signals_room(struct judge_state *judge, struct signals *signals)
{
    if (signals->world == judge->model.world)
        return true;
    free(signals->rank);
    signals->rank = calloc(judge->model.world, sizeof(*signals->rank));
    signals->world = signals->rank ? judge->model.world : 0;
    signals_attempt(signals);
    return signals->rank != NULL;
}

static void signals_step(struct judge_state *judge)
{
    struct signals *signals = judge->signals;
    const struct history *history = &judge->history;
    uint32_t least = (uint32_t)judge->limits.verdict_warm_up + LEAST_LOOKS - 1;
    struct detect_rule rule = judge_state_rule(judge, judge->model.world * SERIES_COUNT, 0);
    bool look;

    if (!signals_room(judge, signals))
        return;
    signals_nodes_step(judge, signals);
    signals->slowest[(history->count - 1) % HISTORY_STEPS] = MODEL_NONE;
    /* The first steps are never typical, and lengths explain nothing before some are known. */
    if (history->count < least || (history->lengths_vary && history->count < least + LEAST_LOOKS))
        return;
    signals->bar = rule.bar;
    signals->hits_bar = rule.bar - log(DETECT_SHIFTS * SERIES_COUNT); /* one test of each */
    look = ++signals->summed >= rule.look_steps;
    for (uint32_t rank = 0; rank < signals->world; rank++)
        tests_step(judge, signals, rank);
    if (!look)
        return;
    for (uint32_t rank = 0; rank < signals->world; rank++) {
        tests_observe(judge, signals, &signals->rank[rank], rank);
        tests_look(signals, &signals->rank[rank]);
        tests_conclude(judge, signals, &signals->rank[rank], rank);
    }
    signals_job_look(signals);
    signals->far_share = 0;
    memset(signals->usual_off, 0, sizeof(signals->usual_off));
    for (uint32_t rank = 0; rank < signals->world; rank++)
        tests_forget(signals, &signals->rank[rank]);
    signals->summed = 0;
}

const struct judge judge_signals = { .name = "signals",
                                     .step = signals_step,
                                     .evidence = EVIDENCE_TIMES };

/* ---- answers ---- */

void signals_mark(struct judge_state *judge, uint32_t rank, bool late)
{
    if (rank < judge->signals->world)
        judge->signals->rank[rank].marked = late;
}

bool signals_is_marked(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->signals->world && judge->signals->rank[rank].marked;
}

uint32_t signals_slow_steps(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->signals->world ? judge->signals->rank[rank].since : 0;
}

bool signals_comes_and_goes(const struct judge_state *judge, uint32_t rank)
{
    return rank < judge->signals->world && judge->signals->rank[rank].comes;
}

bool signals_job_is_uneven(const struct judge_state *judge)
{
    return judge->signals->uneven;
}

uint32_t signals_slowest(const struct judge_state *judge, uint32_t back)
{
    const struct signals *signals = judge->signals;

    if (!history_back(&judge->history, back))
        return MODEL_NONE;
    return signals->slowest[(judge->history.count - 1 - back) % HISTORY_STEPS];
}

/* ---- how much of the excess of a rank is waiting for a CPU ---- */

/* The larger of both excesses over the last steps: noise hides, it does not slow devices down. */
double signals_excess_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    return MAX(history_excess_ms(&judge->history, SERIES_LOCAL, rank, steps),
               history_excess_ms(&judge->history, SERIES_COMPUTE, rank, steps));
}

/* How much longer than its peers it waits for a CPU. */
static double signals_starved_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    return history_starved_ms(&judge->history, rank, steps) -
           history_peers_starved_ms(&judge->history, &judge->model, rank, steps);
}

#define NEIGHBOURS 16 /* ranks of a node that are looked at */

/* What the other ranks on its node wait for a CPU, the median of them; -1: there are none. */
double signals_neighbours_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    const struct model_rank *all = judge->model.rank;
    double value[NEIGHBOURS];
    uint32_t used = 0;

    for (uint32_t other = 0; other < judge->model.world && used < NEIGHBOURS; other++) {
        if (other != rank && all[other].node == all[rank].node)
            value[used++] = history_starved_ms(&judge->history, other, steps);
    }
    return used ? median_f64(value, used) : -1;
}

/* ... and the others on its node do, too.  A rank that waits for a CPU alone has a reason of its own, such as a thread that
 * keeps the interpreter's lock.
 */
static double signals_shared_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double own = history_starved_ms(&judge->history, rank, steps);
    double others = signals_neighbours_ms(judge, rank, steps);

    return signals_starved_ms(judge, rank, steps) - (others < 0 ? 0 : MAX(0, own - others));
}

double signals_own_work_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double excess = MAX(0, signals_excess_ms(judge, rank, steps));
    double starved = signals_shared_ms(judge, rank, steps);

    if (starved <= judge->limits.verdict_explains * excess)
        return excess; /* too little to be the reason: waiting for a CPU need not delay anything */
    return MAX(0, excess - starved);
}

/* Whether waiting for a CPU explains a large part of what it took longer, in the steps of which the kernel tells both. */
bool signals_is_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    uint32_t count = history_window(&judge->history, steps), used = 0;
    double excess = 0;

    for (uint32_t back = 0; back < count; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (!past->split[rank].present || !split_tells_cpu(&past->split[rank]))
            continue;
        excess += (double)MAX(past->excess_ms[rank], past->compute_ms[rank]);
        used++;
    }
    return used > 0 && signals_starved_ms(judge, rank, steps) * used >
                           judge->limits.verdict_explains * MAX(0, excess);
}

/* Whether it may: waits differ so much from step to step that the mean of these says neither that it does nor that it does not. */
bool signals_may_be_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    double most = signals_starved_ms(judge, rank, steps) +
                  SIGNALS_BLUR * history_starved_error_ms(&judge->history, rank, steps);

    return signals_excess_ms(judge, rank, steps) - most < signals_least_ms(judge, rank, steps);
}
