/* lab_step.c - the ops of the made-up job, and when each would run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/lab_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"

enum {
    COMPUTE = 1,
    DATA_PARALLEL = 2,
    TENSOR = 3,
    SEND = 4,
    RECEIVE = 5
};

const struct lab_config lab_plain = {
    .dp = 4,
    .micros = 2,
    .blocks = 4,
    .buckets = 2,
    .block_ns = 3500000,
    .tp_ns = 400000,
    .dp_ns = 3000000,
    .world_ns = 300000,
    .link_ns = 500000,
    .optimizer_ns = 4000000,
    .data_ns = 400000,
    .launch_ns = 20000,
    .tail_ns = 60000,
    .noise = 0.003,
    .seed = 1,
};

/* ---- what a rank launches ---- */

struct script {
    struct lab *lab;
    struct lab_rank *at;
    uint32_t rank;
    int last, recv, blocker; /* as a program keeps them: what the next op waits for */
    int phase[4];
    int phases;
};

static struct lab_item *item_add(struct script *script, uint8_t kind, uint8_t what, uint16_t stream)
{
    struct lab_item *item = &script->at->item[script->at->items++];

    assert(script->at->items < LAB_ITEMS);
    *item = (struct lab_item){
        .shape = { .kind = kind, .what = what, .stream = stream, .count = 1 },
        .dep = { -1, -1 },
        .meet = UINT32_MAX,
    };
    return item;
}

static int newest(const struct script *script)
{
    return (int)script->at->items - 1;
}

static void phase_begin(struct script *script, unsigned phase)
{
    item_add(script, ITEM_PHASE, (uint8_t)phase, 0);
    script->phase[script->phases++] = newest(script);
}

static void phase_end(struct script *script)
{
    script->at->item[script->phase[--script->phases]].last = newest(script);
}

/* The same number for all who come to the same collective or message. */
static uint32_t meet_number(struct script *script, uint64_t comm, uint64_t pair)
{
    struct lab *lab = script->lab;
    uint64_t mine = hash64_u64(hash64_u64(comm, pair), (uint64_t)script->rank << 1 | 1);
    uint64_t ordinal, *count = map_put(&lab->meet_by_key, mine, 0), *number;
    bool sends = pair >> 63;

    assert(count);
    ordinal = (*count)++;
    pair = sends ? pair & ~(UINT64_C(1) << 63) : pair;
    number = map_put(&lab->meet_by_key,
                     hash64_u64(hash64_u64(comm, pair), hash64_u64(2, ordinal << 1)), lab->meets);
    assert(number);
    if (*number == lab->meets) {
        assert(lab->meets < LAB_MEETS);
        lab->meet[lab->meets++] = (struct lab_meet){ .comm = comm };
    }
    return (uint32_t)*number;
}

static void meet_join(struct script *script, struct lab_item *item, uint64_t comm, uint64_t pair)
{
    struct lab_meet *meet;

    item->meet = meet_number(script, comm, pair);
    item->shape.comm = comm;
    item->shape.bytes = script->lab->more_bytes ? 8 << 20 : 1 << 20;
    meet = &script->lab->meet[item->meet];
    assert(meet->members < LAB_RANKS);
    meet->rank[meet->members] = script->rank;
    meet->item[meet->members++] = (uint32_t)newest(script);
}

static void add_compute(struct script *script, unsigned phase, int64_t ns)
{
    struct lab_item *item = item_add(script, ITEM_SPAN, (uint8_t)phase, COMPUTE);

    item->base_ns = ns;
    item->dep[0] = script->recv;
    item->dep[1] = script->blocker;
    script->recv = -1;
    script->last = newest(script);
}

static int add_reduce(struct script *script, uint16_t stream, uint64_t comm, int64_t ns)
{
    struct lab_item *item = item_add(script, ITEM_COLL, LOCKSTEP_OP_ALL_REDUCE, stream);

    item->base_ns = ns;
    item->dep[0] = script->last;
    meet_join(script, item, comm, 0);
    return newest(script);
}

static uint64_t comm_tp(const struct lab_rank *at)
{
    return 0x1000 + at->pp * 256 + at->dp;
}

static uint64_t comm_dp(const struct lab_rank *at)
{
    return 0x2000 + at->pp * 256 + at->tp;
}

static uint64_t comm_pp(const struct lab_rank *at)
{
    return 0x3000 + at->dp * 256 + at->tp;
}

static void add_tensor(struct script *script)
{
    if (script->lab->config.tp > 1)
        script->blocker = script->last =
            add_reduce(script, TENSOR, comm_tp(script->at), script->lab->config.tp_ns);
}

/* `way` 1: to or from the stage above, -1: below. */
static void add_message(struct script *script, bool send, int way, bool up)
{
    uint32_t other = (uint32_t)((int)script->at->pp + way);
    struct lab_item *item;
    uint64_t pair =
        (uint64_t)(send ? script->at->pp : other) << 8 | (send ? other : script->at->pp);

    if (other >= script->lab->config.pp)
        return;
    item = item_add(script, ITEM_P2P, send ? LOCKSTEP_OP_SEND : LOCKSTEP_OP_RECV,
                    send ? SEND : RECEIVE);
    item->shape.peer = other;
    item->base_ns = script->lab->config.link_ns;
    item->dep[0] = send ? script->last : -1;
    pair = (pair << 1 | up) + 1;
    meet_join(script, item, comm_pp(script->at), send ? pair | UINT64_C(1) << 63 : pair);
    if (!send)
        script->recv = newest(script);
}

static void add_forward(struct script *script, uint32_t micro)
{
    const struct lab_config *config = &script->lab->config;

    phase_begin(script, LOCKSTEP_PHASE_FORWARD);
    script->last = -1;
    if (micro == 0 && config->with_gc &&
        (!config->gc_apart || script->lab->fault.sleep_ns[script->rank])) {
        phase_begin(script, LOCKSTEP_PHASE_GC);
        phase_end(script);
    }
    add_message(script, false, -1, true);
    for (uint32_t block = 0; block < config->blocks; block++) {
        add_compute(script, LOCKSTEP_PHASE_FORWARD, config->block_ns);
        add_tensor(script);
    }
    add_message(script, true, 1, true);
    phase_end(script);
}

static void add_backward(struct script *script, uint32_t micro)
{
    const struct lab_config *config = &script->lab->config;

    phase_begin(script, LOCKSTEP_PHASE_BACKWARD);
    add_message(script, false, 1, false);
    for (uint32_t block = config->blocks; block-- > 0;) {
        add_compute(script, LOCKSTEP_PHASE_BACKWARD, 2 * config->block_ns);
        for (uint32_t bucket = 0; bucket < config->buckets; bucket++) {
            if (config->dp > 1 && micro + 1 == config->micros &&
                bucket * config->blocks / config->buckets == block)
                add_reduce(script, DATA_PARALLEL, comm_dp(script->at), config->dp_ns);
        }
        add_tensor(script);
    }
    add_message(script, true, -1, false);
    phase_end(script);
}

static void add_end(struct script *script)
{
    const struct lab_config *config = &script->lab->config;
    unsigned phase = script->lab->updates ? LOCKSTEP_PHASE_OPTIMIZER : LOCKSTEP_PHASE_OTHER;

    phase_begin(script, phase);
    if (!config->no_world && script->lab->world > 1)
        script->blocker = add_reduce(script, DATA_PARALLEL, 0x4000, config->world_ns);
    else if (config->dp > 1) /* the optimizer follows the last bucket */
        for (uint32_t i = 0; i < script->at->items; i++)
            if (script->at->item[i].shape.stream == DATA_PARALLEL)
                script->blocker = (int)i;
    add_compute(script, phase, config->optimizer_ns);
    phase_end(script);
    if (script->lab->checkpoint) {
        phase_begin(script, LOCKSTEP_PHASE_CHECKPOINT);
        phase_end(script);
    }
    if (script->lab->evaluation) {
        phase_begin(script, LOCKSTEP_PHASE_EVAL);
        phase_end(script);
    }
}

static void script_write(struct lab *lab, uint32_t rank)
{
    const struct lab_config *config = &lab->config;
    struct script script = {
        .lab = lab, .at = &lab->rank[rank], .rank = rank, .last = -1, .recv = -1, .blocker = -1
    };
    uint32_t warm = MIN(config->micros, config->pp - script.at->pp - 1);

    script.at->items = 0;
    phase_begin(&script, LOCKSTEP_PHASE_DATA);
    phase_end(&script);
    for (uint32_t micro = 0; micro < warm; micro++)
        add_forward(&script, micro);
    for (uint32_t micro = 0; micro < config->micros; micro++) {
        if (micro + warm < config->micros)
            add_forward(&script, micro + warm);
        add_backward(&script, micro);
    }
    add_end(&script);
    for (uint32_t i = 0; i < script.at->items; i++) { /* in the middle of the first forward */
        if (script.at->item[i].shape.kind == ITEM_SPAN) {
            script.at->gap_at = i + (config->tp > 1 ? 2 : 1);
            break;
        }
    }
}

static uint16_t host_stream(const struct lab *lab, bool dp)
{
    if (lab->config.device_ops)
        return dp ? LOCKSTEP_DEVICE_OPS + 1 : LOCKSTEP_DEVICE_OPS;
    return dp ? LOCKSTEP_HOST_LATE + 1 : LOCKSTEP_HOST_STREAM;
}

static void scripts_write(struct lab *lab)
{
    map_fini(&lab->meet_by_key);
    lab->meets = 0;
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct lab_rank *at = &lab->rank[rank];

        script_write(lab, rank);
        fact_shape_fini(&at->shape);
        at->shape.item = calloc(at->items, sizeof(*at->shape.item));
        assert(at->shape.item);
        for (uint32_t i = 0; i < at->items; i++) {
            struct shape_item *seen = &at->shape.item[at->shape.count];

            if (lab->config.host_view && at->item[i].shape.kind == ITEM_SPAN)
                continue;
            *seen = at->item[i].shape;
            if (lab->config.host_view && seen->kind != ITEM_PHASE)
                seen->stream = host_stream(lab, seen->comm == comm_dp(at));
            at->shape.count++;
        }
        shape_hash(&at->shape);
    }
}

struct lab *lab_create(const struct lab_config *config)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    assert(lab);
    lab->config = *config;
    lab->config.tp = MAX(1, config->tp);
    lab->config.pp = MAX(1, config->pp);
    lab->config.dp = MAX(1, config->dp);
    lab->world = lab->config.tp * lab->config.pp * lab->config.dp;
    lab->config.per_node = config->per_node ? config->per_node : lab->world;
    lab->nodes = (lab->world + lab->config.per_node - 1) / lab->config.per_node;
    assert(lab->world <= LAB_RANKS && lab->nodes <= LAB_NODES && lab->config.pp <= LAB_STAGES);
    lab->rank = calloc(lab->world, sizeof(*lab->rank));
    lab->meet = calloc(LAB_MEETS, sizeof(*lab->meet));
    assert(lab->rank && lab->meet);
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct lab_rank *at = &lab->rank[rank];

        at->tp = rank % lab->config.tp;
        at->dp = rank / lab->config.tp % lab->config.dp;
        at->pp = rank / (lab->config.tp * lab->config.dp);
        at->begin_ns = INT64_C(1000000000);
    }
    lab->updates = lab->config.accumulate < 2;
    scripts_write(lab);
    return lab;
}

void lab_destroy(struct lab *lab)
{
    if (!lab)
        return;
    for (uint32_t rank = 0; rank < lab->world; rank++)
        fact_shape_fini(&lab->rank[rank].shape);
    map_fini(&lab->meet_by_key);
    free(lab->rank);
    free(lab->meet);
    free(lab);
}

/* ---- when it runs ---- */

static double noise_of(const struct lab *lab, uint64_t who, uint64_t what)
{
    struct rand rand = { hash64_u64(hash64_u64(hash64_u64(lab->config.seed, lab->step), who),
                                    what) };

    return 1 + lab->config.noise * rand_normal(&rand);
}

static void lengths_draw(struct lab *lab)
{
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        struct rand rand = { hash64_u64(hash64_u64(lab->config.seed ^ 77, lab->step),
                                        lab->rank[rank].dp) };

        lab->rank[rank].length = 1 + lab->fault.longer + lab->fault.more[lab->rank[rank].dp] +
                                 lab->fault.uneven * MAX(-2, MIN(2, rand_normal(&rand)));
    }
}

int64_t lab_span_ns(const struct lab *lab, uint32_t rank, uint32_t item)
{
    const struct lab_rank *at = &lab->rank[rank];
    double work = 0.6 * at->length + 0.4 * at->length * at->length;

    if (at->item[item].shape.what == LOCKSTEP_PHASE_OPTIMIZER)
        work = 1;
    else
        work *= 1 + lab->fault.heavier[at->pp];
    return (int64_t)((double)at->item[item].base_ns * work * (1 + lab->fault.all) *
                     (1 + lab->fault.stretch[rank]) * noise_of(lab, rank, item));
}

/* Everything the host does by itself up to the last launch. */
static int64_t host_run(struct lab *lab, uint32_t rank)
{
    struct lab_rank *at = &lab->rank[rank];
    int64_t now = 0;
    bool slept = false;

    for (uint32_t i = 0; i < at->items; i++) {
        const struct lab_item *item = &at->item[i];
        struct item_time *time = &at->time[i];

        at->done[i] = false;
        if (item->shape.kind != ITEM_PHASE) {
            now += lab->config.launch_ns;
            *time = (struct item_time){ now, now, now, -1 };
        } else {
            *time = (struct item_time){ now, now, now, -1 };
            at->done[i] = true;
            if (item->shape.what == LOCKSTEP_PHASE_DATA)
                now += lab->config.data_ns;
            if (!slept && item->shape.what == lab->fault.sleep_phase) {
                now += lab->fault.sleep_ns[rank];
                slept = true;
            }
        }
        for (uint32_t open = 0; open <= i; open++) {
            if (at->item[open].shape.kind == ITEM_PHASE && at->item[open].last == (int)i)
                at->time[open].end_ns = now;
        }
    }
    return now;
}

static bool item_ready(const struct lab *lab, uint32_t rank, uint32_t item, int64_t *ready)
{
    const struct lab_rank *at = &lab->rank[rank];
    const struct lab_item *what = &at->item[item];

    *ready = at->time[item].enqueue_ns;
    for (int k = 0; k < 2; k++) {
        if (what->dep[k] < 0)
            continue;
        if (!at->done[what->dep[k]])
            return false;
        *ready = MAX(*ready, at->time[what->dep[k]].end_ns);
    }
    for (uint32_t before = item; before-- > 0;) { /* what was before it on its stream */
        if (at->item[before].shape.kind != ITEM_PHASE &&
            at->item[before].shape.stream == what->shape.stream) {
            *ready = MAX(*ready, at->time[before].end_ns);
            break;
        }
    }
    return true;
}

static void item_end(struct lab_rank *at, uint32_t item, int64_t end_ns)
{
    at->time[item].end_ns = end_ns;
    at->done[item] = true;
}

/* How much longer a transfer takes than it should. */
static double transfer_factor(const struct lab *lab, const struct lab_meet *meet)
{
    uint32_t first = meet->rank[0] / lab->config.per_node;
    double factor = meet->comm == lab->fault.slow_comm ? 1 + lab->fault.comm : 1, nic = 0;
    bool crosses = false;

    for (uint32_t i = 0; i < meet->members; i++) {
        uint32_t node = meet->rank[i] / lab->config.per_node;

        crosses |= node != first;
        nic = MAX(nic, lab->fault.nic[node]);
    }
    return crosses ? factor * (1 + lab->fault.fabric) * (1 + nic) : factor;
}

/* All are there: each leaves a transfer after the last came. */
static void meet_end(struct lab *lab, struct lab_meet *meet)
{
    for (uint32_t i = 0; i < meet->members; i++) {
        struct lab_rank *at = &lab->rank[meet->rank[i]];
        const struct lab_item *item = &at->item[meet->item[i]];
        int64_t ns = (int64_t)((double)item->base_ns * transfer_factor(lab, meet) *
                               noise_of(lab, meet->comm, item->meet));

        if (at->done[meet->item[i]])
            continue; /* a send that did not wait */
        item_end(at, meet->item[i], meet->last_ns + ns - at->begin_ns);
    }
}

void lab_meet_arrive(struct lab *lab, uint32_t rank, uint32_t item)
{
    struct lab_rank *at = &lab->rank[rank];
    const struct lab_item *what = &at->item[item];
    struct lab_meet *meet = &lab->meet[what->meet];

    meet->last_ns = MAX(meet->last_ns, at->begin_ns + at->time[item].start_ns);
    meet->arrived++;
    if (what->shape.what == LOCKSTEP_OP_SEND && !lab->config.rendezvous)
        item_end(at, item,
                 at->time[item].start_ns +
                     (int64_t)((double)what->base_ns * transfer_factor(lab, meet) *
                               noise_of(lab, meet->comm, what->meet)));
    if (meet->arrived == meet->members)
        meet_end(lab, meet);
}

/* Runs what can run on a stream; an op that waits for peers holds it until they have come. */
static bool stream_run(struct lab *lab, uint32_t rank, uint32_t stream)
{
    struct lab_rank *at = &lab->rank[rank];
    bool moved = false;

    for (uint32_t *i = &at->next[stream]; *i < at->items; (*i)++) {
        const struct lab_item *item = &at->item[*i];
        int64_t ready;

        if (item->shape.kind == ITEM_PHASE || item->shape.stream != stream || at->done[*i])
            continue;
        if (at->arrived[*i] || !item_ready(lab, rank, *i, &ready))
            return moved;
        moved = true;
        if (item->shape.kind == ITEM_SPAN && *i == at->gap_at)
            ready += lab->fault.device_gap_ns[rank];
        at->time[*i].start_ns = ready;
        at->arrived[*i] = true;
        if (item->shape.kind == ITEM_SPAN)
            item_end(at, *i, ready + lab_span_ns(lab, rank, *i));
        else
            lab_meet_arrive(lab, rank, *i);
        if (!at->done[*i])
            return moved;
    }
    return moved;
}

static void rank_end(struct lab *lab, uint32_t rank, int64_t now)
{
    struct lab_rank *at = &lab->rank[rank];

    for (uint32_t i = 0; i < at->items; i++) {
        assert(at->done[i]); /* else the script waits for itself */
        if (at->item[i].shape.kind != ITEM_PHASE)
            now = MAX(now, at->time[i].end_ns);
    }
    for (uint32_t i = 0; i < at->items; i++) {
        unsigned phase = at->item[i].shape.kind == ITEM_PHASE ? at->item[i].shape.what : 0;
        int64_t ns = phase == LOCKSTEP_PHASE_CHECKPOINT
                         ? lab->fault.checkpoint_ns + lab->fault.checkpoint_more_ns[rank]
                     : phase == LOCKSTEP_PHASE_EVAL ? lab->fault.eval_ns
                                                    : 0;

        if (ns > 0)
            at->time[i] = (struct item_time){ now, now, now + ns, -1 };
        now += ns;
    }
    at->duration_ns = now;
}

/* Hosts launch ahead of their devices. */
static void devices_run(struct lab *lab, int64_t *host)
{
    bool moved = true;

    for (uint32_t rank = 0; rank < lab->world; rank++)
        host[rank] = host_run(lab, rank);
    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < lab->world; rank++) {
            for (uint32_t stream = 1; stream < LAB_STREAMS; stream++)
                moved = stream_run(lab, rank, stream) || moved;
        }
    }
}

static void step_run(struct lab *lab)
{
    int64_t host[LAB_RANKS], first = INT64_MIN, last = INT64_MIN;

    lengths_draw(lab);
    for (uint32_t i = 0; i < lab->meets; i++) {
        lab->meet[i].arrived = 0;
        lab->meet[i].last_ns = INT64_MIN;
    }
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        memset(lab->rank[rank].next, 0, sizeof(lab->rank[rank].next));
        memset(lab->rank[rank].arrived, 0, sizeof(lab->rank[rank].arrived));
        memset(lab->rank[rank].done, 0, sizeof(lab->rank[rank].done));
    }
    if (lab->config.host_view)
        lab_hosts_run(lab, host);
    else
        devices_run(lab, host);
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        rank_end(lab, rank, host[rank]);
        first = MAX(first, lab->rank[rank].begin_ns);
        last =
            MAX(last, lab->rank[rank].begin_ns + lab->rank[rank].duration_ns + lab->config.tail_ns);
    }
    lab->measured_ns = last - first;
}

void lab_step(struct lab *lab)
{
    bool updates;

    if (lab->made) { /* go on from the one before */
        for (uint32_t rank = 0; rank < lab->world; rank++)
            lab->rank[rank].begin_ns += lab->rank[rank].duration_ns + lab->config.tail_ns;
        lab->step++;
    }
    updates = lab->config.accumulate == 0 || (lab->step + 1) % lab->config.accumulate == 0;
    if (lab->config.gc_apart || lab->checkpoint != (lab->fault.checkpoint_ns > 0) ||
        lab->updates != updates || lab->evaluation != (lab->fault.eval_ns > 0) ||
        lab->more_bytes != lab->fault.more_bytes) {
        lab->checkpoint = lab->fault.checkpoint_ns > 0;
        lab->updates = updates;
        lab->evaluation = lab->fault.eval_ns > 0;
        lab->more_bytes = lab->fault.more_bytes;
        scripts_write(lab);
    }
    step_run(lab);
    lab->made = true;
}

int64_t lab_without(struct lab *lab, const struct lab_fault *fault)
{
    struct lab_fault kept = lab->fault;
    int64_t period;

    lab->fault = *fault;
    step_run(lab);
    period = lab->measured_ns;
    lab->fault = kept;
    step_run(lab);
    return period;
}

void lab_restart(struct lab *lab, uint64_t step, int64_t pause_ns)
{
    int64_t now = INT64_MIN;

    for (uint32_t rank = 0; rank < lab->world; rank++)
        now = MAX(now, lab->rank[rank].begin_ns + lab->rank[rank].duration_ns);
    for (uint32_t rank = 0; rank < lab->world; rank++)
        lab->rank[rank].begin_ns = now + pause_ns;
    lab->attempt++;
    lab->step = step;
    lab->made = false;
}
